"""What a user can do about an op on the CPU: the option, the key of the YAML file, or the march that takes it."""

from __future__ import annotations

from bpuc.ir import Graph, Op
from bpuc.passkit import PassContext


def cpu_remedy(graph: Graph, op: Op, ctx: PassContext) -> str | None:
    """A sentence for an op on the CPU, None for one on the BPU or where nothing can be done.

    Those of the model's own ops were found when they were placed; borders are told by what stands around them.
    """
    if op.device != "CPU":
        return None
    if op.kind == "Quantize":
        source = graph.producer(op.input(0))
        if source is None:
            return (
                "input_type_rt in the YAML (nv12, rgb...) lets the compiled model take pixels, which need no Quantize"
            )
        return f"gone once {source.name} runs on the BPU"
    if op.kind == "Dequantize":
        if op.out in graph.outputs:
            return "remove_node_type: Dequantize in the YAML leaves the integers at the output"
        readers = ", ".join(dict.fromkeys(r.name for r in graph.consumers(op.out)))
        return f"gone once {readers} runs on the BPU" if readers else None
    return ctx.remedies.get(op.name)
