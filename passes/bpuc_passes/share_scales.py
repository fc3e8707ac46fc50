"""Decide which concat operands share the concat's scale, and give every quantized tensor its scale.

Structure first, numbers second: classes of tensors that data movement ties together, then the concats that would join
classes, then for each class whether joining costs anything. A class that only its concat reads joins for free: its
producer requantizes once, straight to the shared scale. A class with other readers gets log2(T / t) bits coarser there;
it joins when that is little, or when a measurement on calibration data says that those readers hardly notice. Else it
keeps its own scale and one Rescale. Last, members that joined at a price are taken apart again where that makes the
network's outputs better on calibration data by enough to be worth a Rescale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.errors import ConfigError
from bpuc.ir import Graph, Op, QuantParams, Tensor
from bpuc.passkit import Change, Group, Numerics, Pass, PassContext, Stage
from bpuc.passkit.context import Avoided
from bpuc.passkit.scales import ConcatEdge, ScaleClass, UnionFind, scale_classes
from bpuc.passkit.search import keep_gains

# one value of a type of 8 bits beside eight of another: worth telling
TELL_BITS = 3.0
_MOVED = "values only move between them"
# noise that readers may gain beyond the bits limit: a base, and more where the rescale is expensive (chosen by hand)
_BASE_DB, _DB_PER_US, _MOST_DB = 0.5, 0.02, 1.5
# members that lose a whole bit may be better apart; what each must gain at the outputs for its rescale (both chosen by
# hand: below a bit users expect sharing), and trials at most
_PAID_BITS, _LEAST_DB, _TRIALS = 1.0, 0.3, 8
# members within so much of the one that loses most leave their groups in one round, so that rounds are few
_ROUND_BITS = 0.5
# ops that add their operands' noise to the rounding of their own result
_ADDING = ("Add", "Sub", "Max", "Min")


@dataclass(frozen=True)
class ShareScales(Pass):
    """Set `quant` of every quantized activation; see the module's docstring for the rule."""

    name = "share-scales"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        decision = _decide(graph, ctx)
        if ctx.judge is not None and ctx.options.share_scales == "auto":
            paid = decision.paid()
            kept, gain = keep_gains(paid, partial(_score, graph, ctx, decision), _LEAST_DB, _TRIALS, independent=True)
            if kept:
                ctx.apart |= _apart(decision, kept, f"the outputs are {gain:.2f} dB better on calibration data")
                decision = _decide(graph, ctx)
        for c in decision.classes:
            threshold = decision.shared[c.index]
            for tensor in c.tensors:
                dtype = DType.INT16 if tensor.name in ctx.int16 else DType.INT8
                tensor.quant = QuantParams(dtype, (threshold / dtype.qmax,))
        for i, edge in enumerate(decision.edges):
            if i in decision.cut:
                ctx.cut_reasons[edge.op.name, edge.index] = decision.cut[i]
            elif edge.op.device == "BPU" and decision.differs(edge):
                ctx.avoided.append(Avoided(edge.op.name, edge.tensor.name))
                ctx.avoided_elements[edge.op.name, edge.tensor.name] = edge.tensor.elements
        return decision.record()


def _decide(graph: Graph, ctx: PassContext) -> Decision:
    """Cut by bits lost, then by the measured noise of the readers in doubt, where there are data."""
    decision = Decision.start(graph, ctx)
    decision.cut_edges()
    doubtful = decision.doubtful_readers()
    if doubtful and ctx.measure is None:
        ctx.warn(
            "no-measurement",
            "some concat operands keep their own scale by bits lost alone; with --data the error of their other "
            "readers would be measured",
        )
    elif ctx.measure is not None and doubtful:
        ctx.noise = ctx.measure(graph, doubtful)
        decision.cut = {}
        decision.cut_edges()
    return decision


def _score(graph: Graph, ctx: PassContext, decision: Decision, members: list[int]) -> np.ndarray:
    """SQNR of the outputs with these members apart."""
    assert ctx.judge is not None
    twin = ctx.twin()
    twin.apart |= _apart(decision, members, "a trial")
    return ctx.judge(graph, twin)


def _apart(decision: Decision, members: list[int], gained: str) -> dict[tuple[str, int], str]:
    found = {}
    for member in members:
        name = decision.classes[member].tensors[0].name
        for e in decision.edges:
            if e.member == member != e.target:
                found[e.op.name, e.index] = f"with {name} at its own scale {gained}"
    return found


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
    cut: dict[int, str] = field(default_factory=dict)
    # threshold of each class's group
    shared: list[float] = field(default_factory=list)
    # members whose loss, not a fixed scale, cut their edges
    _doubtful: list[int] = field(default_factory=list)
    _sets: UnionFind = field(default_factory=lambda: UnionFind(0))

    @classmethod
    def start(cls, graph: Graph, ctx: PassContext) -> Decision:
        """Classes and edges of the graph, all edges joined."""
        classes, of, edges = scale_classes(graph)
        fixed = [_fixed(c, ctx) for c in classes]
        joined = {e.tensor for e in edges}
        own = [_threshold(graph, c, joined, ctx) if f is None else f for c, f in zip(classes, fixed)]
        return cls(ctx, classes, of, edges, own, fixed)

    def cut_edges(self) -> None:
        """Cut edges until no class objects. Only cuts are made from round to round, so it ends."""
        if self.ctx.options.share_scales == "never":
            why = "--share-scales never: every tensor keeps its own scale"
            self.cut = {i: why for i, e in enumerate(self.edges) if e.member != e.target}
            self._join()
            return
        self.cut = _conflicts(self.edges, self.fixed)
        self.cut |= {i: w for i, e in enumerate(self.edges) for w in [self.ctx.apart.get((e.op.name, e.index))] if w}
        edges = self._edges_of_members()
        watching = self._watching(edges)
        faults: dict[int, tuple[float, str]] = {}
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

    def paid(self) -> list[int]:
        """Members that joined although a reader loses bits by it, dearest first."""
        lost: dict[int, float] = {}
        for i, e in enumerate(self.edges):
            if i not in self.cut and e.member != e.target:
                own, shared = self.own[e.member], self.shared[e.member]
                bits = max((self._lost(op, own, shared) for _, op in self.classes[e.member].readers), default=0.0)
                if bits >= _PAID_BITS:
                    lost[e.member] = bits
        return sorted(lost, key=lambda m: (-lost[m], min(self.classes[m].names)))

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

    def _fault(self, edge: ConcatEdge) -> tuple[float, str] | None:
        """(how bad, why) where the edge's member must not take the shared threshold."""
        c, own, shared = self.classes[edge.member], self.own[edge.member], self.shared[edge.member]
        name = c.tensors[0].name
        if own > shared * (1 + 1e-9) and c.readers:
            return math.inf, f"the group's scale is fixed and would clip {name}, which {c.reader_names[0]} reads too"
        if self.ctx.options.share_scales == "always":
            return None
        worst: tuple[float, str] | None = None
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
            worst = max(worst, (lost, why)) if worst is not None else (lost, why)
        return worst

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

    def record(self) -> list[Change]:
        """Groups of the report, warnings for members that lose many levels, and the changes."""
        members: dict[int, list[ScaleClass]] = {}
        concats: dict[int, dict[str, None]] = {}
        for c in self.classes:
            members.setdefault(self._sets.find(c.index), []).append(c)
        for i, e in enumerate(self.edges):
            if i not in self.cut:
                concats.setdefault(self._sets.find(e.member), {})[e.op.name] = None
        changes = []
        for root, group in members.items():
            names = [n for c in group for n in c.names]
            if len(names) < 2:
                continue
            reason = f"joined by Concat {', '.join(concats[root])}" if root in concats else _MOVED
            shared = self.shared[root]
            lost = {t.name: round(bits_lost(shared, self._seen(t)), 4) for c in group for t in c.tensors}
            self.ctx.groups.append(Group(len(self.ctx.groups), names, shared, reason, lost))
            changes.append(Change(f"{len(names)} tensors share threshold {shared:.6g}", names[0], reason))
            if root in concats:
                self._tell_coarse(group, shared)
        return changes

    def _seen(self, tensor: Tensor) -> float:
        known = self.ctx.ranges.get(tensor.name)
        return known.threshold if known is not None and known.threshold > 0 else self.own[self.of[tensor]]

    def _tell_coarse(self, group: list[ScaleClass], shared: float) -> None:
        for c in group:
            ratio = shared / self.own[c.index]
            if math.log2(ratio) >= TELL_BITS:
                name = c.tensors[0].name
                self.ctx.warn(
                    "coarse-member",
                    f"{name} has a range {ratio:.3g} times smaller than its concat group: the ratio costs it "
                    f"{math.log2(ratio):.1f} bits of precision ({127 / ratio:.0f} of 127 levels are left)",
                    name,
                )


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


def _conflicts(edges: list[ConcatEdge], fixed: list[float | None]) -> dict[int, str]:
    """Edges that would bring two different fixed scales into one group; the largest tensors join first."""
    sets = UnionFind(len(fixed))
    pinned = {i: value for i, value in enumerate(fixed) if value is not None}
    cut: dict[int, str] = {}
    for i in sorted(range(len(edges)), key=lambda i: (-edges[i].tensor.elements, edges[i].tensor.name)):
        e = edges[i]
        a, b = sets.find(e.member), sets.find(e.target)
        both = [pinned[root] for root in (a, b) if root in pinned]
        if a != b and len(both) == 2 and abs(both[0] - both[1]) > 1e-9 * max(both):
            own = fixed[e.member] is not None
            cut[i] = f"{e.tensor.name} has a fixed scale" if own else f"{e.op.out.name} has another fixed scale"
            continue
        sets.union(a, b)
        if both:
            pinned[sets.find(a)] = both[0]
    return cut
