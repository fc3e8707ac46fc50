"""Put the user's choice of device on the ops, before anything is fused across it."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.base.errors import ConfigError, did_you_mean
from bpuc.ir import Graph, Op
from bpuc.passkit import Change, Numerics, Pass, PassContext


@dataclass(frozen=True)
class PinDevices(Pass):
    """``--run-on-cpu`` and ``--run-on-bpu``: node names or op types; a name that matches nothing is an error."""

    name = "pin-devices"
    numerics = Numerics.DECIDES

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for device, words in (("CPU", ctx.options.cpu), ("BPU", ctx.options.bpu)):
            for word in words:
                hits = matching(graph, word)
                if not hits:
                    known = sorted({n for op in graph for n in (op.name, op.onnx_type)})
                    raise ConfigError(
                        f"--run-on-{device.lower()} {word}: no node and no op type of that name in the model",
                        hint=did_you_mean(word, known),
                    )
                for op in hits:
                    op.pin = device
                    changes.append(Change(f"pinned to the {device}", op.name, f"--run-on-{device.lower()} {word}"))
        return changes


def matching(graph: Graph, word: str) -> list[Op]:
    """Ops that the word names: by ONNX node, else by op type."""
    by_name = [op for op in graph if op.name == word or word in op.origin]
    return by_name or [op for op in graph if word in (op.onnx_type, op.kind)]
