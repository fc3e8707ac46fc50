"""Tensors that are parts of other tensors: what joins, splits and renamed axes then need no copy.

Buffers are handed out before any op is lowered. A producer may write straight into its part of a joined tensor, or into
a tensor whose axes are renamed; a part of a tensor is read where it stands. Only parts without gaps are used, so that
every op still sees packed operands, but for those that write channels last. The machine stores the channels of a
position together, so a Reshape that does more than add or drop axes of extent 1 stays a copy. A copy between equal
views is left out by `movement.move`.

Channels may be cut anywhere, also within the machine's blocks of channels: a wider operand would else save a copy that
a narrower one needs, and be faster than it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from bpuc.ir import Graph, Op, Tensor
from bpuc.isa import Ref, contiguous_strides
from bpuc.lower.builder import Builder
from bpuc.ops.attrs import AxisAttrs, SliceAttrs, SplitAttrs, TransposeAttrs

# permutations that move the channels of an image last, or first: the machine stores channels together in both orders
_RENAMES = ((0, 2, 3, 1), (0, 3, 1, 2))
_WRITES_ANYWHERE = ("Conv", "Add", "Sub", "Mul", "LayerNormalization")


def share_buffers(graph: Graph, ops: Sequence[Op], b: Builder, reach: int) -> None:
    """Give tensors views of each other where that saves a copy.

    Args:
        ops: in the order of lowering.
        reach: an operand of a Concat that is written more ops ahead is copied: in the joined tensor it would keep the
            room of all others that long.
    """
    views = _Views(graph, ops, b, reach)
    for op in reversed(ops):  # readers first, so that a joined tensor may itself be part of another
        if op.device == "BPU" and op.kind == "Concat":
            views.join(op)
        elif op.device == "BPU" and op.kind == "Transpose":
            views.rename(op)
    for op in ops:
        if op.device == "BPU" and op.kind in ("Split", "Slice", "Reshape"):
            views.parts(op)


@dataclass(frozen=True)
class _Piece:
    """A tensor that stands in `root` from byte `offset`."""

    root: Tensor
    offset: int
    size: int


class _Views:
    def __init__(self, graph: Graph, ops: Sequence[Op], b: Builder, reach: int) -> None:
        self._graph, self._b, self._reach = graph, b, reach
        self._order = {op: i for i, op in enumerate(ops)}

    def join(self, op: Op) -> None:
        """Let producers of a Concat's operands write into the joined tensor."""
        assert isinstance(op.attrs, AxisAttrs)
        y, axis = self._b.ref(op.out), op.attrs.axis
        if prod(op.out.shape[:axis]) != 1 or not _packed(y):
            return
        index = 0
        places: dict[Tensor, list[tuple[int, _Piece]]] = {}
        for tensor in op.inputs:
            if tensor is not None and tensor.const is None:
                piece = self._piece(tensor, op)
                places.setdefault(piece.root, []).append((y.address + index * y.strides[axis], piece))
            index += tensor.shape[axis] if tensor is not None else 0
        for root, found in places.items():
            start = found[0][0] - found[0][1].offset
            whole = sum(p.size for _, p in found) == _nbytes(root)
            together = len({p.offset for _, p in found}) == len(found) and all(a - p.offset == start for a, p in found)
            producer = self._writer(root, op)
            near = producer is not None and self._order[op] - self._order[producer] <= self._reach
            if whole and together and near and root not in self._b.refs:
                self._b.refs[root] = replace(y, address=start, shape=root.shape, strides=_strides(root))

    def rename(self, op: Op) -> None:
        """A Transpose that only moves the channels: its one operand is written in the order of the result."""
        assert isinstance(op.attrs, TransposeAttrs)
        x, perm = op.input(0), tuple(op.attrs.perm)
        producer = self._writer(x, op)
        alone = len(self._graph.consumers(x)) == 1 and x not in self._graph.outputs and x not in self._b.refs
        if perm in _RENAMES and alone and producer is not None and producer.kind in _WRITES_ANYWHERE:
            y = self._b.ref(op.out)
            strides = tuple(y.strides[perm.index(a)] for a in range(len(perm)))
            self._b.refs[x] = replace(y, shape=x.shape, strides=strides)

    def parts(self, op: Op) -> None:
        """Results that are parts of the operand stand where it stands."""
        if op.input(0).const is not None:
            return
        x = self._b.ref(op.input(0))
        for out in op.outputs:
            start = self._start(op, out)
            if start is not None and out not in self._b.refs and _packed(x):
                self._b.refs[out] = replace(x, address=x.address + start, shape=out.shape, strides=_strides(out))

    def _piece(self, tensor: Tensor, reader: Op) -> _Piece:
        """Follow views backwards inside the segment of `reader`."""
        size, offset, root = _nbytes(tensor), 0, tensor
        while root not in self._graph.outputs and (op := self._writer(root, reader)) is not None:
            start = self._start(op, root)
            if start is None:
                break
            offset, root = offset + start, op.input(0)
        return _Piece(root, offset, size)

    def _start(self, op: Op, out: Tensor) -> int | None:
        """Byte of a view op's operand at which a result without gaps starts; None where it is no such view."""
        if op.kind not in ("Reshape", "Split", "Slice") or op.input(0).const is not None:
            return None
        x = op.input(0)
        starts = [0] * x.rank
        if op.kind == "Reshape":
            return 0 if [d for d in x.shape if d > 1] == [d for d in out.shape if d > 1] else None
        if isinstance(op.attrs, SplitAttrs):
            starts[op.attrs.axis] = sum(op.attrs.sizes[: list(op.outputs).index(out)])
        elif isinstance(op.attrs, SliceAttrs) and set(op.attrs.steps) == {1}:
            starts = list(op.attrs.starts)
        else:
            return None
        cut = [a for a, (d, o) in enumerate(zip(x.shape, out.shape)) if d != o]
        if len(cut) > 1 or any(prod(x.shape[:a]) != 1 for a in cut):
            return None
        return sum(s * t for s, t in zip(starts, _strides(x)))

    def _writer(self, tensor: Tensor, reader: Op) -> Op | None:
        """The op of the BPU that writes the tensor, if it is in the segment of `reader`."""
        op = self._graph.producer(tensor)
        return op if op is not None and op.device == "BPU" and op.segment == reader.segment else None


def _nbytes(t: Tensor) -> int:
    return t.elements * t.dtype.itemsize


def _strides(t: Tensor) -> tuple[int, ...]:
    return contiguous_strides(t.shape, t.dtype.itemsize)


def _packed(ref: Ref) -> bool:
    return ref.strides == contiguous_strides(ref.shape, ref.dtype.itemsize)
