"""Requantization: ties, negatives, saturation, and refusal to overflow."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpuc.base.dtypes import DType
from bpuc.isa import Eltwise, EltwiseKind, Rescale
from bpuc.sim.reference.arithmetic import accumulator_type, scaled


@pytest.mark.parametrize(
    ("x", "y"),
    # half: ties go up, on both sides of zero
    [(-5, -2), (-4, -2), (-3, -1), (-2, -1), (-1, 0), (0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)],
)
def test_halves_round_up(bench, x, y):
    ins = Rescale(op=0, x=bench.put([x], np.int8), y=bench.out((1,)), mult=1, shift=1, lo=-128, hi=127)
    assert bench.run(ins).tolist() == [y]


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**22), 2**22), st.integers(1, 62))
def test_requantization_is_floor_of_x_plus_half(acc, mult, shift):
    exact = math.floor(Fraction(acc * mult, 2**shift) + Fraction(1, 2))
    want = max(-128, min(127, exact))
    assert scaled(np.array([acc]), mult, shift, -128, 127).tolist() == [want]


def test_a_product_beyond_64_bits_is_refused():
    with pytest.raises(ValueError, match="leaves int64"):
        scaled(np.array([1 << 42]), 1 << 21, 40, -128, 127)


def test_large_but_harmless_products_are_not_refused():
    acc, mult = np.array([1 << 42, 1]), np.array([1, 1 << 21])
    from bpuc.sim.reference.arithmetic import check_product

    check_product(acc, mult)


def test_sums_that_may_leave_float64_are_kept_in_int64():
    assert accumulator_type(DType.INT8, DType.INT8, 1 << 38) is np.float64
    assert accumulator_type(DType.INT16, DType.INT16, 1 << 23) is np.int64
    assert accumulator_type(DType.INT16, DType.INT16, (1 << 23) - 1) is np.float64


def test_rescale_saturates_and_changes_width(bench):
    x = bench.put([-32768, -129, -128, 127, 128, 32767], np.int16)
    ins = Rescale(op=0, x=x, y=bench.out((6,)), mult=2, shift=1, lo=-128, hi=127)
    assert bench.run(ins).tolist() == [-128, -128, -128, 127, 127, 127]
    wide = Rescale(
        op=0, x=bench.put([-128, 127], np.int8), y=bench.out((2,), DType.INT16), mult=512, shift=1, lo=-32768, hi=32767
    )
    assert bench.run(wide).tolist() == [-32768, 32512]


def test_rescale_clamps_to_its_own_bounds(bench):
    ins = Rescale(op=0, x=bench.put([-9, 0, 9], np.int8), y=bench.out((3,)), mult=2, shift=1, lo=0, hi=6)
    assert bench.run(ins).tolist() == [0, 0, 6]


@pytest.mark.parametrize("types", [(np.int8, np.int8), (np.int8, np.int16), (np.int16, np.int16)])
@pytest.mark.parametrize("kind", list(EltwiseKind))
def test_eltwise_against_python_integers(bench, rng, requant, kind, types):
    a = rng.integers(np.iinfo(types[0]).min, np.iinfo(types[0]).max + 1, (2, 3, 4)).astype(types[0])
    b = rng.integers(np.iinfo(types[1]).min, np.iinfo(types[1]).max + 1, (3, 1)).astype(types[1])
    mult_a, mult_b, shift = 2897341, -1234567, 24
    ins = Eltwise(
        op=0, a=bench.put(a), b=bench.const(b), y=bench.out((2, 3, 4), DType.INT16), kind=kind,
        mult_a=mult_a, mult_b=mult_b, shift=shift, lo=-32768, hi=32767,
    )  # fmt: skip
    av, bv = np.broadcast_arrays(a.astype(object), b.astype(object))
    f = {
        EltwiseKind.ADD: av * mult_a + bv * mult_b,
        EltwiseKind.MUL: av * bv * mult_a,
        EltwiseKind.MAX: np.maximum(av * mult_a, bv * mult_b),
        EltwiseKind.MIN: np.minimum(av * mult_a, bv * mult_b),
    }[kind]
    assert np.array_equal(bench.run(ins), requant(f, shift, -32768, 32767))
