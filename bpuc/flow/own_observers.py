"""Observers for some tensors alone: ``--observer-for NAME=OBSERVER[,KEY=VALUE...]``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from bpuc.base.errors import ConfigError, UsageError, name_hint
from bpuc.ir import Graph
from bpuc.observe.registry import make_observer

Own = tuple[str, Mapping[str, Any]]


def parse(text: str) -> tuple[str, Own]:
    """NAME, and the observer with its options.

    Raises:
        UsageError: it cannot be read, or there is no such observer or option.
    """
    found = re.fullmatch(r"(.+?)=([A-Za-z_]\w*)((?:,\w+=[^,=]+)*)", text)
    if found is None:
        raise UsageError(
            f"--observer-for {text}: cannot be read",
            want="NAME=OBSERVER or NAME=OBSERVER,KEY=VALUE",
            hint="as in Conv=percentile,percentile=99.9",
        )
    options = dict(pair.split("=") for pair in found[3].split(",") if pair)
    check_observer(found[2], options, f"--observer-for {text}", on_command_line=True)
    return found[1], (found[2], options)


def check_observer(
    name: str, options: Mapping[str, Any], where: str | None = None, on_command_line: bool = False
) -> None:
    """Refuse what is no observer, or has not these options, whether or not it will be used.

    Raises:
        UsageError: no such observer or option, `on_command_line`. ConfigError: elsewhere.
    """
    try:
        make_observer(name, options)
    except ConfigError as e:
        raise (UsageError if on_command_line else ConfigError)(
            e.message, where=where, want=e.want, hint=e.hint
        ) from None


def own_observers(graph: Graph, wanted: Mapping[str, Own], fused: Collection[str]) -> dict[str, Own]:
    """Tensor -> its own observer; a tensor's name goes before a node's, a node's before an op type's.

    Args:
        graph: optimized, with its tensors to observe marked.
        fused: tensors that the passes before have fused away; naming one changes nothing.

    Raises:
        ConfigError: a name that matches nothing.
    """
    observed = {t.name for t in graph.tensors() if t.observer and t.const is None}
    ranked: dict[str, tuple[int, Own]] = {}
    for name, own in wanted.items():
        ops = [op for op in graph if op.name == name or name in op.origin]
        rank = 2 if name in observed else 1 if ops else 0
        ops = ops or [op for op in graph if name in (op.onnx_type, op.kind)]
        hits = {name} if rank == 2 else {t.name for op in ops for t in op.outputs} & observed
        if not hits and not ops and name not in fused:
            known = [*observed, *(op.name for op in graph), *(op.onnx_type for op in graph)]
            raise ConfigError(
                f"--observer-for {name}: no tensor, node or op type of that name", hint=name_hint(name, known)
            )
        for tensor in hits:
            if ranked.get(tensor, (-1, own))[0] <= rank:
                ranked[tensor] = rank, own
    return {tensor: own for tensor, (_, own) in ranked.items()}
