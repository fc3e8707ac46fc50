"""The numbers of an operator that a limit in a ``target.toml`` may name.

A field gives (what, value) pairs; `what` is the beginning of the diagnostic. All values must keep the limit. No pair
means that the operator has no such number, and the limit holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bpuc.support import views
from bpuc.support.facts import OpFacts, TensorFacts

Pairs = list[tuple[str, Any]]
Field = Callable[[OpFacts, str], Pairs]

_LABELS = {"kernel_shape": "kernel", "strides": "stride", "dilations": "dilation", "output_padding": "output padding"}


def _side(attr: str, back: int) -> Field:
    """One spatial side, `back` places from the last (w = 1, h = 2, d = 3)."""

    def field(facts: OpFacts, _dtype: str) -> Pairs:
        values = views.spatial(facts, attr)
        if len(values) < back:
            return []
        return [(f"{_LABELS[attr]} {views.dims(values)}", values[-back])]

    return field


def _pad(facts: OpFacts, _dtype: str) -> Pairs:
    pads = views.spatial(facts, "pads")
    return [(f"pads {list(pads)}", p) for p in pads]


def _output_padding(facts: OpFacts, _dtype: str) -> Pairs:
    values = views.spatial(facts, "output_padding")
    return [(f"output padding {views.dims(values)}", v) for v in values]


def _group(facts: OpFacts, _dtype: str) -> Pairs:
    group = int(facts.attrs.get("group", 1))
    return [(f"group {group}", group)]


def _in_channels(facts: OpFacts, _dtype: str) -> Pairs:
    """Channels that one output reads before grouping: C of a feature map, K of a matrix product."""
    if facts.op_type in {"MatMul", "Gemm"}:
        both = views.product_channels(facts)
        return [(f"inner size {both[0]}", both[0])] if both else []
    shape = views.feature_shape(facts)
    return [(f"{shape[1]} input channels", shape[1])]


def _out_channels(facts: OpFacts, _dtype: str) -> Pairs:
    if facts.op_type in {"MatMul", "Gemm"}:
        both = views.product_channels(facts)
        return [(f"{both[1]} columns", both[1])] if both else []
    weight = facts.input(1)
    if facts.op_type == "Conv" and weight is not None:
        return [(f"{weight.shape[0]} output channels", weight.shape[0])]
    if facts.op_type == "ConvTranspose" and weight is not None:
        count = weight.shape[1] * int(facts.attrs.get("group", 1))
        return [(f"{count} output channels", count)]
    out = views.view4(facts.outputs[0].shape)
    return [(f"{out[1]} output channels", out[1])]


def _channels_per_group(facts: OpFacts, dtype: str) -> Pairs:
    group = int(facts.attrs.get("group", 1))
    return [(f"{n // group} channels a group", n // group) for _, n in _in_channels(facts, dtype)]


def _of_tensors(pick: Callable[[tuple[int, ...]], list[int]], what: str) -> Field:
    """A number of every activation, read and written, in its rank-4 view."""

    def field(facts: OpFacts, _dtype: str) -> Pairs:
        return [
            (f"{what} {value} of tensor '{t.name}' ({views.dims(t.shape)})", value)
            for t in _tensors(facts)
            for value in pick(views.view4(t.shape))
        ]

    return field


def _tensors(facts: OpFacts) -> tuple[TensorFacts, ...]:
    return (*facts.activations, *facts.outputs)


def _bytes(facts: OpFacts, dtype: str) -> Pairs:
    size = 2 if dtype == "int16" else 1
    return [(f"tensor '{t.name}' ({views.dims(t.shape)})", views.elements(t.shape) * size) for t in _tensors(facts)]


def _input_side(index: int, what: str) -> Field:
    """One side of the feature map that the operator reads: 0 = N, 1 = C, -2 = H, -1 = W."""

    def field(facts: OpFacts, _dtype: str) -> Pairs:
        shape = views.feature_shape(facts)
        return [(f"{what} {shape[index]}", shape[index])]

    return field


def _axis(facts: OpFacts, _dtype: str) -> Pairs:
    axis = facts.attrs.get("axis", "default")
    return [(f"axis {axis} of rank {len(views.main_shape(facts))}", views.axis_of(facts))]


def _axis_size(facts: OpFacts, _dtype: str) -> Pairs:
    """Size of the axis that `axis` or `axes` names."""
    shape = views.main_shape(facts)
    if "axes" in facts.attrs:
        return [(f"reduced axis of {shape[a]}", shape[a]) for a in views.reduced_axes(facts)]
    size = views.view4(shape)[views.axis_of(facts)]
    return [(f"axis of {size}", size)]


def _reduced_elements(facts: OpFacts, _dtype: str) -> Pairs:
    """Elements that go into one result of a reduction."""
    shape = views.main_shape(facts)
    axes = views.reduced_axes(facts) if "axes" in facts.attrs else (views.axis_of(facts) - max(0, 4 - len(shape)),)
    count = views.elements([shape[a] for a in axes])
    return [(f"{count} reduced elements", count)]


def _ranks(facts: OpFacts, _dtype: str) -> Pairs:
    present = [t for t in (*facts.inputs, *facts.outputs) if t is not None]
    return [(f"tensor '{t.name}' of rank {len(t.shape)}", len(t.shape)) for t in present]


def _input_count(facts: OpFacts, _dtype: str) -> Pairs:
    count = sum(t is not None for t in facts.inputs)
    return [(f"{count} inputs", count)]


def _attr(name: str, default: Any) -> Field:
    def field(facts: OpFacts, _dtype: str) -> Pairs:
        value = facts.attrs.get(name, default)
        value = value.decode() if isinstance(value, bytes) else value
        return [(f"{name} {value}", value)]

    return field


FIELDS: dict[str, Field] = {
    "kernel_d": _side("kernel_shape", 3),
    "kernel_h": _side("kernel_shape", 2),
    "kernel_w": _side("kernel_shape", 1),
    "stride_d": _side("strides", 3),
    "stride_h": _side("strides", 2),
    "stride_w": _side("strides", 1),
    "dilation_d": _side("dilations", 3),
    "dilation_h": _side("dilations", 2),
    "dilation_w": _side("dilations", 1),
    "pad": _pad,
    "output_padding": _output_padding,
    "group": _group,
    "in_channels": _in_channels,
    "out_channels": _out_channels,
    "channels_per_group": _channels_per_group,
    "batch": _of_tensors(lambda s: [s[0]], "batch"),
    "dims": _of_tensors(lambda s: list(s[1:]), "dimension"),
    "channels": _of_tensors(lambda s: [s[1]], "channel count"),
    "bytes": _bytes,
    "input_n": _input_side(0, "batch"),
    "input_c": _input_side(1, "channel count"),
    "input_h": _input_side(-2, "height"),
    "input_w": _input_side(-1, "width"),
    "axis": _axis,
    "axis_size": _axis_size,
    "reduced_elements": _reduced_elements,
    "ranks": _ranks,
    "input_count": _input_count,
    "blocksize": _attr("blocksize", 2),
    # Three operators have an attribute `mode`, each with its own default.
    "padding": _attr("mode", "constant"),
    "interpolation": _attr("mode", "nearest"),
    "sampling": _attr("mode", "bilinear"),
    "padding_mode": _attr("padding_mode", "zeros"),
    "coordinate_transformation_mode": _attr("coordinate_transformation_mode", "half_pixel"),
    "keepdims": _attr("keepdims", 1),
    "sorted": _attr("sorted", 1),
}
