"""Checks what a user feeds to a program, and cuts it into samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType, integers_as_floats
from bpuc.base.errors import DataError, did_you_mean
from bpuc.base.shapes import samples_in, shape_hint
from bpuc.program import Port, Program
from bpuc.sim.engine import Array


@dataclass(frozen=True)
class Samples:
    """Checked inputs.

    count: number of samples, None where the arrays had no sample axis.
    arrays: per input of the program as given, but always with the sample axis.
    """

    count: int | None
    arrays: dict[str, Array]
    ports: tuple[Port, ...]

    def __len__(self) -> int:
        return 1 if self.count is None else self.count

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """One sample after the other in the inputs' types, so that arrays on disk are read as they are needed.

        Raises:
            DataError: a sample holds NaN or infinity, or integers that the input's type does not have.
        """
        for i in range(len(self)):
            index = None if self.count is None else i
            yield {port.name: _converted(port, self.arrays[port.name][i], index) for port in self.ports}


def check_inputs(program: Program, inputs: Mapping[str, Array], warn: Callable[[str], None] | None = None) -> Samples:
    """Compare arrays with the input ports of a program.

    Args:
        inputs: per input name an array of the port's shape, or with one more leading axis of samples; a batch of 1 may
            be left out.
        warn: called with a sentence for every array that no input asks for.

    Raises:
        DataError: an input is missing, has another shape or type, or the arrays disagree on the number of samples.
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
            known = f"its inputs are {', '.join(map(repr, ports))}" if ports else "it has no inputs"
            warn(f"'{name}' is no input of the model and is ignored; {known}")

    inputs = {p.name: _pixels(p, inputs[p.name], warn) for p in program.inputs}
    counts = {p.name: _samples(p, inputs[p.name]) for p in program.inputs}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"'{n}' {'no sample axis' if c is None else f'{c} samples'}" for n, c in counts.items())
        raise DataError(
            f"the inputs disagree on the number of samples: {said}",
            want="the same number for every input, or no sample axis at all",
        )
    count = next(iter(counts.values()), None)
    for port in program.inputs:
        _check_type(port, inputs[port.name])
        if warn is not None and port.ref.dtype.is_float and inputs[port.name].dtype.kind in "biu":
            warn(integers_as_floats(port.name, str(port.ref.dtype), inputs[port.name].dtype.name))
    arrays = {p.name: inputs[p.name].reshape(count or 1, *p.shape) for p in program.inputs}
    return Samples(count, arrays, tuple(program.inputs))


def _pixels(port: Port, array: Array, warn: Callable[[str], None] | None) -> Array:
    """Floats of the float model's shape, for an input that takes pixels, as the nearest pixels; else the array."""
    image = port.image
    count = None if image is None or array.dtype.kind != "f" else samples_in(array.shape, image.shape)
    if image is None or count is None:
        return array
    samples = array.reshape(count, *image.shape)
    for i, sample in enumerate(samples):
        _finite(port, sample, i)
    if warn is not None:
        warn(
            f"input '{port.name}' takes {image.runtime} pixels, uint8 {list(port.shape)}; the values of the float "
            "model become the nearest pixels"
        )
    if _is_one(array.shape, image.shape):
        return image.from_model(samples[0])
    return np.stack([image.from_model(a) for a in samples]) if count else np.empty((0, *port.shape), np.uint8)


def _is_one(shape: tuple[int, ...], one: tuple[int, ...]) -> bool:
    """Whether an array that holds one sample has no axis of samples."""
    return shape in (one, one[1:] if one[:1] == (1,) else one)


def _samples(port: Port, array: Array) -> int | None:
    """Samples of an array; None where it holds one and has no axis of samples."""
    count = samples_in(array.shape, port.shape)
    if count is None:
        raise DataError(
            f"input '{port.name}' has shape {list(array.shape)}",
            want=f"{list(port.shape)}, or {['samples', *port.shape]}".replace("'", ""),
            hint=shape_hint(array.shape, port.shape)
            or "one sample must have the shape that the model was compiled for",
        )
    if count == 0:
        raise DataError(f"input '{port.name}' holds no sample: its shape is {list(array.shape)}")
    return None if _is_one(array.shape, port.shape) else count


def _check_type(port: Port, array: Array) -> None:
    """Refuse types whose values the port does not take; real numbers of any type become floats, as in calibration."""
    want = port.ref.dtype
    if want.is_float and array.dtype.kind in "biuf":
        return
    try:
        have = DType.of(array)
    except ValueError:
        have = None
    if have is None or not (have is want or have is port.declared or _both_integers(have, want)):
        raise DataError(
            f"input '{port.name}' has type {array.dtype.name}",
            want=str(want),
            hint=f"convert it after the model's own preprocessing: array.astype(np.{want.numpy.name})",
        )


def _converted(port: Port, array: Array, sample: int | None) -> Array:
    """One sample in the port's type; its values must survive, but for the digits of a float."""
    want = port.ref.dtype
    if array.dtype.kind == "f":
        _finite(port, array, sample)
    if want.is_float:
        with np.errstate(over="ignore"):
            cast = np.asarray(array, want.numpy, order="C")
        if array.dtype != cast.dtype:
            _finite(port, cast, sample)  # too large for the type
        return cast
    with np.errstate(invalid="ignore"):  # floats outside of the type, which the comparison finds
        narrow = np.asarray(array, want.numpy, order="C")
    # a wrapped sign would survive the way back
    if not np.array_equal(narrow.astype(array.dtype), array) or not np.array_equal(narrow < 0, array < 0):
        raise DataError(
            f"input '{port.name}' has type {array.dtype.name}, and not all of its values can be kept in {want}",
            where=None if sample is None else f"sample {sample}",
            want=str(want),
            hint=f"if the loss is meant: array.astype(np.{want.numpy.name})",
        )
    return narrow


def _both_integers(a: DType, b: DType) -> bool:
    return DType.BOOL not in (a, b) and not a.is_float and not b.is_float


def _finite(port: Port, array: Array, sample: int | None) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        first = [*([] if sample is None else [sample]), *(int(i) for i in np.argwhere(bad)[0])]
        raise DataError(
            f"input '{port.name}' holds NaN or infinity: {int(bad.sum())} of {array.size} values, the first at {first}",
            want="finite numbers",
            hint="check how the data were made",
        )
