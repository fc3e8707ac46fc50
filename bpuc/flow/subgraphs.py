"""subgraph_config: a type for all nodes between some tensors or nodes and others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bpuc.base.errors import ConfigError, name_hint
from bpuc.config.config import Config, Subgraph
from bpuc.config.qconfig import QuantRule
from bpuc.ir import Graph, Op


def rules_of_subgraphs(graph: Graph, config: Config | None) -> list[QuantRule]:
    """A rule for each node of each subgraph.

    Raises:
        ConfigError: a name is no tensor and no node, or no way leads from the inputs to the outputs.
    """
    where = "" if config is None else str(config.path)
    return [rule for s in (config.subgraphs if config else ()) for rule in _rules(graph, s, where)]


def _rules(graph: Graph, subgraph: Subgraph, where: str) -> list[QuantRule]:
    def after(op: Op) -> list[Op]:
        return [reader for t in op.outputs for reader in graph.consumers(t)]

    def before(op: Op) -> list[Op]:
        return [p for t in op.inputs if t is not None and (p := graph.producer(t)) is not None]

    starts = [op for n in subgraph.inputs for op in _named(graph, n, subgraph, where, readers=True)]
    ends = [op for n in subgraph.outputs for op in _named(graph, n, subgraph, where, readers=False)]
    below, above = _reached(starts, after), _reached(ends, before)
    found = [op for op in graph if op in below and op in above]
    if not found:
        raise ConfigError(f"subgraph {subgraph.name}: no way leads from its inputs to its outputs", where=where)
    source = f"subgraph {subgraph.name}"
    return [QuantRule(op.name, input=subgraph.dtype, output=subgraph.dtype, source=source) for op in found]


def _named(graph: Graph, name: str, subgraph: Subgraph, where: str, readers: bool) -> list[Op]:
    """Nodes of that name, else those that read (or give) a tensor of that name."""
    nodes = [op for op in graph if name in (op.name, *op.origin)]
    if nodes:
        return nodes
    tensor = graph.find(name)
    if tensor is None:
        known = sorted({t.name for t in graph.tensors()} | {op.name for op in graph})
        raise ConfigError(
            f"subgraph {subgraph.name}: {name} is no tensor and no node", where=where, hint=name_hint(name, known)
        )
    producer = graph.producer(tensor)
    return graph.consumers(tensor) if readers else [] if producer is None else [producer]


def _reached(first: Iterable[Op], step: Callable[[Op], list[Op]]) -> set[Op]:
    found: set[Op] = set()
    todo = list(first)
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            todo += step(op)
    return found
