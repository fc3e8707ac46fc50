"""Limits that a user sets on an estimate: ``--max-latency-ms`` and ``--fail-on``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bpuc.base.errors import GateError

CONDITIONS = ("cpu-op", "rescale")
# what the borders of every program have on the CPU; a CPU op is what the user might move to the BPU
_BORDER = ("Quantize", "Dequantize")


def off_the_bpu(ops: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The ops of a perf.json, or nodes of a report.json, on the CPU that a user might move to the BPU."""
    return [o for o in ops if _on_cpu(o) and o.get("op") not in (*_BORDER, "Overhead")]


def border_conversions(ops: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The Quantize and Dequantize on the CPU, between floats and the BPU's integers."""
    return [o for o in ops if _on_cpu(o) and o.get("op") in _BORDER]


def _on_cpu(op: Mapping[str, Any]) -> bool:
    return str(op.get("device")).upper() == "CPU"


def check_gates(
    perf: Mapping[str, Any], max_latency_ms: float | None, fail_on: Collection[str], what: str = ""
) -> None:
    """Hold a perf.json document against the limits.

    Args:
        what: put before the message, where several documents are checked.

    Raises:
        GateError: all limits that do not hold, each with the ops that break it; place and hint are the first one's.
    """
    failed: list[GateError] = []
    latency = perf["summary"]["latency_us"] / 1e3
    if max_latency_ms is not None and latency > max_latency_ms:
        failed.append(
            GateError(
                f"estimated latency {latency:.3f} ms exceeds the limit of {max_latency_ms:g} ms",
                want=f"at most {max_latency_ms:g} ms (--max-latency-ms)",
                hint="`bpuc perf` lists the slowest ops first",
            )
        )
    if "cpu-op" in fail_on and (cpu := off_the_bpu(perf["ops"])):
        failed.append(_refusal(cpu, "op on the CPU", "ops on the CPU", "cpu-op"))
    if "rescale" in fail_on and (rescales := [o for o in perf["ops"] if o["op"] == "Rescale"]):
        failed.append(_refusal(rescales, "rescale", "rescales", "rescale"))
    if failed:
        raise GateError(
            what + "; ".join(e.message for e in failed),
            where=next((e.where for e in failed if e.where), None),
            want="; ".join(e.want or "" for e in failed),
            hint=failed[0].hint,
        )


def _refusal(ops: Sequence[Mapping[str, Any]], one: str, many: str, condition: str) -> GateError:
    names = ", ".join(o["name"] for o in ops[:3]) + (f" and {len(ops) - 3} more" if len(ops) > 3 else "")
    return GateError(
        f"{len(ops)} {one if len(ops) == 1 else many}: {names}",
        where=ops[0]["reason"],
        want=f"none (--fail-on {condition})",
        hint=ops[0]["remedy"] or f"bpuc explain X.bpuc says why for each {one}",
    )
