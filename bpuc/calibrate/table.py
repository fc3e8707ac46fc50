"""X.calib.json: thresholds per tensor, as text that a person can read, diff and edit."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bpuc.base.channels import ChannelStats
from bpuc.base.dtypes import float32_positive
from bpuc.base.errors import ConfigError, FileError
from bpuc.base.files import read_bytes, write_atomic
from bpuc.base.tail import Tail

SCHEMA = "bpuc.calib/1"


@dataclass(frozen=True)
class TensorRange:
    """Least and largest value seen, and the threshold that its observer chose (real values).

    channels: what was seen of each channel, where the tensor has channels.
    tail: how many values lie beyond a magnitude, where the observer counted.
    """

    low: float
    high: float
    threshold: float
    observer: str
    dtype: str = "int8"
    channels: ChannelStats | None = None
    tail: Tail | None = None


@dataclass(frozen=True)
class Calibration:
    """A calibration of one model (by SHA-256) and of no march.

    weights: initializer -> (threshold of each output channel, axis of the channels).
    search: what the observer `default` tried, with the cosines of the outputs; for the reader of the file alone.
    """

    model_sha256: str
    observer: str
    options: Mapping[str, Any]
    samples: int
    data_sha256: str
    tensors: Mapping[str, TensorRange]
    weights: Mapping[str, tuple[list[float], int]] = field(default_factory=dict)
    search: Mapping[str, Any] | None = None


def save_calibration(calibration: Calibration, path: str | os.PathLike[str]) -> None:
    """Write the file atomically; raises FileError."""
    write_atomic(path, calibration_text(calibration))


def calibration_text(calibration: Calibration) -> str:
    """What the file holds."""
    c = calibration
    value = {
        "schema": SCHEMA,
        "model_sha256": c.model_sha256,
        "observer": c.observer,
        "options": dict(c.options),
        "samples": c.samples,
        "data_sha256": c.data_sha256,
        **({} if c.search is None else {"search": dict(c.search)}),
        "tensors": {
            name: {
                "min": t.low,
                "max": t.high,
                "threshold": t.threshold,
                "observer": t.observer,
                "dtype": t.dtype,
                **({"tail": t.tail.to_text()} if t.tail is not None else {}),
                **({"channels": t.channels.to_text()} if t.channels is not None else {}),
            }
            for name, t in c.tensors.items()
        },
        "weights": {name: {"threshold": w, "axis": axis} for name, (w, axis) in c.weights.items()},
    }
    return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def load_calibration(path: str | os.PathLike[str]) -> Calibration:
    """Read a calibration file, edited by hand or not.

    Raises:
        FileError: it is missing, no calibration file, or a number in it cannot be a threshold; names the tensor.
    """
    raw = read_bytes(path, "the calibration file")
    try:
        value = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant, object_pairs_hook=_no_pairs)
        json.dumps(value, ensure_ascii=False).encode()  # halves of a character, which no file can be written with
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            found = value.get("schema") if isinstance(value, dict) else type(value).__name__
            raise FileError(f"{path} is no calibration file: schema {found!r}", want=f"schema {SCHEMA!r}")
        return Calibration(
            str(value["model_sha256"]),
            str(value["observer"]),
            dict(value["options"]),
            _whole(value["samples"], "the number of samples", path),
            str(value["data_sha256"]),
            {name: _tensor(name, entry, path) for name, entry in value["tensors"].items()},
            {
                name: (
                    [_positive(t, f"weight {name}", path) for t in e["threshold"]],
                    _whole(e["axis"], f"axis of weight {name}", path),
                )
                for name, e in value.get("weights", {}).items()
            },
        )
    except ConfigError as e:
        raise FileError(
            f"{path} is no valid calibration file: {e.message}", hint="write it with `bpuc calibrate`"
        ) from e
    except UnicodeDecodeError as e:
        raise FileError(
            f"{path} is no valid calibration file: it is no text in UTF-8", hint="write it with `bpuc calibrate`"
        ) from e
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as e:
        raise FileError(
            f"{path} is no valid calibration file: {_fault(e)}", hint="write it with `bpuc calibrate`"
        ) from e


def _fault(e: Exception) -> str:
    """What is wrong with the text, in words of the file."""
    if isinstance(e, json.JSONDecodeError):
        return f"it is no JSON: {e}"
    if isinstance(e, KeyError):
        return f"there is no {e.args[0]!r}"
    if isinstance(e, RecursionError):
        return "its parts are nested too deeply"
    return (
        "a list stands where names are expected, or the like" if isinstance(e, (TypeError, AttributeError)) else str(e)
    )


def _no_constant(text: str) -> float:
    raise ValueError(f"it holds {text}")


def _no_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, where no name stands twice: of an entry that was copied by hand one would be passed over."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} stands there twice")
    return found


def _whole(value: Any, what: str, path: str | os.PathLike[str]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise FileError(f"{path}: {what} is {value!r}", want="a whole number from 0 up")
    return value


def _positive(value: Any, what: str, path: str | os.PathLike[str]) -> float:
    number = _number(value, f"threshold of {what}", path)
    if not float32_positive(number):
        raise FileError(f"{path}: threshold of {what} is {value!r}", want="a number above 0 that float32 has")
    return number


def _number(value: Any, what: str, path: str | os.PathLike[str]) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FileError(f"{path}: {what} is {value!r}", want="a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _tensor(name: str, entry: Any, path: str | os.PathLike[str]) -> TensorRange:
    dtype = str(entry.get("dtype", "int8"))
    if dtype not in ("int8", "int16"):
        raise FileError(f"{path}: dtype of tensor {name} is {dtype!r}", want="int8 or int16")
    low, high = (_number(entry[side], f"{side} of tensor {name}", path) for side in ("min", "max"))
    for side, value in (("min", low), ("max", high)):
        if not abs(value) <= float(np.finfo(np.float32).max):
            raise FileError(f"{path}: {side} of tensor {name} is {value:g}", want="a number that float32 has")
    if low > high:
        raise FileError(f"{path}: min of tensor {name} is {low:g}, above its max {high:g}", want="min <= max")
    return TensorRange(
        low,
        high,
        _positive(entry["threshold"], f"tensor {name}", path),
        str(entry["observer"]),
        dtype,
        ChannelStats.from_text(entry["channels"]) if "channels" in entry else None,
        Tail.from_text(entry["tail"]) if "tail" in entry else None,
    )
