"""What it costs to have ops on their other device, by the costs that the minimum cut counts (`bpuc.passkit.placement`).

A row holds microseconds, all estimates: what the ops cost where they are and what they would cost on the other device,
each with the conversions at their edges and the BPU calls that hang on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from bpuc.ir import Graph
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.passkit.division import Division
from bpuc.passkit.opcost import OpCost
from bpuc.passkit.partition import bill
from bpuc.passkit.placement import UNITS, problem_of

Row = dict[str, object]


@dataclass(frozen=True)
class Alternatives:
    """The division of a placed graph with the price of every op; ops are found by name.

    formless: numbers of the ops that have no integer form, and so no price on the BPU.
    """

    division: Division
    names: Sequence[str]
    formless: frozenset[int]

    @cached_property
    def number(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def of(self, names: Iterable[str]) -> Row | None:
        """The row of ops of one device that change it together; None where none of them is known or one has no price.

        `device` is the other device, `here_us` and `there_us` the sums, and `more_us` what moving adds to each part.
        """
        ops = [self.number[n] for n in names if n in self.number]
        if not ops or not self.formless.isdisjoint(ops):
            return None
        now, other = self.division, self.division.flipped(ops)
        here, more = bill(now.problem, now.on_bpu, ops), now.more(ops)
        # of the calls those that one side has more than the other
        base = here.total - here.calls + max(-more.calls, 0)
        parts = {
            "compute": more.cpu + more.bpu,
            "quantize": more.quantize,
            "dequantize": more.dequantize,
            "calls": more.calls,
        }
        return {
            "device": "BPU" if other.on_bpu[ops[0]] else "CPU",
            "here_us": base / UNITS,
            "there_us": (base + more.total) / UNITS,
            "more_us": {name: units / UNITS for name, units in parts.items()},
        }


def alternatives(graph: Graph, cost: OpCost) -> Alternatives:
    """Price every op of a placed graph on both devices."""
    ops = list(graph)
    formless = frozenset(
        i for i, op in enumerate(ops) if op.device == "CPU" and get(op.kind).behaviour is Behaviour.FLOAT
    )
    priced = {op for i, op in enumerate(ops) if i not in formless}
    problem = problem_of(graph, ops, priced, cost)
    return Alternatives(Division(problem, [op.device == "BPU" for op in ops]), [op.name for op in ops], formless)
