"""A model in float and its program, sample by sample on the same data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bpuc.base.errors import DataError, ModelError
from bpuc.execute.ort import FloatExecutor
from bpuc.flow.calibrate import Progress
from bpuc.flow.floats import FloatModel
from bpuc.ops.base import Array
from bpuc.program import Port, Program, TensorSymbol
from bpuc.sim.batch import batch_of, in_runs
from bpuc.sim.inputs import check_inputs
from bpuc.sim.run import Simulation


@dataclass(frozen=True)
class Run:
    """One run of both. samples: their numbers (several for a program with a batch). feeds: what the model took.

    pairs: (float tensor, float values, real values of the integers), to be read once.
    """

    samples: tuple[int, ...]
    feeds: dict[str, Array]
    pairs: Iterator[tuple[str, Array, Array]]


class SideBySide:
    """Runs both.

    Args:
        layers: whether all tensors are compared, or the outputs alone.

    Attributes:
        names: tensors of the model that the program has too -> their name there; in the order of the model.
        outputs: those of them that the program gives -> the name of the output.
        at_once: samples that a run takes.
        symbols: how the program stores tensors.
        warnings: what was found while samples were read.

    Raises:
        ModelError: they have nothing in common.
    """

    def __init__(self, floats: FloatModel, program: Program, layers: bool, threads: int | None = None):
        graph = floats.model.graph
        self._floats, self._program = floats, program
        self.symbols: dict[str, TensorSymbol] = {t.name: t for t in program.tensors}
        self.warnings: dict[str, None] = {}
        tensors = [*graph.inputs, *(t for op in graph for t in op.outputs)]
        shapes = {t.name: t.shape for t in tensors if not t.host and t.const is None}
        self.outputs: dict[str, str] = {}
        found = {n: n for n in shapes if layers and n in self.symbols}
        for port in program.outputs:
            # the tensor behind the port counts: ops at the end may have been removed, under the old name of the output
            name = port.tensor if port.tensor in shapes else port.name
            if name in shapes:
                self.outputs[name] = port.name
                found[name] = name if name in self.symbols else port.name
        size = batch_of(program)[0]
        self._batched = size > 1 and all(s.shape[:1] == (1,) for s in floats.inputs)
        self.at_once = size if self._batched else 1
        # of a batch, only what has the samples along its first axis can be put together from single ones
        self.names = {n: found[n] for n, s in shapes.items() if n in found and (not self._batched or s[:1] == (1,))}
        self.outputs = {n: name for n, name in self.outputs.items() if n in self.names}
        if not self.names:
            raise ModelError(
                "the model and the binary have no tensor in common",
                want="a binary of this model, compiled without new names for its outputs",
            )
        self._executor = FloatExecutor(graph, list(self.names), threads)
        wanted = [n for n in self.names.values() if n in self.symbols]
        self._simulation = Simulation(program, tensors=wanted, threads=threads)

    def run(self, limit: int | None = None, progress: Progress | None = None) -> Iterator[Run]:
        """Samples in their order, `limit` at most.

        Raises:
            DataError: a sample does not fit, or their number is no multiple of the program's batch.
        """
        source = self._floats.source
        count = source.samples if limit is None else min(limit, source.samples)
        size = self.at_once
        if count % size:
            raise DataError(
                f"{source.where}: {count} samples, and a run of the binary takes {size} at once",
                want=f"a multiple of {size}",
            )
        samples: Iterable[dict[str, Array]] = islice(iter(source), count)
        if progress is not None:
            samples = progress(samples, count)
        taken: list[dict[str, Array]] = []
        for number, sample in enumerate(samples):
            taken.append(sample)
            if len(taken) == size:
                yield self._run(tuple(range(number + 1 - size, number + 1)), taken)
                taken = []

    def _run(self, numbers: tuple[int, ...], taken: list[dict[str, Array]]) -> Run:
        feeds = taken[0] if len(taken) == 1 else {n: np.concatenate([s[n] for s in taken]) for n in taken[0]}
        ports = {p.name: p for p in self._program.inputs}
        given = {n: self._stored(ports[n], a) if n in ports else a for n, a in feeds.items()}
        runs = check_inputs(self._program, in_runs(self._program, given), self._warn)
        got = self._simulation.sample(next(iter(runs)))
        return Run(numbers, feeds, self._pairs(taken, got))

    def _pairs(self, taken: list[dict[str, Array]], got: Mapping[str, Array]) -> Iterator[tuple[str, Array, Array]]:
        if len(taken) == 1:
            floats: Iterable[tuple[str, Array]] = self._executor.run(taken[0])
        else:
            rows = [dict(self._executor.run(s)) for s in taken]
            floats = [(n, np.concatenate([r[n] for r in rows])) for n in rows[0]]
        for name, want in floats:
            value = got[self.names[name]]
            if value.size != want.size:
                raise ModelError(
                    f"tensor {name} has shape {list(want.shape)} in the model and {list(value.shape)} in the binary",
                    want="a binary of the model with these input shapes",
                )
            yield name, want, value

    def _stored(self, port: Port, array: Array) -> Array:
        """Integers for an input whose Quantize was removed from the program."""
        symbol = self.symbols.get(port.tensor)
        if array.dtype.kind != "f" or port.ref.dtype.is_float or port.image is not None:
            return array
        if symbol is None or symbol.scale is None or len(symbol.scale) > 1:
            return array
        dtype = symbol.ref.dtype
        steps = np.floor(array.astype(np.float64) / symbol.scale[0] + 0.5)
        return np.clip(steps, dtype.qmin, dtype.qmax).astype(dtype.numpy)

    def _warn(self, text: str) -> None:
        self.warnings[text] = None
