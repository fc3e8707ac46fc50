"""Rules of the qconfig on a graph: which ops and tensors each one names, found once on the model as it was read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from bpuc.base.errors import ConfigError, name_hint
from bpuc.config.qconfig import QuantRule
from bpuc.ir import Graph, Op, Tensor

_TENSOR, _NODE, _PATTERN, _TYPE = 3, 2, 1, 0


@dataclass(frozen=True)
class Match:
    """A rule with what it names. rank: 3 for a tensor's name, 2 a node's, 1 a pattern, 0 an op type."""

    rule: QuantRule
    rank: int
    nodes: frozenset[str]
    tensors: frozenset[str]

    def names(self, op: Op) -> bool:
        """Whether the op, or one that went into it, is named."""
        return op.name in self.nodes or not self.nodes.isdisjoint(op.origin)


def find_matches(graph: Graph, rules: Iterable[QuantRule]) -> list[Match]:
    """What each rule names, the most exact first; of equally exact ones the last of the rules.

    Raises:
        ConfigError: a rule names nothing.
    """
    tensors = [t.name for t in graph.tensors() if t.const is None]
    found = []
    for rule in rules:
        match = _find(graph, rule, tensors)
        if match is None:
            known = {*tensors, *(n for op in graph for n in (op.name, op.onnx_type))}
            raise ConfigError(
                f"{rule.source}: {rule.match} is no tensor, node, pattern or op type of the model",
                hint=name_hint(rule.match, sorted(known)),
            )
        found.append(match)
        other = rule.share_observer_with
        if other is not None and results_named(graph, other) == []:
            raise ConfigError(
                f"{rule.source}: {rule.match} is to share the observer of {other}, which is no tensor and no node",
                hint=name_hint(other, sorted({*tensors, *(op.name for op in graph)})),
            )
    found.reverse()
    return sorted(found, key=lambda m: -m.rank)


def names_nothing(graph: Graph, rule: QuantRule) -> bool:
    """Whether the model has nothing of the rule's name."""
    return _find(graph, rule, [t.name for t in graph.tensors() if t.const is None]) is None


def _find(graph: Graph, rule: QuantRule, tensors: list[str]) -> Match | None:
    word = rule.match
    if word in tensors:
        maker = graph.producer(next(t for t in graph.tensors() if t.name == word))
        # a node and its result may have one name; then the node's weights and operands count too
        nodes = {word} if maker is not None and maker.name == word else set()
        return Match(rule, _TENSOR, frozenset(nodes), frozenset([word]))
    nodes = {op.name for op in graph if word == op.name or word in op.origin}
    if nodes:
        return Match(rule, _NODE, frozenset(nodes), frozenset())
    if any(c in word for c in "*?["):
        nodes = {op.name for op in graph if fnmatchcase(op.name, word)}
        named = {t for t in tensors if fnmatchcase(t, word)}
        if nodes:
            named = set()
        return Match(rule, _PATTERN, frozenset(nodes), frozenset(named)) if nodes or named else None
    nodes = {op.name for op in graph if word in (op.onnx_type, op.kind)}
    return Match(rule, _TYPE, frozenset(nodes), frozenset()) if nodes else None


def results_named(graph: Graph, word: str) -> list[str]:
    """The tensor of that name, or the results of the node of that name."""
    if graph.find(word) is not None:
        return [word]
    return [t.name for op in graph if word == op.name or word in op.origin for t in op.outputs]


def of_op(matches: Iterable[Match], op: Op, field: str) -> QuantRule | None:
    """The rule that says something of this field of an op."""
    return next((m.rule for m in matches if m.names(op) and _says(m.rule, field)), None)


def of_result(matches: Iterable[Match], graph: Graph, tensor: Tensor, field: str) -> QuantRule | None:
    """The rule for a tensor: by its own name, or by the op that gives it."""
    op = graph.producer(tensor)
    for m in matches:
        if _says(m.rule, field) and (tensor.name in m.tensors or (op is not None and m.names(op))):
            return m.rule
    return None


def _says(rule: QuantRule, field: str) -> bool:
    value: Any = getattr(rule, field)
    return value is not None
