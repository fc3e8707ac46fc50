"""Are onnxruntime's kernels exact on this machine?

Which kernel runs depends on the CPU: without the VNNI instructions, for example, products of uint8 and int8 weights
saturate in 16 bits. So each form that the plans use is run once a process on random and extreme integers and compared
with numpy; a form that fails, or that this onnxruntime does not have, is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from bpuc.sim.engine import Array

_ONE, _MIDDLE = np.float32(1), np.uint8(128)


def trusted(form: str) -> bool:
    """Whether a form passed all its probes."""
    return form in forms()


@cache
def forms() -> frozenset[str]:
    """The forms that passed; the first call runs the probes."""
    verdicts: dict[str, bool] = {}
    for form, kind, inputs, attrs, want in _probes(np.random.default_rng(7)):
        try:
            good = np.array_equal(_run(kind, inputs, attrs, want.dtype), want)
        except Exception:  # the runtime has no such kernel; its exceptions share no base
            good = False
        verdicts[form] = verdicts.get(form, True) and good
    return frozenset(form for form, good in verdicts.items() if good)


def _run(kind: str, inputs: list[Array], attrs: dict[str, Any], dtype: Any) -> Array:
    """One node; inputs other than the `fed` ones (by default the first) are constants, as they are in a program."""
    from bpuc.sim.fast.graph import OPSETS, open_session

    domain = attrs.pop("domain", "")
    fed = attrs.pop("fed", (0,))
    names = [f"i{n}" for n in range(len(inputs))]
    values = dict(zip(names, inputs))
    open_ones = [names[i] for i in fed]
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], domain=domain, **attrs)],
        "probe",
        [_described(n, values[n]) for n in open_ones],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)],
        [numpy_helper.from_array(np.asarray(v, order="C"), n) for n, v in values.items() if n not in open_ones],
    )
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=9)
    result: Array = open_session(model, 1).run(None, {n: values[n] for n in open_ones})[0]
    return result


def _described(name: str, value: Array) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _extreme(rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int) -> Array:
    """Integers of which half lie at an end of the range: the worst for saturating sums."""
    x = rng.integers(low, high + 1, shape)
    ends = rng.choice([low, high], shape)
    return np.where(rng.random(shape) < 0.5, ends, x)


def _convolved(x: Array, w: Array, group: int) -> Array:
    """Exact sums, borders of one zero for kernels of three."""
    k = w.shape[2]
    p = k // 2
    wide = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
    n, c, h, v = x.shape
    o = len(w)
    acc = np.zeros((n, group, o // group, h * v), np.int64)
    for i in range(k):
        for j in range(k):
            seen = wide[:, :, i : i + h, j : j + v].reshape(n, group, c // group, h * v)
            acc += w[:, :, i, j].reshape(group, o // group, c // group) @ seen
    return acc.reshape(n, o, h, v)


def _requantized(acc: Array, scale: Any) -> Array:
    value = np.rint(acc.astype(np.float32) * scale)
    stored: Array = (np.clip(value, -128, 127) + 128).astype(np.uint8)
    return stored


_SHAPES = {
    "dense": [(3, 16, 3, 1, 9), (32, 24, 3, 1, 7), (70, 33, 3, 1, 5)],
    "pointwise": [(64, 48, 1, 1, 6), (37, 19, 1, 1, 5)],
    "depthwise": [(32, 32, 3, 32, 9), (19, 19, 3, 19, 6)],
    "grouped": [(32, 48, 3, 4, 6), (12, 24, 3, 12, 6)],
}
_Probe = tuple[str, str, list[Array], dict[str, Any], Array]


def _probes(rng: np.random.Generator) -> Iterator[_Probe]:
    for kind, shapes in _SHAPES.items():
        for c, o, k, group, size in shapes:
            yield from _conv_probes(rng, kind, c, o, k, group, size)
    for rows, k, n in ((1, 64, 40), (7, 100, 33), (50, 576, 64)):
        yield from _matmul_probes(rng, rows, k, n)
    x = rng.integers(0, 256, (1, 5, 8, 9)).astype(np.uint8)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    best = np.max([wide[:, :, i : i + 8, j : j + 9] for i in range(3) for j in range(3)], axis=0)
    attrs = {"domain": "com.microsoft", "kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (1, 1)}
    last, want = (np.ascontiguousarray(v.transpose(0, 2, 3, 1)) for v in (x, best))
    yield "NhwcMaxPool", "NhwcMaxPool", [last], attrs, want


def _conv_probes(
    rng: np.random.Generator, kind: str, c: int, o: int, k: int, group: int, size: int
) -> Iterator[_Probe]:
    x, w = _extreme(rng, (1, c, size, size + 1), -128, 127), _extreme(rng, (o, c // group, k, k), -127, 127)
    x[0, :, : size // 2], w[::3] = 127, np.where(w[::3] < 0, -127, 127)
    bias = rng.integers(-5000, 5000, o)
    acc = _convolved(x, w, group)
    attrs = {"kernel_shape": (k, k), "pads": (k // 2,) * 4, "group": group}
    stored = (x + 128).astype(np.uint8)
    total = acc + bias[:, None, None]
    scale = (100 / (1 + np.abs(total).max((0, 2, 3))) * rng.uniform(0.6, 2, o)).astype(np.float32)
    scale[1] = 0  # a dead channel
    want = _requantized(total, scale[:, None, None])
    for sign, weights, zero in (
        ("signed", w.astype(np.int8), np.int8(0)),
        ("unsigned", (w + 128).astype(np.uint8), _MIDDLE),
    ):
        inputs = [stored, _ONE, _MIDDLE, weights, scale, zero, _ONE, _MIDDLE, bias.astype(np.int32)]
        yield f"{kind} {sign}", "QLinearConv", list(map(np.asarray, inputs)), dict(attrs), want
    if kind != "depthwise":
        inputs = [stored, (w + 128).astype(np.uint8), _MIDDLE, _MIDDLE]
        yield "ConvInteger", "ConvInteger", list(map(np.asarray, inputs)), dict(attrs), acc.astype(np.int32)
    yield "Conv", "Conv", [x.astype(np.float32), w.astype(np.float32)], dict(attrs), acc.astype(np.float32)


def _matmul_probes(rng: np.random.Generator, rows: int, k: int, n: int) -> Iterator[_Probe]:
    x, w = _extreme(rng, (2, rows, k), -128, 127), _extreme(rng, (2, k, n), -127, 127)
    w[0, :, ::3] = np.where(w[0, :, ::3] < 0, -127, 127)
    acc = x @ w
    stored, right = (x + 128).astype(np.uint8), (w + 128).astype(np.uint8)
    for fed in ((0,), (0, 1)):
        inputs = [stored, right, _MIDDLE, _MIDDLE]
        yield "MatMulInteger", "MatMulInteger", list(map(np.asarray, inputs)), {"fed": fed}, acc.astype(np.int32)
    inputs = [stored[0], w[0].astype(np.int8), _MIDDLE, np.int8(0)]
    want = (x[0] @ w[0]).astype(np.int32)
    yield "MatMulInteger signed", "MatMulInteger", list(map(np.asarray, inputs)), {}, want
    scale = np.float32(100 / np.abs(acc).max() * 1.3)
    inputs = [stored, _ONE, _MIDDLE, right, scale, _MIDDLE, _ONE, _MIDDLE]
    yield "QLinearMatMul", "QLinearMatMul", list(map(np.asarray, inputs)), {"fed": (0, 3)}, _requantized(acc, scale)
    acc = x[0] @ w[0] + (bias := rng.integers(-5000, 5000, n))
    scales = (100 / np.abs(acc).max(0) * rng.uniform(0.6, 2, n)).astype(np.float32)
    weights = w[0].T.reshape(n, k, 1, 1).astype(np.int8)
    inputs = [stored[0][None, None], _ONE, _MIDDLE, weights, scales, np.int8(0), _ONE, _MIDDLE, bias.astype(np.int32)]
    attrs = {"domain": "com.microsoft", "channels_last": 1, "kernel_shape": (1, 1)}
    yield "linear signed", "QLinearConv", list(map(np.asarray, inputs)), attrs, _requantized(acc, scales)[None, None]
