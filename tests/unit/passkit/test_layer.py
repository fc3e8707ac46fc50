"""Shifts of a bias from errors that are known."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.ir import Op, QuantParams, Tensor
from bpuc.ir.types import Array
from bpuc.ops.attrs import ConvAttrs
from bpuc.passkit.layer import Function, Layer

SHAPE = (1, 2, 40, 40)


def layer(want: list[Array], function: Function | None = None) -> Layer:
    out = Tensor("y", SHAPE, DType.FLOAT32, quant=QuantParams(DType.INT8, (0.1,)))
    op = Op("c", "Conv", ConvAttrs((1, 1), (0,) * 4, (1, 1)), _outputs=[out])
    return Layer(op, [], want, want, lambda: want, function, 1)


def sums(seed: int, count: int = 6) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=SHAPE).astype(np.float32) for _ in range(count)]


def test_a_constant_error_is_taken_back_in_its_channel_only() -> None:
    want = sums(0)
    error = np.array([0.25, 0.0], np.float32).reshape(1, 2, 1, 1)
    found = layer(want)
    assert found.shift([v - error for v in want]) == pytest.approx([0.25, 0.0], abs=1e-6)
    assert found.error([v - error for v in want], np.array([0.25, 0.0])) == pytest.approx(0, abs=1e-6)
    # every third place of 1600 is looked at: 534 in each of 6 samples
    assert found.error([v - error for v in want], np.zeros(2)) == pytest.approx(6 * 534 * 0.0625, rel=1e-4)


def test_noise_without_a_mean_moves_nothing() -> None:
    want = sums(0)
    assert layer(want).shift([a + b for a, b in zip(want, sums(1))]).tolist() == [0.0, 0.0]


def test_a_mean_that_differs_from_sample_to_sample_moves_nothing() -> None:
    want = sums(0)
    signs = [1, -1, 1, -1, 1, -1]
    assert layer(want).shift([v + np.float32(s) for v, s in zip(want, signs)]).tolist() == [0.0, 0.0]


def test_one_sample_tells_nothing() -> None:
    want = sums(0, 1)
    assert layer(want).shift([want[0] + 1]).tolist() == [0.0, 0.0]


def test_errors_where_the_clamp_hides_them_do_not_count() -> None:
    # channel 0 is wrong only where its sums are far below the clamp
    want = [np.where(v > 0, v, np.float32(-5)) for v in sums(0)]
    got = [np.where(v > 0, v, v + np.float32(2)) for v in want]
    assert layer(want).shift(got)[0] < -0.5
    assert layer(want, lambda v: np.maximum(v, 0)).shift(got).tolist() == [0.0, 0.0]
