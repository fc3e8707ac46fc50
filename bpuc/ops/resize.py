"""Resize and Upsample of the last two axes of [N, C, H, W], nearest and linear, as tables of indices and weights.

The positions are computed in float32 step by step as onnxruntime does, since nearest hangs on the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import ResizeAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import const_ints

F = np.float32
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")


@dataclass(frozen=True)
class Axis:
    """One axis of a resize: sizes in and out, and the factor."""

    size: int
    out: int
    scale: np.float32

    def positions(self, mode: str) -> list[np.float32]:
        """The source position of each output index (ONNX operator text of Resize, coordinate_transformation_mode)."""
        if self.scale == 1 and self.size == self.out:
            return [F(i) for i in range(self.out)]
        n, m, s = F(self.size), F(self.out), self.scale
        if mode == "align_corners":
            return [F(0) if self.out == 1 else F(i) * (n - F(1)) / (m - F(1)) for i in range(self.out)]
        if mode == "asymmetric":
            return [F(i) / s for i in range(self.out)]
        if mode == "tf_half_pixel_for_nn":
            return [(F(i) + F(0.5)) / s for i in range(self.out)]
        if mode == "pytorch_half_pixel" and self.out == 1:
            return [F(0)]
        return [(F(i) + F(0.5)) / s - F(0.5) for i in range(self.out)]

    def nearest(self, mode: str, rounding: str) -> tuple[int, ...]:
        """The source index of each output index."""
        return tuple(min(max(_round(p, rounding), 0), self.size - 1) for p in self.positions(mode))

    def linear(self, mode: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """(indices above, then below) and the weight of the one below."""
        above, below, weight = [], [], []
        for position in self.positions(mode):
            p = min(max(position, F(0)), F(self.size - 1))
            first = min(int(p), self.size - 1)
            second = min(first + 1, self.size - 1)
            above.append(first)
            below.append(second)
            weight.append(0.5 if first == second else float(abs(p - F(first))))
        return (*above, *below), tuple(weight)


def _round(position: np.float32, rounding: str) -> int:
    p = float(position)
    if rounding == "floor":
        return math.floor(p)
    if rounding == "ceil":
        return math.ceil(p)
    half = p - math.trunc(p)
    if rounding == "round_prefer_floor" and half == 0.5:
        return math.trunc(p)
    return math.floor(p + 0.5) if p >= 0 else math.ceil(p - 0.5)


class Resize(OpDef):
    """Nearest moves values; linear computes new ones."""

    kind = "Resize"
    attrs = ResizeAttrs
    onnx = ("Resize", "Upsample")
    behaviour = Behaviour.COMPUTES

    def behaves(self, op: Op) -> Behaviour:
        return Behaviour.MOVES if cast(ResizeAttrs, op.attrs).mode == "nearest" else Behaviour.COMPUTES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x, out = node.operand(0), node.outputs[0]
        mode = str(node.attrs.get("mode", "nearest")).replace("bilinear", "linear")
        coordinates, rounding = _modes(node)
        scales = _scales(node, x.shape)
        if mode not in ("nearest", "linear"):
            raise Opaque(f"{node.op_type} mode {mode}")
        if x.rank != 4 or x.shape[:2] != out.shape[:2] or scales[:2] != (1.0, 1.0):
            raise Opaque(f"{node.op_type} of other axes than the last two of four")
        if coordinates == "half_pixel_symmetric" and all(n * s == m for n, s, m in zip(x.shape, scales, out.shape)):
            coordinates = "half_pixel"  # nothing is cut off, so there is nothing to centre
        if coordinates not in COORDINATES:
            raise Opaque(f"{node.op_type} with coordinate_transformation_mode {coordinates}")
        if node.attrs.get("antialias", 0):
            raise Opaque(f"{node.op_type} with antialias")
        if node.attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise Opaque(f"{node.op_type} that keeps the aspect ratio")
        if x.shape == out.shape and scales == (1.0,) * 4:
            build.alias(out, x)
            return
        if rounding == "simple":
            # Upsample and Resize 10: the integer part when growing, the ceiling when shrinking
            kinds = {"ceil" if s < 1 else "floor" for s in scales[2:] if s != 1} or {"floor"}
            if len(kinds) > 1:
                raise Opaque(f"{node.op_type} that grows along one axis and shrinks along the other")
            (rounding,) = kinds
        build.op(self.kind, table(mode, x.shape, out.shape, scales[2:], coordinates, rounding), [x], [out])

    def infer(self, op: Op) -> list[Shape]:
        return [(*op.input(0).shape[:2], *cast(ResizeAttrs, op.attrs).size)]

    def export(self, op: Op, to: Exporter) -> None:
        a, x = cast(ResizeAttrs, op.attrs), op.input(0)
        operands = [to.operand(x), ""]
        if all(math.floor(F(n) * F(s)) == m for n, s, m in zip(x.shape[2:], a.scales, a.size)):
            operands.append(to.const(np.array([1, 1, *a.scales], np.float32), f"{op.out.name}_scales"))
        else:
            operands += ["", to.const(np.array(op.out.shape, np.int64), f"{op.out.name}_sizes")]
        extra = {"nearest_mode": a.nearest} if a.mode == "nearest" else {}
        to.node("Resize", operands, [op.out.name], mode=a.mode, coordinate_transformation_mode=a.coordinates, **extra)

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(ResizeAttrs, op.attrs)
        return {
            "mode": a.mode,
            "coordinate_transformation_mode": a.coordinates,
            "nearest_mode": a.nearest,
            "scales": (1.0, 1.0, *a.scales),
        }


def table(
    mode: str, shape: Shape, out: Shape, scales: tuple[float, ...], coordinates: str, rounding: str
) -> ResizeAttrs:
    """Attributes of a resize from [N, C, H, W] `shape` to `out`."""
    height, width = (Axis(shape[i], out[i], F(scales[i - 2])) for i in (2, 3))
    size, factors = (out[2], out[3]), (float(scales[0]), float(scales[1]))
    if mode == "nearest":
        rows, columns = height.nearest(coordinates, rounding), width.nearest(coordinates, rounding)
        return ResizeAttrs(mode, size, rows, columns, (), (), coordinates, rounding, factors)
    (rows, weight_h), (columns, weight_w) = height.linear(coordinates), width.linear(coordinates)
    return ResizeAttrs(mode, size, rows, columns, weight_h, weight_w, coordinates, rounding, factors)


def _modes(node: OnnxNode) -> tuple[str, str]:
    """Coordinate mode and rounding; "simple" is the rule of Upsample and Resize 10."""
    if node.op_type == "Upsample" or node.opset < 11:
        return "asymmetric", "simple"
    coordinates = str(node.attrs.get("coordinate_transformation_mode", "half_pixel"))
    return coordinates, str(node.attrs.get("nearest_mode", "round_prefer_floor"))


def _scales(node: OnnxNode, shape: Shape) -> tuple[float, ...]:
    """The factor of each axis, as float32 values."""
    if "scales" in node.attrs:  # Upsample 7
        return tuple(float(F(v)) for v in node.attrs["scales"])
    at = 1 if node.op_type == "Upsample" or node.opset < 11 else 2
    axes = tuple(int(a) % len(shape) for a in node.attrs.get("axes", range(len(shape))))
    given = node.inputs[at] if at < len(node.inputs) else None
    if given is not None and given.elements:
        values = node.const(at)
        if values is None:
            raise Opaque(f"{node.op_type} whose scales are not constant")
        factors = {a: float(F(v)) for a, v in zip(axes, values.reshape(-1))}
    else:
        sizes = const_ints(node, 3, "sizes") or ()
        factors = {a: float(F(v) / F(shape[a])) for a, v in zip(axes, sizes)}
    return tuple(factors.get(i, 1.0) for i in range(len(shape)))


DEFS = (Resize(),)
