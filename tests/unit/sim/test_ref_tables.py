"""Lut, Softmax, Norm, ResizeLinear: written out in Python integers from the definitions."""

import math

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.isa import Lut, Norm, ResizeLinear, Softmax


def test_lut_int8_reads_the_entry_of_its_value(bench, rng):
    table = rng.integers(-128, 128, 256).astype(np.int8)
    ins = Lut(
        op=0,
        x=bench.put([[-128, -1], [0, 127]], np.int8),
        table=bench.const(table),
        y=bench.out((2, 2)),
        axis=-1,
        shift=0,
        lo=0,
        hi=0,
    )
    assert bench.run(ins).tolist() == [[table[0], table[127]], [table[128], table[255]]]


def test_lut_with_a_row_per_channel_and_wider_result(bench):
    table = np.stack([np.arange(256) * 10, np.arange(256) * -10]).astype(np.int16)
    x = np.array([[[-128, 3], [-127, 127]]], np.int8)  # channels along axis 1
    ins = Lut(
        op=0, x=bench.put(x), table=bench.const(table), y=bench.out(x.shape, DType.INT16), axis=1, shift=0, lo=0, hi=0
    )
    assert bench.run(ins).tolist() == [[[0, 1310], [-10, -2550]]]


@pytest.mark.parametrize("rows", [1, 3])
def test_lut_int16_interpolates(bench, rng, requant, rows):
    table = rng.integers(-(1 << 20), 1 << 20, (rows, 1025)).astype(np.int32)
    edge = [-32768, -32767, -32705, -32704, -1, 0, 1, 63, 64, 32767]
    x = np.array([edge] * rows, np.int16)
    want = []
    for r in range(rows):
        for v in edge:
            i, f = divmod(v + 32768, 64)
            want.append(int(table[r, i]) * (64 - f) + int(table[r, i + 1]) * f)
    given = table[0] if rows == 1 else table
    axis = -1 if rows == 1 else 0
    ins = Lut(
        op=0,
        x=bench.put(x),
        table=bench.const(given),
        y=bench.out(x.shape, DType.INT16),
        axis=axis,
        shift=11,
        lo=-32768,
        hi=32767,
    )
    assert np.array_equal(bench.run(ins).ravel(), requant(want, 11, -32768, 32767))


def softmax_row(row, table, mult, lo, hi, wide):
    d = [max(row) - v for v in row]
    if wide:
        e = [(table[v // 64] * (64 - v % 64) + table[v // 64 + 1] * (v % 64) + 32) // 64 for v in d]
    else:
        e = [table[v] for v in d]
    s = sum(e)
    return [max(lo, min(hi, (2 * v * mult + s * 65536) // (s * 131072))) for v in e]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("wide", [False, True])
def test_softmax(bench, rng, wide, axis):
    kind, out = (np.int16, DType.INT16) if wide else (np.int8, DType.INT8)
    scale = 2e-4 if wide else 0.05
    steps = 64 * np.arange(1025) if wide else np.arange(256)
    table = [math.floor(2**15 * math.exp(-s * scale) + 0.5) for s in steps.tolist()]
    mult = math.floor(2**16 * out.qmax + 0.5)
    x = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, (3, 4, 5)).astype(kind)
    ins = Softmax(
        op=0,
        x=bench.put(x),
        table=bench.const(table, np.int32),
        y=bench.out(x.shape, out),
        axis=axis,
        mult=mult,
        lo=out.qmin,
        hi=out.qmax,
    )
    y = bench.run(ins)
    rows = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis]).tolist()
    want = [softmax_row(r, table, mult, out.qmin, out.qmax, wide) for r in rows]
    assert np.moveaxis(y, axis, -1).reshape(-1, x.shape[axis]).tolist() == want
    # and it is a softmax
    real = np.exp(x * scale) / np.exp(x * scale).sum(axis, keepdims=True)
    assert np.abs(y / out.qmax - real).max() < (2e-4 if wide else 0.006)


def norm_row(row, gain, bias, eps, pre, shift, lo, hi):
    n = len(row)
    d = [(n * v - sum(row)) >> pre for v in row]
    v = sum(k * k for k in d)
    r = max(1, math.floor(math.sqrt(float(v) / n + eps) * 256))
    z = [(k << 20) // r for k in d]
    return [max(lo, min(hi, (a * g + b + 2 ** (shift - 1)) >> shift)) for a, g, b in zip(z, gain, bias)]


@pytest.mark.parametrize(("kind", "pre", "eps"), [(np.int8, 0, 0.5), (np.int8, 0, 4e5), (np.int16, 3, 0.0)])
def test_layer_norm(bench, rng, kind, pre, eps):
    info = np.iinfo(kind)
    x = rng.integers(info.min, info.max + 1, (2, 3, 8)).astype(kind)
    x[0, 0] = 5  # no variance: the root is 1 at least
    gain = rng.integers(-3000, 3000, 8)
    bias = rng.integers(-(1 << 20), 1 << 20, 8)
    ins = Norm(
        op=0, x=bench.put(x), gain=bench.const(gain.reshape(1, 1, 8), np.int32),
        bias=bench.const(bias.reshape(1, 1, 8)), y=bench.out(x.shape), axes=(2,), eps=eps,
        pre_shift=pre, shift=17, lo=-128, hi=127,
    )  # fmt: skip
    want = [[norm_row(r, gain.tolist(), bias.tolist(), eps, pre, 17, -128, 127) for r in m] for m in x.tolist()]
    assert bench.run(ins).tolist() == want


def test_instance_norm_is_a_normalization(bench, rng):
    x = rng.integers(-128, 128, (1, 2, 6, 5)).astype(np.int8)
    gain, shift = 1 << 13, 20  # z is 4096 times the value: y = 32 times it
    ins = Norm(
        op=0, x=bench.put(x), gain=bench.const(np.full((1, 2, 1, 1), gain), np.int32),
        bias=bench.const(np.zeros((1, 2, 1, 1), np.int64)), y=bench.out(x.shape), axes=(2, 3), eps=0.0,
        pre_shift=0, shift=shift, lo=-128, hi=127,
    )  # fmt: skip
    v = x.astype(np.float64)
    real = (v - v.mean((2, 3), keepdims=True)) / v.std((2, 3), keepdims=True)
    assert np.abs(bench.run(ins) / 32 - real).max() < 0.6 / 32


def test_resize_linear(bench, rng, requant):
    x = rng.integers(-128, 128, (1, 2, 3, 4)).astype(np.int8)
    ih, wh = [[0, 0, 1, 2], [1, 1, 2, 2]], [0, 100, 256, 17]
    iw, ww = [[0, 1, 3], [1, 2, 3]], [128, 1, 0]
    ins = ResizeLinear(
        op=0, x=bench.put(x), index_h=bench.const(ih, np.int32), weight_h=bench.const(wh, np.int32),
        index_w=bench.const(iw, np.int32), weight_w=bench.const(ww, np.int32), y=bench.out((1, 2, 4, 3)),
        mult=3, shift=17, lo=-128, hi=127,
    )  # fmt: skip
    want = np.zeros((1, 2, 4, 3), object)
    for c in range(2):
        for i in range(4):
            for j in range(3):
                for a, u in ((ih[0][i], 256 - wh[i]), (ih[1][i], wh[i])):
                    for b, v in ((iw[0][j], 256 - ww[j]), (iw[1][j], ww[j])):
                        want[0, c, i, j] += int(x[0, c, a, b]) * u * v
    assert np.array_equal(bench.run(ins), requant(want * 3, 17, -128, 127))
