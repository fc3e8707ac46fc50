"""Writes ``docs/supported-ops/`` from the targets: ``python -m bpuc.report.ops_doc``.

One page a family, one row a rule, in the words of the rules themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bpuc.base.files import write_atomic
from bpuc.plugins import targets
from bpuc.support import describe
from bpuc.target.model import Target

FOLDER = Path(__file__).parents[2] / "docs" / "supported-ops"
_MADE = "<!-- Made by `python -m bpuc.report.ops_doc` from target.toml; edit that file, not this one. -->"
_ORIGINS = (
    "An origin is *known* (stated in public), *fitted* (estimated from published measurements), *derived* (follows "
    "from known facts) or *assumed*. The texts are those that `bpuc check` and the report print where a limit is "
    "broken."
)


def pages() -> dict[str, str]:
    """Text of each page by file name."""
    families: dict[str, list[Target]] = {}
    for target in targets().values():
        families.setdefault(target.family, []).append(target)
    made = {f"{family}.md": _page(family, members) for family, members in families.items()}
    made["README.md"] = _index(families)
    return made


def _index(families: dict[str, list[Target]]) -> str:
    rows = [
        [f"[{family}]({family}.md)", t.march, ", ".join(t.chips), describe.int16_words(t), t.description]
        for family, members in families.items()
        for t in members
    ]
    table = _table(["operators", "march", "chips", "int16", ""], rows)
    return "\n".join(["# Supported operators", "", _MADE, "", _ORIGINS, "", *table, ""])


def _page(family: str, members: list[Target]) -> str:
    first = members[0]
    names = ", ".join(f"{t.march} ({', '.join(t.chips)})" for t in members)
    general = "; ".join(limit.reason for limit in first.general)
    operators = [
        [", ".join(ops), f"{line.where} {line.dtypes}".strip(), line.text, line.origin]
        for ops, line in describe.grouped(describe.lines(first))
    ]
    scales = [
        [", ".join(ops), rule.rule, _when(rule.when) + rule.reason, f"{rule.origin}: {rule.source}"]
        for ops, rule in describe.scale_groups(first)
    ]
    return "\n".join(
        [
            f"# Operators of {family}",
            "",
            _MADE,
            "",
            f"Marches: {names}. int16: {describe.int16_words(first)}; {first.notes.get('int16', '')}.",
            "",
            _ORIGINS,
            "",
            f"Every operator on the BPU takes {general}. Tensors of rank below 4 are seen as rank 4 by leading 1s. "
            "Several rows of one operator are alternatives: any of them will do.",
            "",
            *_table(["operator", "device and types", "takes", "origin"], operators),
            "",
            "## Scales",
            "",
            *_table(["operator", "rule", "why", "origin"], scales),
            "",
        ]
    )


def _when(when: Mapping[str, tuple[Any, ...]]) -> str:
    return "".join(f"{name} {' or '.join(map(str, values))}: " for name, values in when.items())


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        write_atomic(FOLDER / name, text)
