"""Programs by hand: memory, constants and random layers, without the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.rounding import quantize_multiplier
from bpuc.isa import (
    Conv,
    ConvTranspose,
    Dequantize,
    Device,
    Eltwise,
    EltwiseKind,
    Lut,
    MatMul,
    Move,
    Pool,
    PoolKind,
    Quantize,
    Ref,
    Space,
    contiguous_strides,
)
from bpuc.program import OpSymbol, Port, Program, Segment, TensorSymbol


class Builder:
    """Collects instructions; `program` closes it. All values are random but for the structure that the test asks."""

    def __init__(self, seed: int = 0):
        self.rng = np.random.default_rng(seed)
        self.instructions: list[Any] = []
        self.constants = bytearray()
        self.top = 0
        self.inputs: list[Port] = []
        self.outputs: list[Port] = []
        self.tensors: list[TensorSymbol] = []

    # memory

    def alloc(self, shape: tuple[int, ...], dtype: DType = DType.INT8) -> Ref:
        """A packed tensor at a fresh 64-byte aligned address."""
        at = -(-self.top // 64) * 64
        n = int(np.prod(shape)) * dtype.itemsize
        self.top = at + n
        return packed(at, shape, dtype)

    def const(self, array: Any, dtype: DType | None = None) -> Ref:
        array = np.ascontiguousarray(array)
        array = array if dtype is None else array.astype(dtype.numpy)
        self.constants += b"\0" * (-len(self.constants) % 64)
        at = len(self.constants)
        self.constants += array.tobytes()
        kind = DType.of(array)
        return Ref(Space.CONST, kind, at, array.shape, contiguous_strides(array.shape, kind.itemsize))

    def emit(self, ins: Any, name: str | None = None) -> Any:
        self.instructions.append(ins)
        y = ins.writes()[0]
        name = name or f"t{len(self.instructions) - 1}"
        self.tensors.append(TensorSymbol(name, y, len(self.instructions) - 1, None, None))
        return y

    # ports

    def input(self, name: str, shape: tuple[int, ...], dtype: DType = DType.INT8) -> Ref:
        ref = self.alloc(shape, dtype)
        self.inputs.append(Port(name, shape, ref, name))
        return ref

    def output(self, name: str, ref: Ref) -> None:
        self.outputs.append(Port(name, ref.shape, ref, name))

    def program(self) -> Program:
        n = len(self.instructions)
        return Program(
            march="bayes-e",
            instructions=list(self.instructions),
            arena_bytes=self.top,
            constants=bytes(self.constants),
            parts=[],
            inputs=self.inputs,
            outputs=self.outputs,
            tensors=self.tensors,
            ops=[OpSymbol("op", "Op", 0, ("op",))],
            segments=[Segment(0, Device.BPU, 0, n)],
        )

    # layers

    def ints(self, shape: tuple[int, ...], dtype: DType = DType.INT8, low: int | None = None) -> np.ndarray:
        return self.rng.integers(dtype.qmin if low is None else low, dtype.qmax + 1, shape).astype(dtype.numpy)

    def multipliers(self, n: int, gain: float) -> tuple[Ref, Ref]:
        """Random multipliers around `gain`, as the compiler would round them."""
        rows = [quantize_multiplier(gain * float(self.rng.uniform(0.5, 2))) for _ in range(n)]
        return self.const([r[0] for r in rows], DType.INT32), self.const([r[1] for r in rows], DType.INT32)

    def conv(
        self,
        x: Ref,
        channels: int,
        kernel: tuple[int, ...],
        *,
        strides: tuple[int, ...] | None = None,
        pads: tuple[int, ...] | None = None,
        dilations: tuple[int, ...] | None = None,
        group: int = 1,
        lo: int = -128,
        hi: int = 127,
        res: Ref | None = None,
        wtype: DType = DType.INT8,
        ytype: DType = DType.INT8,
        bias: bool = True,
        quantized: bool = True,
        y: Ref | None = None,
        gain: float | None = None,
    ) -> Ref:
        rank = len(kernel)
        strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
        pads = pads if pads is not None else tuple(k // 2 for k in kernel) * 2
        w = self.ints((channels, x.shape[1] // group, *kernel), wtype, low=-wtype.qmax)
        out = tuple(
            (n + pads[i] + pads[i + rank] - (k - 1) * d - 1) // s + 1
            for i, (n, k, d, s) in enumerate(zip(x.shape[2:], kernel, dilations, strides))
        )
        y = y or self.alloc((x.shape[0], channels, *out), ytype if quantized else DType.INT32)
        return self.emit(
            Conv(
                op=0,
                x=x,
                w=self.const(w),
                y=y,
                strides=strides,
                pads=pads,
                dilations=dilations,
                group=group,
                lo=lo,
                hi=hi,
                **self._finish(x, wtype, w[0].size, channels, bias, quantized, res, ytype, gain),
            )
        )

    def conv_transpose(
        self,
        x: Ref,
        channels: int,
        kernel: tuple[int, ...],
        strides: tuple[int, ...],
        pads: tuple[int, ...],
        out: tuple[int, ...],
        group: int = 1,
        dilations: tuple[int, ...] | None = None,
        lo: int = -128,
        res: bool = False,
    ) -> Ref:
        w = self.ints((x.shape[1], channels // group, *kernel), low=-127)
        y = self.alloc((x.shape[0], channels, *out))
        other = self.const(self.ints(y.shape)) if res else None
        return self.emit(
            ConvTranspose(
                op=0,
                x=x,
                w=self.const(w),
                y=y,
                strides=strides,
                pads=pads,
                dilations=dilations or (1,) * len(kernel),
                group=group,
                lo=lo,
                hi=127,
                **self._finish(x, DType.INT8, w[:, 0].size // group, channels, True, True, other, DType.INT8, None),
            )
        )

    def matmul(
        self,
        a: Ref,
        b: Ref | int,
        *,
        bias: bool = True,
        quantized: bool = True,
        one: bool = False,
        ytype: DType = DType.INT8,
        res: Ref | None = None,
        lo: int = -128,
        gain: float | None = None,
    ) -> Ref:
        """`b`: an activation, or the number of columns of constant weights."""
        if isinstance(b, int):
            b = self.const(self.ints((a.shape[-1], b), low=-127))
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        n = b.shape[-1]
        y = self.alloc((*lead, a.shape[-2], n), ytype if quantized else DType.INT32)
        fields = self._finish(a, b.dtype, a.shape[-1], n, bias, quantized, res, ytype, gain)
        if one and quantized:
            fields["mult"], fields["shift"] = self.multipliers(1, self._gain(a, b.dtype, a.shape[-1], ytype))
        return self.emit(
            MatMul(
                op=0,
                a=a,
                b=b,
                y=y,
                lo=lo if quantized else -(2**31),
                hi=ytype.qmax if quantized else 2**31 - 1,
                **fields,
            )
        )

    def _gain(self, x: Ref, wtype: DType, terms: int, ytype: DType) -> float:
        spread = np.sqrt(terms) * x.dtype.qmax * wtype.qmax / 3
        return float(ytype.qmax / 2 / spread)

    def _finish(
        self,
        x: Ref,
        wtype: DType,
        terms: int,
        channels: int,
        bias: bool,
        quantized: bool,
        res: Ref | None,
        ytype: DType,
        gain: float | None,
    ) -> dict[str, Any]:
        wide = DType.INT16 in (x.dtype, wtype)
        fields: dict[str, Any] = {}
        gain = gain or self._gain(x, wtype, terms, ytype)
        if bias:
            peak = int(0.3 * ytype.qmax / gain) + 1
            fields["bias"] = self.const(
                self.rng.integers(-peak, peak + 1, channels), DType.INT64 if wide else DType.INT32
            )
        if quantized:
            fields["mult"], fields["shift"] = self.multipliers(channels, gain)
        if res is not None:
            shift = np.frombuffer(bytes(self.constants), "<i4", channels, fields["shift"].address).astype(np.int64)
            real = self.rng.uniform(0.3, 1.2, channels) * ytype.qmax / res.dtype.qmax
            fields["res"] = res
            fields["res_mult"] = self.const(np.rint(real * 2.0**shift), DType.INT64)
        return fields

    def lut(self, x: Ref, axis: int = -1, ytype: DType = DType.INT8) -> Ref:
        rows = () if axis < 0 else (x.shape[axis],)
        if x.dtype is DType.INT8:
            table = self.const(self.ints((*rows, 256), ytype))
        else:
            table = self.const(self.rng.integers(-(2**20), 2**20, (*rows, 1025)), DType.INT32)
        y = self.alloc(x.shape, ytype)
        return self.emit(
            Lut(
                op=0,
                x=x,
                table=table,
                y=y,
                axis=axis,
                shift=13 if ytype is DType.INT16 else 20,
                lo=ytype.qmin + 3,
                hi=ytype.qmax - 9,
            )
        )

    def eltwise(
        self,
        kind: EltwiseKind,
        a: Ref,
        b: Ref,
        ytype: DType = DType.INT8,
        lo: int | None = None,
        reals: tuple[float, float] = (0.7, 0.45),
    ) -> Ref:
        y = self.alloc(np.broadcast_shapes(a.shape, b.shape), ytype)
        unit = ytype.qmax
        if kind is EltwiseKind.MUL:
            mult, shift = quantize_multiplier(reals[0] * unit / a.dtype.qmax / b.dtype.qmax)
            pair = (mult, 0)
        else:
            _, shift = quantize_multiplier(max(reals[0] * unit / a.dtype.qmax, reals[1] * unit / b.dtype.qmax))
            pair = (round(reals[0] * unit / a.dtype.qmax * 2**shift), round(reals[1] * unit / b.dtype.qmax * 2**shift))
        return self.emit(
            Eltwise(
                op=0,
                a=a,
                b=b,
                y=y,
                kind=kind,
                mult_a=pair[0],
                mult_b=pair[1],
                shift=shift,
                lo=ytype.qmin if lo is None else lo,
                hi=unit,
            )
        )

    def max_pool(
        self,
        x: Ref,
        kernel: tuple[int, ...],
        strides: tuple[int, ...],
        pads: tuple[int, ...],
        out: tuple[int, ...],
        dilations: tuple[int, ...] | None = None,
    ) -> Ref:
        y = self.alloc((*x.shape[:2], *out), x.dtype)
        return self.emit(
            Pool(
                op=0,
                x=x,
                y=y,
                kind=PoolKind.MAX,
                kernel=kernel,
                strides=strides,
                pads=pads,
                dilations=dilations or (1,) * len(kernel),
                shift=1,
                lo=-128,
                hi=127,
            )
        )

    def average_pool(
        self,
        x: Ref,
        kernel: tuple[int, ...],
        strides: tuple[int, ...],
        pads: tuple[int, ...],
        out: tuple[int, ...],
        include_pad: bool = False,
    ) -> Ref:
        n = int(np.prod(kernel))
        shift = 20
        counts = np.full(n + 1, n) if include_pad else np.maximum(np.arange(n + 1), 1)
        y = self.alloc((*x.shape[:2], *out), x.dtype)
        return self.emit(
            Pool(
                op=0,
                x=x,
                y=y,
                mult=self.const(np.rint(2.0**shift / counts), DType.INT32),
                kind=PoolKind.AVERAGE,
                kernel=kernel,
                strides=strides,
                pads=pads,
                dilations=(1,) * len(kernel),
                shift=shift,
                lo=x.dtype.qmin,
                hi=x.dtype.qmax,
            )
        )

    def move(self, x: Ref, y: Ref) -> Ref:
        return self.emit(Move(op=0, x=x, y=y))

    def concat(self, parts: list[Ref], axis: int) -> Ref:
        """A Concat as Moves into parts of one tensor."""
        shape = list(parts[0].shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        whole = self.alloc(tuple(shape), parts[0].dtype)
        at = 0
        for p in parts:
            self.move(p, part(whole, axis, at, p.shape[axis]))
            at += p.shape[axis]
        return whole

    def quantize(self, x: Ref, scale: float, dtype: DType = DType.INT8) -> Ref:
        return self.emit(Quantize(op=0, x=x, y=self.alloc(x.shape, dtype), scale=scale, lo=dtype.qmin, hi=dtype.qmax))

    def dequantize(self, x: Ref, scale: Any, axis: int = 0) -> Ref:
        return self.emit(
            Dequantize(
                op=0,
                x=x,
                scale=self.const(np.atleast_1d(scale), DType.FLOAT64),
                y=self.alloc(x.shape, DType.FLOAT32),
                axis=axis,
            )
        )


def packed(address: int, shape: tuple[int, ...], dtype: DType = DType.INT8) -> Ref:
    return Ref(Space.ARENA, dtype, address, shape, contiguous_strides(shape, dtype.itemsize))


def part(ref: Ref, axis: int, start: int, size: int) -> Ref:
    """A slice of a view along one axis."""
    shape = tuple(size if i == axis else d for i, d in enumerate(ref.shape))
    return Ref(ref.space, ref.dtype, ref.address + start * ref.strides[axis], shape, ref.strides)


def turned(ref: Ref, axes: tuple[int, ...]) -> Ref:
    """A transposed view."""
    return Ref(
        ref.space, ref.dtype, ref.address, tuple(ref.shape[a] for a in axes), tuple(ref.strides[a] for a in axes)
    )
