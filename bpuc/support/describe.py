"""A target in words and as JSON: what ``bpuc targets`` prints and what ``docs/supported-ops/`` holds.

The clauses are the reasons of the rules themselves, so a diagnostic, a line of the command and a line of the
documentation say the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bpuc.target.model import OpRule, ScaleRule, Target

WHERE = {"bpu": "BPU", "manual": "BPU when asked", "cpu": "CPU"}


@dataclass(frozen=True)
class Line:
    """One rule in words: operator, place, activation types, clauses, origin with source."""

    op: str
    where: str
    dtypes: str
    text: str
    origin: str


def lines(target: Target) -> list[Line]:
    """All rules of a target, by operator; those that never run on the BPU last."""
    rules = [rule for _, alternatives in sorted(target.rules.items()) for rule in alternatives]
    return [_line(r, target) for r in rules if r.place != "cpu"] + [_line(r, target) for r in rules if r.place == "cpu"]


def grouped(found: list[Line]) -> list[tuple[list[str], Line]]:
    """Lines that say the same of several operators, put together under the first of them."""
    groups: dict[tuple[str, str, str, str], tuple[list[str], Line]] = {}
    for line in found:
        ops, _ = groups.setdefault((line.where, line.dtypes, line.text, line.origin), ([], line))
        ops.append(line.op)
    return list(groups.values())


def scale_groups(target: Target) -> list[tuple[list[str], ScaleRule]]:
    """Scale rules with the operators that they hold for."""
    groups: list[tuple[list[str], ScaleRule]] = []
    for op, rule in sorted(target.scale_rules.items()):
        for ops, other in groups:
            if other == rule:
                ops.append(op)
                break
        else:
            groups.append(([op], rule))
    return groups


def _line(rule: OpRule, target: Target) -> Line:
    types = [d for d in rule.dtypes if d == "int8" or target.int16_activations]
    dtypes = "" if rule.place == "cpu" or rule.like else " ".join(types)
    return Line(rule.op, WHERE[rule.place], dtypes, "; ".join(clauses(rule)), f"{rule.origin}: {rule.source}")


def clauses(rule: OpRule) -> list[str]:
    """What a rule says, clause by clause: its reason, the rank it takes, what it refers to, and its limits."""
    said = [rule.reason]
    if rule.place == "cpu":
        return said
    low, high = rule.rank
    said.append(f"rank {low}" if low == high else f"rank {low}..{high}" if low > 4 else f"rank up to {high}")
    if rule.like:
        said.append(f"limits of {rule.like}")
    if rule.parts:
        said.append(("free in a chain: " if rule.op == "Table" else "parts: ") + ", ".join(rule.parts))
    said += [limit.reason for limit in rule.limits]
    return list(dict.fromkeys(said))


def peak_tops(target: Target) -> float:
    """Tera operations a second of the modelled array on all cores, int8: 2 x MAC/cycle x clock x cores.

    This is the model's bound; real nets stay below it, and the advertised figure counts otherwise.
    """
    return 2 * target.hw("mac_per_cycle_int8") * target.hw("clock_mhz") * target.hw("cores") * 1e-6


def summary(target: Target) -> dict[str, Any]:
    """One row of the list of marches."""
    return {
        "march": target.march,
        "chips": list(target.chips),
        "cores": int(target.hw("cores")),
        "clock_mhz": target.hw("clock_mhz"),
        "int16": int16_words(target),
        "peak_tops": round(peak_tops(target), 3),
        "advertised_tops": target.hw("advertised_tops") if "advertised_tops" in target.hardware else None,
        "description": target.description,
    }


def int16_words(target: Target) -> str:
    """Where int16 may be used: ``no``, ``activations`` or ``activations, weights``."""
    if not target.int16_activations:
        return "no"
    return "activations, weights" if target.int16_weights else "activations"


def output_words(target: Target) -> str:
    """What a last Conv or MatMul may give beside int8."""
    return "int32 accumulators" if target.int32_outputs else "no int32"


def accuracy_words(target: Target) -> str:
    """How far the estimate was from measurements, as a sentence."""
    a = target.accuracy
    if a is None:
        return "unknown, no measurements are public that this march could be held against"
    held_out = "" if a.held_out_percent is None else f", {a.held_out_percent:g} % for families left out of the fit"
    return f"BPU time {a.mean_percent:g} % on average, {a.worst_percent:g} % at worst{held_out} ({a.source})"


def as_json(target: Target) -> dict[str, Any]:
    """All that is known of a march, for programs."""
    hardware = [
        {"name": name, "value": q.value, "unit": q.unit, "origin": q.origin, "source": q.source}
        for name, q in target.hardware.items()
    ]
    operators = [
        {
            "op": rule.op,
            "place": rule.place,
            "dtypes": [] if rule.place == "cpu" else list(rule.dtypes),
            "rank": list(rule.rank),
            "like": rule.like or None,
            "parts": list(rule.parts),
            "limits": [{"reason": lim.reason, "origin": lim.origin, "source": lim.source} for lim in rule.limits],
            "reason": rule.reason,
            "origin": rule.origin,
            "source": rule.source,
        }
        for _, alternatives in sorted(target.rules.items())
        for rule in alternatives
    ]
    scales = [
        {
            "op": op,
            "rule": rule.rule,
            "when": {name: list(values) for name, values in rule.when.items()},
            "reason": rule.reason,
            "origin": rule.origin,
        }
        for op, rule in sorted(target.scale_rules.items())
    ]
    return {
        "schema": "bpuc.target/1",
        **summary(target),
        "accuracy": None if target.accuracy is None else asdict(target.accuracy),
        "hardware": hardware,
        "general_limits": [{"reason": g.reason, "origin": g.origin, "source": g.source} for g in target.general],
        "operators": operators,
        "scale_rules": scales,
    }
