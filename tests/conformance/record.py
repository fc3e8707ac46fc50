"""Runs onnx's own tests and writes what is expected of them: ``python -m tests.conformance.record``.

Three files are made: `expected.json` beside this one, which the tests hold bpuc to, docs/conformance.md for readers,
and docs/supported-ops.md with the counts by operator.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnx
import onnxruntime

from bpuc.base.files import write_atomic
from tests.conformance.stored import light_cases, stored_cases
from tests.conformance.suite import SHARE, Outcome, cases, has_float_input, outcome, passes_in_onnxruntime

EXPECTED = Path(__file__).with_name("expected.json")
PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
OPS_PAGE = PAGE.with_name("supported-ops.md")
KINDS = ("agrees", "differs", "refused")
TITLES = {"float": "Float path", "integer": "Integer path"}


def record() -> dict:
    """Outcomes of all cases in both paths, as the JSON file holds them."""
    found = {"float": {}, "integer": {}}
    passed = Counter()
    for case in (*cases(), *stored_cases(), *light_cases()):
        found["float"][case.name] = outcome(case, integer=False)
        if has_float_input(case):
            found["integer"][case.name] = outcome(case, integer=True)
        if passes_in_onnxruntime(case):
            passed[found["float"][case.name].kind] += 1
    paths = {path: _summary(outcomes) for path, outcomes in found.items()}
    return {**versions(), **paths, "passed by onnxruntime": {kind: passed[kind] for kind in KINDS}}


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
    """The Markdown page on all of them."""
    passed = expected["passed by onnxruntime"]
    accepted = passed["agrees"] + passed["differs"]
    lines = [
        "# onnx's own tests",
        "",
        "<!-- Made by `make conformance` (tests/conformance/record.py); do not edit. -->",
        "",
        f"Measured with onnx {expected['onnx']} and onnxruntime {expected['onnxruntime']}, through the module "
        "`bpuc.backend`: the node tests, the models of PyTorch and the light models that come with the package. A case "
        "agrees, differs, or is refused with an error that names the node and the reason; none crashes. Float path: "
        "imported, optimized, run on the CPU, at the suite's tolerances. Integer path: the cases with float inputs, "
        "calibrated on these inputs, compiled for bayes-e and simulated (not the light models); agreement means within "
        f"{SHARE:.0%} of the largest expected value. [supported-ops.md](supported-ops.md) has the counts by operator.",
        "",
        f"onnxruntime alone passes {sum(passed.values())} of the cases. Of these the float path refuses "
        f"{passed['refused']}; of the other {accepted} it passes {passed['agrees']}.",
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
    return "\n".join([*lines, ""])


def ops_page(expected: dict) -> str:
    """Counts by operator as Markdown."""
    floats, integers = expected["float"]["ops"], expected["integer"]["ops"]
    lines = [
        "# Operators",
        "",
        "<!-- Made by `make conformance` (tests/conformance/record.py); do not edit. -->",
        "",
        "What each march takes on its BPU, with limits and reasons: [supported-ops](supported-ops/README.md). What "
        "runs on the CPU is carried out by onnxruntime inside the binary, or by onnx's own evaluator.",
        "",
        "Below: cases of [onnx's own tests](conformance.md) by operator, that agree, differ and are refused. A model "
        "of more than one node counts as (several).",
        "",
        "| operator | float: agrees | differs | refused | integer: agrees | differs | refused |",
        "|---|---|---|---|---|---|---|",
    ]
    for op, row in floats.items():
        cells = [str(n or "") for n in (*row, *integers.get(op, (0, 0, 0)))]
        lines.append(f"| {op} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    result = record()
    write_atomic(EXPECTED, json.dumps(result, indent=1, sort_keys=True) + "\n")
    write_atomic(PAGE, page(result))
    write_atomic(OPS_PAGE, ops_page(result))
