"""The contract of a pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, ClassVar

from bpuc.ir import Graph

if TYPE_CHECKING:
    from bpuc.passkit.context import PassContext


class Numerics(str, Enum):
    """What a pass does to results."""

    EXACT = "exact"  # float: equal up to rounding of the folded constants; integers: equal
    BOUNDED = "bounded"  # may differ within a stated bound
    DECIDES = "decides"  # chooses scales, types or devices: results change by design


class Stage(IntEnum):
    """How far a graph has come; each stage has rules in `bpuc.ir.verify`."""

    IMPORTED = 0
    PLACED = 1
    QUANTIZED = 2
    LEGAL = 3


@dataclass(frozen=True)
class Change:
    """One thing that a pass did: what, at which node or tensor, and why."""

    what: str
    where: str
    why: str = ""


@dataclass(frozen=True)
class Pass(ABC):
    """A rewrite of the graph, in place, through the methods of `Graph`.

    A subclass is a frozen dataclass whose fields are its options. `needs` is the stage that the graph must have
    reached, `gives` the stage after it.
    """

    name: ClassVar[str]
    numerics: ClassVar[Numerics]
    needs: ClassVar[Stage] = Stage.IMPORTED
    gives: ClassVar[Stage | None] = None
    # whether its changes are corrections for accuracy, which the report lists with what each gained
    refines: ClassVar[bool] = False

    @abstractmethod
    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        """Rewrite `graph`; returns what was changed, an empty list where nothing was."""
