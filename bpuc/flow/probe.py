"""Results of a graph at a runnable stage on one sample: what ``--check-numerics`` compares around EXACT passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bpuc.execute.ort import FloatExecutor
from bpuc.ir import Graph
from bpuc.lower import lower
from bpuc.passkit import Stage
from bpuc.sim.reference.engine import ReferenceEngine

Array = np.ndarray[Any, np.dtype[Any]]


def results(graph: Graph, stage: Stage, sample: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs of the graph by their ONNX names, in float or, once legal, from its integers.

    Nothing, where the graph no longer takes what the model takes: pixels, or what an op removed at an input gave.

    Args:
        sample: input name -> array of the model's shape.
    """
    for name, t in zip(graph.input_names, graph.inputs):
        if (sample[name].shape, sample[name].dtype) != (t.shape, t.dtype.numpy):
            return {}
    if stage is Stage.LEGAL:
        # a copy: lowering must see one segment order, whatever has been decided of segments
        twin = graph.copy()
        for number, op in enumerate(twin):
            op.segment = number
        return ReferenceEngine(lower(twin, "check")).run(dict(sample))
    names = [t.name for t in graph.outputs if t.const is None]
    found = dict(FloatExecutor(graph, names).run(dict(sample)))
    return {n: found[t.name] for n, t in zip(graph.output_names, graph.outputs) if t.name in found}
