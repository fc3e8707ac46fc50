"""input_batch and separate_batch: each sample of a batch gives the integers that the model alone gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper
from PIL import Image

from bpuc.cli.main import _run
from tests.unit.ops.onnx_cases import model

RNG = np.random.default_rng(3)
W1 = RNG.normal(size=(6, 3, 3, 3)).astype(np.float32) / 5
W2 = RNG.normal(size=(4, 6, 1, 1)).astype(np.float32)
NAMES_OF = ("alone", "many", "apart")
NAMES = {"featuremap": "featuremap", "nv12": "rgb", "bgr": "rgb"}


def convs() -> list[NodeProto]:
    return [
        helper.make_node("Conv", ["x", "w1"], ["a"], "c1", pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "r"),
        helper.make_node("Conv", ["b", "w2"], ["c"], "c2"),
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    samples = rng.uniform(0, 255, (6, 1, 3, 16, 16)).astype(np.float32)
    np.savez("one.npz", x=samples)
    np.savez("flat.npz", x=samples[:, 0])
    np.savez("odd.npz", x=samples[:5, 0])
    for name in ("images", "cal"):
        Path(name).mkdir()
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (20, 30, 3)).astype(np.uint8)).save(f"images/{i}.png")
        np.save(f"cal/{i}.npy", samples[i])
    return tmp_path


def write(name: str, rt: str, more: str, nodes: list[NodeProto], batch: int = 1, **constants: Any) -> str:
    proto = model(nodes, {"x": (batch, 3, 16, 16)}, ["y"], {"w1": W1, "w2": W2, **constants})
    Path(f"{name}.onnx").write_bytes(proto.SerializeToString())
    scale = "" if rt == "featuremap" else "scale_value: 0.0039, "
    Path(f"{name}.yaml").write_text(
        f"model_parameters: {{onnx_model: {name}.onnx, march: bayes-e, working_dir: out, "
        f"output_model_file_prefix: {name}}}\n"
        f"input_parameters: {{input_type_rt: {rt}, input_type_train: {NAMES[rt]}, input_layout_train: NCHW, "
        f"input_layout_rt: NHWC, {scale}{more}}}\n"
        "calibration_parameters: {cal_data_dir: cal, calibration_type: max}\n"
    )
    return f"{name}.yaml"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*args: str, code: int = 0) -> str:
        capsys.readouterr()
        done, said = _run(list(args)), capsys.readouterr()
        assert done == code, said.err
        return " ".join((said.out + said.err).split())

    return run


def results(run: Any, name: str, inputs: str) -> Any:
    run("run", f"out/{name}.bpuc", "--inputs", inputs, "-o", f"{name}.npz", "--integers")
    return np.load(f"{name}.npz")["y"]


def reshaped() -> list[NodeProto]:
    """With a target of Reshape that has the batch of 1 in it, as exporters write it."""
    return [*convs(), helper.make_node("Reshape", ["c", "shape"], ["y"], "flat")]


@pytest.mark.parametrize("rt", ["featuremap", "nv12", "bgr"])
@pytest.mark.usefixtures("folder")
def test_each_sample_as_alone(run: Any, rt: str) -> None:
    shape = {"shape": np.array([1, 4, 64], np.int64)}
    for name, more in (("alone", ""), ("many", "input_batch: 3"), ("apart", "input_batch: 3, separate_batch: True")):
        run("compile", "-c", write(name, rt, more, reshaped(), **shape), "--report", f"{name}.json")
    inputs = ["one.npz"] if rt == "featuremap" else ["one.npz", "images"]
    for source in inputs:
        want = results(run, "alone", source)
        assert want.shape == (6, 1, 4, 64)
        for name in ("many", "apart"):
            got = results(run, name, source if source == "images" else "flat.npz")
            np.testing.assert_array_equal(got.reshape(want.shape), want)
            assert got.shape == (2, 3, 4, 64)
    scales = [{t["name"]: t["scale"] for t in json.loads(Path(f"{n}.json").read_text())["tensors"]} for n in NAMES_OF]
    assert all(s["b"] == scales[0]["b"] for s in scales)
    report = json.loads(Path("apart.json").read_text())
    assert report["batch"] == {"size": 3, "inputs": {"x": ["x_0", "x_1", "x_2"]}}
    one = {"featuremap": [1, 3, 16, 16], "nv12": [24, 16], "bgr": [1, 16, 16, 3]}[rt]
    assert [i["shape"] for i in report["inputs"]] == [one] * 3
    assert "HzPreprocess" not in {n["op"] for n in report["nodes"]}
    assert "batch: a run takes 3 samples, x as x_0 to x_2" in run("info", "out/apart.bpuc")


@pytest.mark.usefixtures("folder")
def test_targets_that_hold_the_batch_times_something(run: Any) -> None:
    """As in attention by areas: [1, 4, 64] -> [2, 2, 64] -> [1, 4, 8, 8] -> twice the size."""
    nodes = [
        *convs(),
        helper.make_node("Reshape", ["c", "areas"], ["d"], "areas"),
        helper.make_node("Softmax", ["d"], ["e"], "soft", axis=-1),
        helper.make_node("Reshape", ["e", "back"], ["f"], "back"),
        helper.make_node("Resize", ["f", "", "", "sizes"], ["y"], "up", mode="nearest"),
    ]
    shapes = {"areas": np.array([2, 2, 64]), "back": np.array([1, 4, 8, 8]), "sizes": np.array([1, 4, 16, 16])}
    for name, more in (("alone", ""), ("many", "input_batch: 3")):
        run("compile", "-c", write(name, "featuremap", more, nodes, **shapes))
    want = results(run, "alone", "one.npz")
    np.testing.assert_array_equal(results(run, "many", "flat.npz").reshape(want.shape), want)


@pytest.mark.usefixtures("folder")
def test_a_model_with_a_batch_of_its_own(run: Any) -> None:
    nodes = [*convs()[:2], helper.make_node("Conv", ["b", "w2"], ["y"], "c2")]
    rng = np.random.default_rng(6)
    np.savez("batches.npz", x=rng.normal(size=(4, 2, 3, 16, 16)).astype(np.float32))
    for name, more in (("whole", ""), ("parts", "separate_name: x")):
        run("compile", "-c", write(name, "featuremap", more, nodes, 2), "--data", "batches.npz")
    np.testing.assert_array_equal(results(run, "parts", "batches.npz"), results(run, "whole", "batches.npz"))


@pytest.mark.usefixtures("folder")
def test_numbers_of_samples_that_do_not_fit(run: Any) -> None:
    run("compile", "-c", write("many", "nv12", "input_batch: 4", reshaped(), shape=np.array([1, 4, 64])))
    text = run("run", "out/many.bpuc", "--inputs", "odd.npz", "-o", "o.npz", code=1)
    assert "holds 5 samples, and a run takes 4 at once" in text
    text = run("run", "out/many.bpuc", "--inputs", "images", "-o", "o.npz", code=1)
    assert "images holds 6 samples, and a run takes 4 at once" in text
    assert not Path("o.npz").exists()


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        ([helper.make_node("ReduceMean", ["c"], ["y"], "m", axes=[0, 2, 3], keepdims=0)], "output 'y' has the shape"),
        (
            [
                helper.make_node("ReduceMax", ["c"], ["d"], "m", axes=[0], keepdims=1),
                helper.make_node("Sub", ["c", "d"], ["y"], "s"),
            ],
            "the model mixes its first axis",
        ),
        (
            [helper.make_node("Concat", ["c", "k"], ["d"], "cat", axis=1), helper.make_node("Relu", ["d"], ["y"], "t")],
            "cannot be read with a batch of 3",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_models_that_have_no_batch(run: Any, tail: list[NodeProto], words: str) -> None:
    config = write("m", "featuremap", "input_batch: 3", [*convs(), *tail], k=np.ones((1, 1, 8, 8), np.float32))
    text = run("compile", "-c", config, code=1)
    assert words in text
    assert "where: m.yaml" in text


@pytest.mark.usefixtures("folder")
def test_what_is_asked_for_in_vain(run: Any) -> None:
    nodes = [*convs()[:2], helper.make_node("Conv", ["b", "w2"], ["y"], "c2")]
    assert "has no batch to separate" in run("compile", "-c", write("m", "featuremap", "separate_batch: True", nodes))
    text = run("compile", "-c", write("m", "featuremap", "separate_name: xx", nodes), code=1)
    assert "the model has no input 'xx'" in text
    config = write("m", "featuremap", "input_batch: 3", nodes, 2)
    assert "input 'x' has the shape [2, 3, 16, 16]" in run("compile", "-c", config, "--random-data", code=1)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["alone", "many", "apart"])
def test_all_commands_read_samples_alike(run: Any, name: str) -> None:
    """[6, 1, 3, 16, 16] in every form that says the same, through run, compare and badcase."""
    more = {"alone": "", "many": "input_batch: 3", "apart": "input_batch: 3, separate_batch: True"}[name]
    run("compile", "-c", write(name, "featuremap", more, reshaped(), shape=np.array([1, 4, 64])))
    samples = np.load("one.npz")["x"]
    forms = {"with": samples, "without": samples[:, 0]}
    if more:
        forms |= {"runs": samples.reshape(2, 3, 3, 16, 16), "long": samples.reshape(2, 3, 1, 3, 16, 16)}
    rows, outs = [], []
    for form, array in forms.items():
        np.savez("in.npz", x=array)
        outs.append(results(run, name, "in.npz"))
        run("compare", f"{name}.onnx", f"out/{name}.bpuc", "--data", "in.npz", "-o", form)
        run("badcase", f"{name}.onnx", f"out/{name}.bpuc", "--data", "in.npz", "-o", form, "--top", "2")
        rows.append([Path(form, f"{tool}.json").read_text() for tool in ("compare", "badcase")])
    assert outs[0].shape == ((2, 3, 4, 64) if more else (6, 1, 4, 64))
    for row, out in zip(rows, outs):
        assert row == rows[0]
        np.testing.assert_array_equal(out, outs[0])
    # what badcase kept is input of a run: whole batches of the worst, in their order
    worst = [w["sample"] for w in json.loads(rows[0][1])["worst"]]
    assert len(worst) == (3 if more else 2)
    got = results(run, name, "with/inputs.npz").reshape(-1, 4, 64)
    np.testing.assert_array_equal(got, outs[0].reshape(-1, 4, 64)[worst])


@pytest.mark.usefixtures("folder")
def test_a_sample_without_its_batch_has_no_row_of_its_own(run: Any) -> None:
    run("compile", "-c", write("alone", "featuremap", "", reshaped(), shape=np.array([1, 4, 64])))
    samples = np.load("one.npz")["x"]
    np.savez("in.npz", x=samples[2, 0])
    np.testing.assert_array_equal(results(run, "alone", "in.npz"), results(run, "alone", "one.npz")[2])
