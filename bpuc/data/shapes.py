"""How the shape of stored data is read as a number of samples of an input. Never by counting elements."""

from __future__ import annotations

from bpuc.base.errors import DataError
from bpuc.base.shapes import Shape, samples_in, shape_hint
from bpuc.data.source import InputSpec


def count_samples(shape: Shape, spec: InputSpec, where: str) -> int:
    """How many samples an array of this shape holds, as `samples_in` reads it.

    Raises:
        DataError: it is none of these, or holds no sample.
    """
    want, found = spec.shape, samples_in(shape, spec.shape, spec.at_once)
    if found is None:
        raise DataError(
            f"the shape of the data for input {spec.name!r} does not fit: {_text(shape)}",
            where=where,
            want=f"[samples{''.join(f', {d}' for d in want)}], as the model's shape is {_text(want)}",
            hint=shape_hint(shape, want),
        )
    if found == 0:
        raise DataError(f"input {spec.name!r} has 0 samples", where=where, want="at least one sample")
    return found


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
