"""Wiring rules that hold for every graph, whatever its stage."""

from __future__ import annotations

from bpuc.ir.graph import Graph


class VerifyError(Exception):
    """A pass broke the graph: a bug of bpuc or of a third-party pass, never the user's fault."""


def verify_wiring(graph: Graph, after: str = "") -> None:
    """Acyclic, names unique, operands defined, producer and use lists in step with the networkx edges.

    Raises:
        VerifyError: naming the op or tensor, and the pass it was found after.
    """

    def fail(text: str) -> None:
        raise VerifyError(f"{text}{f' (after pass {after})' if after else ''}")

    if not graph.is_acyclic():
        fail("the graph has a cycle")
    inputs = set(graph.inputs)
    seen: dict[str, object] = {}
    for tensor in graph.tensors():
        if seen.setdefault(tensor.name, tensor) is not tensor:
            fail(f"two tensors are called {tensor.name}")
        producer = graph.producer(tensor)
        if tensor.const is not None:
            if tensor.const.shape != tensor.shape:
                fail(f"constant {tensor.name} has shape {tensor.const.shape}, declared {tensor.shape}")
            if producer is not None:
                fail(f"constant {tensor.name} is produced by {producer.name}")
        elif producer is None and tensor not in inputs:
            fail(f"{tensor.name} is neither produced, constant nor an input")
    names: set[str] = set()
    edges = 0
    for op in graph:
        if op.name in names:
            fail(f"two ops are called {op.name}")
        names.add(op.name)
        for index, operand in enumerate(op.inputs):
            if operand is None:
                continue
            if (op, index) not in graph.uses(operand):
                fail(f"{op.name}: operand {operand.name} does not know its reader")
            edges += graph.producer(operand) is not None
    if edges != graph.view().number_of_edges():
        fail(f"{graph.view().number_of_edges()} edges in the networkx graph, {edges} in the ops")
