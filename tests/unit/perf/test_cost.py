"""Engine time of single instructions against sums done by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpuc.base.dtypes import DType
from bpuc.isa import (
    CallOnnx,
    Conv,
    ConvTranspose,
    Dequantize,
    Eltwise,
    EltwiseKind,
    Engine,
    Lut,
    MatMul,
    Move,
    Norm,
    Pool,
    PoolKind,
    Quantize,
    Ref,
    Rescale,
    Softmax,
    Space,
)
from bpuc.perf.cost import compute_us, engine, rescale_us
from bpuc.target.hardware import Hardware
from tests.unit.perf.perf_samples import dense, target

HW = Hardware.of(target())


def conv(cin, cout, size=8, kernel=3, group=1, dtype=DType.INT8):
    return Conv(
        op=0, x=dense(0, (1, cin, size, size), dtype), y=dense(0, (1, cout, size, size)),
        w=dense(0, (cout, cin // group, kernel, kernel), space=Space.CONST),
        strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), group=group, lo=0, hi=1,
    )  # fmt: skip


def test_dense_conv():
    # 9 taps x 8 x 16 channels x 64 positions / (1000 a cycle x 100 cycles a us)
    assert compute_us(conv(8, 16), HW) == pytest.approx(9 * 8 * 16 * 64 / 1e5)


def test_channels_and_positions_are_padded_to_the_blocks():
    assert compute_us(conv(9, 17, size=3), HW) == pytest.approx(9 * 16 * 24 * 12 / 1e5)


def test_up_to_four_input_channels_count_as_four():
    assert compute_us(conv(3, 8), HW) == pytest.approx(9 * 4 * 8 * 64 / 1e5)


def test_a_depthwise_conv_fills_a_whole_block():
    assert compute_us(conv(32, 32, group=32), HW) == pytest.approx(9 * 8 * 32 * 64 / 1e5)


def test_int16_operands_take_longer():
    assert compute_us(conv(8, 16, dtype=DType.INT16), HW) == pytest.approx(2 * compute_us(conv(8, 16), HW))


def test_transposed_conv_counts_input_positions():
    ins = ConvTranspose(
        op=0, x=dense(0, (1, 8, 4, 4)), w=dense(0, (8, 16, 2, 2), space=Space.CONST), y=dense(0, (1, 16, 8, 8)),
        strides=(2, 2), pads=(0,) * 4, dilations=(1, 1), group=1, lo=0, hi=1,
    )  # fmt: skip
    assert compute_us(ins, HW) == pytest.approx(4 * 8 * 16 * 16 / 1e5)


# results leave in blocks of 4 x 8 positions at 10 bytes a cycle; 100 cycles to start a picture, 50 to pack one
MAPS = Hardware.of(
    target(
        store_bytes_per_cycle=10.0, map_block_rows=4.0, map_block_columns=8.0, picture_cycles=100.0, pack_cycles=50.0
    )
)


def pictures(n, rows, columns):
    return Conv(
        op=0, x=dense(0, (n, 8, rows, columns)), y=dense(0, (n, 16, rows, columns)),
        w=dense(0, (16, 8, 1, 1), space=Space.CONST),
        strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), group=1, lo=0, hi=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ins", "cycles"),
    [
        (pictures(1, 4, 8), 100 + 4 * 8 * 16 / 10),  # its block is full
        (pictures(3, 4, 7), 3 * (100 + 4 * 8 * 16 / 10)),  # one column is filled up
        (pictures(3, 1, 1), 3 * (100 + 4 * 8 * 16 / 10)),  # 51.2 cycles for a block, 50 + 1.6 packed
        (pictures(3, 5, 1), 3 * (100 + 50 + 5 * 16 / 10)),  # 102.4 for two blocks, 50 + 8 packed
    ],
)
def test_small_maps_are_filled_up_or_packed(ins, cycles):
    assert compute_us(ins, MAPS) == pytest.approx(cycles / 100)


def test_matmul():
    ins = MatMul(op=0, a=dense(0, (2, 4, 8)), b=dense(0, (2, 8, 16)), y=dense(0, (2, 4, 16)), lo=0, hi=1)
    assert compute_us(ins, HW) == pytest.approx(8 * 16 * 8 / 1e5)


X = dense(0, (1, 8, 10, 10))
TABLE = dense(0, (256,), space=Space.CONST)


@pytest.mark.parametrize(
    ("ins", "us"),
    [
        (Eltwise(op=0, a=X, b=X, y=X, kind=EltwiseKind.ADD, mult_a=1, mult_b=1, shift=1, lo=0, hi=1), 800 / 10 / 100),
        (Lut(op=0, x=X, table=TABLE, y=X, axis=-1, shift=0, lo=0, hi=1), 800 / 5 / 100),
        (Softmax(op=0, x=X, table=TABLE, y=X, axis=1, mult=1, lo=0, hi=1), 5 * 800 / 2 / 100),
        (Norm(op=0, x=X, gain=X, bias=X, y=X, axes=(1,), eps=1.0, pre_shift=0, shift=1, lo=0, hi=1), 5 * 800 / 2 / 100),
        (Pool(op=0, x=X, y=X, kind=PoolKind.MAX, kernel=(3, 3), strides=(1, 1), pads=(1,) * 4, dilations=(1, 1),
              shift=0, lo=0, hi=1), 9 * 800 / 20 / 100),
        (Move(op=0, x=X, y=X), 800 / 8 / 100),
        (Rescale(op=0, x=X, y=X, mult=1, shift=1, lo=0, hi=1), 800 / 8 / 100),
        (Quantize(op=0, x=dense(0, (100,), DType.FLOAT32), y=dense(0, (100,)), scale=1.0, lo=0, hi=1), 0.2),
        (Dequantize(op=0, x=dense(0, (100,)), scale=TABLE, y=dense(0, (100,), DType.FLOAT32), axis=-1), 0.4),
        (CallOnnx(op=0, inputs=(dense(0, (10,)),), results=(dense(0, (10,)),), part=0, flops=5000), 5.0),
        (CallOnnx(op=0, inputs=(dense(0, (700,)),), results=(dense(0, (300,)),), part=0, flops=5), 1.0),
    ],
    ids=lambda v: type(v).__name__ if not isinstance(v, float) else "",
)  # fmt: skip
def test_engines(ins, us):
    assert compute_us(ins, HW) == pytest.approx(us)


def move(shape, strides):
    return Move(op=0, x=Ref(Space.ARENA, DType.INT8, 0, shape, strides), y=dense(10_000, shape))


def test_copies_of_any_kind_cost_their_bytes_and_those_in_order_are_the_vector_units():
    # a part of a join: [2, 3, 4] into rows of 9 channels; each element twice, as Resize does; heads and tokens changed
    part = Move(op=0, x=dense(0, (2, 3, 4)), y=Ref(Space.ARENA, DType.INT8, 100, (2, 3, 4), (36, 4, 1)))
    twice = move((4, 6, 2), (6, 1, 0))
    changed = move((2, 4, 3, 5), (60, 5, 20, 1))
    assert (compute_us(part, HW), engine(part)) == (pytest.approx(24 / 8 / 100), Engine.VECTOR)
    assert (compute_us(twice, HW), engine(twice)) == (pytest.approx(48 / 8 / 100), Engine.DMA)
    assert (compute_us(changed, HW), engine(changed)) == (pytest.approx(120 / 8 / 100), Engine.DMA)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=4), st.sampled_from([1.0, 8.0, 40.0]))
def test_a_copy_into_a_join_is_never_dearer_than_a_rescale(shape, rate):
    x, y = dense(0, shape), dense(10_000, shape)
    hw = Hardware.of(target(move_bytes_per_cycle=rate))
    copy, rescale = Move(op=0, x=x, y=y), Rescale(op=0, x=x, y=y, mult=1, shift=1, lo=0, hi=1)
    assert compute_us(copy, hw) <= compute_us(rescale, hw)
    assert engine(copy) is engine(rescale)


def test_operands_bound_an_instruction_that_computes_little():
    slow = Hardware.of(target(sram_bytes_per_cycle=1.0))
    assert compute_us(conv(8, 16, kernel=1), slow) == pytest.approx((8 + 16) * 64 / 100)


def test_rescale_alone():
    assert rescale_us(1000, 1, target()) == pytest.approx(3 + 1000 / 8 / 100)
    assert rescale_us(1000, 2, target()) == pytest.approx(3 + 2000 / 8 / 100)


@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(1, 20),
    st.sampled_from([1, 3]),
    st.integers(1, 8),
    st.integers(0, 2),
)
def test_a_bigger_conv_is_never_faster(cin, cout, size, kernel, groups, which):
    cin, cout = cin * groups, cout * groups
    small = conv(cin, cout, size, kernel, groups)
    grown = [(cin + groups, cout, size), (cin, cout + groups, size), (cin, cout, size + 1)][which]
    assert compute_us(conv(*grown, kernel, groups), HW) >= compute_us(small, HW)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.randoms(), st.integers(0, 4))
def test_a_bigger_transpose_is_never_faster(shape, random, axis):
    order = list(range(len(shape)))
    random.shuffle(order)

    def permute(dims):
        strides, step = [0] * len(dims), 1
        for a in reversed(order):
            strides[a], step = step, step * dims[a]
        return move(tuple(dims), tuple(strides))

    grown = list(shape)
    grown[axis % len(shape)] += 1
    assert compute_us(permute(grown), HW) >= compute_us(permute(shape), HW)


def test_a_missing_or_impossible_number_is_named():
    from bpuc.base.errors import ConfigError

    with pytest.raises(ConfigError, match="ddr_gb_per_s"):
        Hardware.of(target(ddr_gb_per_s=0))
    lacking = target()
    lacking = dataclasses.replace(lacking, hardware={k: v for k, v in lacking.hardware.items() if k != "tiles"})
    with pytest.raises(ConfigError, match="tiles"):
        Hardware.of(lacking)
