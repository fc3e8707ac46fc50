"""Let a Transpose between two Reshapes have as few axes as it needs.

    Reshape [1, 2, 4, 2, 4, 16] -> Transpose (0, 1, 3, 2, 4, 5) -> Reshape    becomes
    Reshape [2, 4, 2, 64]       -> Transpose (0, 2, 1, 3)       -> Reshape

Axes of size 1 say nothing, and neighbours that stay neighbours are one. Windows of attention and PixelUnshuffle are
exported with six axes and more, which few machines take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from bpuc.ir import Graph, Op
from bpuc.ops.attrs import ShapeAttrs, TransposeAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable

FROM = 6  # axes of a Transpose that is looked at
LEAST = 4  # axes that are left at least: what every machine is made for


@dataclass(frozen=True)
class JoinAxes(Pass):
    """A Transpose of six axes or more between Reshapes loses those that it does not need."""

    name = "join-axes"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if not isinstance(op.attrs, TransposeAttrs) or len(op.attrs.perm) < FROM:
                continue
            before = graph.producer(op.input(0))
            if before is None or not isinstance(before.attrs, ShapeAttrs) or not _between(graph, before, op):
                continue
            shape, perm = joined(op.input(0).shape, op.attrs.perm)
            if len(perm) >= len(op.attrs.perm):
                continue
            changes.append(
                Change(f"{len(op.attrs.perm)} axes became {len(perm)}", op.name, "axes that stay neighbours")
            )
            before.attrs, op.attrs = replace(before.attrs, shape=shape), replace(op.attrs, perm=perm)
            op.input(0).shape, op.out.shape = shape, tuple(shape[axis] for axis in perm)
        return changes


def joined(shape: tuple[int, ...], perm: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and order of the fewest axes (at least `LEAST`) that mean the same."""
    runs: list[list[int]] = []  # axes in their new order
    wide = [axis for axis in range(len(shape)) if shape[axis] != 1]
    following = dict(pairwise(wide))
    for axis in perm:
        if shape[axis] == 1:
            continue
        if runs and following.get(runs[-1][-1]) == axis:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    order = sorted(range(len(runs)), key=lambda i: runs[i][0])
    missing = max(0, LEAST - len(runs))
    sizes = tuple(math.prod(shape[axis] for axis in runs[i]) for i in order)
    return (1,) * missing + sizes, (*range(missing), *(order.index(i) + missing for i in range(len(runs))))


def _between(graph: Graph, before: Op, op: Op) -> bool:
    """Whether nothing but the Transpose reads the first Reshape, and nothing but Reshapes read the Transpose."""
    readers = graph.consumers(op.out)
    return (
        before.kind == "Reshape"
        and op.kind == "Transpose"
        and fusable(before, op)
        and graph.uses(before.out) == [(op, 0)]
        and before.out not in graph.outputs
        and op.out not in graph.outputs
        and bool(readers)
        and all(r.kind == "Reshape" and r.pin == op.pin for r in readers)
    )
