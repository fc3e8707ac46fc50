"""Put the user's choice of device on the ops, before anything is fused across it."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.base.errors import ConfigError, name_hint
from bpuc.ir import Graph
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.requests import matching


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
                        hint=name_hint(word, known),
                    )
                for op in hits:
                    op.pin = device
                    changes.append(Change(f"pinned to the {device}", op.name, f"--run-on-{device.lower()} {word}"))
        for match in reversed(ctx.matches):
            wish = match.rule.device
            for op in graph if wish is not None else ():
                if match.names(op) or any(t.name in match.tensors for t in op.outputs):
                    op.pin = str(wish)
                    changes.append(Change(f"pinned to the {wish}", op.name, match.rule.source))
        return changes
