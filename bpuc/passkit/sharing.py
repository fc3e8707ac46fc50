"""Who joins whom at concats: classes of tensors, what joining costs their readers, and the edges that are cut."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, Tensor
from bpuc.passkit.context import PassContext, Refusal
from bpuc.passkit.scales import ConcatEdge, ScaleClass, UnionFind, scale_classes
from bpuc.passkit.thresholds import fixed_threshold, own_threshold

# what readers may lose where the user sets no limit, and no measurement says otherwise
USUAL_BITS = 1.5
# members within so much of the one that loses most leave their groups in one round, so that rounds are few
_ROUND_BITS = 0.5
# noise that readers may gain beyond the bits limit: a base, and more where the rescale is expensive (chosen by hand)
_BASE_DB, _DB_PER_US, _MOST_DB = 0.5, 0.02, 1.5
# ops that add their operands' noise to the rounding of their own result
_ADDING = ("Add", "Sub", "Max", "Min")


def bits_lost(shared: float, own: float) -> float:
    """How many bits coarser a tensor of threshold `own` gets at the shared threshold: log2(T / t), at least 0."""
    return max(0.0, math.log2(shared / own))


@dataclass(frozen=True)
class Fault:
    """A member that must not share: bits that its worst reader loses (infinite where it would be clipped), the reason,
    numbers of the edges to cut, and the classes that are read too coarsely."""

    lost: float
    why: Refusal
    edges: list[int]
    classes: list[int]


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
    # classes whose readers' loss, not a fixed scale, cut edges
    _doubtful: set[int] = field(default_factory=set)
    # largest threshold of the class and of all that it is joined into, since the last cut
    _reached: dict[int, float] = field(default_factory=dict)
    _sets: UnionFind = field(default_factory=lambda: UnionFind(0))

    @classmethod
    def start(cls, graph: Graph, ctx: PassContext) -> Decision:
        """Classes and edges of the graph, all edges joined."""
        classes, of, edges = scale_classes(graph, ctx.target)
        fixed = [fixed_threshold(c, ctx) for c in classes]
        joined = {e.tensor for e in edges}
        own = [own_threshold(graph, c, joined, ctx) if f is None else f for c, f in zip(classes, fixed)]
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
        edges = self._by_member
        watching = self._watching()
        faults: dict[int, Fault] = {}
        waiting, before = set(edges), list[float]()
        while True:
            self._join()
            for i, threshold in enumerate(before):
                if threshold != self.shared[i]:
                    waiting |= watching[i]
            before = self.shared
            for member in sorted(waiting):
                faults.pop(member, None)
                fault = self._fault(member)
                if fault is not None:
                    faults[member] = fault
            if not faults:
                return
            # the worst ones first: their leaving may mend the others
            limit = max(fault.lost for fault in faults.values()) - _ROUND_BITS
            waiting = {member for member, fault in faults.items() if fault.lost >= limit}
            for member in sorted(waiting):
                fault = faults[member]
                self.cut |= dict.fromkeys(fault.edges, fault.why)
                if math.isfinite(fault.lost):
                    self._doubtful |= set(fault.classes)

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

    @cached_property
    def _by_member(self) -> dict[int, list[int]]:
        """Numbers of the edges that would join a class with another, by member."""
        found: dict[int, list[int]] = {}
        for i, e in enumerate(self.edges):
            if e.member != e.target:
                found.setdefault(e.member, []).append(i)
        return found

    def _watching(self) -> list[set[int]]:
        """For each class the members whose loss hangs on its threshold: itself, and where a reader adds, the result."""
        found: list[set[int]] = [set() for _ in self.classes]
        for m, edges in self._by_member.items():
            found[m].add(m)
            behind = [u for i in edges for u in self._readable(self.edges[i].target)] if len(edges) > 1 else []
            for _, op in (r for u in (m, *behind) for r in self.classes[u].readers):
                if op is not None and op.kind in _ADDING and op.out in self.of:
                    found[self.of[op.out]].add(m)
        return found

    def differs(self, edge: ConcatEdge) -> bool:
        """Whether member and concat would have scales of their own, equalization left aside."""
        return self.own[edge.member] / max(edge.tensor.gain) != self.own[edge.target]

    def doubtful_readers(self) -> list[Op]:
        """Ops whose error must be measured: readers of classes that bits alone did not let join."""
        if self.ctx.options.share_scales != "auto" or self.ctx.options.max_bits_lost is not None:
            return []
        return [op for i in sorted(self._doubtful) for _, op in self.classes[i].readers if op is not None]

    def paid(self, least: float) -> list[int]:
        """Members that joined although a reader loses bits by it, `least` or more, dearest first."""
        lost: dict[int, float] = {}
        for i, e in enumerate(self.edges):
            if i not in self.cut and e.member != e.target and e.member not in self._joining:
                bits = self.loss(e)
                if bits >= least:
                    lost[e.member] = max(bits, lost.get(e.member, 0.0))
        return sorted(lost, key=lambda m: (-lost[m], min(self.classes[m].names)))

    def refused(self) -> list[int]:
        """Members that did not join because readers would lose bits, those that would lose least first.

        None where the user set the limit.
        """
        if self.ctx.options.max_bits_lost is not None:
            return []
        lost = {e.member: self.cut[i].bits for i, e in enumerate(self.edges) if i in self.cut and self.cut[i].bits > 0}
        return sorted(lost, key=lambda m: (lost[m], min(self.classes[m].names)))

    def cut_from(self, members: Iterable[int]) -> list[ConcatEdge]:
        """The edges by which these classes would join others, and do not."""
        return [self.edges[i] for m in members for i in self._by_member[m] if i in self.cut]

    def widest_of(self, members: Iterable[int]) -> list[ConcatEdge]:
        """Of the edges by which each of these classes joins others, those to the largest threshold."""
        return [self.edges[i] for m in members for i in self._widest(m)]

    def _widest(self, member: int) -> list[int]:
        """Numbers of the edges that join a class to the largest threshold."""
        live = {i: self._reach(self.edges[i].target) for i in self._by_member[member] if i not in self.cut}
        top = max(live.values(), default=0.0) * (1 - 1e-9)
        return [i for i, reach in live.items() if reach >= top]

    def _reach(self, index: int) -> float:
        """The largest threshold of a class and of all that it is joined into, concat after concat."""
        waiting = [index]
        while waiting:
            i = waiting[-1]
            behind = [self.edges[e].target for e in self._by_member.get(i, ()) if e not in self.cut]
            open_ = [t for t in behind if t not in self._reached]
            if open_:
                waiting += open_
                continue
            self._reached[i] = max([self.own[i], *(self._reached[t] for t in behind)])
            waiting.pop()
        return self._reached[index]

    def _readable(self, index: int) -> list[int]:
        """The class, where something computes with it, else the nearest ones that it is joined into."""
        found: dict[int, None] = {}
        waiting, seen = [index], {index}
        while waiting:
            i = waiting.pop()
            if self.classes[i].readers:
                found[i] = None
                continue
            behind = {self.edges[e].target for e in self._by_member.get(i, ()) if e not in self.cut} - seen
            seen |= behind
            waiting += sorted(behind)
        return sorted(found)

    def _dragged(self, member: int) -> list[int]:
        """Classes with smaller thresholds that a class ties to the largest one of those it is joined to."""
        live = [i for i in self._by_member[member] if i not in self.cut]
        if len(live) < 2:
            return []
        widest = set(self._widest(member))
        found = (u for i in live if i not in widest for u in self._readable(self.edges[i].target))
        return list(dict.fromkeys(found))

    def _join(self) -> None:
        """Groups along the edges that are left, and the threshold of each."""
        self._reached = {}
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

    def _fault(self, member: int) -> Fault | None:
        """Why a member must not take the shared threshold: what its readers lose, or those it drags along; or None."""
        live = [i for i in self._by_member[member] if i not in self.cut]
        if not live or member in self._joining:
            return None
        c, own, shared = self.classes[member], self.own[member], self.shared[member]
        edge = self.edges[live[-1]]
        if own > shared * (1 + 1e-9) and c.readers:
            why = f"the group's scale is fixed and would clip {c.tensors[0].name}, which {c.reader_names[0]} reads too"
            return Fault(math.inf, Refusal(why, f"--share {edge.tensor.name}", 0.0, tuple(c.reader_names)), live, [])
        if self.ctx.options.share_scales == "always":
            return None
        # where there are trials, those decide on what is only dragged along
        for classes in ([member], [] if self.ctx.judged else self._dragged(member)):
            found = self._objection(edge.tensor, classes)
            if found is not None:
                return Fault(found.bits, found, self._widest(member), classes)
        return None

    def _objection(self, tensor: Tensor, classes: list[int]) -> Refusal | None:
        """What the readers of these classes say against the shared threshold that `tensor` brings them."""
        asked, allowed = self.ctx.options.max_bits_lost, self._allowed_db(tensor)
        limit = USUAL_BITS if asked is None else asked
        worst, text, readers = 0.0, "", dict[str, None]()
        for c in map(self.classes.__getitem__, classes):
            own, shared, name = self.own[c.index], self.shared[c.index], c.tensors[0].name
            for read, op in c.readers:
                lost = self._lost(op, own, shared)
                measured = self._measured(read, op, own, shared) if lost > limit and asked is None else None
                if lost <= limit or (measured is not None and measured <= allowed):
                    continue
                reader = "the graph output" if op is None else op.name
                readers[reader] = None
                if lost > worst:
                    worst, text = lost, f"{reader} would read {name} {lost:.2f} bits coarser (limit {limit:g})"
                    if measured is not None:
                        grown = f"its noise on calibration data would grow by {measured:.2f} dB"
                        text += f", {grown} (limit {allowed:.2f} dB)"
        return Refusal(text, f"--share {tensor.name}", worst, tuple(readers)) if readers else None

    def loss(self, edge: ConcatEdge) -> float:
        """Bits that the reader loses most to whom the edge matters; each reads its class at its group's threshold."""
        classes = self._behind(edge)
        lost = (self._lost(op, self.own[i], self.shared[i]) for i in classes for _, op in self.classes[i].readers)
        return max(lost, default=0.0)

    def readers_of(self, edge: ConcatEdge) -> list[str]:
        """Who reads the member, or what an edge to the largest threshold drags along."""
        return list(dict.fromkeys(n for i in self._behind(edge) for n in self.classes[i].reader_names))

    def _behind(self, edge: ConcatEdge) -> list[int]:
        wide = edge in self.widest_of([edge.member])
        return [edge.member, *(self._dragged(edge.member) if wide else ())]

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
