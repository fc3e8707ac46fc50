"""Writing ONNX and npz files whose bytes depend on their content alone."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bpuc.base.files import write_atomic

OPSET = 13
IR_VERSION = 8  # what opset 13 files usually carry; every onnxruntime that bpuc takes reads it


class OnnxFile:
    """A graph under construction: nodes in the order added, initializers by name, names chosen by the caller."""

    def __init__(self, name: str, opset: int = OPSET):
        self.name, self.opset = name, opset
        self._nodes: list[onnx.NodeProto] = []
        self._consts: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, *shape: int) -> str:
        """Declare a float32 graph input."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def output(self, name: str, *shape: int) -> None:
        """Declare a float32 graph output."""
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def const(self, name: str, value: np.ndarray) -> str:
        """An initializer; a name that was used before is shared."""
        if name not in self._consts:
            self._consts[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def node(self, op: str, inputs: list[str], output: str, name: str | None = None, **attrs: Any) -> str:
        """A node with one output; its name is the output's unless given."""
        self._nodes.append(helper.make_node(op, inputs, [output], name or output, **attrs))
        return output

    def conv(self, x: str, name: str, weight: np.ndarray, bias: np.ndarray | None = None, *, share: str = "") -> str:
        """A Conv with stride 1 and equal padding; output and node are called `name`.

        `share` names the initializers when several nodes use the same weights.
        """
        k = weight.shape[2]
        stem = share or name
        inputs = [x, self.const(f"{stem}.weight", weight)]
        if bias is not None:
            inputs.append(self.const(f"{stem}.bias", bias))
        return self.node("Conv", inputs, name, kernel_shape=[k, k], pads=[k // 2] * 4)

    def model(self) -> onnx.ModelProto:
        """The finished model, checked by onnx with full shape inference."""
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, list(self._consts.values()))
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], producer_name="bpuc models"
        )
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model, full_check=True)
        return model


def uniform(rng: np.random.Generator, shape: tuple[int, ...], bound: float) -> np.ndarray:
    """Float32 values in -bound..bound, drawn as integers: the same bits on every platform."""
    return (rng.integers(-2048, 2049, shape) * (bound / 2048)).astype(np.float32)


def model_bytes(model: onnx.ModelProto) -> bytes:
    """Serialized with map fields in a fixed order."""
    return bytes(model.SerializeToString(deterministic=True))


def npz_bytes(arrays: dict[str, np.ndarray]) -> bytes:
    """A compressed npz with a fixed time stamp; ``np.savez`` writes the time of day into it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            z.writestr(info, member.getvalue())
    return out.getvalue()


def save(folder: Path, files: dict[str, bytes]) -> None:
    """Write each file into `folder`, whole or not at all."""
    for name, data in files.items():
        write_atomic(folder / name, data)
