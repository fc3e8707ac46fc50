"""Runs a program on a user's inputs: checks, samples, and integers or real values as results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np

from bpuc.base.errors import DataError, FileError, did_you_mean
from bpuc.program import Program, TensorSymbol
from bpuc.sim.engine import Array, Engine
from bpuc.sim.inputs import check_inputs

EngineName = Literal["fast", "reference"]


class Simulation:
    """A program made ready to run sample by sample.

    Args:
        program: what to run.
        engine: "fast" or "reference"; both give the same integers.
        integers: give stored integers in place of real values, for outputs the integers of the quantized tensor
            behind them. What is not quantized is given as it is.
        tensors: "all", or names of tensors wanted beside the outputs.
        threads: how many the engine may use; the results do not depend on it.

    Raises:
        DataError: a name in `tensors` is no tensor of the program.
        FileError: the program needs more memory than there is.
    """

    def __init__(
        self,
        program: Program,
        *,
        engine: EngineName = "fast",
        integers: bool = False,
        tensors: Sequence[str] | Literal["all"] = (),
        threads: int | None = None,
    ):
        self._program = program
        self._integers = integers
        self._symbols = {t.name: t for t in program.tensors}
        self._wanted = self._names(tensors)
        # an output's own integers may be those of a tensor of another name
        behind = [o.tensor for o in program.outputs if integers and o.tensor in self._symbols]
        with _enough_memory(program):
            self._engine = _engine(engine)(program, threads, tuple(dict.fromkeys([*self._wanted, *behind])))

    def _names(self, tensors: Sequence[str] | Literal["all"]) -> list[str]:
        if "all" in ([tensors] if isinstance(tensors, str) else tensors) and "all" not in self._symbols:
            return list(self._symbols)
        names = [tensors] if isinstance(tensors, str) else tensors
        outputs = {o.name for o in self._program.outputs}
        for name in names:
            if name not in self._symbols and name not in outputs:
                raise DataError(
                    f"the program has no tensor '{name}'",
                    hint=did_you_mean(name, list(self._symbols)) or "`bpuc info --json` lists the tensors",
                )
        return [n for n in dict.fromkeys(names) if n in self._symbols]

    def sample(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """One sample of checked inputs (`Samples` yields them) to outputs and wanted tensors, outputs first."""
        with _enough_memory(self._program):
            raw = self._engine.run(feeds)
        out = {o.name: self._output(o.name, o.tensor, raw).reshape(o.shape) for o in self._program.outputs}
        for name in self._wanted:
            if name not in out:
                out[name] = raw[name] if self._integers else dequantized(raw[name], self._symbols[name])
        return out

    def _output(self, name: str, tensor: str, raw: Mapping[str, Array]) -> Array:
        if self._integers and tensor in self._symbols:
            return raw[tensor]
        # where the engine gave the tensor of that name, its real value is the port's
        symbol = self._symbols[name] if name in self._wanted else None
        return raw[name] if symbol is None else dequantized(raw[name], symbol)


def run_program(
    program: Program,
    inputs: Mapping[str, Array],
    engine: EngineName = "fast",
    integers: bool = False,
    tensors: Sequence[str] | Literal["all"] = (),
    threads: int | None = None,
    warn: Callable[[str], None] | None = None,
) -> dict[str, Array]:
    """Check inputs, run every sample, stack the results; see `Simulation` and `check_inputs`.

    Returns:
        Outputs and tensors by name, with the leading sample axis where the inputs had it.
    """
    samples = check_inputs(program, inputs, warn)
    simulation = Simulation(program, engine=engine, integers=integers, tensors=tensors, threads=threads)
    rows = [simulation.sample(feeds) for feeds in samples]
    if samples.count is None:
        return rows[0]
    return {name: np.stack([r[name] for r in rows]) for name in rows[0]}


def dequantized(value: Array, symbol: TensorSymbol) -> Array:
    """``float32(float64(value) * scale)``, as `Dequantize` does; tensors without a scale stay as they are."""
    if symbol.scale is None:
        return value
    scale = np.asarray(symbol.scale, np.float64)
    if symbol.axis is not None and scale.size > 1:
        scale = scale.reshape([-1 if i == symbol.axis % value.ndim else 1 for i in range(value.ndim)])
    with np.errstate(over="ignore"):
        return np.asarray((value.astype(np.float64) * scale).astype(np.float32))


@contextmanager
def _enough_memory(program: Program) -> Iterator[None]:
    try:
        yield
    except MemoryError as e:
        raise FileError(
            f"the simulation needs more memory than there is ({str(e) or 'for the operands of an instruction'})",
            where=f"activation memory of {program.arena_bytes} bytes, constants of {len(program.constants)} bytes",
            hint="run it on a machine with more memory, or compile the model for a smaller input",
        ) from e


def _engine(name: EngineName) -> Callable[..., Engine]:
    if name == "reference":
        from bpuc.sim.reference import ReferenceEngine

        return ReferenceEngine
    from bpuc.sim.fast import FastEngine

    return FastEngine
