"""Scales a channel, end to end: nearer to float than one scale, and both engines agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from bpuc.flow.compile import Compiled, compile_model
from bpuc.flow.request import make_request
from bpuc.perf import estimate
from bpuc.program.container import to_bytes
from bpuc.sim.run import run_program

CHANNELS = 8
SPREAD = 4.0 ** np.arange(CHANNELS)  # of the channels' ranges: 1 to 16384


@pytest.fixture
def spread(tmp_path: Path) -> tuple[Path, Path]:
    """Conv, Relu, depthwise Conv with a residual Conv, and their calibration data; channel c is SPREAD[c] times larger
    inside and divided by it again at the end."""
    rng = np.random.default_rng(0)
    gain = SPREAD.reshape(-1, 1, 1, 1)
    weights = {
        "w1": rng.normal(size=(CHANNELS, 3, 1, 1)) * gain,
        "w2": rng.normal(size=(CHANNELS, 1, 3, 3)),
        "w3": rng.normal(size=(4, CHANNELS, 1, 1)) / gain.reshape(1, -1, 1, 1),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="c1"),
        helper.make_node("Relu", ["a"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w2"], ["d"], name="dw", group=CHANNELS, pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["d", "r"], ["s"], name="add"),
        helper.make_node("Conv", ["s", "w3"], ["y"], name="c3"),
        helper.make_node("Sigmoid", ["y"], ["z"], name="sig"),
    ]
    graph = helper.make_graph(
        nodes,
        "spread",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 4, 8, 8])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "c.npz", x=rng.uniform(-1, 1, (8, 1, 3, 8, 8)).astype(np.float32))
    return tmp_path / "m.onnx", tmp_path / "c.npz"


def compiled(files: tuple[Path, Path], effort: int) -> Compiled:
    return compile_model(make_request(str(files[0]), "bayes-e", data=str(files[1]), effort=effort))


def error(files: tuple[Path, Path], c: Compiled) -> float:
    x = np.load(files[1])["x"]
    session = ort.InferenceSession(files[0])
    want = np.stack([session.run(None, {"x": v})[0] for v in x])
    return float(np.abs(run_program(c.program, {"x": x})["z"] - want).mean())


def test_channels_far_apart_come_nearer_to_float(spread: tuple[Path, Path]) -> None:
    assert error(spread, compiled(spread, 1)) < error(spread, compiled(spread, 0)) / 5


def test_engines_agree_and_tensors_keep_their_real_values(spread: tuple[Path, Path]) -> None:
    c = compiled(spread, 1)
    x = np.load(spread[1])["x"][:2]
    fast = run_program(c.program, {"x": x}, tensors="all", integers=True)
    reference = run_program(c.program, {"x": x}, "reference", tensors="all", integers=True)
    assert all((fast[k] == reference[k]).all() for k in fast)
    row = next(t for t in c.program.report["tensors"] if t["name"] == "r")
    assert row["axis"] == 1
    assert len(row["scale"]) == CHANNELS
    assert row["threshold"] == pytest.approx([127 * s for s in row["scale"]])
    w1 = next(numpy_helper.to_array(i) for i in onnx.load(spread[0]).graph.initializer if i.name == "w1")
    want = np.maximum(np.einsum("oi,snihw->snohw", w1[:, :, 0, 0], x), 0)
    got = run_program(c.program, {"x": x}, tensors=["r"])["r"]
    assert np.abs(got - want).max((0, 1, 3, 4)) == pytest.approx(0, abs=float(4 * max(row["scale"])))
    assert (np.abs(got - want).max((0, 1, 3, 4)) < 4 * np.array(row["scale"])).all()


def test_without_a_concat_the_way_of_sharing_changes_no_byte(spread: tuple[Path, Path]) -> None:
    found = {}
    for mode in ("auto", "always", "never"):
        request = make_request(str(spread[0]), "bayes-e", data=str(spread[1]), share_scales=mode)
        program = compile_model(request).program
        found[mode] = to_bytes(program)
        assert len(next(t["scale"] for t in program.report["tensors"] if t["name"] == "r")) == CHANNELS
    assert found["never"] == found["auto"] == found["always"]


def test_a_calibration_file_gives_the_same_program(spread: tuple[Path, Path], tmp_path: Path) -> None:
    from bpuc.calibrate import save_calibration
    from bpuc.flow.calibrate import calibrate

    found, _ = calibrate(make_request(str(spread[0]), data=str(spread[1])))
    save_calibration(found, tmp_path / "c.json")
    request = make_request(str(spread[0]), "bayes-e", calib=str(tmp_path / "c.json"), data=str(spread[1]))
    assert compile_model(request).program == compiled(spread, 1).program
    # without data nothing can be measured, but all that the file holds is used
    alone = compile_model(make_request(str(spread[0]), "bayes-e", calib=str(tmp_path / "c.json")))
    assert error(spread, alone) < error(spread, compiled(spread, 0)) / 5


@pytest.mark.parametrize("effort", [2, 3])
def test_more_effort_widens_little_and_engines_agree(spread: tuple[Path, Path], effort: int) -> None:
    c = compiled(spread, effort)
    x = np.load(spread[1])["x"][:2]
    fast = run_program(c.program, {"x": x}, tensors="all", integers=True)
    reference = run_program(c.program, {"x": x}, "reference", tensors="all", integers=True)
    assert all((fast[k] == reference[k]).all() for k in fast)
    assert error(spread, c) < error(spread, compiled(spread, 1))
    assert any(t["dtype"] == "int16" for t in c.program.report["tensors"])
    assert c.program.report.get("int16_mac_share", 0.0) <= 0.15
    assert compiled(spread, effort).program == c.program


@pytest.mark.parametrize("limit", [0.5, 5, 200])
def test_int16_stays_within_the_limit_of_latency(spread: tuple[Path, Path], limit: float) -> None:
    def latency(**options: object) -> float:
        request = make_request(str(spread[0]), "bayes-e", data=str(spread[1]), effort=3, **options)  # type: ignore[arg-type]
        c = compile_model(request)
        return float(estimate(c.program, c.prepared.ctx.need_target())["summary"]["latency_us"])

    alone, limited, free = latency(auto_int16=False), latency(max_latency_loss=limit), latency()
    assert limited <= alone * (1 + limit / 100)
    assert limited == free or limit < 200


def test_a_limit_of_latency_keeps_int16_out(spread: tuple[Path, Path]) -> None:
    request = make_request(str(spread[0]), "bayes-e", data=str(spread[1]), effort=3, max_latency_loss=0)
    tensors = compile_model(request).program.report["tensors"]
    assert not any(t["dtype"] == "int16" for t in tensors)


def test_scores_beside_decoded_boxes_survive(tmp_path: Path) -> None:
    """Boxes times the stride of their place, joined with scores that are 400 times smaller in one output."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(7, 3, 1, 1)).astype(np.float32),
        "flat": np.array([1, 7, 64], np.int64),
        "stride": np.repeat([32.0, 128.0], 32).astype(np.float32).reshape(1, 1, 64),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="c1"),
        helper.make_node("Reshape", ["a", "flat"], ["f"], name="flat"),
        helper.make_node("Split", ["f", "sizes"], ["b", "s"], name="split", axis=1),
        helper.make_node("Mul", ["b", "stride"], ["p"], name="decode"),
        helper.make_node("Sigmoid", ["s"], ["q"], name="score"),
        helper.make_node("Concat", ["p", "q"], ["y"], name="join", axis=1),
    ]
    weights["sizes"] = np.array([4, 3], np.int64)
    graph = helper.make_graph(
        nodes,
        "head",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 7, 64])],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    x = rng.uniform(-1, 1, (8, 1, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "c.npz", x=x)
    # int16 would do too, but is not needed: a Dequantize takes a scale a channel for nothing
    request = make_request(str(tmp_path / "m.onnx"), "bayes-e", data=str(tmp_path / "c.npz"), auto_int16=False)
    program = compile_model(request).program
    session = ort.InferenceSession(tmp_path / "m.onnx")
    want = np.stack([session.run(None, {"x": v})[0] for v in x])
    got = {e: run_program(program, {"x": x}, e)["y"] for e in ("fast", "reference")}
    np.testing.assert_array_equal(got["fast"], got["reference"])
    assert np.abs(want[:, :, :4]).max() > 200
    assert np.abs(got["fast"] - want)[:, :, 4:].max() < 0.03
    assert np.abs(got["fast"] - want)[:, :, :4].max() < 0.03 * np.abs(want[:, :, :4]).max()
