"""The layers of `models.tape` once more, this time written as ONNX nodes."""

# ruff: noqa: ARG002  the two classes take the same arguments, needed or not
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.onnxfile import OnnxFile
from models.tape import BN_EPSILON


@dataclass(frozen=True)
class Ref:
    """A tensor in the file under construction."""

    name: str
    channels: int


class Exporter:
    """Same methods as `Tape`; Conv, BatchNormalization and Relu stay separate nodes, as frameworks export them."""

    def __init__(self, file: OnnxFile, params: dict[str, np.ndarray]):
        self.file, self.params = file, params

    def conv(self, x: Ref, name: str, out: int, kernel: int, *, relu: bool = True) -> Ref:
        """Conv (no bias), BatchNormalization, Relu."""
        y = self.file.conv(x.name, name, self.params[f"{name}.weight"])
        stats = [self._const(f"{name}.bn.{part}") for part in ("gamma", "beta", "mean", "var")]
        y = self.file.node("BatchNormalization", [y, *stats], f"{name}.bn", epsilon=BN_EPSILON)
        return Ref(self.file.node("Relu", [y], f"{name}.relu") if relu else y, out)

    def max_pool(self, x: Ref, name: str, kernel: int, stride: int) -> Ref:
        """MaxPool; padded when the stride is 1."""
        pad = kernel // 2 if stride == 1 else 0
        shape, strides, pads = [kernel] * 2, [stride] * 2, [pad] * 4
        return Ref(
            self.file.node("MaxPool", [x.name], name, kernel_shape=shape, strides=strides, pads=pads), x.channels
        )

    def concat(self, xs: list[Ref], name: str) -> Ref:
        """Concat along channels."""
        return Ref(self.file.node("Concat", [x.name for x in xs], name, axis=1), sum(x.channels for x in xs))

    def add_relu(self, a: Ref, b: Ref, name: str) -> Ref:
        """Add, Relu."""
        y = self.file.node("Add", [a.name, b.name], name)
        return Ref(self.file.node("Relu", [y], f"{name}.relu"), a.channels)

    def upsample(self, x: Ref, name: str, factor: int) -> Ref:
        """Resize, nearest neighbour."""
        scales = self.file.const(f"{name}.scales", np.array([1, 1, factor, factor], np.float32))
        modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return Ref(self.file.node("Resize", [x.name, "", scales], name, **modes), x.channels)

    def classify(self, x: Ref, name: str, classes: int) -> Ref:
        """GlobalAveragePool, Flatten, Gemm; the last tensor is called `name`."""
        y = self.file.node("GlobalAveragePool", [x.name], f"{name}.pool")
        y = self.file.node("Flatten", [y], f"{name}.flat", axis=1)
        weight, bias = self._const(f"{name}.weight"), self._const(f"{name}.bias")
        return Ref(self.file.node("Gemm", [y, weight, bias], name, transB=1), classes)

    def _const(self, name: str) -> str:
        return self.file.const(name, self.params[name])
