"""The catalogue of passes in passes/README.md, made from the passes themselves.

``python -m bpuc.report.passes_doc`` writes it; a test compares it with the file.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from bpuc.base.files import write_atomic
from bpuc.passkit import Pass
from bpuc.plugins import passes, pipeline

FILE = Path(__file__).parents[2] / "passes" / "README.md"
START, END = "<!-- catalogue: python -m bpuc.report.passes_doc -->\n", "<!-- end of catalogue -->\n"
PHASES = ("optimize", "scaled", "place", "quantize")


def catalogue() -> str:
    """Tables of the phases in Markdown: order, name, stages, numerics, what the pass does, its options."""
    lines: list[str] = []
    listed: set[str] = set()
    for phase in PHASES:
        found = pipeline(phase)
        listed |= {p.name for p in found}
        lines += ["", f"### {phase}", "", *_table(found)]
    spare = [cls() for name, cls in sorted(passes().items()) if name not in listed]
    if spare:
        lines += ["", "### Not in a pipeline", "", *_table(spare)]
    return "\n".join([*lines, "", ""])


def page(text: str) -> str:
    """The README's text with a fresh catalogue."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}{catalogue()}{END}{after}"


def _table(found: Sequence[Pass]) -> list[str]:
    rows = ["| | pass | stage | numerics | what it does |", "|---|---|---|---|---|"]
    for number, p in enumerate(found, 1):
        stage = p.needs.name.lower() + (f" to {p.gives.name.lower()}" if p.gives is not None else "")
        rows.append(f"| {number} | {p.name}{_options(p)} | {stage} | {p.numerics.name} | {_summary(p)} |")
    return rows


def _options(p: Pass) -> str:
    values = [f"{f.name}={getattr(p, f.name)}" for f in fields(p)]
    return f" ({', '.join(values)})" if values else ""


def _summary(p: Pass) -> str:
    """The first paragraph of the class's docstring."""
    text = (inspect.getdoc(type(p)) or "").split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")


if __name__ == "__main__":
    write_atomic(FILE, page(FILE.read_text(encoding="utf-8")))
