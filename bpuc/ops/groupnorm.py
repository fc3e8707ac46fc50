"""GroupNormalization: InstanceNormalization of groups taken as channels, then a gain and a bias per channel."""

from __future__ import annotations

import math

import numpy as np

from bpuc.ops.attrs import AffineAttrs, NormAttrs, ShapeAttrs
from bpuc.ops.base import Builder, OnnxNode, Opaque


def parse_group_norm(node: OnnxNode, build: Builder) -> None:
    """Add the four ops that a GroupNormalization is.

    Raises:
        Opaque: gain or bias are not constant.
    """
    x, out, groups = node.operand(0), node.outputs[0], int(node.attrs["num_groups"])
    gain, bias = node.const(1), node.const(2)
    if gain is None or bias is None:
        raise Opaque("GroupNormalization whose gain or bias is not constant")
    if x.rank < 3 or x.shape[1] % groups:
        raise Opaque(f"GroupNormalization of shape {list(x.shape)} in {groups} groups")
    if node.opset < 21 and gain.size == bias.size == groups:  # one of each for a group
        gain, bias = (np.repeat(v.reshape(-1), x.shape[1] // groups) for v in (gain, bias))
    shape = (x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    unit = [np.full((1, groups, 1), value, np.float32) for value in (1.0, 0.0)]
    grouped, normal = (build.temp(shape, x.dtype, f"{out.name}_{part}") for part in ("groups", "normal"))
    scaled = build.temp(x.shape, x.dtype, f"{out.name}_scaled")
    norm = NormAttrs((2,), float(node.attrs.get("epsilon", 1e-5)))
    operands = [grouped, build.const(unit[0], f"{out.name}_ones"), build.const(unit[1], f"{out.name}_zeros")]
    constants = [build.const(v.astype(np.float32), node.operand(i).name) for i, v in ((1, gain), (2, bias))]
    build.op("Reshape", ShapeAttrs(shape), [x], [grouped], "Reshape")
    build.op("InstanceNormalization", norm, operands, [normal], "InstanceNormalization")
    build.op("Reshape", ShapeAttrs(x.shape), [normal], [scaled], "Reshape")
    build.op("Affine", AffineAttrs(1), [scaled, *constants], [out], "Mul")
