"""Runs a small model of constants: onnxruntime, and onnx's own evaluator where that has no kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime as ort

from bpuc.ops.base import Array

SLOW = 1 << 22  # elements up to which onnx's own evaluator, all numpy and Python, may run


def evaluate(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array] | None:
    """Results in float32 or as they are, None where neither evaluator can compute them."""
    try:
        return _by_onnxruntime(model, feeds)
    except Exception:
        if sum(a.size for a in feeds.values()) > SLOW:
            return None
        try:
            with np.errstate(all="ignore"):
                results = onnx.reference.ReferenceEvaluator(model).run(None, dict(feeds))
            return _arrays(results)
        except Exception:
            return None


def _by_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return _arrays(session.run(None, dict(feeds)))


def _arrays(results: Sequence[Any]) -> list[Array]:
    if any(r is None or isinstance(r, list) for r in results):
        raise TypeError("a sequence or an optional is no array")
    return [np.asarray(r) for r in results]
