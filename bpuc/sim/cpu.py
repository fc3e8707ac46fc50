"""Runs the ONNX parts of a program on the host, for both engines alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from bpuc.base.errors import ModelError
from bpuc.isa.core import MAX_RANK
from bpuc.sim.engine import Array


class _Session(Protocol):
    def run(self, names: list[str] | None, feeds: dict[str, Any]) -> Sequence[Any]: ...


class PartRunner:
    """ONNX models by number; a session is built when its part is first run.

    onnxruntime does the work, node by node as written (no graph optimization, so that fusions cannot change a
    result); parts for which it has no kernel go to onnx's own reference evaluator. Arrays of more axes than an operand
    of a program may have come and go as vectors.

    Args:
        parts: serialized ONNX models.
        threads: threads inside an op; None for one. The results do not depend on it.
    """

    def __init__(self, parts: Sequence[bytes], threads: int | None = None):
        self._parts = parts
        self._threads = threads or 1
        self._sessions: dict[int, tuple[_Session, dict[str, list[int]]]] = {}

    def run(self, part: int, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of a part in its own order.

        Raises:
            ModelError: the part cannot be loaded or run; names its nodes.
        """
        if part not in self._sessions:
            self._sessions[part] = self._open(part)
        session, shapes = self._sessions[part]
        try:
            feeds = {
                name: array.reshape(shape) if len(shape) > MAX_RANK else array
                for (name, shape), array in zip(shapes.items(), inputs, strict=True)
            }
            results = [np.asarray(v) for v in session.run(None, feeds)]
            return [v.reshape(-1) if v.ndim > MAX_RANK else v for v in results]
        except Exception as e:  # both runtimes raise types of their own, down to bare RuntimeError
            raise self._error(part, e) from e

    def _open(self, part: int) -> tuple[_Session, dict[str, list[int]]]:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        # idle threads of one part would otherwise spin while other parts and instructions run
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4  # its messages come back as exceptions
        raw = self._parts[part]
        try:
            session = ort.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
            return session, {i.name: i.shape for i in session.get_inputs()}
        except Exception as first:
            try:
                from onnx.reference import ReferenceEvaluator

                fallback = ReferenceEvaluator(raw)
                infos = fallback.proto_.graph.input
                return fallback, {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in infos}
            except Exception as second:
                raise self._error(part, first) from second

    def _error(self, part: int, e: Exception) -> ModelError:
        import onnx

        try:
            nodes = [
                f"{n.op_type} '{n.name or n.output[0]}'" for n in onnx.load_from_string(self._parts[part]).graph.node
            ]
        except Exception:
            nodes = ["(the part is no ONNX model)"]
        shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
        said = next(iter(str(e).strip().splitlines()), type(e).__name__)
        return ModelError(
            f"an ONNX part on the CPU cannot be run: {said}",
            where=shown,
            hint="check that the float model runs with onnxruntime on the same inputs",
        )
