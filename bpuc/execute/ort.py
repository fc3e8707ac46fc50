"""Float execution through onnxruntime, with a look at any tensor; knows sessions and memory, not statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

from bpuc.base.errors import DataError, ModelError
from bpuc.frontend.onnx_export import export_float, export_op
from bpuc.ir import Graph, Op
from bpuc.ops.base import Array


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
            return [np.asarray(r) for r in self._evaluator.run(names, feeds)]


def open_session(model: bytes, threads: int | None = None) -> Session:
    """A session of onnxruntime; where that has no kernel for a node, onnx's own evaluator (slow) runs the model.

    Raises:
        Exception: of onnxruntime, where neither takes the model.
    """
    options = ort.SessionOptions()
    # threads that spin while observers work would cost CPU time and win nothing
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # its errors come as exceptions
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        session: Session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as first:
        try:
            return _Evaluator(model)
        except Exception:
            raise first from None
    return session


class FloatExecutor:
    """One session for a graph and a set of tensors to look at.

    Args:
        graph: with float tensors.
        taps: names of tensors, graph inputs among them.
        threads: of onnxruntime; None leaves the choice to it.

    Raises:
        ModelError: a tap names no tensor.
    """

    def __init__(self, graph: Graph, taps: Sequence[str], threads: int | None = None):
        self.inputs = {t.name: t for t in graph.inputs}
        self.taps = tuple(dict.fromkeys(taps))
        self._computed = [name for name in self.taps if name not in self.inputs]
        model = export_float(graph, self._computed).SerializeToString()
        with _refusals(graph.name):
            self._session = open_session(model, threads)
        self._name = graph.name

    def run(self, feeds: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
        """The tapped tensors of one sample, by name, in the order of `taps`; nothing is kept.

        Args:
            feeds: an array of the model's shape for every input; other float types are converted.

        Raises:
            DataError: an input is missing or has another shape.
        """
        given = {name: self._fed(name, feeds) for name in self.inputs}
        with _refusals(self._name):
            results = self._session.run(self._computed, given) if self._computed else []
        computed = dict(zip(self._computed, results))
        for name in self.taps:
            yield name, given[name] if name in given else computed.pop(name)

    def _fed(self, name: str, feeds: Mapping[str, Array]) -> Array:
        tensor = self.inputs[name]
        if name not in feeds:
            raise DataError(f"there are no data for input '{name}'", want=f"an array of shape {list(tensor.shape)}")
        array = np.asarray(feeds[name])
        if array.shape != tensor.shape:
            raise DataError(
                f"input '{name}' has shape {list(array.shape)}", want=f"shape {list(tensor.shape)}", where=name
            )
        return array.astype(tensor.dtype.numpy, copy=False)


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
    except Exception as e:  # its exceptions have no common base
        raise ModelError(
            f"onnxruntime cannot run {name}: {str(e).strip()}",
            want="a model that onnxruntime runs",
            hint="run the original file in onnxruntime; the node is named above",
        ) from e
