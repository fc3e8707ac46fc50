"""The graph: ops as nodes of one networkx MultiDiGraph, edges from producer to consumer, kept right by methods.

An edge's key is (output index, input index), its data the Tensor. Constants and graph inputs have no producer.
Only this package imports networkx; algorithms elsewhere use the methods here or a frozen `view`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import networkx as nx

from bpuc.ir.types import Attrs, Op, Tensor

FIRST = -1  # a place in the order of insertion: before all ops of the model


class Graph:
    """Ops, their wiring, and the named inputs and outputs of the network."""

    def __init__(self, name: str = "graph"):
        self.name = name
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        # the names that the model gives its ports, also where a converted tensor carries the value
        self.input_names: list[str] = []
        self.output_names: list[str] = []
        self._nx: Any = nx.MultiDiGraph()
        self._order: list[Op] | None = None  # topological, until the next change
        self._producer: dict[Tensor, tuple[Op, int]] = {}
        self._uses: dict[Tensor, list[tuple[Op, int]]] = {}
        self._names: set[str] = set()
        self._serial = 0

    # -- reading
    def __iter__(self) -> Iterator[Op]:
        """Ops in topological order; among ready ops the order of insertion decides."""
        if self._order is None:
            self._order = list(nx.lexicographical_topological_sort(self._nx, key=lambda op: op.serial))
        return iter(self._order)

    def __len__(self) -> int:
        return int(self._nx.number_of_nodes())

    def __contains__(self, op: Op) -> bool:
        return op in self._nx

    def is_acyclic(self) -> bool:
        return bool(nx.is_directed_acyclic_graph(self._nx))

    def producer(self, tensor: Tensor) -> Op | None:
        """The op that gives the tensor; None for constants and graph inputs."""
        entry = self._producer.get(tensor)
        return entry[0] if entry else None

    def uses(self, tensor: Tensor) -> list[tuple[Op, int]]:
        """(op, input index) of every reader, graph outputs not included."""
        return list(self._uses.get(tensor, ()))

    def consumers(self, tensor: Tensor) -> list[Op]:
        """Reading ops, each once, in order of first use."""
        return list(dict.fromkeys(op for op, _ in self._uses.get(tensor, ())))

    def sole_consumer(self, tensor: Tensor) -> Op | None:
        """The op that alone reads the tensor, once, when it is no graph output."""
        uses = self._uses.get(tensor, ())
        return uses[0][0] if len(uses) == 1 and tensor not in self.outputs else None

    def tensors(self) -> list[Tensor]:
        """Every tensor once: inputs, then operands and results in topological order."""
        found: dict[Tensor, None] = dict.fromkeys(self.inputs)
        for op in self:
            found |= dict.fromkeys(t for t in op.inputs if t is not None)
            found |= dict.fromkeys(op.outputs)
        found |= dict.fromkeys(self.outputs)
        return list(found)

    def find(self, name: str) -> Tensor | None:
        """The tensor of that name."""
        return next((t for t in self.tensors() if t.name == name), None)

    def view(self) -> Any:
        """A read-only networkx view for algorithms."""
        return nx.freeze(self._nx.copy(as_view=True))

    def unique(self, name: str) -> str:
        """`name`, or with the least number appended that makes it new in this graph; it is taken then."""
        new, n = name, 1
        while new in self._names:
            new, n = f"{name}_{n}", n + 1
        self._names.add(new)
        return new

    # -- changing
    @property
    def _edited(self) -> Any:
        """The networkx graph, about to change."""
        self._order = None
        return self._nx

    def add(
        self,
        kind: str,
        attrs: Attrs,
        inputs: Iterable[Tensor | None],
        outputs: Iterable[Tensor],
        *,
        name: str,
        origin: tuple[str, ...] = (),
        onnx_type: str = "",
        like: Op | None = None,
        serial: int | None = None,
    ) -> Op:
        """Add an op; `like` lends device, pin and reason, and its place in the order of insertion.

        Args:
            serial: another place in the order of insertion: that of an op, or `FIRST`.

        Raises:
            ValueError: an output is already produced by another op.
        """
        outputs = tuple(outputs)
        for tensor in outputs:
            if tensor in self._producer:
                raise ValueError(f"{tensor.name} is already produced by {self._producer[tensor][0].name}")
        op = Op(name, kind, attrs, onnx_type or kind, origin)
        if like is not None:
            op.device, op.reason, op.pin = like.device, like.reason, like.pin
        if serial is None:
            serial = like.serial if like is not None else self._serial
        op.serial, self._serial = serial, self._serial + 1
        self._names.add(name)
        self._edited.add_node(op)
        for index, tensor in enumerate(outputs):
            op._outputs.append(tensor)
            self._names.add(tensor.name)
            self._producer[tensor] = (op, index)
            for user, at in self._uses.get(tensor, ()):
                self._edited.add_edge(op, user, key=(index, at), tensor=tensor)
        for index, operand in enumerate(inputs):
            op._inputs.append(None)
            self.set_input(op, index, operand)
        return op

    def set_input(self, op: Op, index: int, tensor: Tensor | None) -> None:
        """Let operand `index` be `tensor` (appending where index is the number of operands)."""
        while len(op._inputs) <= index:
            op._inputs.append(None)
        old = op._inputs[index]
        if old is not None:
            self._uses[old].remove((op, index))
            if old in self._producer:
                producer, out = self._producer[old]
                self._edited.remove_edge(producer, op, key=(out, index))
        op._inputs[index] = tensor
        if tensor is not None:
            self._uses.setdefault(tensor, []).append((op, index))
            self._names.add(tensor.name)
            if tensor in self._producer:
                producer, out = self._producer[tensor]
                self._edited.add_edge(producer, op, key=(out, index), tensor=tensor)

    def replace_uses(self, old: Tensor, new: Tensor, *, outputs: bool = True) -> None:
        """Let every reader of `old` read `new`, and (by default) graph outputs too."""
        for op, index in self.uses(old):
            self.set_input(op, index, new)
        if outputs:
            self.outputs = [new if t is old else t for t in self.outputs]

    def erase(self, op: Op) -> None:
        """Remove an op whose outputs nobody reads.

        Raises:
            ValueError: an output is still read.
        """
        for tensor in op._outputs:
            if self._uses.get(tensor) or tensor in self.outputs:
                raise ValueError(f"{op.name}: output {tensor.name} is still read")
        for index in range(len(op._inputs)):
            self.set_input(op, index, None)
        for tensor in op._outputs:
            del self._producer[tensor]
        self._edited.remove_node(op)

    def rebind(self, op: Op, index: int, tensor: Tensor) -> None:
        """Let output `index` of `op` be `tensor`, which nobody produces; the old one loses its producer."""
        if tensor in self._producer:
            raise ValueError(f"{tensor.name} is already produced by {self._producer[tensor][0].name}")
        old = op._outputs[index]
        for user, at in self._uses.get(old, ()):
            self._edited.remove_edge(op, user, key=(index, at))
        del self._producer[old]
        op._outputs[index] = tensor
        self._names.add(tensor.name)
        self._producer[tensor] = (op, index)
        for user, at in self._uses.get(tensor, ()):
            self._edited.add_edge(op, user, key=(index, at), tensor=tensor)

    def absorb(self, op: Op, tail: Op) -> None:
        """Let `op` give what `tail` gave; `tail`, the only reader of op's one result, is removed.

        The tensor keeps its name and readers; `op` takes over the ONNX nodes of `tail`.
        """
        out = tail.out
        for index in range(len(tail._inputs)):
            self.set_input(tail, index, None)
        del self._producer[out]
        self._edited.remove_node(tail)
        self.rebind(op, 0, out)
        op.origin += tuple(n for n in tail.origin if n not in op.origin)

    def new_tensor(self, like: Tensor, name: str) -> Tensor:
        """A tensor of the same shape and type under a unique name, without a producer, constant or scale."""
        return replace(like, name=self.unique(name), const=None, quant=None, observer="")

    def prune(self) -> list[Op]:
        """Remove ops whose results nobody needs; returns them."""
        removed = []
        for op in reversed(list(self)):
            if not any(self._uses.get(t) or t in self.outputs for t in op._outputs):
                self.erase(op)
                removed.append(op)
        return removed

    def copy(self) -> Graph:
        """An independent graph; constants are shared."""
        new = Graph(self.name)
        twin = {t: replace(t) for t in self.tensors()}
        new.inputs = [twin[t] for t in self.inputs]
        new.outputs = [twin[t] for t in self.outputs]
        new.input_names, new.output_names = list(self.input_names), list(self.output_names)
        new._names = set(self._names)
        for op in self:
            inputs = [None if t is None else twin[t] for t in op.inputs]
            made = new.add(
                op.kind,
                op.attrs,
                inputs,
                [twin[t] for t in op.outputs],
                name=op.name,
                origin=op.origin,
                onnx_type=op.onnx_type,
                like=op,
            )
            made.segment = op.segment
        new._serial = self._serial
        return new
