"""How the shape of stored data is read as a number of samples of an input. Never by counting elements."""

from __future__ import annotations

from bpuc.base.errors import DataError
from bpuc.data.source import InputSpec

Shape = tuple[int, ...]
# Stored axes -> wanted axes of an image, and how it is told.
LAYOUTS = (((0, 3, 1, 2), "NHWC", "NCHW"), ((0, 2, 3, 1), "NCHW", "NHWC"))


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
            hint=_hint(shape, spec),
        )
    if shape[0] == 0:
        raise DataError(f"input {spec.name!r} has 0 samples", where=where, want="at least one sample")
    return shape[0]


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _hint(shape: Shape, spec: InputSpec) -> str | None:
    want, rank = spec.shape, len(spec.shape)
    if rank == 4 and len(shape) in (3, 4, 5):
        got = (1,) * (4 - len(shape)) + shape[-4:]
        lead = max(len(shape) - 4, 0)
        for axes, stored, wanted in LAYOUTS:
            if tuple(got[a] for a in axes)[1:] == want[1:] and got[1:] != want[1:]:
                order = ", ".join(map(str, (*range(lead), *(a + lead for a in axes))))
                return f"the data look like {stored} and the model wants {wanted}; transpose them by ({order}) first"
    if 0 < rank <= len(shape) and shape[len(shape) - rank + 1 :] == want[1:]:
        batch = shape[len(shape) - rank]
        return f"only the batch differs: {batch} in the data, {want[0]} in the model; store one batch a sample"
    total, size = _product(shape), _product(want)
    samples_of_another_size = len(shape) == rank + 1 and _product(shape[1:]) != size
    if size and total % size == 0 and not samples_of_another_size:
        return "the number of elements would fit, but nothing is reshaped by guess; store the data in the model's shape"
    return None


def _product(shape: Shape) -> int:
    out = 1
    for d in shape:
        out *= d
    return out
