"""Limits that no range can say: ``check = "name"`` in a ``target.toml`` names a function of this module.

A predicate gets the operator, the activation type and the limit's ``args``; it answers None where the limit holds,
else what it found, which begins the diagnostic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bpuc.support import views
from bpuc.support.broadcast import broadcast_axes, fits_form, merged_rank
from bpuc.support.facts import OpFacts
from bpuc.support.views import dims

Args = Mapping[str, Any]
Predicate = Callable[[OpFacts, str, Args], "str | None"]
PREDICATES: dict[str, Predicate] = {}


def predicate(function: Predicate) -> Predicate:
    """Make a function known to ``check`` under its own name."""
    PREDICATES[function.__name__] = function
    return function


# Operands ------------------------------------------------------------------------------------------------------------


@predicate
def constants(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """At most `max` constant operands."""
    count = sum(t is not None and t.constant for t in facts.inputs)
    return f"with {count} constant operands" if count > args["max"] else None


@predicate
def constant_input(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """Input number `index` is constant (or, with `is = false`, is not)."""
    t = facts.input(args["index"])
    wanted = args.get("is", True)
    if t is None or t.constant == wanted:
        return None
    return f"with {'an activation' if wanted else 'a constant'} as input {args['index']} ('{t.name}')"


@predicate
def scalar_constant(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """Input number `index` is one constant number."""
    t = facts.input(args["index"])
    if t is None or (t.constant and views.elements(t.shape) == 1):
        return None
    return f"with '{t.name}' of shape {dims(t.shape)}" if t.constant else f"with the activation '{t.name}'"


@predicate
def nonzero_constant(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """No constant operand holds a zero, as far as its values are known."""
    for t in facts.inputs:
        if t is not None and t.constant and t.values is not None and np.any(t.values == 0):
            return f"with a zero in constant '{t.name}'"
    return None


@predicate
def broadcast(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """Operands whose broadcast the machine can walk.

    `mutual`: both operands may be broadcast; `batch`: activations may be broadcast along axis 0; `merge_broadcast`: see
    `merged_rank`; the merged rank is at most 4. A constant is expanded at compile time, so axis 0 is open to it.
    """
    tensors = [t for t in facts.inputs if t is not None]
    if len(tensors) < 2:
        return None
    shapes = [t.shape for t in tensors]
    axes = broadcast_axes(shapes)
    written = " and ".join(dims(s) for s in shapes)
    if not args.get("mutual", True) and len(set().union(*(k for k, _ in axes))) > 1:
        return f"of {written} broadcast on both sides"
    activations = {i for i, t in enumerate(tensors) if not t.constant}
    if not args.get("batch", True) and len(axes) >= 4 and axes[0][0] & activations:
        return f"of {written} broadcast along the batch axis"
    if len(axes) > 4 and (rank := merged_rank(shapes, args.get("merge_broadcast", True))) > 4:
        return f"of {written} (rank {rank} after merging axes)"
    return None


@predicate
def shape_forms(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """The operands have one of `forms` (see `fits_form`) in their rank-4 view, or with their own rank where `view` is
    false.

    With `swap` the operands may stand in either order.
    """
    shapes = [t.shape for t in facts.inputs if t is not None]
    if len(shapes) < 2:
        return None
    seen = [views.view4(s) for s in shapes] if args.get("view", True) else shapes
    orders = [seen, seen[::-1]] if args.get("swap", False) else [seen]
    if any(fits_form(f, order) for f in args["forms"] for order in orders):
        return None
    return "of " + " and ".join(dims(s) for s in shapes)


# Matrix products -----------------------------------------------------------------------------------------------------


@predicate
def matmul_dims(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """Last two axes of both operands in 1..`last`, leading ones in 1..`leading`."""
    for t in facts.inputs[:2]:
        if t is not None and (max(t.shape[-2:]) > args["last"] or max(t.shape[:-2], default=1) > args["leading"]):
            return f"of '{t.name}' ({dims(t.shape)})"
    return None


@predicate
def matmul_broadcast(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """Leading axes are broadcast as a block.

    Axes that are 1 on both sides say nothing. The left operand is either broadcast on all others or on none. The
    right one may also be broadcast on the last ones only: what it keeps are the leading axes.
    """
    a, b = facts.input(0), facts.input(1)
    if a is None or b is None or min(len(a.shape), len(b.shape)) < 2:
        return None
    kinds = [k for k, size in broadcast_axes([a.shape[:-2], b.shape[:-2]]) if size != 1]
    left, right = [0 in k for k in kinds], [1 in k for k in kinds]
    if (any(left) and not all(left)) or right != sorted(right) or (any(left) and any(right)):
        return f"of {dims(a.shape)} and {dims(b.shape)}"
    return None


@predicate
def gemm_as_conv(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """Rows and columns of a fully connected layer seen as a 1x1 convolution on H = W = 1.

    At most `channels` inputs and `blocks` groups of 4 outputs (`blocks_int32` in the last operator).
    """
    both = views.product_channels(facts)
    if both is None:
        return None
    inner, columns = both
    limit = args["blocks_int32"] if facts.attrs.get("last") else args["blocks"]
    if inner > args["channels"] or -(-columns // 4) > limit:
        return f"of {inner} inputs and {columns} outputs"
    return None


# Convolution and pooling ---------------------------------------------------------------------------------------------


@predicate
def fused_add_stride(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """A convolution with a fused Add has strides out of `strides`."""
    strides = views.spatial(facts, "strides")
    if facts.attrs.get("fused_add") and not set(strides) <= set(args["strides"]):
        return f"with a fused Add and stride {dims(strides)}"
    return None


@predicate
def channels_per_group_last(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """At most `max` channels a group, `max_last` in the last operator of its segment."""
    both = views.product_channels(facts) if facts.op_type in {"MatMul", "Gemm"} else None
    channels = both[0] if both else views.feature_shape(facts)[1] // int(facts.attrs.get("group", 1))
    limit = args["max_last"] if facts.attrs.get("last") else args["max"]
    return f"of {channels} channels a group" if channels > limit else None


@predicate
def plain_conv_channels(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """At most `max` channels a group, `max_plain` where it is neither dilated nor grouped."""
    group = int(facts.attrs.get("group", 1))
    channels = views.feature_shape(facts)[1] // group
    plain = group == 1 and set(views.spatial(facts, "dilations")) <= {1}
    limit = args["max_plain"] if plain else args["max"]
    return f"of {channels} channels a group" if channels > limit else None


@predicate
def dilated_conv(facts: OpFacts, dtype: str, _args: Args) -> str | None:
    """A dilated convolution has stride 1, int8 results and a height and width that the dilation divides."""
    dilation, stride = views.spatial(facts, "dilations"), views.spatial(facts, "strides")
    if set(dilation) <= {1}:
        return None
    height, width = views.feature_shape(facts)[-2:]
    found = f"with dilation {dims(dilation)}"
    if set(stride) != {1}:
        return f"{found} and stride {dims(stride)}"
    if dtype != "int8":
        return f"{found} in {dtype}"
    if height % dilation[-2] or width % dilation[-1]:
        return f"{found} on {height}x{width}"
    return None


@predicate
def power_of_two_dilation(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """Dilations are powers of two, divisible by the stride, and not greater along the height than along the width."""
    dilation, stride = views.spatial(facts, "dilations"), views.spatial(facts, "strides")
    if set(dilation) <= {1}:
        return None
    good = all(d & (d - 1) == 0 and d % s == 0 for d, s in zip(dilation, stride, strict=True))
    return None if good and dilation[0] <= dilation[1] else f"with dilation {dims(dilation)}, stride {dims(stride)}"


@predicate
def kernel_not_one(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """The kernel is not 1x1."""
    kernel = views.spatial(facts, "kernel_shape")
    return f"kernel {dims(kernel)}" if set(kernel) == {1} else None


@predicate
def stride_not_one(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """The strides are not all 1."""
    stride = views.spatial(facts, "strides")
    return f"stride {dims(stride)}" if set(stride) == {1} else None


@predicate
def stride_order(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """The stride along the height is not greater than along the width."""
    stride = views.spatial(facts, "strides")
    return f"stride {dims(stride)}" if stride and stride[-2] > stride[-1] else None


@predicate
def pad_below_half_kernel(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """Padding along each side is at most (k - 1) / 2, or, with `of = "kernel"`, k / 2; `sides` picks the axes."""
    kernel, pads = views.spatial(facts, "kernel_shape"), views.spatial(facts, "pads")
    less = 0 if args.get("of") == "kernel" else 1
    for i in args.get("sides", range(len(kernel))):
        if max(pads[i], pads[i + len(kernel)]) > (kernel[i] - less) / 2:
            return f"pads {list(pads)} with kernel {dims(kernel)}"
    return None


@predicate
def pad_below_kernel_over_stride(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """Padding is below k / s for an odd stride s, at most k / s for an even one."""
    kernel, stride, pads = (views.spatial(facts, a) for a in ("kernel_shape", "strides", "pads"))
    for i, (k, s) in enumerate(zip(kernel, stride, strict=True)):
        pad = max(pads[i], pads[i + len(kernel)])
        if pad > k / s or (s % 2 and pad == k / s):
            return f"pads {list(pads)} with kernel {dims(kernel)} and stride {dims(stride)}"
    return None


@predicate
def deconv_taps(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """Taps of one phase: ((kh - 1 + ph % sh) / sh + 1) * (the same along w) * channels a group, at most `max`."""
    kernel, stride, pads = (views.spatial(facts, a) for a in ("kernel_shape", "strides", "pads"))
    taps = views.feature_shape(facts)[1] // int(facts.attrs.get("group", 1))
    for k, s, p in zip(kernel, stride, pads[: len(kernel)], strict=True):
        taps *= (k - 1 + p % s) // s + 1
    return f"of {taps} taps a phase" if taps > args["max"] else None


@predicate
def conv3d_map(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """Where D * C exceeds `from`: H * align(W, 256) * D * C below `max` bytes."""
    _, c, d, h, w = views.feature_shape(facts)
    size = h * views.align(w, 256) * d * c
    return f"on {d}x{h}x{w} with {c} channels" if d * c > args["from"] and size >= args["max"] else None


@predicate
def same_stride_hw(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """The strides along height and width are equal."""
    stride = views.spatial(facts, "strides")
    return f"stride {dims(stride)}" if stride[-2:].count(stride[-1]) != 2 else None


# Tables --------------------------------------------------------------------------------------------------------------


@predicate
def lut_size(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """min(align(W,8) * H * align(C,4), H * W * align(C,32)) at most `max`: the smaller of the two block layouts."""
    _, c, h, w = views.view4(views.main_shape(facts))[-4:]
    size = min(views.align(w, 8) * h * views.align(c, 4), h * w * views.align(c, 32))
    return f"on {dims(views.main_shape(facts))} ({size} elements in blocks)" if size > args["max"] else None


@predicate
def map_size(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """C * H * W (or H * W with `plane`) of the feature map at most `max`."""
    shape = views.feature_shape(facts)[2 if args.get("plane") else 1 :]
    size = views.elements(shape)
    return f"on {dims(views.main_shape(facts))} ({size} elements)" if size > args["max"] else None


# Axes ----------------------------------------------------------------------------------------------------------------


@predicate
def reduced(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """Reduced axes: one (with `one`), or height and width together (with `plane`); axes of size 1 do not count."""
    rank, axes = len(views.main_shape(facts)), views.reduced_axes(facts)
    if args.get("one", False) and len(axes) <= 1:
        return None
    if args.get("plane", False) and set(axes) <= {rank - 2, rank - 1}:
        return None
    return f"over axes {list(axes)} of rank {rank}"


@predicate
def vector_axis(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """The axis is the last one of a tensor of rank 1 or 2, whose last axis holds channels."""
    rank = len(views.main_shape(facts))
    return (
        None if rank <= 2 and views.axis_of(facts) == 3 else f"axis {facts.attrs.get('axis', 'default')} of rank {rank}"
    )


@predicate
def equal_split(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """All parts have one shape."""
    shapes = [o.shape for o in facts.outputs]
    return f"into {', '.join(map(dims, shapes))}" if len(set(shapes)) > 1 else None


@predicate
def one_axis_differs(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """At most one axis of the result differs from the input."""
    axes = broadcast_axes([views.main_shape(facts), facts.outputs[0].shape])
    count = sum(bool(kinds) for kinds, _ in axes)
    return f"along {count} axes" if count > 1 else None


@predicate
def moves_nothing(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """Only axes of size 1 come, go or move: the data stays where it lies."""
    before, after = views.main_shape(facts), facts.outputs[0].shape
    perm = facts.attrs.get("perm")
    order = [p for p in perm if before[p] != 1] if perm is not None else []
    if [n for n in before if n != 1] == [n for n in after if n != 1] and order == sorted(order):
        return None
    return f"of {dims(before)} to {dims(after)}"


@predicate
def pads_only_plane(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """Only height and width grow."""
    before, after = views.view4(views.main_shape(facts)), views.view4(facts.outputs[0].shape)
    return f"of {dims(before)} to {dims(after)}" if before[:-2] != after[:-2] else None


@predicate
def nearest_factors(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """In nearest mode the factors are powers of two and that of the height is not above that of the width."""
    if facts.attrs.get("mode", "nearest") not in ("nearest", b"nearest"):
        return None
    before, after = views.view4(views.main_shape(facts)), views.view4(facts.outputs[0].shape)
    factors = [after[i] / before[i] for i in (-2, -1)]
    if factors[0] <= factors[1] and all(f > 0 and np.frexp(f)[0] == 0.5 for f in factors):
        return None
    return f"by {factors[0]:g}x{factors[1]:g}"


@predicate
def roi_crop(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """A region of interest is used with tf_crop_and_resize only, and then is constant."""
    mode = facts.attrs.get("coordinate_transformation_mode", "half_pixel")
    roi = facts.input(1)
    crop = mode in ("tf_crop_and_resize", b"tf_crop_and_resize")
    if not crop or (roi is not None and roi.constant):
        return None
    return "with a region that is not constant"


@predicate
def gather_elements_shape(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """Off the gathered axis the indices are not longer than the data."""
    data, index = facts.input(0), facts.input(1)
    if data is None or index is None:
        return None
    axis = int(facts.attrs.get("axis", 0)) % len(data.shape)
    bad = any(i != axis and m > n for i, (m, n) in enumerate(zip(index.shape, data.shape, strict=False)))
    return f"with indices {dims(index.shape)} on {dims(data.shape)}" if bad else None


@predicate
def index_dtype(facts: OpFacts, _dtype: str, args: Args) -> str | None:
    """Indices (input 1) have one of `constant` types where constant, one of `activation` types where computed."""
    t = facts.input(1)
    if t is None:
        return None
    allowed = args["constant"] if t.constant else args["activation"]
    return None if t.dtype in allowed else f"with indices of {t.dtype}"


@predicate
def lstm_batch(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """One sequence: axis 1 of the input, axis 0 where `layout` is 1, is 1."""
    shape = views.main_shape(facts)
    batch = shape[0 if facts.attrs.get("layout") else 1] if len(shape) == 3 else 1
    return f"on a batch of {batch}" if batch != 1 else None


@predicate
def feeds_output(facts: OpFacts, _dtype: str, _args: Args) -> str | None:
    """The result is an output of the model."""
    return "inside the model" if facts.attrs.get("feeds_output") is False else None
