"""Payloads of the graph."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.ir import QuantParams, Tensor


def test_threshold_is_scale_times_qmax() -> None:
    assert QuantParams(DType.INT8, (0.5,)).threshold == 63.5
    assert QuantParams(DType.INT16, (0.5,)).threshold == 16383.5
    assert QuantParams(DType.INT8, (0.5, 2.0), 1).threshold == 254


def test_one_step_or_none() -> None:
    assert QuantParams(DType.INT8, (0.5,)).step == 0.5
    with pytest.raises(ValueError, match="per channel"):
        _ = QuantParams(DType.INT8, (0.5, 2.0), 1).step


def test_parameters_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        QuantParams(DType.INT8, (0.5,)).axis = 1  # type: ignore[misc]


def test_constants_have_a_value() -> None:
    array = np.zeros((2, 3), np.float32)
    tensor = Tensor("w", (2, 3), DType.FLOAT32, array)
    assert tensor.value() is array
    assert (tensor.elements, tensor.rank) == (6, 2)
    with pytest.raises(ValueError, match="x is no constant"):
        Tensor("x", (), DType.FLOAT32).value()
    assert Tensor("x", (), DType.FLOAT32).elements == 1


def test_tensors_are_told_apart_by_identity() -> None:
    assert Tensor("x", (1,), DType.INT8) != Tensor("x", (1,), DType.INT8)
