"""Amounts of work, counted by hand."""

from bpuc.base.dtypes import DType
from bpuc.isa import (
    ArgReduce,
    CallOnnx,
    Conv,
    ConvTranspose,
    Device,
    Eltwise,
    EltwiseKind,
    Engine,
    Instruction,
    MatMul,
    Move,
    Norm,
    Pool,
    PoolKind,
    Quantize,
    Reduce,
    ReduceKind,
    Ref,
    ResizeLinear,
    Softmax,
    Space,
    Work,
    contiguous_strides,
)


def ref(*shape: int, dtype: DType = DType.INT8) -> Ref:
    return Ref(Space.ARENA, dtype, 0, shape, contiguous_strides(shape, dtype.itemsize))


def conv(x: Ref, w: Ref, y: Ref, group: int = 1) -> Conv:
    n = len(y.shape) - 2
    return Conv(op=0, x=x, w=w, y=y, strides=(1,) * n, pads=(1,) * 2 * n, dilations=(1,) * n, group=group, lo=0, hi=0)


def test_conv_counts_taps_on_the_border_too() -> None:
    # 9*C*K*H*W for a 3x3 conv of C to K channels
    assert conv(ref(1, 16, 8, 6), ref(32, 16, 3, 3), ref(1, 32, 8, 6)).work() == Work(Engine.MAC, 9 * 16 * 32 * 8 * 6)


def test_conv_counts_the_channels_of_the_group() -> None:
    assert conv(ref(2, 12, 8, 8), ref(12, 1, 3, 3), ref(2, 12, 8, 8), 12).work().macs == 2 * 12 * 9 * 64


def test_conv_transpose_counts_each_input_element_once_a_weight() -> None:
    ins = ConvTranspose(
        op=0, x=ref(1, 4, 5, 5), w=ref(4, 3, 2, 2), y=ref(1, 6, 10, 10), strides=(2, 2), pads=(0,) * 4,
        dilations=(1, 1), group=2, lo=0, hi=0,
    )  # fmt: skip
    assert ins.work() == Work(Engine.MAC, 25 * 4 * 3 * 4)


def test_matmul() -> None:
    ins = MatMul(op=0, a=ref(2, 3, 5), b=ref(5, 7), y=ref(2, 3, 7), lo=0, hi=0)
    assert ins.work() == Work(Engine.MAC, 2 * 3 * 5 * 7)


def test_vector_work_is_elements_times_visits() -> None:
    x, t = ref(1, 2, 6, 6), ref(256)
    q = {"lo": 0, "hi": 0}
    cases: list[tuple[Instruction, int]] = [
        (Eltwise(op=0, a=x, b=ref(1), y=x, kind=EltwiseKind.ADD, mult_a=1, mult_b=1, shift=1, **q), 72),
        (
            Pool(
                op=0, x=x, y=ref(1, 2, 3, 3), kind=PoolKind.MAX, kernel=(2, 2), strides=(2, 2), pads=(0,) * 4,
                dilations=(1, 1), shift=0, **q,
            ),
            2 * 9 * 4,
        ),
        (Reduce(op=0, x=x, y=ref(1, 2, 1, 1), kind=ReduceKind.SUM, axes=(2, 3), mult=1, shift=1, **q), 72),
        (ArgReduce(op=0, x=x, y=ref(1, 1, 6, 6), axis=1, largest=1, last=0), 72),
        (Softmax(op=0, x=x, table=t, y=x, axis=1, mult=1, **q), 5 * 72),
        (Norm(op=0, x=x, gain=t, bias=t, y=x, axes=(3,), eps=0.0, pre_shift=0, shift=1, **q), 5 * 72),
        (
            ResizeLinear(
                op=0, x=x, index_h=t, weight_h=t, index_w=t, weight_w=t, y=ref(1, 2, 12, 12), mult=1, shift=1, **q
            ),
            4 * 288,
        ),
    ]  # fmt: skip
    for ins, elements in cases:
        assert ins.work() == Work(Engine.VECTOR, 0, elements), type(ins).__name__
        assert ins.device is Device.BPU


def test_data_movement_and_the_host() -> None:
    x = ref(4, 4)
    assert Move(op=0, x=x, y=x).work() == Work(Engine.DMA, 0, 16)
    quantize = Quantize(op=0, x=ref(4, 4, dtype=DType.FLOAT32), y=x, scale=1.0, lo=0, hi=0)
    assert (quantize.work(), quantize.device) == (Work(Engine.CPU, 0, 16), Device.CPU)
    assert CallOnnx(op=0, inputs=(x,), results=(x, ref(3)), part=0, flops=0).work() == Work(Engine.CPU, 0, 19)
