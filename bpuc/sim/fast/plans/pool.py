"""Max pools as onnxruntime nodes: no arithmetic, so the stored bytes themselves are compared."""

from __future__ import annotations

from collections.abc import Callable

from bpuc.base.dtypes import DType
from bpuc.isa import Pool, PoolKind
from bpuc.sim.fast.graph import Graph
from bpuc.sim.fast.plans.geometry import end_pads
from bpuc.sim.fast.probe import trusted
from bpuc.sim.fast.storage import Access


def max_pool(ins: Pool, a: Access) -> Callable[[Graph], None] | None:
    """With channels last: fifty times faster than the standard MaxPool, both transpositions included."""
    usual = ins.kind == PoolKind.MAX and ins.x.dtype is DType.INT8 and ins.y.dtype is DType.INT8
    if not usual or len(ins.kernel) != 2 or len(ins.x.shape) != 4 or ins.x.shape[:2] != ins.y.shape[:2]:
        return None
    begin = ins.pads[:2]
    ends = end_pads(ins.x.shape[2:], ins.y.shape[2:], ins.kernel, ins.strides, begin, ins.dilations)
    # onnxruntime wants every window to hold something
    if ends is None or any(p >= k for p, k in zip((*begin, *ends), ins.kernel * 2)) or not trusted("NhwcMaxPool"):
        return None

    def emit(g: Graph) -> None:
        y = g.node(
            "NhwcMaxPool",
            g.channels_last(g.read(a["x"])),
            domain="com.microsoft",
            kernel_shape=ins.kernel,
            strides=ins.strides,
            pads=(*begin, *ends),
            dilations=ins.dilations,
        )
        g.write(a["y"], g.channels_first(y))

    return emit
