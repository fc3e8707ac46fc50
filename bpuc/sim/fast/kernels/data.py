"""Move, Fill, Gather, Image, Quantize and Dequantize."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bpuc.isa import Dequantize, Fill, Gather, Image, Move, Quantize
from bpuc.sim.engine import Array
from bpuc.sim.fast.arithmetic import along
from bpuc.sim.fast.storage import Access

_PIECE = 1 << 15


def move(ins: Move, a: Access) -> Callable[[], None]:
    """A strided copy; between buffers of one kind the stored bytes themselves."""
    x, y = a["x"], a["y"]
    if ins.x.shape != ins.y.shape:
        raise ValueError(f"move of shape {ins.x.shape} to {ins.y.shape}")
    if x.constant or x.biased != y.biased or x.ref.dtype is not y.ref.dtype:
        return lambda: y.store(x.load().copy())
    if x.overlaps(y):
        return lambda: np.copyto(y.array, x.array.copy())
    source, target = x.array, y.array
    thin = _thin_axis(ins.y.shape, ins.y.strides)
    if thin is None:
        return lambda: np.copyto(target, source)
    lanes = [
        (target[(slice(None),) * thin + (i,)], source[(slice(None),) * thin + (i,)]) for i in range(ins.y.shape[thin])
    ]

    def run() -> None:
        for t, s in lanes:
            np.copyto(t, s)

    return run


def _thin_axis(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """An axis that numpy would run through innermost though it is short, as in a Resize by two or a DepthToSpace."""
    steps = [(abs(s), i) for i, (n, s) in enumerate(zip(shape, strides)) if n > 1]
    if len(steps) < 2:
        return None
    inner = min(steps)[1]
    rest = [n for i, n in enumerate(shape) if i != inner]
    return inner if shape[inner] < 8 <= max(rest) else None


def fill(ins: Fill, a: Access) -> Callable[[], None]:
    y = a["y"]
    return lambda: y.store(np.full(ins.y.shape, ins.value))


def gather(ins: Gather, a: Access) -> Callable[[], None]:
    x, y = a["x"], a["y"]
    indices = a.constant("indices").astype(np.int64)
    if indices.size and indices.min() < 0:
        raise IndexError(f"index {indices.min()}")
    return lambda: y.store(np.take(x.load(), indices, axis=ins.axis))


def image(ins: Image, a: Access) -> Callable[[], None]:
    """Planes of pixels with the upper bit turned, into the inside of a bordered array."""
    x, y = a["x"], a["y"]
    n, c, height, width = ins.y.shape
    top, left, bottom, right = ins.pads
    h, w = height - top - bottom, width - left - right
    if x.ref.shape != ((n, 3 * h // 2, w) if ins.nv12 else (n, c, h, w)):
        raise ValueError(f"pixels of shape {ins.x.shape} for {ins.y.shape}")

    def run() -> None:
        pixels = (x.load() ^ np.uint8(0x80)).view(np.int8)
        whole = np.empty(ins.y.shape, np.int8)
        whole[:] = np.array(ins.border, np.int8).reshape(1, c, 1, 1)
        inside = whole[:, :, top : top + h, left : left + w]
        if ins.nv12:
            inside[:, 0] = pixels[:, :h]
            chroma = pixels[:, h:].reshape(n, h // 2, w // 2, 2).transpose(0, 3, 1, 2)
            for i in (0, 1):
                for j in (0, 1):
                    inside[:, 1:, i::2, j::2] = chroma
        else:
            inside[:] = pixels
        y.store(whole, checked=False)

    return run


def quantize(ins: Quantize, a: Access) -> Callable[[], None]:
    """``floor(x / scale + 0.5)`` in float64, clamped before the cast; NaN gives 0."""
    x, y = a["x"], a["y"]
    inverse = reciprocal(ins.scale, ins.lo, ins.hi) if x.ref.dtype.value == "float32" else None

    def steps_of(value: Array) -> Array:
        if inverse is None:
            steps = value.astype(np.float64) / ins.scale
        else:
            steps = np.multiply(value, inverse, dtype=np.float64)
        steps += 0.5
        np.floor(steps, out=steps)
        np.clip(steps, ins.lo, ins.hi, out=steps)
        if np.isnan(steps.sum()):
            steps[np.isnan(steps)] = 0.0
        return steps

    def run() -> None:
        value = x.load().reshape(-1)
        fits = ins.y.dtype.qmin <= ins.lo and ins.hi <= ins.y.dtype.qmax
        whole = np.empty(value.shape, ins.y.dtype.numpy if fits else np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            # pieces that stay in cache: memory would take longer than the arithmetic
            for at in range(0, len(value), _PIECE):
                whole[at : at + _PIECE] = steps_of(value[at : at + _PIECE])
        y.store(whole.reshape(ins.y.shape))

    return run


def reciprocal(scale: float, lo: int, hi: int) -> float | None:
    """A factor that quantizes every float32 as dividing by `scale` does, or None if there is none at hand.

    Both are monotone step functions of x, so it is enough to compare them at the two float32 values around each
    threshold between steps.
    """
    if not (np.isfinite(scale) and scale > 1e-30 and hi - lo < 1 << 16):
        return None
    inverse = 1.0 / scale
    near = ((np.arange(lo, hi, dtype=np.float64) + 0.5) * scale).astype(np.float32)
    points: Array = np.concatenate(
        [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    )
    wide = points.astype(np.float64)
    if not np.array_equal(np.floor(wide / scale + 0.5), np.floor(wide * inverse + 0.5)):
        return None
    return inverse


def dequantize(ins: Dequantize, a: Access) -> Callable[[], None]:
    x, y = a["x"], a["y"]
    scale = a.constant("scale").astype(np.float64)
    scale = along(scale, ins.axis, len(ins.x.shape)) if scale.size > 1 else scale.reshape(())

    def run() -> None:
        with np.errstate(over="ignore"):
            y.store(np.multiply(x.load(), scale, dtype=np.float64).astype(np.float32))

    return run
