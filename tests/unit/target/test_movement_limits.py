"""Limits of reductions and data movement."""

import pytest

from bpuc.support.facts import OpFacts
from tests.unit.target.target_samples import op, tensor

MAP = (1, 64, 56, 56)


def split(shape, axis, *sizes):
    outs = tuple(tensor((*shape[:axis], n, *shape[axis + 1 :])) for n in sizes)
    return OpFacts("n", "Split", (tensor(shape),), outs, {"axis": axis})


def resize(shape, out, mode="nearest", **attrs):
    return op("Resize", shape, out=out, mode=mode, **attrs)


@pytest.mark.parametrize(
    ("march", "held", "broken", "says"),
    [
        ("bayes-e", op("ArgMax", (1, 8191, 4, 4), axis=1), op("ArgMax", (1, 8192, 4, 4), axis=1), "1..8191 channels"),
        ("bayes", op("ArgMax", (1, 64, 4, 4), axis=1), op("ArgMax", (1, 65, 4, 4), axis=1), "1..64 channels"),
        ("bayes-e", op("ArgMin", MAP, axis=1), op("ArgMin", MAP, axis=2), "axis 1"),
        ("nash-e", op("ArgMax", (1, 4, 4, 32767), axis=3), op("ArgMax", (1, 4, 4, 32768), axis=-1), "1..32767"),
        ("bayes-e", op("ReduceMean", MAP, axes=[2, 3]), op("ReduceMean", MAP, axes=[1, 2]), "over axes [1, 2]"),
        (
            "bayes-e",
            op("ReduceMean", MAP, axes=[-1]),
            op("ReduceMean", MAP, axes=[1, 2, 3]),
            "height and width together",
        ),
        (
            "bernoulli2",
            op("ReduceMean", MAP, axes=[2, 3]),
            op("ReduceMean", MAP, axes=[1]),
            "height and width together",
        ),
        ("bayes-e", op("ReduceSum", MAP, axes=[0, 1]), op("ReduceSum", MAP, axes=[2, 3]), "one axis"),
        ("bayes-e", op("ReduceMax", (1, 8192, 4, 4), axes=[1]), op("ReduceMax", (1, 8193, 4, 4), axes=[1]), "1..8192"),
        ("bayes-e", op("Concat", MAP, MAP, axis=0), op("Concat", *[MAP] * 1025, axis=2), "1024 inputs"),
        ("bayes-e", op("Concat", (64, 56), (64, 56), axis=0), op("Concat", *[MAP] * 1025, axis=1), "1024 inputs"),
        (
            "bernoulli2",
            op("Concat", (1, 1024, 4, 4), (1, 1024, 4, 4), out=(1, 2048, 4, 4), axis=1),
            op("Concat", (1, 1024, 4, 4), (1, 1025, 4, 4), out=(1, 2049, 4, 4), axis=1),
            "up to 2048 channels",
        ),
        (
            "bayes-e",
            op("Expand", (1, 4, 1, 8), out=(1, 4, 7, 8)),
            op("Expand", (1, 1, 1, 8), out=(1, 4, 7, 8)),
            "one axis",
        ),
        (
            "bayes-e",
            op("Tile", (1, 4, 7, 8), out=(1, 8, 7, 8)),
            op("Tile", (1, 4, 7, 8), out=(1, 8, 14, 8)),
            "along 2 axes",
        ),
        ("bayes-e", op("Pad", MAP, mode="constant"), op("Pad", MAP, mode="reflect"), "mode constant"),
        (
            "bernoulli2",
            op("Pad", MAP, out=(1, 64, 58, 58)),
            op("Pad", MAP, out=(1, 66, 56, 56)),
            "padding of height and width only",
        ),
        ("bayes-e", resize((1, 8, 4, 4), (1, 8, 8, 16)), resize((1, 8, 4, 4), (1, 8, 16, 8)), "by 4x2"),
        ("bayes-e", resize((1, 8, 8, 8), (1, 8, 4, 4)), resize((1, 8, 4, 4), (1, 8, 12, 12)), "powers of two"),
        (
            "bayes-e",
            resize((1, 8, 4, 4), (1, 8, 12, 5), "linear"),
            resize((1, 8, 4, 4), (1, 8, 8, 8), "cubic"),
            "nearest or linear",
        ),
        ("bayes-e", resize((1, 8, 4, 4), (1, 8, 8, 8)), resize((1, 8, 4, 4), (1, 16, 8, 8)), "height and width only"),
        (
            "bayes-e",
            resize((1, 8, 4, 4), (1, 8, 8, 8), coordinate_transformation_mode="align_corners"),
            resize((1, 8, 4, 4), (1, 8, 8, 8), coordinate_transformation_mode="half_pixel_symmetric"),
            "coordinates half_pixel",
        ),
        (
            "bayes-e",
            op("Resize", (1, 8, 4, 4), tensor((8,), True), coordinate_transformation_mode="tf_crop_and_resize"),
            op("Resize", (1, 8, 4, 4), (8,), coordinate_transformation_mode="tf_crop_and_resize"),
            "constant region",
        ),
        ("bayes-e", op("DepthToSpace", MAP, blocksize=2), op("DepthToSpace", (1, 9, 4, 4), blocksize=3), "blocksize 2"),
        (
            "bayes-e",
            op("DepthToSpace", MAP, blocksize=2),
            op("DepthToSpace", (1, 6, 4, 4), blocksize=2),
            "divisible by 4",
        ),
        ("bayes-e", op("SpaceToDepth", MAP, blocksize=2), op("SpaceToDepth", MAP, blocksize=4), "blocksize 2"),
        (
            "bayes-e",
            op("Gather", (1, 8, 4, 4), tensor((2,), True, "int64"), out=(1, 2, 4, 4), axis=1),
            op("Gather", (1, 8, 4, 4), tensor((2,), False, "int64"), out=(1, 2, 4, 4), axis=1),
            "with indices of int64",
        ),
        (
            "bayes-e",
            op("Gather", (1, 8, 4, 4), tensor((), True, "int64"), out=(1, 4, 4), axis=1),
            op("Gather", (1, 8, 4, 4), tensor((2, 2), True, "int64"), out=(1, 2, 2, 4, 4), axis=1),
            "rank up to 4",
        ),
        (
            "bayes-e",
            op("GatherElements", (1, 8), tensor((1, 9), True, "int64"), out=(1, 9), axis=1),
            op("GatherElements", (1, 8), tensor((2, 8), True, "int64"), out=(2, 8), axis=1),
            "with indices 2x8 on 1x8",
        ),
        ("bayes-e", op("TopK", MAP, axis=1, sorted=1), op("TopK", MAP, axis=1, sorted=0), "sorted = 1"),
        ("bayes-e", op("GridSample", (1, 8, 512, 512)), op("GridSample", (1, 8, 513, 512)), "512 x 512"),
        ("bayes", op("GridSample", (1, 8, 720, 1024)), op("GridSample", (1, 8, 1024, 721)), "720 x 1024"),
        (
            "bayes-e",
            op("GridSample", MAP, mode="nearest"),
            op("GridSample", MAP, mode="bicubic"),
            "bilinear or nearest",
        ),
        ("bayes-e", op("GridSample", MAP), op("GridSample", MAP, padding_mode="reflection"), "zeros or border"),
        ("bayes-e", op("LSTM", (5, 1, 8)), op("LSTM", (5, 2, 8)), "batch 1"),
        ("bayes-e", op("PRelu", MAP), op("PRelu", (1, 1, *MAP)), "rank 0..4"),
        ("bayes-e", op("Abs", (1,) * 10), op("Abs", (1,) * 11), "rank 0..10"),
        ("bayes-e", op("Relu", (4096, 2)), op("Relu", (4097, 2, 2, 2)), "batch of 1..4096"),
        ("bayes-e", op("Relu", (1, 65536, 1, 1)), op("Relu", (1, 65537, 1, 1)), "dimensions of 1..65536"),
        ("bayes-e", op("Relu", (1, 64, 4096, 4096)), op("Relu", (1, 65, 4096, 4096)), "1 GiB"),
        ("nash-e", op("Relu", (1, 128, 4096, 4096)), op("Relu", (1, 129, 4096, 4096)), "2 GiB"),
        ("bernoulli2", op("Relu", (128, 4, 4, 4)), op("Relu", (129, 4, 4, 4)), "batch of 1..128"),
        (
            "bernoulli2",
            op("Flatten", (1, 512, 1, 1), out=(1, 512)),
            op("Reshape", (1, 512, 2, 2), out=(1, 2048)),
            "takes a change of axes of size 1 only",
        ),
        (
            "bernoulli2",
            op("Transpose", (1, 8, 1, 4), out=(1, 1, 8, 4), perm=[0, 2, 1, 3]),
            op("Transpose", (1, 8, 8, 4), out=(1, 8, 8, 4), perm=[0, 2, 1, 3]),
            "not supported",
        ),
    ],
)
def test_limit(ask, march, held, broken, says):
    assert ask(march, held).reason == ""
    verdict = ask(march, broken)
    assert not verdict.ok
    assert says in verdict.reason
    assert verdict.reason.startswith(broken.op_type)


def test_uneven_split_is_slices(ask):
    assert ask("bayes-e", split(MAP, 1, 32, 32)).origin == "known"
    uneven = ask("bayes-e", split(MAP, 1, 16, 48))
    assert uneven.ok
    assert uneven.origin == "derived"


def test_int16_counts_two_bytes(ask):
    assert ask("bayes-e", op("Relu", (1, 32, 4096, 4096)), "int16").ok
    assert "1 GiB" in ask("bayes-e", op("Relu", (1, 64, 4096, 4096)), "int16").reason


def test_movement_between_bpu_operators_is_free_of_rank_on_bayes_e(ask):
    assert ask("bayes-e", op("Reshape", (1, 2, 3, 4, 5, 6), out=(6, 120))).ok
    assert ask("bayes-e", op("Transpose", (1, 2, 3, 4, 5, 6), perm=[0, 2, 1, 3, 4, 5], out=(1, 3, 2, 4, 5, 6))).ok
    assert ask("bayes-e", op("Slice", (1, 2, 3, 4, 5, 6), out=(1, 1, 3, 4, 5, 6))).ok


@pytest.mark.parametrize("kind", ["CumSum", "NoSuchOp", "InstanceNormalization", "ReduceMin", "Where", "Cast"])
def test_not_in_the_list(ask, kind):
    verdict = ask("bayes-e", op(kind, MAP))
    assert not verdict.ok
    assert f"{kind} is not supported on the BPU of bayes-e" in verdict.reason
