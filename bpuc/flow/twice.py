"""Signs that an input is normalized twice: by the samples or the model itself, and by the configuration again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bpuc.config import Config
from bpuc.data import DataSource, InputSpec
from bpuc.ir import Graph
from bpuc.passkit import PassContext

# pixels that reach no further than this are no pixels
_LEAST_PIXEL = 8.0
_NORMALIZING = ("Sub", "Div", "Mul", "BatchNormalization")


def tell_twice_in_model(graph: Graph, config: Config | None, ctx: PassContext) -> None:
    """Warn where the configuration has mean or scale for an input that the model itself normalizes first of all."""
    for name, c in ({} if config is None else config.of_inputs(graph.input_names)).items():
        if not (c.mean or c.scale):
            continue
        tensor = graph.inputs[graph.input_names.index(name)]
        for op in graph.consumers(tensor):
            constant = any(t is not None and t.const is not None for t in op.inputs)
            if op.onnx_type in _NORMALIZING and constant:
                ctx.warn(
                    "normalized-twice",
                    f"input {name} is normalized by {op.onnx_type} {op.name} of the model, and mean_value or "
                    "scale_value of the configuration come before that; leave one of the two out, if it is meant once",
                    name,
                )


def tell_twice_in_data(
    source: DataSource, inputs: Sequence[InputSpec], config: Config | None, ctx: PassContext
) -> None:
    """Warn where the first sample, before mean and scale of the configuration, is no pixel but normalized already."""
    if config is None or not config.raw_arrays or not any(c.mean or c.scale for c in config.inputs):
        return
    sample = next(iter(source), None)
    for name, c in config.of_inputs([s.name for s in inputs]).items():
        if sample is None or not (c.mean or c.scale) or not sample[name].size:
            continue
        scale, mean = np.asarray(c.scale or (1.0,)), np.asarray(c.mean or (0.0,))
        axis = sample[name].ndim - 1 if c.layout_train == "NHWC" else min(1, sample[name].ndim - 1)
        channels = np.moveaxis(sample[name].astype(np.float64), axis, -1)
        fits = all(v.size in (1, channels.shape[-1]) for v in (scale, mean))
        pixels = np.abs(channels / scale + mean).max() if fits and 0 not in scale else np.inf
        if pixels <= _LEAST_PIXEL:
            ctx.warn(
                "normalized-twice",
                f"the samples of input {name} reach {pixels:.3g} before mean_value and scale_value: they look "
                "normalized already; bpuc: preprocess: arrays: ready takes them as they are",
                name,
            )
