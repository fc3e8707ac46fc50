"""Both runs of a twin against the float model in onnxruntime and the compiled program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from bpuc_passes.refine_layers import RefineLayers
from onnx import TensorProto, helper, numpy_helper

from bpuc.calibrate.twin import MOST_SAMPLES, sample_count, spread_samples
from bpuc.flow.compile import Compiled, compile_model
from bpuc.flow.request import make_request
from bpuc.ops.base import Array
from bpuc.passkit import PassContext
from bpuc.passkit.layer import Layer
from bpuc.sim.run import run_program

OPTIONS = {"channel_scales": False, "high_precision_outputs": False}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Conv, SiLU, depthwise Conv with a clamp, residual Conv, mean, MatMul; 12 samples."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.normal(size=(12, 3, 3, 3)) / 3,
        "b1": rng.normal(size=12),
        "w2": rng.normal(size=(12, 1, 3, 3)) / 2,
        "w3": rng.normal(size=(12, 12, 1, 1)) / 2,
        "w4": rng.normal(size=(12, 5)),
        "low": np.float32(0),
        "high": np.float32(6),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], name="c1", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["a"], ["g"], name="gate"),
        helper.make_node("Mul", ["a", "g"], ["s"], name="silu"),
        helper.make_node("Conv", ["s", "w2"], ["d"], name="dw", group=12, pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["d", "low", "high"], ["e"], name="clip"),
        helper.make_node("Conv", ["e", "w3"], ["f"], name="c3"),
        helper.make_node("Add", ["f", "s"], ["h"], name="add"),
        helper.make_node("GlobalAveragePool", ["h"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["v"], name="flat"),
        helper.make_node("MatMul", ["v", "w4"], ["y"], name="fc"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("y", [1, 5]), ("h", [1, 12, 16, 16]))],
        [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "c.npz", x=rng.normal(size=(12, 1, 3, 16, 16)).astype(np.float32))
    return tmp_path / "m.onnx", tmp_path / "c.npz"


def compiled(files: tuple[Path, Path], **options: object) -> Compiled:
    return compile_model(make_request(str(files[0]), "bayes-e", data=str(files[1]), **options))  # type: ignore[arg-type]


def changes(c: Compiled) -> int:
    (count,) = (row["changes"] for row in c.program.report["passes"] if row["name"] == "refine-layers")
    return int(count)


def noise(files: tuple[Path, Path], c: Compiled) -> float:
    """Relative error of output y on samples that calibration did not see."""
    x = np.random.default_rng(9).normal(size=(40, 1, 3, 16, 16)).astype(np.float32)
    session = ort.InferenceSession(files[0])
    want = np.stack([session.run(["y"], {"x": v})[0] for v in x]).astype(float)
    return float(np.square(run_program(c.program, {"x": x})["y"] - want).sum() / np.square(want).sum())


def test_a_walk_gives_what_float_and_program_give(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[Array, ...]] = []
    seen: list[str] = []

    def run(self: RefineLayers, graph: object, ctx: PassContext) -> list[object]:
        def visit(layer: Layer) -> None:
            seen.append(layer.op.name)
            for a, b in zip(layer.got, layer.again()):
                np.testing.assert_array_equal(a, b)

        if ctx.layers is None:  # a trial, before the model itself is compiled
            return []
        found.extend(ctx.layers(graph, visit))  # type: ignore[arg-type]
        return []

    monkeypatch.setattr(RefineLayers, "run", run)
    c = compiled(files, **OPTIONS)
    x = np.load(files[1])["x"]
    x = x[np.linspace(0, 11, 8).round().astype(int)]
    assert len(found) == 8
    assert seen == ["c1", "dw", "c3", "fc"]
    session = ort.InferenceSession(files[0])
    program = run_program(c.program, {"x": x})
    step = {o["name"]: o["scale"] for o in c.program.report["outputs"]}
    for i, (y, h, y8, h8) in enumerate(found):
        want = session.run(None, {"x": x[i]})
        np.testing.assert_allclose(y, want[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(h, want[1], rtol=1e-4, atol=1e-4)
        # float32 sums may fall on the other side of a half
        assert np.abs(y8 - program["y"][i]).max() < 1.01 * step["y"]
        assert np.abs(h8 - program["h"][i]).max() < 1.01 * step["h"]
        assert (np.abs(h8 - program["h"][i]) < 0.01 * step["h"]).mean() > 0.99


def test_what_clipping_takes_from_the_mean_is_given_back(files: tuple[Path, Path]) -> None:
    # a low percentile clips much, always to one side
    rough = {"observer": "percentile", "observer_opt": ["percentile=97"]}
    assert noise(files, compiled(files, **rough)) < noise(files, compiled(files, bias_correction=False, **rough)) / 3


def test_each_correction_can_be_left_out(files: tuple[Path, Path]) -> None:
    base = {"effort": 2, "auto_int16": False}
    plain = compiled(files, bias_correction=False, adaptive_rounding=False, **base)
    rounded = compiled(files, bias_correction=False, **base)
    both = compiled(files, **base)
    assert changes(plain) == 0
    rows = [r for r in both.program.report["refinements"] if r["step"] == "refine-layers"]
    assert len(rows) == changes(both)
    assert {r["where"] for r in rows} <= {"c1", "dw", "c3", "fc"}
    assert all(r["gain"] for r in rows)
    assert 0 < changes(rounded) < changes(both)


def test_same_bytes_on_every_run(files: tuple[Path, Path]) -> None:
    a, b = (compiled(files, effort=2, threads=n).program for n in (1, 2))
    assert a == b


def test_samples_at_even_distances() -> None:
    source = [{"x": np.array(i)} for i in range(10)]
    assert [int(s["x"]) for s in spread_samples(source, 10, 4)] == [0, 3, 6, 9]
    assert [int(s["x"]) for s in spread_samples(source, 10, 40)] == list(range(10))


def test_large_maps_are_seen_on_fewer_samples(files: tuple[Path, Path]) -> None:
    graph = compiled(files).prepared.graph
    assert sample_count(graph, 1) == MOST_SAMPLES[1]
    for t in graph.tensors():
        t.shape = tuple(d * 40 if i > 1 and t.rank == 4 else d for i, d in enumerate(t.shape))
    # 640 x 640: some 36 maps of 1.6 MB in float, twice over
    assert 2 <= sample_count(graph, 1) < MOST_SAMPLES[1]
    assert replace(graph.inputs[0], name="z").elements == 3 * 640 * 640


def test_minus_infinity_on_both_sides_is_no_error(tmp_path: Path) -> None:
    keep = np.array([[1, 0, 1, 1]], np.bool_)
    graph = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (float[1, 4] x, bool[1, 4] keep) => (float[1, 4] y) <float hidden = {-inf}> {
          r = Relu(x)
          m = Where(keep, r, hidden)
          y = Identity(m)
        }""")
    (tmp_path / "m.onnx").write_bytes(graph.SerializeToString())
    x = np.array([[1, 2, 3, 4]], np.float32)
    np.savez(tmp_path / "d.npz", x=x[None], keep=keep[None])
    made = compile_model(make_request(str(tmp_path / "m.onnx"), "bayes-e", data=str(tmp_path / "d.npz")))
    found = run_program(made.program, {"x": x, "keep": keep})["y"]
    np.testing.assert_allclose(found, [[1, -np.inf, 3, 4]], rtol=0.02)
