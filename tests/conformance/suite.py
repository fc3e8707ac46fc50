"""onnx's node tests run through `bpuc.backend`, and what came of each: agrees, differs, refused or crashed."""

from __future__ import annotations

import re
import warnings
import zlib
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime

from bpuc.backend import BpucBackend, IntegerBackend
from bpuc.base.errors import BpucError

SHARE = 0.05  # of the largest expected magnitude: what eight bits may lose on the way
# message of a refusal -> its reason in the list; the first that fits
REASONS = (
    (r"holds .* of (object|<U)|is no tensor|gives no tensor|holds NoneType", "strings, sequences and optionals"),
    (
        r"(holds TensorProto of|of type|element type) (float8|float4|u?int[24]|FLOAT8|FLOAT4|U?INT[24])",
        "types below 8 bits and float8",
    ),
    (r"has no static shape|Input to 'Range' op should be", "a result without a static shape"),
    (r"at most 6, on the BPU|has \d+ dimensions", "more than six dimensions"),
    (r"which is not part of ONNX|names no ONNX opset", "operators of another domain"),
    (r"training mode", "training"),
    (r"draws random numbers", "random numbers"),
    (r"holds (NaN|Inf)|makes tensor .* NaN or infinite|holds NaN or infinity", "NaN or infinity in the data"),
    (r"BitCast requires", "double precision taken bit by bit"),
    (r"onnxruntime cannot run", "onnxruntime itself fails"),
    (r"has no form in opset", "an old meaning that newer operator sets lack"),
    (r"cannot be carried out: result of shape", "a shape that onnx infers wrongly"),
    (r"the shape \[.*\] given for input", "inputs without elements"),
    (r"Input Sequence and Tensor are expected", "strings, sequences and optionals"),
    (r"too large for float32", "values that only double precision has"),
)
# cases that differ, and why; none of them passes in onnxruntime (float), or can be held by eight bits (integer)
DIFFERS = (
    (r"operator_add", "values that only double precision has"),
    (r"bf16", "computed in float32, where the expected values were rounded to bfloat16 on the way"),
    (r"dft|stft", "onnxruntime's transform leaves 1e-5 where 0 is expected"),
    (r"resize_downsample_scales_\w+_align_corners", "onnxruntime takes other coordinates"),
    (r"maxunpool_export_with_output_shape", "onnxruntime spreads the values as if no output shape were given"),
    (r"attention_4d_with_past_and_present_qk_matmul", "onnxruntime gives another intermediate result"),
    (r"large_number|log_sum_exp", "intermediate values of a range that eight bits cannot hold"),
    (r"_(acosh|log|tan|round)(_|$)", "a steep function: the rounding of its input shows"),
)


@dataclass(frozen=True)
class Outcome:
    """`kind`: agrees, differs, refused or crashed; `op`: what the case tests."""

    op: str
    kind: str
    reason: str = ""


def cases(part: tuple[int, int] = (0, 1)):
    """The node cases whose name hashes to `part[0]` modulo `part[1]`, with inputs and outputs as arrays."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own numpy code divides by zero
        found = load_model_tests(kind="node")
    return [c for c in found if zlib.crc32(c.name.encode()) % part[1] == part[0]]


def has_float_input(case) -> bool:
    """Whether the integer path has something to calibrate; not for the light models, which take long there."""
    return not case.name.startswith("light/") and any(
        isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in case.data_sets[0][0]
    )


def passes_in_onnxruntime(case) -> bool:
    """Whether onnxruntime alone gives the expected outputs, at the suite's tolerances."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(case.model.SerializeToString(), options)
        for inputs, expected in case.data_sets:
            found = session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs)))
            if not all(_same(f, e, case) for f, e in zip(found, expected, strict=True)):
                return False
    except Exception:  # whatever it throws: it does not pass
        return False
    return True


def _same(found, expected, case) -> bool:
    if isinstance(expected, list):
        return len(found) == len(expected) and all(_same(f, e, case) for f, e in zip(found, expected))
    found, expected = np.asarray(found), _array(expected)
    if expected.dtype.kind in "OSU":
        return found.tolist() == expected.tolist()
    return found.shape == expected.shape and np.allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=case.rtol, atol=case.atol, equal_nan=True
    )


def outcome(case, integer: bool) -> Outcome:
    """Run a case."""
    nodes = case.model.graph.node
    op = nodes[0].op_type if len(nodes) == 1 else "(several)"
    backend = IntegerBackend if integer else BpucBackend
    try:
        prepared = backend.prepare(case.model)
        for inputs, expected in case.data_sets:
            found = prepared.run(inputs)
            if not all(_agree(f, e, case, integer) for f, e in zip(found, expected, strict=True)):
                return Outcome(op, "differs", _first(DIFFERS, case.name))
    except BpucError as e:
        return Outcome(op, "refused", _first(REASONS, e.message))
    except Exception as e:
        return Outcome(op, "crashed", f"{type(e).__name__}: {e}")
    return Outcome(op, "agrees")


def _array(value):
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _agree(found, expected, case, integer: bool) -> bool:
    if expected is None or isinstance(expected, list):
        if not isinstance(found, list) or expected is None:
            return found is expected
        return len(found) == len(expected) and all(_agree(f, e, case, integer) for f, e in zip(found, expected))
    if not isinstance(found, np.ndarray | np.generic):
        return False
    expected = _array(expected)
    if expected.dtype.kind in "OSU":
        return found.shape == expected.shape and found.tolist() == expected.tolist()
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if not integer:
        return bool(np.allclose(found, expected, rtol=case.rtol, atol=case.atol, equal_nan=True))
    f, e = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(e)
    span = np.abs(e[finite]).max(initial=0.0)
    return bool((np.abs(f[finite] - e[finite]) <= SHARE * span + 1e-6).all())


def _first(table, text: str) -> str:
    return next((reason for pattern, reason in table if re.search(pattern, text)), "?")
