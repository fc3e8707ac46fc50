"""What several op files share: windows and their padding, constants per channel, the clamp after an op."""

from __future__ import annotations

from collections.abc import Sequence

from bpuc.ir import Op
from bpuc.ops.attrs import Bound
from bpuc.ops.base import Array, Exporter, OnnxNode, Opaque, Shape


def clamp_out(op: Op, to: Exporter, low: Bound, high: Bound) -> str:
    """The name that the op's last node before the clamp must write; the clamp to low..high is appended by `clamp`."""
    return op.out.name if low is None and high is None else to.temp(f"{op.out.name}_linear")


def clamp(name: str, op: Op, to: Exporter, low: Bound, high: Bound) -> None:
    """Append Relu or Clip from `name` to the op's output, or nothing where there are no bounds."""
    if low is None and high is None:
        return
    if low == 0.0 and high is None:
        to.node("Relu", [name], [op.out.name])
    else:
        to.node("Clip", [name, *bounds(to, low, high, op.out.name)], [op.out.name])


def bounds(to: Exporter, low: Bound, high: Bound, hint: str) -> list[str]:
    """Operands 1 and 2 of Clip."""
    names = [
        "" if value is None else to.const(value, f"{hint}_{which}") for which, value in (("min", low), ("max", high))
    ]
    return names[:1] if names[1] == "" else names


def add_all(first: str, more: Sequence[str], out: str, to: Exporter) -> None:
    """Append Adds that sum `first` and `more` into `out`."""
    total = first
    for index, name in enumerate(more):
        result = out if index == len(more) - 1 else to.temp(f"{out}_sum")
        to.node("Add", [total, name], [result])
        total = result


def window_pads(node: OnnxNode, size: Shape, kernel: Shape, strides: Shape, dilations: Shape) -> tuple[int, ...]:
    """Begins, then ends, of the padding of a sliding window, with auto_pad resolved (ONNX operator text of Conv).

    Raises:
        Opaque: padding is negative.
    """
    mode = str(node.attrs.get("auto_pad", "NOTSET"))
    rank = len(kernel)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        begins, ends = [], []
        for n, k, s, d in zip(size, kernel, strides, dilations):
            total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            small, large = total // 2, total - total // 2
            begins.append(small if mode == "SAME_UPPER" else large)
            ends.append(large if mode == "SAME_UPPER" else small)
        return (*begins, *ends)
    if mode == "VALID":
        return (0,) * (2 * rank)
    pads = ints(node, "pads", (0,) * (2 * rank))
    if min(pads, default=0) < 0:
        raise Opaque(f"{node.op_type} with negative pads")
    return pads


def window_out(n: int, kernel: int, stride: int, dilation: int, pads: int, *, ceil: bool = False) -> int:
    """Number of positions of a window over n elements padded by `pads`; 0 or less where it does not fit."""
    span = n + pads - ((kernel - 1) * dilation + 1)
    return -(-span // stride) + 1 if ceil else span // stride + 1


def ints(node: OnnxNode, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """An attribute that is a list of integers."""
    return tuple(int(v) for v in node.attrs.get(name, default))


def const_ints(node: OnnxNode, index: int, what: str) -> tuple[int, ...] | None:
    """A constant operand of integers, None where it is absent.

    Raises:
        Opaque: it is there, but not constant.
    """
    if index >= len(node.inputs) or node.inputs[index] is None:
        return None
    array = node.const(index)
    if array is None:
        raise Opaque(f"{node.op_type} with {what} that are not constant")
    return tuple(int(v) for v in array.reshape(-1))


def axis_of(node: OnnxNode, rank: int, default: int, name: str = "axis") -> int:
    """An axis attribute, made non-negative."""
    axis = int(node.attrs.get(name, default))
    return axis + rank if axis < 0 else axis


def varying_axes(array: Array, rank: int) -> list[int]:
    """Axes of a rank-`rank` tensor along which a constant, aligned at the right, has more than one element."""
    offset = rank - array.ndim
    return [offset + i for i, n in enumerate(array.shape) if n != 1]


def along(vector: Array, axis: int, rank: int) -> Array:
    """A vector as an array of the given rank that varies along `axis`."""
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)
