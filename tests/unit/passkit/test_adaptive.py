"""Adaptive rounding against exhaustive search, and rows of operands against onnxruntime's convolutions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.execute.ort import run_op
from bpuc.ir import Op, Tensor
from bpuc.ir.types import Array
from bpuc.ops.attrs import ConvAttrs, MatMulAttrs
from bpuc.passkit.adaptive import clip_steps, round_weights
from bpuc.passkit.patches import patches


def loss(w: Array, q: Array, h: Array) -> float:
    return float(np.einsum("oi,ij,oj->", w - q, h, w - q))


def test_independent_inputs_leave_every_weight_at_its_nearest() -> None:
    w = np.array([[0.4, -1.6, 2.5, 300.0, -300.0]])
    found = round_weights(w, np.ones(1), np.diag([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert found.tolist() == [[0.0, -2.0, 3.0, 127.0, -127.0]]


def test_errors_of_equal_inputs_cancel() -> None:
    # the inputs are one and the same, so only the sum of the weights counts: 4 * 0.4 = 1.6
    found = round_weights(np.full((1, 4), 0.4), np.ones(1), np.ones((4, 4)), damping=1e-6)
    assert found.sum() == 2.0


def test_inputs_that_are_never_alive_change_nothing() -> None:
    assert round_weights(np.array([[0.6, 1.2]]), np.array([0.5]), np.zeros((2, 2))).tolist() == [[1.0, 2.0]]


def test_a_large_weight_of_a_quiet_input_is_clipped() -> None:
    # 1.0 is read from an input with hardly any power; 36.6 steps of 1/127 are 61 of 0.6/127
    w = np.array([[1.0, 61 * 0.6 / 127]])
    assert clip_steps(w, np.array([1 / 127]), np.diag([1e-9, 1.0])) == pytest.approx(0.6 / 127)
    assert clip_steps(w, np.array([1 / 127]), np.diag([1.0, 1.0])) == pytest.approx(1 / 127)


def test_clipping_is_by_the_error_of_the_result_in_every_row() -> None:
    rng = np.random.default_rng(5)
    w, x = rng.standard_t(2, (6, 20)), rng.normal(size=(200, 20)) * np.exp(rng.normal(size=20))
    h = x.T @ x / 200
    steps = np.abs(w).max(1) / 127
    found = clip_steps(w, steps, h)
    assert (found <= steps).all()
    for row, step, new in zip(w, steps, found):
        errors = {}
        for part in (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5):
            q = np.clip(np.floor(row / (step * part) + 0.5), -127, 127) * step * part
            errors[step * part] = np.square(x @ (row - q)).mean()
        assert errors[new] == pytest.approx(min(errors.values()))


@pytest.mark.parametrize("seed", range(8))
def test_between_nearest_and_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5))
    h = x.T @ x / len(x)
    w, steps = rng.normal(size=(3, 5)) * 4, np.array([0.5, 1.0, 2.0])
    found = round_weights(w, steps, h) * steps[:, None]
    nearest = np.floor(w / steps[:, None] + 0.5) * steps[:, None]
    best = 0.0
    for row, step in zip(w, steps):
        low = np.floor(row / step)
        best += min(loss(row[None], ((low + c) * step)[None], h) for c in product((-1, 0, 1, 2), repeat=5))
    assert best - 1e-9 <= loss(w, found, h) <= loss(w, nearest, h)


def conv(x: tuple[int, ...], w: tuple[int, ...], out: tuple[int, ...], attrs: ConvAttrs) -> tuple[Op, Array]:
    weights = np.random.default_rng(0).normal(size=w).astype(np.float32)
    tensors = [Tensor("x", x, DType.FLOAT32), Tensor("w", w, DType.FLOAT32, const=weights)]
    return Op("conv", "Conv", attrs, "Conv", _inputs=[*tensors], _outputs=[Tensor("y", out, DType.FLOAT32)]), weights


@pytest.mark.parametrize(
    ("x", "w", "out", "attrs"),
    [
        ((1, 4, 7, 6), (6, 4, 3, 3), (1, 6, 4, 3), ConvAttrs((2, 2), (1, 0, 1, 1), (1, 1))),
        ((2, 4, 9, 9), (4, 2, 3, 2), (2, 4, 5, 8), ConvAttrs((1, 1), (0, 0, 0, 0), (2, 1), 2)),
        ((1, 3, 8), (3, 1, 5), (1, 3, 8), ConvAttrs((1,), (2, 2), (1,), 3)),
        ((1, 2, 3, 4, 5), (2, 2, 2, 2, 2), (1, 2, 2, 3, 4), ConvAttrs((1, 1, 1), (0,) * 6, (1, 1, 1))),
    ],
)
def test_rows_of_a_convolution(x: tuple[int, ...], w: tuple[int, ...], out: tuple[int, ...], attrs: ConvAttrs) -> None:
    op, weights = conv(x, w, out, attrs)
    data = np.random.default_rng(1).normal(size=x).astype(np.float32)
    rows = patches(op, data, 10**6)
    assert rows is not None
    products = np.einsum("grt,got->rgo", rows, weights.reshape(attrs.group, w[0] // attrs.group, -1))
    want = np.moveaxis(run_op(op, {"x": data}, {})[0], 1, -1).reshape(-1, w[0])
    np.testing.assert_allclose(products.reshape(len(want), -1), want, rtol=1e-4, atol=1e-5)


def test_rows_of_a_product_are_taken_at_even_distances() -> None:
    tensors: list[Tensor | None] = [Tensor("x", (1, 6, 2), DType.FLOAT32), Tensor("w", (2, 3), DType.FLOAT32)]
    op = Op("fc", "MatMul", MatMulAttrs(), _inputs=tensors, _outputs=[Tensor("y", (1, 6, 3), DType.FLOAT32)])
    rows = patches(op, np.arange(12, dtype=np.float32).reshape(1, 6, 2), 3, phase=0.5)
    assert rows is not None
    assert rows.tolist() == [[[2, 3], [6, 7], [10, 11]]]


def test_transposed_convolutions_are_left_alone() -> None:
    op = Op("up", "ConvTranspose", ConvAttrs((2, 2), (0,) * 4, (1, 1)))
    assert patches(op, np.zeros((1, 2, 3, 3), np.float32), 10) is None
