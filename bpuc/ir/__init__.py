"""The intermediate representation: typed ops and tensors, wired by a networkx graph; its text form and its rules."""

from bpuc.ir.graph import FIRST, Graph
from bpuc.ir.types import Attrs, Op, QuantParams, Tensor

__all__ = ["FIRST", "Attrs", "Graph", "Op", "QuantParams", "Tensor"]
