"""``bpuc perf``: the latency estimate of a binary, or of a model compiled for its sake, for one march or all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bpuc.base.errors import BpucError, UsageError
from bpuc.base.files import read_bytes
from bpuc.flow.compile import compile_for_perf
from bpuc.flow.request import Request
from bpuc.perf import estimate
from bpuc.perf.gates import off_the_bpu
from bpuc.plugins import get_target, targets
from bpuc.program import load_program

ALL = "all"
SCHEMA = "bpuc.perf-marches/1"
_ZIP = b"PK\x03\x04"


def estimate_source(
    source: str | None,
    march: str | None,
    hardware: Mapping[str, float],
    options: Mapping[str, Any],
    look: Callable[[Request], None] | None = None,
) -> dict[str, Any]:
    """perf.json of a binary, or of a model compiled with no data.

    Args:
        march: the target of a model; a binary has its own.
        source: path of either; None where the configuration file in `options` names the model.
        hardware: hardware numbers to put in the place of the target's.
        options: option -> value as `make_request` takes them; a binary has no use for them.
        look: sees the request for a model before any work.

    Raises:
        ConfigError: an unknown hardware number.
        BpucError: the file, the model or the configuration is at fault.
    """
    if source is not None and is_binary(source):
        program = load_program(source)
    else:
        program = compile_for_perf(source, march, {**options, "hardware": hardware}, look)
    return estimate(program, get_target(program.march).with_given(hardware))


def estimate_marches(
    model: str | None,
    hardware: Mapping[str, float],
    options: Mapping[str, Any],
    look: Callable[[Request], None] | None = None,
) -> dict[str, Any]:
    """One model on every march: ``{"schema", "estimate", "marches": [{"march", "chips", "summary", ...}]}``.

    A march that cannot take the model has a null summary and the reason under "error".

    Raises:
        BpucError: what is at fault on every march, as the first one says it.
    """
    rows: list[dict[str, Any]] = []
    failed: list[BpucError] = []
    for name, target in targets().items():
        row: dict[str, Any] = {"march": name, "chips": list(target.chips), "summary": None, "error": None}
        try:
            perf = estimate_source(model, name, hardware, options, look)
        except BpucError as e:
            failed.append(e)
            row["error"] = e.message
        else:
            cpu = off_the_bpu(perf["ops"])
            row |= {k: perf[k] for k in ("summary", "accuracy", "warnings", "rescales")}
            keys = ("name", "op", "device", "latency_us", "reason", "remedy")
            row |= {"cpu_ops": [{k: o[k] for k in keys} for o in cpu]}
        rows.append(row)
    if len(failed) == len(rows):
        raise failed[0]
    return {"schema": SCHEMA, "estimate": True, "given": dict(hardware), "marches": rows}


def is_binary(path: str) -> bool:
    """Whether a file is meant as a binary: by its content, or by its name where it is unreadable or damaged."""
    return Path(path).suffix == ".bpuc" or read_bytes(path, "the binary or model")[:4] == _ZIP


def hardware_pairs(texts: Sequence[str]) -> dict[str, float]:
    """``clock_mhz=1200`` texts as numbers by name.

    Raises:
        UsageError: no such form. That a name exists, and a value is possible, the target and the model say.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            separator = ""
        if not name.strip() or not separator or not abs(found[name.strip()]) < float("inf"):
            raise UsageError(
                f"--hw {text}: cannot be read",
                want="NAME=NUMBER, as in clock_mhz=1200",
                hint="bpuc targets M lists names",
            )
    return found
