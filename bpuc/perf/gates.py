"""Limits that a user sets on an estimate: ``--max-latency-ms`` and ``--fail-on``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from bpuc.base.errors import GateError

CONDITIONS = ("cpu-op", "rescale")
# what the borders of every program have on the CPU; a CPU op is what the user might move to the BPU
_BORDER = ("Quantize", "Dequantize", "Overhead")


def check_gates(perf: Mapping[str, Any], max_latency_ms: float | None, fail_on: Collection[str]) -> None:
    """Hold a perf.json document against the limits.

    Raises:
        GateError: the first limit that does not hold, with the ops that break it.
    """
    latency = perf["summary"]["latency_us"] / 1e3
    if max_latency_ms is not None and latency > max_latency_ms:
        raise GateError(
            f"estimated latency {latency:.3f} ms exceeds the limit of {max_latency_ms:g} ms",
            want=f"at most {max_latency_ms:g} ms (--max-latency-ms)",
            hint="the slowest ops stand first in the text report",
        )
    if "cpu-op" in fail_on:
        _refuse([o for o in perf["ops"] if o["device"] == "CPU" and o["op"] not in _BORDER], "op on the CPU", "cpu-op")
    if "rescale" in fail_on:
        _refuse([o for o in perf["ops"] if o["op"] == "Rescale"], "rescale", "rescale")


def _refuse(ops: list[dict[str, Any]], what: str, condition: str) -> None:
    if not ops:
        return
    names = ", ".join(o["name"] for o in ops[:3]) + (f" and {len(ops) - 3} more" if len(ops) > 3 else "")
    plural = what.replace("op ", "ops ") if " " in what else what + "s"
    raise GateError(
        f"{len(ops)} {what if len(ops) == 1 else plural}: {names}",
        where=ops[0]["reason"],
        want=f"none (--fail-on {condition})",
        hint=ops[0]["remedy"] or f"bpuc explain X.bpuc says why for each {what}",
    )
