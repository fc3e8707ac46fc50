"""Runs all of onnx's node tests and writes what is expected of them: ``python -m tests.conformance.record``.

Two files are made: `expected.json` beside this one, which the tests hold bpuc to, and docs/conformance.md for readers.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnx
import onnxruntime

from bpuc.base.files import write_atomic
from tests.conformance.suite import SHARE, Outcome, cases, has_float_input, outcome

EXPECTED = Path(__file__).with_name("expected.json")
PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
KINDS = ("agrees", "differs", "refused")
TITLES = {"float": "Float path", "integer": "Integer path"}


def record() -> dict:
    """Outcomes of all cases in both paths, as the JSON file holds them."""
    found = {"float": {}, "integer": {}}
    for case in cases():
        found["float"][case.name] = outcome(case, integer=False)
        if has_float_input(case):
            found["integer"][case.name] = outcome(case, integer=True)
    return {**versions(), **{path: _summary(outcomes) for path, outcomes in found.items()}}


def versions() -> dict[str, str]:
    return {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}


def _summary(outcomes: dict[str, Outcome]) -> dict:
    crashed = {n: o.reason for n, o in outcomes.items() if o.kind == "crashed"}
    if crashed:
        raise SystemExit(f"crashed: {crashed}")
    lists: dict[str, dict[str, list[str]]] = {"differs": {}, "refused": {}}
    for name, o in sorted(outcomes.items()):
        if o.kind != "agrees":
            lists[o.kind].setdefault(o.reason, []).append(name)
    ops: dict[str, Counter] = {}
    for o in outcomes.values():
        ops.setdefault(o.op, Counter())[o.kind] += 1
    return {**lists, "ops": {op: [counts[k] for k in KINDS] for op, counts in sorted(ops.items())}}


def page(expected: dict) -> str:
    """The Markdown page."""
    lines = [
        "# onnx's own node tests",
        "",
        "<!-- Made by `make conformance` (tests/conformance/record.py); do not edit. -->",
        "",
        f"Measured with onnx {expected['onnx']} and onnxruntime {expected['onnxruntime']}, through the module "
        "`bpuc.backend`. A case agrees, differs, or is refused with an error that names the node and the reason; none "
        "crashes. Float path: imported, optimized, run on the CPU, at the suite's tolerances. Integer path: the cases "
        "with float inputs, calibrated on these inputs, compiled for bayes-e and simulated; agreement means within "
        f"{SHARE:.0%} of the largest expected value.",
    ]
    for path, title in TITLES.items():
        ops = expected[path]["ops"]
        total = [sum(row[i] for row in ops.values()) for i in range(3)]
        lines += [
            "",
            f"## {title}",
            "",
            f"{sum(total)} cases: " + ", ".join(f"{n} {k}" for n, k in zip(total, KINDS)) + ".",
        ]
        for kind in ("refused", "differs"):
            lines += ["", f"| {kind} because of | cases |", "|---|---|"]
            reasons = sorted(expected[path][kind].items(), key=lambda item: (-len(item[1]), item[0]))
            lines += [f"| {reason} | {len(names)} |" for reason, names in reasons]
        lines += ["", "| operator | agrees | differs | refused |", "|---|---|---|---|"]
        lines += [f"| {op} | {a} | {d or ''} | {r or ''} |" for op, (a, d, r) in ops.items()]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    result = record()
    write_atomic(EXPECTED, json.dumps(result, indent=1, sort_keys=True) + "\n")
    write_atomic(PAGE, page(result))
