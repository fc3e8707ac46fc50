"""Float execution through onnxruntime, with a look at any tensor; knows sessions and memory, not statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

from bpuc.base.errors import DataError, ModelError
from bpuc.frontend.onnx_export import Arrays, export_float, export_op, export_part
from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.base import Array

ROOM = 24 << 20  # bytes of tensors that a session may show at once
CONSTANTS = 1 << 30  # bytes of constants that a session's model may hold; protobuf ends at twice that


class Session(Protocol):
    """What onnxruntime's sessions and onnx's own evaluator have in common."""

    def run(self, names: list[str] | None, feeds: dict[str, Any]) -> list[Any]:
        """The named results, all of them for None."""


class _Evaluator:
    """onnx's own evaluator, quiet about values that its numpy code warns of."""

    def __init__(self, model: bytes):
        self._evaluator = ReferenceEvaluator(model)

    def run(self, names: list[str] | None, feeds: dict[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [r if r is None or isinstance(r, list) else np.asarray(r) for r in self._evaluator.run(names, feeds)]


def open_session(model: bytes, threads: int | None = None, plain: bool = False) -> Session:
    """A session of onnxruntime; where that has no kernel for a node, onnx's own evaluator (slow) runs the model.

    Args:
        model: serialized. threads: of onnxruntime.
        plain: node by node as the model says, where onnxruntime would choose faster forms with other rounding errors.

    Raises:
        Exception: of onnxruntime, where neither takes the model.
    """
    try:
        return _open(model, threads, {}, plain)
    except Exception as first:
        try:
            return _Evaluator(model)
        except Exception:
            raise first from None


def _open(model: bytes, threads: int | None, arrays: Arrays, plain: bool) -> Session:
    """A session of onnxruntime, which reads the constants `arrays` where they are; they have to outlive it."""
    options = ort.SessionOptions()
    # threads that spin while observers work would cost CPU time and win nothing
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if plain:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # rounded values are computed as the model says, not by integer kernels in the place of several nodes
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.log_severity_level = 4  # its errors come as exceptions
    if _one_arena():
        options.add_session_config_entry("session.use_env_allocators", "1")
    if threads is not None:
        options.intra_op_num_threads = threads
    if arrays:
        values = [ort.OrtValue.ortvalue_from_numpy(a) for a in arrays.values()]
        options.add_external_initializers([*arrays], values)
    session: Session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session


def _open_sharing(export: Callable[[Arrays | None], bytes], threads: int | None, plain: bool) -> tuple[Session, Arrays]:
    """A session of a model whose large constants exist once, here and there, and those constants."""
    arrays: Arrays = {}
    try:
        return _open(export(arrays), threads, arrays, plain), arrays
    except Exception:  # onnx's own evaluator may run it; if not, onnxruntime's words on the whole model count
        return open_session(export(None), threads, plain), {}


@cache
def _one_arena() -> bool:
    """Let all sessions take memory from one arena, as each would hold on to the most that it ever needed."""
    info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    try:
        # as much as is asked for: it would double with every step, and never gives anything back
        ort.create_and_register_allocator(info, ort.OrtArenaCfg(0, 1, -1, -1))
    except Exception:  # the program around us has made one
        return False
    return True


class FloatExecutor:
    """A graph and a set of tensors to look at.

    All tensors that a session is to show exist at once. So a graph with much to look at becomes several sessions, one
    after another, each with at most `ROOM` bytes of such tensors and `CONSTANTS` bytes of constants (or a single op).

    Args:
        graph: with float tensors.
        taps: names of tensors, graph inputs among them.
        threads: of onnxruntime; None leaves the choice to it.
        plain: as for `open_session`.

    Raises:
        ModelError: a tap names no tensor.
    """

    def __init__(self, graph: Graph, taps: Sequence[str], threads: int | None = None, plain: bool = False):
        self.inputs = {t.name: t for t in graph.inputs}
        self.taps = tuple(dict.fromkeys(taps))
        self._name = graph.name
        computed = [name for name in self.taps if name not in self.inputs]
        cut = _cut(graph, {*computed})
        self._parts: list[_Part] = []
        for i, (ops, results) in enumerate(cut):
            with _refusals(graph.name):
                opened = _open_sharing(partial(export_part, ops, results), threads, plain)
            later = {t.name for part, _ in cut[i + 1 :] for op in part for t in op.inputs if t is not None}
            reads = {t.name for op in ops for t in op.inputs if t is not None}
            self._parts.append(_Part(*opened, [t.name for t in results], reads, later))
        if computed and not cut:
            with _refusals(graph.name):
                opened = _open_sharing(lambda a: export_float(graph, computed, a).SerializeToString(), threads, plain)
            self._parts = [_Part(*opened, computed, {*self.inputs}, set())]

    def run(self, feeds: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
        """The tapped tensors of one sample, by name: inputs first, then as they are computed; nothing is kept.

        Args:
            feeds: an array of the model's shape for every input; other float types are converted. A host value may
                have any shape, a sequence is a list, an empty optional None; the same goes for results.

        Raises:
            DataError: an input is missing or has another shape.
        """
        for part in self.parts(feeds):
            yield from part

    def parts(self, feeds: Mapping[str, Array]) -> Iterator[Iterator[tuple[str, Array]]]:
        """As `run`, in one go for every session, in which its tensors are computed; several threads may run samples."""
        alive = {name: self._fed(name, feeds) for name in self.inputs}
        wanted = {*self.taps}
        inputs = [(name, alive[name]) for name in self.inputs if name in wanted]
        if not self._parts:
            yield iter(inputs)
        for part in self._parts:
            with _refusals(self._name):
                results = part.session.run(part.results, {n: a for n, a in alive.items() if n in part.reads})
            alive = {n: a for n, a in alive.items() if n in part.later}
            alive |= {n: a for n, a in zip(part.results, results) if n in part.later}
            yield chain(inputs, _handed(part.results, results, wanted))
            inputs = []

    def _fed(self, name: str, feeds: Mapping[str, Array]) -> Any:
        tensor = self.inputs[name]
        if name not in feeds:
            raise DataError(f"there are no data for input '{name}'", want=f"an array of shape {list(tensor.shape)}")
        if tensor.host:
            return _host_value(feeds[name])
        array = np.asarray(feeds[name])
        if array.shape != tensor.shape:
            raise DataError(
                f"input '{name}' has shape {list(array.shape)}", want=f"shape {list(tensor.shape)}", where=name
            )
        with np.errstate(over="ignore"):  # a double beyond float32 becomes infinite
            return array.astype(tensor.dtype.numpy, copy=False)


def _handed(names: Sequence[str], results: list[Any], wanted: set[str]) -> Iterator[tuple[str, Array]]:
    """The wanted results by name; each is let go of as soon as the next one is asked for."""
    results.reverse()
    for name in names:
        array = results.pop()
        if name in wanted:
            yield name, array


def _host_value(value: Any) -> Any:
    """A value as onnxruntime takes it: None for an empty optional, a list for a sequence, else an array."""
    if value is None or isinstance(value, list):
        return None if value is None else [_host_value(v) for v in value]
    array: Array = np.asarray(value)
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    return array


@dataclass(frozen=True)
class _Part:
    """A session of a FloatExecutor and constants in use by it; names of its results, of what it reads, and of what
    sessions behind it read."""

    session: Session
    arrays: Arrays
    results: list[str]
    reads: set[str]
    later: set[str]


def _cut(graph: Graph, taps: set[str]) -> list[tuple[list[Op], list[Tensor]]]:
    """The ops in consecutive parts, each with its results that are taps or read by later parts.

    Nothing where one session does: few bytes to show and to hold, or taps that are no tensors but ports of the graph.
    """
    ops = list(graph)
    if not taps <= {t.name for op in ops for t in op.outputs}:
        return []
    parts: list[list[Op]] = [[]]
    room, left = ROOM, CONSTANTS
    for op in ops:
        size = sum(t.elements * t.dtype.numpy.itemsize for t in op.outputs if t.name in taps)
        held = sum(t.const.nbytes for t in op.inputs if t is not None and t.const is not None)
        if (size > room or held > left) and parts[-1]:
            parts.append([])
            room, left = ROOM, CONSTANTS
        room, left = room - size, left - held
        parts[-1].append(op)
    if len(parts) == 1:
        return []
    found = []
    for i, part in enumerate(parts):
        later = {t for p in parts[i + 1 :] for op in p for t in op.inputs}
        results = [t for op in part for t in op.outputs if t.name in taps or t in later]
        if results:
            found.append((part, results))
    return found


Sessions = dict[Op, Session]


def run_op(op: Op, feeds: Mapping[str, Array], sessions: Sessions) -> list[Array]:
    """Results of one op in float; `sessions` keeps what was built for it.

    Args:
        feeds: an array for every operand that is not constant.
    """
    if op not in sessions:
        with _refusals(op.name):
            # many small sessions: each with threads of its own would keep the processor busy waiting
            sessions[op] = open_session(export_op(op), 1)
    with _refusals(op.name):
        results: list[Array] = sessions[op].run(None, dict(feeds))
    return results


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    """Turn what onnxruntime throws into an error that names the model."""
    try:
        yield
    except ModelError:
        raise
    except Exception as e:  # its exceptions have no common base
        raise ModelError(
            f"onnxruntime cannot run {name}: {str(e).strip()}",
            want="a model that onnxruntime runs",
            hint="run the original file in onnxruntime; the node is named above",
        ) from e
