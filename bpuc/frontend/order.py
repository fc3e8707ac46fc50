"""The nodes of an ONNX graph: unique names, topological order, and only those that an output needs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto, NodeProto

from bpuc.base.errors import ModelError


def name_nodes(graph: GraphProto) -> list[str]:
    """A unique name for each node, in file order: its own, or "<OpType>_<first output>" where it has none."""
    taken: set[str] = set()
    names = []
    for node in graph.node:
        name = node.name or f"{node.op_type}_{next((o for o in node.output if o), '')}"
        unique, n = name, 1
        while unique in taken:
            unique, n = f"{name}_{n}", n + 1
        taken.add(unique)
        names.append(unique)
    return names


def captures(node: NodeProto) -> list[str]:
    """Names that the node's subgraphs read from outside, in order of first use."""
    found: dict[str, None] = {}
    for graph in subgraphs(node):
        found |= dict.fromkeys(_free_names(graph))
    return list(found)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def _free_names(graph: GraphProto) -> Iterator[str]:
    known = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    known |= {o for node in graph.node for o in node.output}
    for node in graph.node:
        for name in (*node.input, *captures(node)):
            if name and name not in known:
                yield name
    for output in graph.output:
        if output.name not in known:
            yield output.name


def ordered(graph: GraphProto, names: list[str], given: Iterable[str]) -> list[int]:
    """Indices of the nodes that outputs need, each after those that it reads; file order where that leaves a choice.

    Args:
        graph: the ONNX graph.
        names: of its nodes.
        given: graph inputs and initializers.

    Raises:
        ModelError: a tensor has two producers or none, or nodes form a cycle.
    """
    known = set(given)
    producer: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for output in node.output:
            if not output:
                continue
            if output in producer or output in known:
                other = f"node '{names[producer[output]]}'" if output in producer else "an input or initializer"
                raise ModelError(
                    f"tensor '{output}' is given twice: by {other} and by node '{names[index]}'",
                    where=f"node '{names[index]}'",
                    want="every tensor name given once",
                )
            producer[output] = index
    reads: list[list[int]] = []
    for index, node in enumerate(graph.node):
        sources = set()
        for operand in (*node.input, *captures(node)):
            if operand in producer:
                sources.add(producer[operand])
            elif operand and operand not in known:
                raise ModelError(
                    f"node '{names[index]}' ({node.op_type}) reads tensor '{operand}', which nothing gives",
                    where=f"node '{names[index]}'",
                    want="an initializer, a graph input or a node with that output",
                )
        reads.append(sorted(sources))
    for output in graph.output:
        if output.name not in producer and output.name not in known:
            raise ModelError(f"graph output '{output.name}' is given by no node", where=f"output '{output.name}'")
    return _sorted(_needed(graph, producer, reads), reads, names)


def _needed(graph: GraphProto, producer: dict[str, int], reads: list[list[int]]) -> set[int]:
    stack = [producer[o.name] for o in graph.output if o.name in producer]
    needed: set[int] = set()
    while stack:
        index = stack.pop()
        if index not in needed:
            needed.add(index)
            stack.extend(reads[index])
    return needed


def _sorted(needed: set[int], reads: list[list[int]], names: list[str]) -> list[int]:
    """Kahn's algorithm; the ready node that comes first in the file goes first."""
    waiting = {index: len(reads[index]) for index in needed}
    readers: dict[int, list[int]] = {}
    for index in needed:
        for source in reads[index]:
            readers.setdefault(source, []).append(index)
    ready = [index for index, n in waiting.items() if n == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers.get(index, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    if len(order) < len(needed):
        stuck = [names[index] for index in sorted(needed - set(order))]
        shown = ", ".join(f"'{name}'" for name in stuck[:4])
        raise ModelError(f"the nodes {shown} form a cycle or hang on one", where=shown, want="a graph without cycles")
    return order
