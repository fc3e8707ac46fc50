"""Programs from input to output: samples, real values and integers, input faults, and mistakes in the memory plan."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

from bpuc.base.dtypes import DType
from bpuc.base.errors import DataError, FileError
from bpuc.isa import CallOnnx, Dequantize, Device, Move, Quantize, Ref, Rescale, Space, contiguous_strides
from bpuc.program import OpSymbol, Port, Program, Segment, TensorSymbol
from bpuc.sim.inputs import check_inputs
from bpuc.sim.reference import ReferenceEngine
from bpuc.sim.run import run_program

SHAPE = (1, 2, 3)


def at(address: int, dtype: DType, shape=SHAPE) -> Ref:
    return Ref(Space.ARENA, dtype, address, shape, contiguous_strides(shape, dtype.itemsize))


def program() -> Program:
    """x -> Quantize -> q (0.5) -> Rescale by 2 -> r, two scales -> Dequantize -> y; ids -> CPU part -> next."""
    add = helper.make_graph(
        [helper.make_node("Add", ["i", "i"], ["o"], name="twice")], "g",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("o", TensorProto.INT64, [2])],
    )  # fmt: skip
    part = helper.make_model(add, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    x, q, r, y = at(0, DType.FLOAT32), at(64, DType.INT8), at(128, DType.INT8), at(192, DType.FLOAT32)
    ids, twice = at(256, DType.INT64, (2,)), at(320, DType.INT64, (2,))
    scale = Ref(Space.CONST, DType.FLOAT64, 0, (2,), (8,))
    return Program(
        march="bayes-e",
        instructions=[
            Quantize(op=0, x=x, y=q, scale=0.5, lo=-128, hi=127),
            Rescale(op=1, x=q, y=r, mult=4, shift=1, lo=-128, hi=127),
            Dequantize(op=2, x=r, scale=scale, y=y, axis=1),
            CallOnnx(op=3, inputs=(ids,), results=(twice,), part=0, flops=0),
        ],
        arena_bytes=336,
        constants=np.array([0.25, 10.0]).tobytes(),
        parts=[part],
        inputs=[Port("x", SHAPE, x, "q"), Port("ids", (2,), ids, "ids")],
        outputs=[Port("y", SHAPE, y, "r"), Port("next", (2,), twice, "next")],
        tensors=[
            TensorSymbol("q", q, 0, (0.5,), None),
            TensorSymbol("r", r, 1, (0.25, 10.0), 1),
            TensorSymbol("ids", ids, -1, None, None),
        ],
        ops=[OpSymbol(n, n, 0, ()) for n in ("Quantize", "Rescale", "Dequantize", "Add")],
        segments=[Segment(0, Device.CPU, 0, 4)],
    )


X = np.array([[[-1.0, 0.25, 0.2], [3.0, 40.0, -100.0]]], np.float32)
Q = [[[-2, 1, 0], [6, 80, -128]]]
R = [[[-4, 2, 0], [12, 127, -128]]]
Y = [[[-1.0, 0.5, 0.0], [120.0, 1270.0, -1280.0]]]
IDS = np.array([3, 4])
FEEDS = {"x": X, "ids": IDS}


def run(inputs=FEEDS, p=None, **options):
    """By both engines, which must agree in names, types and values; what the reference gives."""
    out, fast = (run_program(p or program(), inputs, engine=e, **options) for e in ("reference", "fast"))
    assert list(out) == list(fast)
    for name, value in out.items():
        assert value.dtype == fast[name].dtype
        assert np.array_equal(value, fast[name])
    return out


def test_real_values():
    out = run()
    assert list(out) == ["y", "next"]
    assert out["y"].dtype == np.float32
    assert out["y"].tolist() == Y
    assert out["next"].tolist() == [6, 8]


def test_integers_are_those_of_the_tensor_behind_the_output():
    out = run(integers=True)
    assert out["y"].dtype == np.int8
    assert out["y"].tolist() == R
    assert out["next"].tolist() == [6, 8]  # not quantized: gives itself


def test_tensors_by_scale_and_axis():
    out = run(tensors=["q", "r"])
    assert list(out) == ["y", "next", "q", "r"]
    assert out["q"].tolist() == [[[-1.0, 0.5, 0.0], [3.0, 40.0, -64.0]]]
    assert out["r"].tolist() == Y
    assert out["r"].dtype == np.float32


@pytest.mark.parametrize("all_", ["all", ("all",)])
def test_all_tensors_as_integers(all_):
    out = run(tensors=all_, integers=True)
    assert sorted(out) == ["ids", "next", "q", "r", "y"]
    assert (out["q"].tolist(), out["r"].tolist(), out["ids"].tolist()) == (Q, R, [3, 4])


def test_an_output_whose_tensor_has_its_own_name():
    p = program()
    p.tensors[1] = replace(p.tensors[1], name="y")
    p.outputs[0] = replace(p.outputs[0], tensor="y")
    assert run(p=p, tensors="all")["y"].tolist() == Y
    assert run(p=p)["y"].tolist() == Y
    assert run(p=p, integers=True)["y"].tolist() == R
    assert run(p=p, tensors=["y"], integers=True)["y"].tolist() == R


def test_samples_keep_their_axis():
    many = {"x": np.stack([X, X * 0, X]), "ids": np.stack([IDS, IDS + 1, IDS + 2])}
    out = run(many, tensors=["q"])
    assert out["y"].shape == (3, *SHAPE)
    assert out["y"][0].tolist() == out["y"][2].tolist() == Y
    assert not out["y"][1].any()
    assert out["next"].tolist() == [[6, 8], [8, 10], [10, 12]]
    assert out["q"].shape == (3, *SHAPE)


def test_one_sample_with_its_axis():
    out = run({"x": X[None], "ids": IDS[None]})
    assert out["y"].shape == (1, *SHAPE)


def test_a_result_does_not_depend_on_the_run_before():
    p = program()
    engine = ReferenceEngine(p, tensors=["q"])
    first = engine.run(FEEDS)
    engine.run({"x": X * 7, "ids": IDS * 7})
    again = engine.run(FEEDS)
    assert all(np.array_equal(first[k], again[k]) for k in first)


def test_overlapping_results_are_visible():
    p = program()
    # r is put where q still stands when it is read again
    p.instructions.insert(2, Move(op=1, x=at(64, DType.INT8), y=at(128, DType.INT8)))
    p.instructions[1] = replace(p.instructions[1], y=at(66, DType.INT8))
    out = run(p=p, integers=True)
    assert out["y"].tolist() != R


def test_reading_what_nobody_wrote_is_visible():
    p = program()
    del p.instructions[1]
    p.tensors = []
    y = run(p=p)["y"]
    garbage = np.int8(np.uint8(0xA5).view(np.int8))
    assert y.tolist() == [[[garbage * 0.25] * 3, [garbage * 10.0] * 3]]


def test_a_fault_in_an_instruction_names_it():
    p = program()
    p.instructions[1] = replace(p.instructions[1], hi=500)
    with pytest.raises(FileError, match=r"instruction 1 \(Rescale\).*does not fit int8") as e:
        run({"x": X * 3, "ids": IDS}, p=p)
    assert e.value.where == "Rescale 'Rescale'"


# ---- what a user feeds


def fault(**inputs):
    with pytest.raises(DataError) as e:
        run({**FEEDS, **inputs})
    return e.value


def test_a_missing_input_is_named():
    with pytest.raises(DataError, match="input 'ids' is missing") as e:
        run({"x": X, "idz": IDS})
    assert "'idz'" in str(e.value.hint)
    with pytest.raises(DataError, match="input 'x' is missing"):
        run({})


def test_an_unknown_name_is_a_warning():
    said = []
    run_program(program(), {**FEEDS, "extra": X}, warn=said.append)
    assert len(said) == 1
    assert "'extra'" in said[0]


@pytest.mark.parametrize("shape", [(2, 2), (1, 3, 2), (1, 2), (), (2, 2, 1, 2, 3), (4, 1, 2, 2)])
def test_a_wrong_shape_is_named_with_what_was_expected(shape):
    e = fault(x=np.zeros(shape, np.float32))
    assert f"input 'x' has shape {list(shape)}" in e.message
    assert e.want == "[1, 2, 3], or [samples, 1, 2, 3]"


def test_no_sample_at_all():
    assert "input 'x' holds no sample" in fault(x=np.zeros((0, *SHAPE), np.float32)).message


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.int64])
def test_real_numbers_become_floats(dtype):
    whole = np.round(X)  # small whole numbers, which all the types have
    assert run({"x": whole.astype(dtype), "ids": IDS})["y"].tolist() == run({"x": whole, "ids": IDS})["y"].tolist()


@pytest.mark.parametrize("ids", [IDS, np.stack([IDS] * 3)])
def test_inputs_must_agree_on_samples(ids):
    e = fault(x=np.stack([X, X]), ids=ids)
    assert "'x' 2 samples" in e.message
    assert "'ids'" in e.message


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_must_be_finite(value):
    bad = X.copy()
    bad[0, 1, 2] = value
    e = fault(x=bad)
    assert "input 'x' holds NaN or infinity: 1 of 6 values, the first at [0, 1, 2]" in e.message


@pytest.mark.parametrize("dtype", [np.complex64, "U3"])
def test_types_of_another_kind_are_refused(dtype):
    e = fault(x=X.astype(dtype))
    assert "input 'x' has type" in e.message
    assert e.want == "float32"
    assert "astype(np.float32)" in str(e.hint)


@pytest.mark.parametrize("ids", [IDS.astype(np.float32), IDS.astype(bool)])
def test_integers_are_not_guessed(ids):
    assert "input 'ids' has type" in fault(ids=ids).message


def test_conversions_that_keep_every_value():
    assert run({"x": X.astype(np.float64), "ids": IDS.astype(np.uint8)})["y"].tolist() == Y
    assert run({"x": X.astype(">f4"), "ids": IDS.astype(">i8")})["next"].tolist() == [6, 8]
    assert run({"x": np.asfortranarray(X), "ids": IDS})["y"].tolist() == Y


def test_wider_floats_are_rounded_as_a_cast_rounds():
    assert run({"x": np.full(SHAPE, 0.1), "ids": IDS})["y"].tolist() == (
        run({"x": np.full(SHAPE, 0.1, np.float32), "ids": IDS})["y"].tolist()
    )


def test_conversions_that_lose_something_are_refused():
    assert "input 'x' holds NaN or infinity" in fault(x=np.full(SHAPE, 1e300)).message
    assert "input 'ids' has type" in fault(ids=np.array([2**63, 1], np.uint64)).message


def test_an_unknown_tensor_is_refused_with_a_suggestion():
    with pytest.raises(DataError, match="no tensor 'qq'") as e:
        run(tensors=["qq"])
    assert "'q'" in str(e.value.hint)


def test_a_program_without_inputs_runs_once():
    p = program()
    assert len(check_inputs(replace(p, inputs=[]), {})) == 1
