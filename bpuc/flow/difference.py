"""How far the integers of one tensor are from its float values, summed over samples; memory does not grow with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bpuc.flow.floats import short
from bpuc.ops.base import Array
from bpuc.program import TensorSymbol

MOST_DB = 120.0
# what a sample and a whole tensor are ranked by; of these two a small value is bad, of the others a large one
METRICS = ("sqnr", "cosine", "mse", "l1", "max_abs", "relative")
SMALL_IS_BAD = ("sqnr", "cosine")


def decibel(power: float, noise: float) -> float:
    """Signal to noise in dB, -120 to 120; 120 where there is no noise."""
    if noise <= power * 10 ** (-MOST_DB / 10):
        return MOST_DB
    return 10 * math.log10(max(power / noise, 10 ** (-MOST_DB / 10)))


class Difference:
    """Compares arrays `want` (float) and `got` (real values of the integers) of one shape.

    Sums are float64. Places where either is infinite or NaN count in `not_finite` and nowhere else.

    Args:
        axis: of the channels, or None for a tensor that has none.
        stored: scale and type of the integers; None where the tensor has none.
    """

    def __init__(self, axis: int | None = None, stored: TensorSymbol | None = None):
        self.axis = axis
        self._stored = stored if stored is not None and stored.scale is not None else None
        self.count = self.not_finite = 0
        self._dot = self.power = self._got_power = self.noise = self._l1 = 0.0
        self.max_abs = 0.0
        self.own_noise = self._clip_noise = 0.0
        self._clipped = 0
        self._want, self._got = _Moments(), _Moments()
        self._channels: dict[str, Array] = {}

    def update(self, want: Array, got: Array) -> None:
        """See one array of each."""
        a, b = np.asarray(want, np.float64), np.asarray(got, np.float64).reshape(np.shape(want))
        fine = np.isfinite(a) & np.isfinite(b)
        if not fine.all():
            self.not_finite += int((~fine).sum())
            a, b = np.where(fine, a, 0.0), np.where(fine, b, 0.0)
        self.count += int(fine.sum())
        d = b - a
        square = d * d
        self._dot += float((a * b).sum())
        self.power += float((a * a).sum())
        self._got_power += float((b * b).sum())
        self.noise += float(square.sum())
        self._l1 += float(np.abs(d).sum())
        self.max_abs = max(self.max_abs, float(np.abs(d).max(initial=0.0)))
        self._want.update(a[fine])
        self._got.update(b[fine])
        if self._stored is not None:
            self._round(a, self._stored)
        if self.axis is not None:
            self._by_channel(a, d, self.axis)

    def _round(self, a: Array, stored: TensorSymbol) -> None:
        """What rounding the float values to the tensor's own integers costs, and how much of that is clipping."""
        scale = np.asarray(stored.scale, np.float64)
        if stored.axis is not None and scale.size > 1:
            scale = scale.reshape([-1 if i == stored.axis % a.ndim else 1 for i in range(a.ndim)])
        low, high = stored.ref.dtype.qmin, stored.ref.dtype.qmax
        steps = np.floor(a / scale + 0.5)
        lost = np.square(np.clip(steps, low, high) * scale - a)
        over = (steps < low) | (steps > high)
        self.own_noise += float(lost.sum())
        self._clip_noise += float(lost[over].sum())
        self._clipped += int(over.sum())

    def _by_channel(self, a: Array, d: Array, axis: int) -> None:
        rest = tuple(i for i in range(a.ndim) if i != axis)
        new = {
            "power": (a * a).sum(rest),
            "noise": (d * d).sum(rest),
            "max_abs": np.abs(d).max(rest, initial=0.0),
            "reach": np.abs(a).max(rest, initial=0.0),
        }
        for key, value in new.items():
            old = self._channels.get(key)
            joined = value if old is None else np.maximum(old, value) if key in ("max_abs", "reach") else old + value
            self._channels[key] = joined

    @property
    def sqnr(self) -> float:
        """In dB, -120 to 120."""
        return decibel(self.power, self.noise)

    @property
    def own_sqnr(self) -> float | None:
        """The SQNR that rounding to the tensor's own scale would leave alone, or None without a scale."""
        return None if self._stored is None else decibel(self.power, self.own_noise)

    @property
    def clips(self) -> bool:
        """Whether most of the own rounding error is clipping."""
        return self._clip_noise > self.own_noise / 2

    @property
    def clipped_share(self) -> float:
        """Part of the float values that the integers do not reach."""
        return self._clipped / max(self.count, 1)

    @property
    def steps(self) -> float | None:
        """Root mean square of the float values in steps of the (largest) scale."""
        if self._stored is None or self._stored.scale is None:
            return None
        return math.sqrt(self.power / max(self.count, 1)) / max(self._stored.scale)

    def metrics(self) -> dict[str, float]:
        """As `exact`, with the digits of a document."""
        return {k: short(v) for k, v in self.exact().items()}

    def exact(self) -> dict[str, float]:
        """cosine; sqnr (dB); mse, l1 (mean), l2 (root mean square) and max_abs of the difference; relative (l2 over
        the root mean square of the float values, at most 1e6)."""
        n = max(self.count, 1)
        norm = math.sqrt(self.power) * math.sqrt(self._got_power)
        cosine = self._dot / norm if norm > 0 else float(self.noise == 0)
        relative = math.sqrt(self.noise / self.power) if self.power > 0 else (0.0 if self.noise == 0 else 1e6)
        return {
            "cosine": min(cosine, 1.0),
            "sqnr": self.sqnr,
            "mse": self.noise / n,
            "l1": self._l1 / n,
            "l2": math.sqrt(self.noise / n),
            "max_abs": self.max_abs,
            "relative": min(relative, 1e6),
        }

    def moments(self) -> dict[str, dict[str, float]]:
        """min, max, mean and var of the float values and of the integers' real values."""
        return {"float": self._want.as_json(), "integer": self._got.as_json()}

    def channels(self) -> list[dict[str, Any]]:
        """One row a channel, the worst SQNR first."""
        if not self._channels:
            return []
        keys = ("power", "noise", "max_abs", "reach")
        rows = [
            {
                "channel": i,
                "sqnr": short(decibel(float(p), float(e))),
                "max_abs": short(float(m)),
                "reach": short(float(r)),
            }
            for i, (p, e, m, r) in enumerate(zip(*(self._channels[k] for k in keys)))
        ]
        return sorted(rows, key=lambda r: (r["sqnr"], r["channel"]))


class _Moments:
    """Least, largest, mean and variance of values that come array by array."""

    def __init__(self) -> None:
        self.low, self.high, self.count, self.mean, self.sum2 = math.inf, -math.inf, 0, 0.0, 0.0

    def update(self, x: Array) -> None:
        if not x.size:
            return
        self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
        mean = float(x.mean())
        whole = self.count + x.size
        apart = mean - self.mean
        # the sums of two sets about their common mean
        self.sum2 += float(np.square(x - mean).sum()) + apart * apart * self.count * x.size / whole
        self.mean += apart * x.size / whole
        self.count = whole

    def as_json(self) -> dict[str, float]:
        if not self.count:
            return {"min": 0.0, "max": 0.0, "mean": 0.0, "var": 0.0}
        return {
            "min": short(self.low),
            "max": short(self.high),
            "mean": short(self.mean),
            "var": short(self.sum2 / self.count),
        }
