"""bpuc as a backend of ``onnx.backend.base``: ``bpuc.backend.prepare(model).run(inputs)``.

Without a march the model is imported, optimized and run in float on the CPU. With one it is calibrated on the inputs of
its first run, compiled, and simulated in integers. Programs are static: where a shape hangs on the values of an input
(those of Reshape, Slice or TopK), the model is built for these values, and built anew for others. What is left, and is
no tensor of static shape (strings, sequences, optionals, the indices of NonZero), runs in float alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto
from onnx.backend.base import Backend, BackendRep, namedtupledict

from bpuc.base.errors import ConfigError, DataError, ModelError
from bpuc.execute.ort import FloatExecutor
from bpuc.flow.compile import compile_model
from bpuc.flow.prepare import prepare as prepare_flow
from bpuc.flow.request import make_request
from bpuc.ops.base import Array
from bpuc.program import Program
from bpuc.sim.run import run_program

Runner = FloatExecutor | Program
SHORT = 64  # elements of an input that may be taken as a constant: more than any shape, axes or scales have
Inputs = Sequence[Any] | Mapping[str, Any] | Array
Feeds = Mapping[str, Any]  # arrays; in float also lists of them, and None for an empty optional


class Prepared(BackendRep):  # type: ignore[misc]
    """A model that is ready to run; what its file leaves open is taken from the arrays of each run."""

    def __init__(self, model: ModelProto, options: Mapping[str, Any]):
        self._model = model
        self._options = dict(options)
        given = {t.name for t in model.graph.initializer}
        self._inputs = {i.name: i.type for i in model.graph.input if i.name not in given}
        self._built: dict[tuple[Any, ...], Runner | ModelError] = {}

    def run(self, inputs: Inputs, **kwargs: Any) -> tuple[Array, ...]:  # noqa: ARG002 - the interface's signature
        """One array for each output, by position and name, in the element type that the model declares.

        Args:
            inputs: an array for each input that is no initializer: in the model's order, by name, or the only one.

        Raises:
            DataError: the arrays do not fit the inputs. ModelError: the model cannot be run.
        """
        feeds = self._feeds(inputs)
        fixed, runner = self._runner(feeds)
        feeds = {name: array for name, array in feeds.items() if name not in fixed}
        found = run_program(runner, feeds) if isinstance(runner, Program) else dict(runner.run(feeds))
        outputs = [_as_declared(found[o.name], o.type) for o in self._model.graph.output]
        names = [o.name for o in self._model.graph.output]
        result: tuple[Array, ...] = namedtupledict("Outputs", names)(*outputs)
        return result

    def _feeds(self, inputs: Inputs) -> dict[str, Any]:
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, Mapping):
            if len(inputs) > len(self._inputs):
                raise DataError(f"{len(inputs)} inputs are given, the model has {len(self._inputs)}")
            inputs = dict(zip(self._inputs, inputs))
        if self._options.get("march") is None:
            tensors = {n for n, kind in self._inputs.items() if kind.HasField("tensor_type")}
            return {
                n: _array(n, v) if n in tensors and isinstance(v, list) else _value(n, v) for n, v in inputs.items()
            }
        return {name: _array(name, value) for name, value in inputs.items()}

    def _runner(self, feeds: Feeds) -> tuple[Collection[str], Runner]:
        """What runs these arrays, and the inputs that are constants in it: none where that is possible."""
        arrays = {n: a for n, a in feeds.items() if isinstance(a, np.ndarray) and a.dtype.kind != "O"}
        short = [n for n, a in arrays.items() if a.ndim < 2 and a.size <= SHORT and n in self._inputs]
        errors: list[ModelError] = []
        single = [n for n in short if feeds[n].size == 1]
        for fixed in ([], single, [n for n in short if feeds[n].dtype.kind in "iub"], short):
            # nothing to fix, or nothing left to calibrate on
            if errors and (not fixed or (self._options.get("march") and len(fixed) == len(feeds))):
                continue
            built = self._cached(feeds, fixed)
            if not isinstance(built, ModelError):
                return fixed, built
            errors.append(built)
        if self._options.get("march") is None:
            built = self._cached(feeds, (), host_values=True)
            if not isinstance(built, ModelError):
                return (), built
        raise errors[0]

    def _cached(self, feeds: Feeds, fixed: Collection[str], host_values: bool = False) -> Runner | ModelError:
        shapes = ((n, a.shape if isinstance(a, np.ndarray) else ()) for n, a in feeds.items())
        key = (host_values, *shapes, *((n, feeds[n].tobytes()) for n in fixed))
        if key not in self._built:
            self._built[key] = self._build(feeds, fixed, host_values)
        return self._built[key]

    def _build(self, feeds: Feeds, fixed: Collection[str], host_values: bool) -> Runner | ModelError:
        model = ModelProto()
        model.CopyFrom(self._model)
        inputs = [i for i in model.graph.input if i.name not in fixed]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
        model.graph.initializer.extend(onnx.numpy_helper.from_array(feeds[n], n) for n in fixed)
        variable = {n: a for n, a in feeds.items() if n not in fixed and isinstance(a, np.ndarray)}
        shapes = [
            f"{n}:{'x'.join(map(str, a.shape))}"
            for n, a in variable.items()
            if a.ndim and self._open(n) and (a.size or not host_values)
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(model.SerializeToString())
            try:
                if self._options.get("march") is None:
                    graph = prepare_flow(
                        make_request(str(path), input_shape=shapes, **self._options), host_values, rounding=True
                    ).graph
                    return FloatExecutor(graph, graph.output_names, threads=1, plain=True)
                data = Path(folder) / "calib.npz"
                arrays: dict[str, Any] = {n: a[None] for n, a in variable.items()}
                np.savez(data, **arrays)
                request = make_request(str(path), input_shape=shapes, data=str(data), **self._options)
                return compile_model(request).program
            except ModelError as e:
                return e

    def _open(self, name: str) -> bool:
        """Whether the file leaves the shape of this input open."""
        proto = self._inputs[name].tensor_type if name in self._inputs else onnx.TypeProto.Tensor()
        return not proto.HasField("shape") or any(d.dim_value <= 0 for d in proto.shape.dim)


class BpucBackend(Backend):  # type: ignore[misc]
    """Float by default; ``march`` and the other options of `bpuc.flow.request.make_request` are keyword arguments."""

    defaults: Mapping[str, Any] = {}

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:  # noqa: ARG003
        """Always true: what cannot be compiled is refused with its reason when it is run."""
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """A model ready to run.

        Raises:
            ConfigError: another device than the CPU, on which the BPU is simulated too.
        """
        if not cls.supports_device(device):
            raise ConfigError(f"bpuc has no device {device!r}", want="CPU")
        return Prepared(model, {**cls.defaults, **kwargs})

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Inputs, device: str = "CPU", **kwargs: Any) -> tuple[Array, ...]:
        """`prepare` and `Prepared.run` in one."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Inputs,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,  # noqa: ARG003
        **kwargs: Any,
    ) -> tuple[Array, ...]:
        """One node as a model; `opset_version` among the keyword arguments, else the newest."""
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = [np.asarray(a) for a in ([inputs] if isinstance(inputs, np.ndarray) else inputs)]
        types = [
            onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip((n for n in node.input if n), arrays)
        ]
        outputs = [onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n]
        graph = onnx.helper.make_graph([node], "node", types, outputs)
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=min(onnx.IR_VERSION, 10))
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The CPU alone."""
        return device.split(":")[0] == "CPU"


class IntegerBackend(BpucBackend):
    """The integer path for callers that pass no options: bayes-e, thresholds from the largest value seen."""

    defaults: Mapping[str, Any] = {"march": "bayes-e", "observer": "min_max"}


def _value(name: str, value: Any) -> Any:
    """An array of numbers or strings, a list of such values for a sequence, or None for an empty optional."""
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(v, np.ndarray) or v is None for v in value):
        return [_value(name, v) for v in value]
    array = np.asarray(value) if isinstance(value, (np.ndarray, str)) else None
    if array is not None and array.dtype.kind in "OU" and all(isinstance(v, str) for v in array.reshape(-1)):
        return array.astype(object)
    return _array(name, value)


def _array(name: str, value: Any) -> Array:
    try:
        array = onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    except ValueError:  # a list of arrays of different shapes
        array = np.array(None)
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise DataError(
            f"input '{name}' holds {type(value).__name__} of {array.dtype}",
            want="an array of numbers or booleans",
            where=name,
        )
    return array


def _as_declared(value: Any, kind: onnx.TypeProto) -> Any:
    """Half and double precision are computed in float32; here the declared type comes back."""
    case = kind.WhichOneof("value")
    if case == "optional_type":
        return None if value is None else _as_declared(value, kind.optional_type.elem_type)
    if case == "sequence_type":
        return [_as_declared(v, kind.sequence_type.elem_type) for v in value]
    element, array = kind.tensor_type.elem_type, np.asarray(value)
    if array.dtype != np.float32 or not element:
        return array
    with np.errstate(over="ignore"):
        return array.astype(onnx.helper.tensor_dtype_to_np_dtype(element))


is_compatible = BpucBackend.is_compatible
prepare = BpucBackend.prepare
run_model = BpucBackend.run_model
run_node = BpucBackend.run_node
supports_device = BpucBackend.supports_device
