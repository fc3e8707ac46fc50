"""Instructions turned into one onnxruntime session over the engine's own buffers.

Inside a graph, int8 values are uint8 with zero point 128; other types are themselves. Every input and output of a
session is bound once to the memory of a buffer, or to a packed copy of an operand that is no plain memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from bpuc.base.dtypes import DType
from bpuc.sim.engine import Array
from bpuc.sim.fast.storage import BIAS, Operand

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
_IR_VERSION = 9


class Graph:
    """Collects nodes for a run of instructions; see `bpuc.sim.fast.plans` for what they are made of."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: dict[tuple[Any, ...], str] = {}
        self._initializers: list[Any] = []
        self._inputs: dict[tuple[Any, ...], tuple[str, Operand]] = {}
        self._values: dict[int, tuple[str, Operand]] = {}
        self._watched: list[Operand] = []
        self._names = 0

    # for plans

    def constant(self, value: Any, dtype: Any = None) -> str:
        """The name of an initializer; small equal ones are shared."""
        array = np.asarray(value, dtype, order="C")
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 8 else None
        name = self._constants.get(key) if key else None
        if name is None:
            name = self._name()
            self._initializers.append(numpy_helper.from_array(array, name))
            if key:
                self._constants[key] = name
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attrs: Any) -> str:
        """Append a node of one output; returns that output's name."""
        name = self._name()
        self._nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **attrs))
        return name

    def reshape(self, value: str, shape: tuple[int, ...]) -> str:
        return self.node("Reshape", value, self.constant(shape, np.int64))

    def channels_last(self, value: str) -> str:
        """NCHW to NHWC; onnxruntime cancels neighbouring ones."""
        return self.node("Transpose", value, perm=(0, 2, 3, 1))

    def channels_first(self, value: str) -> str:
        """NHWC to NCHW."""
        return self.node("Transpose", value, perm=(0, 3, 1, 2))

    def read(self, operand: Operand, shape: tuple[int, ...] | None = None) -> str:
        """The value of an operand, in its own shape or another of as many elements."""
        made = self._values.get(operand.sources[0]) if len(operand.sources) == 1 else None
        if made is not None:
            name, have = made[0], made[1].ref.shape
        else:
            ref = operand.ref
            key = (ref.space, ref.address, ref.dtype, ref.shape, ref.strides, operand.sources)
            if key not in self._inputs:
                self._inputs[key] = (self._name(), operand)
            name, have = self._inputs[key][0], ref.shape
        want = operand.ref.shape if shape is None else shape
        return name if want == have else self.reshape(name, want)

    def write(self, operand: Operand, value: str) -> None:
        """Declare a value, of the operand's shape, to be what an instruction writes."""
        assert operand.number is not None
        self._values[operand.number] = (value, operand)

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    # for the grouping of instructions

    @property
    def empty(self) -> bool:
        return not self._nodes

    def takes(self, reads: list[Operand], writes: list[Operand]) -> bool:
        """Whether an instruction may join: it sees this graph's values whole, and spoils nothing that is read."""
        for r in reads:
            inside = [n for n in r.sources if n in self._values]
            if inside and not (len(r.sources) == 1 and _same_bytes(r, self._values[inside[0]][1])):
                return False
        seen = [o for _, o in (*self._inputs.values(), *self._values.values())] + self._watched
        return not any(w.overlaps(o) for w in writes for o in seen)

    def watch(self, operands: list[Operand]) -> None:
        """Operands that somebody reads right after this graph: nothing more may be written over them."""
        self._watched += operands

    def made(self) -> set[int]:
        """Numbers of the writes that this graph carries out."""
        return set(self._values)

    def session(self, threads: int, wanted: set[int]) -> Callable[[], None]:
        """Build the session; the closure runs it.

        Args:
            wanted: of the writes made here, those that somebody else reads.
        """
        inputs = list(self._inputs.values())
        outputs = [(name, o) for number, (name, o) in self._values.items() if number in wanted]
        if not outputs:
            return lambda: None
        # a value that is an input or another output under a second name needs a node of its own
        names = [name for name, _ in inputs]
        for i, (name, operand) in enumerate(outputs):
            if name in names or name in [n for n, _ in outputs[:i]]:
                outputs[i] = (self.node("Identity", name), operand)
        model = helper.make_model(
            helper.make_graph(
                self._nodes,
                "part",
                [helper.make_tensor_value_info(n, _onnx_type(o), o.ref.shape) for n, o in inputs],
                [helper.make_tensor_value_info(n, _onnx_type(o), o.ref.shape) for n, o in outputs],
                self._initializers,
            ),
            opset_imports=OPSETS,
            ir_version=_IR_VERSION,
        )
        session = open_session(model, threads)
        binding = session.io_binding()
        before = [_bind(binding.bind_input, name, o, False) for name, o in inputs]
        read = [o for _, o in inputs]
        after = [_bind(binding.bind_output, name, o, any(o.overlaps(r) for r in read)) for name, o in outputs]
        loads = [(copy, o) for copy, o in before if copy is not None]
        stores = [(copy, o) for copy, o in after if copy is not None]
        run, raw = session._sess.run_with_iobinding, binding._iobinding

        def step() -> None:
            for copy, o in loads:
                _fetch(o, copy)
            run(raw, None)
            for copy, o in stores:
                _put(o, copy)

        return step


def open_session(model: onnx.ModelProto, threads: int) -> Any:
    """A session on the CPU. Its threads sleep when idle: spinning would burn time between a program's sessions."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _same_bytes(a: Operand, b: Operand) -> bool:
    """Whether two views name the same elements in the same row-major order."""
    if a.ref.address != b.ref.address or a.ref.dtype is not b.ref.dtype:
        return False
    if a.ref.shape == b.ref.shape:
        return all(s == t for d, s, t in zip(a.ref.shape, a.ref.strides, b.ref.strides) if d > 1)
    return a.ref.elements == b.ref.elements and a.array.flags.c_contiguous and b.array.flags.c_contiguous


def _onnx_type(o: Operand) -> int:
    return int(helper.np_dtype_to_tensor_dtype(_graph_type(o)))


def _graph_type(o: Operand) -> np.dtype[Any]:
    return np.dtype(np.uint8) if o.ref.dtype is DType.INT8 else np.dtype(o.ref.dtype.numpy.name)


def _bind(bind: Callable[..., None], name: str, o: Operand, apart: bool) -> tuple[Array | None, Operand]:
    """Bind the operand's own memory where it is plain, else a packed copy, which is returned."""
    kind = _graph_type(o)
    if o.direct and not apart and o.array.dtype == kind:
        bind(name, "cpu", 0, kind, list(o.ref.shape), o.array.ctypes.data)
        return None, o
    copy = np.empty(o.ref.shape, kind)
    bind(name, "cpu", 0, kind, list(o.ref.shape), copy.ctypes.data)
    return copy, o


def _fetch(o: Operand, copy: Array) -> None:
    if o.ref.dtype is DType.INT8 and not o.biased:
        np.bitwise_xor(o.array.view(np.uint8), np.uint8(BIAS), out=copy)
    else:
        np.copyto(copy, o.array)


def _put(o: Operand, copy: Array) -> None:
    if o.ref.dtype is DType.INT8 and not o.biased:
        np.bitwise_xor(copy, np.uint8(BIAS), out=o.array.view(np.uint8))
    else:
        np.copyto(o.array, copy)


__all__ = ["Graph", "TensorProto", "open_session"]
