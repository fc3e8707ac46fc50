"""Who joins whom at concats: classes of tensors, what joining costs their readers, and the edges that are cut."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from bpuc.base.dtypes import DType
from bpuc.base.errors import ConfigError
from bpuc.ir import Graph, Op, Tensor
from bpuc.passkit.context import PassContext, Refusal
from bpuc.passkit.scales import ConcatEdge, ScaleClass, UnionFind, scale_classes

# members within so much of the one that loses most leave their groups in one round, so that rounds are few
_ROUND_BITS = 0.5
# noise that readers may gain beyond the bits limit: a base, and more where the rescale is expensive (chosen by hand)
_BASE_DB, _DB_PER_US, _MOST_DB = 0.5, 0.02, 1.5
# ops that add their operands' noise to the rounding of their own result
_ADDING = ("Add", "Sub", "Max", "Min")


def bits_lost(shared: float, own: float) -> float:
    """How many bits coarser a tensor of threshold `own` gets at the shared threshold: log2(T / t), at least 0."""
    return max(0.0, math.log2(shared / own))


@dataclass
class Decision:
    """Who joins whom: classes with their own thresholds, and the concat edges that were cut with the reasons."""

    ctx: PassContext
    classes: list[ScaleClass]
    of: dict[Tensor, int]
    edges: list[ConcatEdge]
    own: list[float]
    fixed: list[float | None]
    cut: dict[int, Refusal] = field(default_factory=dict)
    # threshold of each class's group
    shared: list[float] = field(default_factory=list)
    # members whose loss, not a fixed scale, cut their edges
    _doubtful: list[int] = field(default_factory=list)
    _sets: UnionFind = field(default_factory=lambda: UnionFind(0))

    @classmethod
    def start(cls, graph: Graph, ctx: PassContext) -> Decision:
        """Classes and edges of the graph, all edges joined."""
        classes, of, edges = scale_classes(graph, ctx.target)
        fixed = [_fixed(c, ctx) for c in classes]
        joined = {e.tensor for e in edges}
        own = [_threshold(graph, c, joined, ctx) if f is None else f for c, f in zip(classes, fixed)]
        return cls(ctx, classes, of, edges, own, fixed)

    def cut_edges(self) -> None:
        """Cut edges until no class objects. Only cuts are made from round to round, so it ends."""
        if self.ctx.options.share_scales == "never":
            why = Refusal("--share-scales never: every tensor keeps its own scale", "--share-scales auto")
            self.cut = {i: why for i, e in enumerate(self.edges) if e.member != e.target}
            self._join()
            return
        self.cut = {i: w for i, e in enumerate(self.edges) for w in [self._wanted_apart(e)] if w}
        self.cut |= self._conflicts()
        edges = self._edges_of_members()
        watching = self._watching(edges)
        faults: dict[int, tuple[float, Refusal]] = {}
        waiting, before = set(edges), list[float]()
        while True:
            self._join()
            for i, threshold in enumerate(before):
                if threshold != self.shared[i]:
                    waiting |= watching[i]
            before = self.shared
            for member in sorted(waiting):
                live = [self.edges[i] for i in edges[member] if i not in self.cut]
                found = [f for e in live for f in [self._fault(e)] if f is not None]
                faults.pop(member, None)
                if found:
                    faults[member] = found[-1]
            if not faults:
                return
            # the worst ones first: their leaving may mend the others
            limit = max(lost for lost, _ in faults.values()) - _ROUND_BITS
            waiting = {member for member, (lost, _) in faults.items() if lost >= limit}
            for member in sorted(waiting):
                lost, why = faults[member]
                self.cut |= {i: why for i in edges[member] if i not in self.cut}
                if math.isfinite(lost):
                    self._doubtful.append(member)

    def _conflicts(self) -> dict[int, Refusal]:
        """Edges that would bring two different fixed scales into one group; the largest tensors join first."""
        sets = UnionFind(len(self.fixed))
        pinned = {i: value for i, value in enumerate(self.fixed) if value is not None}
        cut: dict[int, Refusal] = {}
        for i in sorted(
            range(len(self.edges)), key=lambda i: (-self.edges[i].tensor.elements, self.edges[i].tensor.name)
        ):
            e = self.edges[i]
            if i in self.cut:
                continue
            a, b = sets.find(e.member), sets.find(e.target)
            both = [pinned[root] for root in (a, b) if root in pinned]
            if a != b and len(both) == 2 and abs(both[0] - both[1]) > 1e-9 * max(both):
                own = self.fixed[e.member] is not None
                why = f"{e.tensor.name} has a fixed scale" if own else f"{e.op.out.name} has another fixed scale"
                mine = [t.name for c in self.classes if sets.find(c.index) == a for t in c.tensors]
                cut[i] = Refusal(why, self._fix(mine, both[1]))
                continue
            sets.union(a, b)
            if both:
                pinned[sets.find(a)] = both[0]
        return cut

    def _fix(self, names: list[str], threshold: float) -> str:
        """Options that give those of the tensors another scale that have a fixed one."""
        ctx = self.ctx
        found = [n for n in names if n in ctx.options.fixed_scales]
        qmax = {n: (DType.INT16 if n in ctx.int16 else DType.INT8).qmax for n in found}
        return " ".join(f"--fixed-scale {n}={threshold / qmax[n]!r}" for n in found)

    def _edges_of_members(self) -> dict[int, list[int]]:
        """Numbers of the edges that would join a class with another, by member."""
        found: dict[int, list[int]] = {}
        for i, e in enumerate(self.edges):
            if e.member != e.target:
                found.setdefault(e.member, []).append(i)
        return found

    def _watching(self, members: Iterable[int]) -> list[set[int]]:
        """For each class the members whose loss hangs on its threshold: itself, and where a reader adds, the result."""
        found: list[set[int]] = [set() for _ in self.classes]
        for m in members:
            found[m].add(m)
            for _, op in self.classes[m].readers:
                if op is not None and op.kind in _ADDING and op.out in self.of:
                    found[self.of[op.out]].add(m)
        return found

    def differs(self, edge: ConcatEdge) -> bool:
        """Whether member and concat would have scales of their own, equalization left aside."""
        return self.own[edge.member] / max(edge.tensor.gain) != self.own[edge.target]

    def doubtful_readers(self) -> list[Op]:
        """Ops whose error must be measured: readers of classes that bits alone did not let join."""
        if self.ctx.options.share_scales != "auto":
            return []
        return [op for m in sorted(self._doubtful) for _, op in self.classes[m].readers if op is not None]

    def paid(self, least: float) -> list[int]:
        """Members that joined although a reader loses bits by it, `least` or more, dearest first."""
        lost: dict[int, float] = {}
        for i, e in enumerate(self.edges):
            if i not in self.cut and e.member != e.target and e.member not in self._joining:
                bits = self.loss(e.member)
                if bits >= least:
                    lost[e.member] = bits
        return sorted(lost, key=lambda m: (-lost[m], min(self.classes[m].names)))

    def refused(self) -> list[int]:
        """Members that did not join because their readers would lose bits, those that would lose least first."""
        lost = {e.member: self.cut[i].bits for i, e in enumerate(self.edges) if i in self.cut and self.cut[i].bits > 0}
        return sorted(lost, key=lambda m: (lost[m], min(self.classes[m].names)))

    def edges_of(self, members: Iterable[int]) -> list[ConcatEdge]:
        """The edges by which these classes would join others."""
        chosen = set(members)
        return [e for e in self.edges if e.member in chosen and e.member != e.target]

    def _join(self) -> None:
        """Groups along the edges that are left, and the threshold of each."""
        self._sets = UnionFind(len(self.classes))
        for i, edge in enumerate(self.edges):
            if i not in self.cut:
                self._sets.union(edge.member, edge.target)
        top: dict[int, float] = {}
        pinned: dict[int, float] = {}  # all equal in a group: see `_conflicts`
        for c in self.classes:
            root = self._sets.find(c.index)
            top[root] = max(top.get(root, 0.0), self.own[c.index])
            value = self.fixed[c.index]
            if value is not None:
                pinned[root] = value
        top |= pinned
        self.shared = [top[self._sets.find(c.index)] for c in self.classes]

    def _wanted_apart(self, edge: ConcatEdge) -> Refusal | None:
        """The reason where the user or a trial wants the edge's member to keep its own scale."""
        if edge.member == edge.target:
            return None
        pinned = [t.name for t in self.classes[edge.member].tensors if t.name in self.ctx.options.keep_scales]
        if pinned:
            return Refusal(f"--keep-scale {pinned[0]}", f"--share {pinned[0]} instead of --keep-scale {pinned[0]}")
        return self.ctx.apart.get((edge.op.name, edge.index))

    @cached_property
    def _joining(self) -> set[int]:
        """Members that the user or a trial wants to join, whatever they lose."""
        named = {c.index for c in self.classes if any(n in self.ctx.options.shared for n in c.names)}
        return named | {e.member for e in self.edges if (e.op.name, e.index) in self.ctx.together}

    def _fault(self, edge: ConcatEdge) -> tuple[float, Refusal] | None:
        """(how bad, why) where the edge's member must not take the shared threshold."""
        c, own, shared = self.classes[edge.member], self.own[edge.member], self.shared[edge.member]
        name = c.tensors[0].name
        if edge.member in self._joining:
            return None
        if own > shared * (1 + 1e-9) and c.readers:
            why = f"the group's scale is fixed and would clip {name}, which {c.reader_names[0]} reads too"
            return math.inf, Refusal(why, f"--share {edge.tensor.name}", 0.0, tuple(c.reader_names))
        if self.ctx.options.share_scales == "always":
            return None
        worst: tuple[float, Refusal] | None = None
        readers = []
        for tensor, op in c.readers:
            lost = self._lost(op, own, shared)
            limit = self.ctx.options.max_bits_lost
            if lost <= limit:
                continue
            reader = "the graph output" if op is None else op.name
            why = f"{reader} would read {name} {lost:.2f} bits coarser (limit {limit:g})"
            measured = self._measured(tensor, op, own, shared)
            if measured is not None:
                allowed = self._allowed_db(edge.tensor)
                if measured <= allowed:
                    continue
                why += f", its noise on calibration data would grow by {measured:.2f} dB (limit {allowed:.2f} dB)"
            readers.append(reader)
            if worst is None or lost > worst[0]:
                worst = lost, Refusal(why, f"--share {edge.tensor.name}", lost)
        return None if worst is None else (worst[0], replace(worst[1], readers=tuple(dict.fromkeys(readers))))

    def loss(self, member: int) -> float:
        """Bits that the reader loses most which reads the class at its group's threshold."""
        own, shared = self.own[member], self.shared[member]
        return max((self._lost(op, own, shared) for _, op in self.classes[member].readers), default=0.0)

    def _lost(self, op: Op | None, own: float, shared: float) -> float:
        """Bits that a reader loses; an op that adds noises loses less where its own result is as coarse."""
        if op is not None and op.kind in _ADDING and op.out in self.of:
            result = self.shared[self.of[op.out]]
            return max(0.0, math.log2(math.hypot(shared, result) / math.hypot(own, result)))
        return bits_lost(shared, own)

    def _measured(self, tensor: Tensor, op: Op | None, own: float, shared: float) -> float | None:
        if self.ctx.noise is None or op is None:
            return None
        known = self.ctx.ranges.get(op.outputs[0].name)
        return None if known is None else self.ctx.noise(tensor, op, own, shared, known.threshold)

    def _allowed_db(self, tensor: Tensor) -> float:
        saved = self.ctx.rescale_us(tensor.elements) if self.ctx.rescale_us is not None else 0.0
        return min(_MOST_DB, _BASE_DB + _DB_PER_US * saved)

    def find(self, index: int) -> int:
        """The class that stands for the group of class `index`."""
        return self._sets.find(index)


def _threshold(graph: Graph, c: ScaleClass, joined: set[Tensor], ctx: PassContext) -> float:
    """Largest threshold among the members that somebody reads; constants count with their largest value.

    A member that is only moved on is not counted: what a Slice or Split drops may saturate, since nobody sees it.
    """
    read = {t for t, _ in c.readers} | {t for t in c.tensors if t in joined}
    values = []
    for tensor in c.tensors:
        if tensor.const is not None:
            values.append(float(abs(tensor.const).max()) if tensor.const.size else 0.0)
        elif tensor.name in ctx.ranges and (tensor in read or not read or not _only_dropped(graph, tensor)):
            values.append(_nonzero_threshold(ctx, tensor))
    best = max(values, default=0.0)
    return best if best > 0 and math.isfinite(best) else 1.0


def _only_dropped(graph: Graph, tensor: Tensor) -> bool:
    """Whether every reader of the tensor moves a part of it on."""
    consumers = graph.consumers(tensor)
    return (
        bool(consumers)
        and tensor not in graph.outputs
        and all(op.kind in ("Slice", "Gather", "Split") for op in consumers)
    )


def _nonzero_threshold(ctx: PassContext, tensor: Tensor) -> float:
    """The tensor's threshold; nothing where calibration saw only zeros, so that it does not coarsen its group."""
    seen = ctx.ranges[tensor.name]
    return 0.0 if seen.low == seen.high == 0 else seen.threshold


def _fixed(scale_class: ScaleClass, ctx: PassContext) -> float | None:
    """Threshold that the user fixed for a member.

    Raises:
        ConfigError: two members are fixed at different scales.
    """
    scales = ctx.options.fixed_scales
    named = [t for t in scale_class.tensors if t.name in scales]
    if not named:
        return None
    first = named[0]
    for other in named[1:]:
        if scales[other.name] != scales[first.name]:
            raise ConfigError(
                f"--fixed-scale {other.name}={scales[other.name]:g}: its values are those of {first.name}, which is "
                f"fixed at {scales[first.name]:g}",
                hint=f"drop --fixed-scale {other.name}",
            )
    dtype = DType.INT16 if first.name in ctx.int16 else DType.INT8
    return scales[first.name] * dtype.qmax
