"""How the shape of stored data is read as a number of samples of an input. Never by counting elements."""

from __future__ import annotations

from bpuc.base.errors import DataError
from bpuc.base.shapes import Shape, shape_hint
from bpuc.data.source import InputSpec


def count_samples(shape: Shape, spec: InputSpec, where: str) -> int:
    """How many samples an array of this shape holds.

    `[samples, *input shape]`, or the input's shape itself (one sample); where the input's batch is 1, also one sample
    without the batch, or samples in place of the batch.

    Raises:
        DataError: it is none of these, or holds no sample.
    """
    want = spec.shape
    with_samples = len(shape) == len(want) + 1 and shape[1:] == want
    batch_as_samples = want[:1] == (1,) and len(shape) == len(want) and shape[1:] == want[1:]
    if shape == want or (want[:1] == (1,) and shape == want[1:]):
        return 1
    if not (with_samples or batch_as_samples):
        raise DataError(
            f"the shape of the data for input {spec.name!r} does not fit: {_text(shape)}",
            where=where,
            want=f"[samples{''.join(f', {d}' for d in want)}], as the model's shape is {_text(want)}",
            hint=shape_hint(shape, want),
        )
    if shape[0] == 0:
        raise DataError(f"input {spec.name!r} has 0 samples", where=where, want="at least one sample")
    return shape[0]


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
