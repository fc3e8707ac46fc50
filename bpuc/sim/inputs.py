"""Checks what a user feeds to a program, and cuts it into samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.errors import DataError, did_you_mean
from bpuc.program import Port, Program
from bpuc.sim.engine import Array


@dataclass(frozen=True)
class Samples:
    """Checked inputs.

    count: number of samples, None where the arrays had no sample axis.
    arrays: per input of the program, in its declared type, always with the sample axis.
    """

    count: int | None
    arrays: dict[str, Array]

    def __len__(self) -> int:
        return 1 if self.count is None else self.count

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for i in range(len(self)):
            yield {name: a[i] for name, a in self.arrays.items()}


def check_inputs(program: Program, inputs: Mapping[str, Array], warn: Callable[[str], None] | None = None) -> Samples:
    """Compare arrays with the input ports of a program.

    Args:
        inputs: per input name an array of the port's shape, or with one more leading axis of samples.
        warn: called with a sentence for every array that no input asks for.

    Raises:
        DataError: an input is missing, has another shape or type, holds NaN or infinity, or the arrays disagree on
            the number of samples.
    """
    ports = {p.name: p for p in program.inputs}
    spare = [name for name in inputs if name not in ports]
    for port in program.inputs:
        if port.name not in inputs:
            raise DataError(
                f"input '{port.name}' is missing",
                want=f"an array '{port.name}' of shape {list(port.shape)}, {port.ref.dtype}",
                hint=did_you_mean(port.name, spare) or f"given: {', '.join(map(repr, inputs)) or 'nothing'}",
            )
    for name in spare:
        if warn is not None:
            warn(f"'{name}' is no input of the model and is ignored; its inputs are {', '.join(map(repr, ports))}")

    counts = {p.name: _samples(p, inputs[p.name]) for p in program.inputs}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"'{n}' {'no sample axis' if c is None else f'{c} samples'}" for n, c in counts.items())
        raise DataError(
            f"the inputs disagree on the number of samples: {said}",
            want="the same number for every input, or no sample axis at all",
        )
    count = next(iter(counts.values()), None)
    arrays = {p.name: _converted(p, inputs[p.name]) for p in program.inputs}
    return Samples(count, {n: a[None] if count is None else a for n, a in arrays.items()})


def _samples(port: Port, array: Array) -> int | None:
    if array.shape == port.shape:
        return None
    if array.ndim == len(port.shape) + 1 and array.shape[1:] == port.shape:
        if len(array) == 0:
            raise DataError(f"input '{port.name}' holds no sample: its shape is {list(array.shape)}")
        return len(array)
    raise DataError(
        f"input '{port.name}' has shape {list(array.shape)}",
        want=f"{list(port.shape)}, or {['samples', *port.shape]}".replace("'", ""),
        hint="one sample must have the shape that the model was compiled for",
    )


def _converted(port: Port, array: Array) -> Array:
    """`array` in the port's type: floats are rounded, integers must survive; nothing else becomes a float."""
    want = port.ref.dtype
    wrong = DataError(
        f"input '{port.name}' has type {array.dtype.name}",
        want=str(want),
        hint=f"convert it after the model's own preprocessing: array.astype(np.{want.numpy.name})",
    )
    try:
        have = DType.of(array)
    except ValueError:
        raise wrong from None
    if array.dtype.kind in "fc":
        _finite(port, array)
    if have is not want:
        if have is port.declared or (have.is_float and want.is_float and have.itemsize > want.itemsize):
            with np.errstate(over="ignore"):
                return _finite_cast(port, array)
        if not _both_integers(have, want):
            raise wrong
        narrow = array.astype(want.numpy)
        # a wrapped sign would survive the way back
        if not np.array_equal(narrow.astype(array.dtype), array) or not np.array_equal(narrow < 0, array < 0):
            raise DataError(
                f"input '{port.name}' has type {have}, and not all of its values can be kept in {want}",
                want=str(want),
                hint=f"if the loss is meant: array.astype(np.{want.numpy.name})",
            )
        array = narrow
    return np.ascontiguousarray(array, want.numpy)


def _finite_cast(port: Port, array: Array) -> Array:
    """A float array in the port's float type, rounded as a cast rounds; a value that becomes infinite is refused."""
    cast = np.ascontiguousarray(array, port.ref.dtype.numpy)
    _finite(port, cast)
    return cast


def _both_integers(a: DType, b: DType) -> bool:
    return DType.BOOL not in (a, b) and not a.is_float and not b.is_float


def _finite(port: Port, array: Array) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        first = [int(i) for i in np.argwhere(bad)[0]]
        raise DataError(
            f"input '{port.name}' holds NaN or infinity: {int(bad.sum())} of {array.size} values, the first at {first}",
            want="finite numbers",
            hint="check how the data were made",
        )
