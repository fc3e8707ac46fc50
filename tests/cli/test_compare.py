"""`bpuc compare`: the table against onnxruntime on one side and `bpuc run` on the other."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.conftest import MODELS, Bpuc

MODEL, DATA = MODELS / "hybrid.onnx", MODELS / "hybrid_calib.npz"


def floats(model: Path, sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every tensor of the file, from onnxruntime, unoptimized."""
    proto = onnx.load(str(model))
    names = [o for n in proto.graph.node for o in n.output if o]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return {**sample, **dict(zip(names, session.run(names, sample)))}


def document(bpuc: Bpuc, out: Path, *words: Any) -> dict[str, Any]:
    done = bpuc("compare", *words, "-o", out)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads((out / "compare.json").read_text(encoding="utf-8"))
    return found


def test_every_figure_against_numpy(bpuc: Bpuc, compiled: Path, tmp_path: Path) -> None:
    count = 3
    rows = document(bpuc, tmp_path / "o", MODEL, compiled / "hybrid.bpuc", "--data", DATA, "--samples", count)[
        "tensors"
    ]
    with np.load(DATA) as data:
        (name,) = data.files
        samples = [np.asarray(a) for a in data[name][:count]]
    np.savez(tmp_path / "in.npz", **{name: np.stack(samples)})
    given = ["--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--tensors", "all"]
    assert bpuc("run", compiled / "hybrid.bpuc", *given).code == 0
    shape = [d.dim_value for d in onnx.load(str(MODEL)).graph.input[0].type.tensor_type.shape.dim]
    truth = [floats(MODEL, {name: s.reshape(shape)}) for s in samples]
    with np.load(tmp_path / "out.npz") as got:
        common = [n for n in truth[0] if n in got.files]
        assert {r["tensor"] for r in rows} == {*common}
        assert len(common) > 8
        for r in rows:
            a = np.stack([t[r["tensor"]] for t in truth]).astype(np.float64)
            b = got[r["tensor"]].astype(np.float64).reshape(a.shape)
            e = b - a
            # onnxruntime may sum in another order here and there
            assert r["mse"] == pytest.approx((e**2).mean(), rel=1e-3), r["tensor"]
            assert r["l1"] == pytest.approx(np.abs(e).mean(), rel=1e-3)
            assert r["max_abs"] == pytest.approx(np.abs(e).max(), rel=1e-3)
            assert r["sqnr"] == pytest.approx(10 * np.log10((a**2).sum() / (e**2).sum()), abs=0.01)
            assert r["cosine"] == pytest.approx((a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum()), abs=1e-6)
            assert r["float"]["max"] == pytest.approx(a.max(), rel=1e-5)
            assert r["integer"]["min"] == pytest.approx(b.min(), rel=1e-5)


def test_what_is_written(bpuc: Bpuc, compiled: Path, tmp_path: Path) -> None:
    words = [MODEL, compiled / "hybrid.bpuc", "--data", DATA, "--samples", 2]
    first = document(bpuc, tmp_path / "a", *words, "--threads", 1)
    assert first["schema"] == "bpuc.compare/1"
    assert (first["march"], first["samples"]) == ("bayes-e", 2)
    assert document(bpuc, tmp_path / "b", *words) == first
    for name in ("compare.json", "compare.csv", "compare.html"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["compare.csv", "compare.html", "compare.json"]
    lines = list(csv.DictReader((tmp_path / "a/compare.csv").read_text(encoding="utf-8").splitlines()))
    assert [x["tensor"] for x in lines] == [r["tensor"] for r in first["tensors"]]
    assert float(lines[1]["float.max"]) == first["tensors"][1]["float"]["max"]
    assert {r["device"] for r in first["tensors"]} == {"BPU", "CPU", None}


def test_text_is_80_columns_and_worst_first(bpuc: Bpuc, compiled: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = [MODEL, compiled / "hybrid.bpuc", "--data", DATA, "--samples", 2, "-o", tmp_path / "o", "--top", 4]
    done = bpuc("compare", *words)
    assert max(map(len, done.out.splitlines())) <= 80
    after = done.out[done.out.index("worst 4 tensors") :].splitlines()[3:7]
    rows = json.loads((tmp_path / "o/compare.json").read_text(encoding="utf-8"))["tensors"]
    worst = sorted(rows, key=lambda r: r["sqnr"])[:4]
    assert [x.split()[0] for x in after] == [r["tensor"] for r in worst]
    assert bpuc("compare", *words, "--json", "-", "--quiet").out.startswith('{\n "schema": "bpuc.compare/1"')


def test_a_bad_scale_is_found(bpuc: Bpuc, tmp_path: Path) -> None:
    """A scale far too small for one tensor: the hint names it and clipping, and tensors before it have none."""
    words = ["--march", "bayes-e", "--data", DATA, "--fixed-scale", "conv2=0.001"]
    assert bpuc("compile", MODEL, *words, "-o", tmp_path / "x.bpuc").code == 0
    found = document(bpuc, tmp_path / "o", MODEL, tmp_path / "x.bpuc", "--data", DATA, "--samples", 2)
    assert found["hints"][0]["tensor"] == "conv2"
    assert "clips" in found["hints"][0]["text"]
    assert "--dtype conv2=int16" in found["hints"][0]["text"]
    row = next(r for r in found["tensors"] if r["tensor"] == "conv2")
    assert row["clipped"] > 0.1
    assert row["fall"] > 6


def test_a_batch_is_compared_sample_by_sample(bpuc: Bpuc, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("input_parameters:\n  input_batch: 2\n", encoding="utf-8")
    words = ["--march", "bayes-e", "--data", DATA, "-c", config, "-o", tmp_path / "x.bpuc"]
    done = bpuc("compile", MODEL, *words)
    assert done.code == 0, done.err
    found = document(bpuc, tmp_path / "o", MODEL, tmp_path / "x.bpuc", "--data", DATA, "--samples", 4)
    assert found["samples"] == 4
    assert found["tensors"][-1]["sqnr"] > 20
    done = bpuc("compare", MODEL, tmp_path / "x.bpuc", "--data", DATA, "--samples", 3, "-o", tmp_path / "n")
    assert done.code == 1
    assert "3 samples, and a run of the binary takes 2 at once" in done.err
    assert not (tmp_path / "n").exists()


def test_removed_ends_are_compared_behind_them(bpuc: Bpuc, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text('model_parameters:\n  remove_node_type: "Quantize;Dequantize"\n', encoding="utf-8")
    words = ["--march", "bayes-e", "--data", DATA, "-c", config, "-o", tmp_path / "x.bpuc"]
    assert bpuc("compile", MODEL, *words).code == 0
    found = document(bpuc, tmp_path / "o", MODEL, tmp_path / "x.bpuc", "--data", DATA, "--samples", 2)
    assert found["outputs"] == ["out"]
    assert found["tensors"][-1]["sqnr"] > 20


@pytest.mark.parametrize(
    ("case", "code", "said"),
    [
        ("other model", 1, "was compiled from another model"),
        ("no data", 2, "no data were named"),
        ("nan", 1, "holds NaN or infinity"),
        ("shape", 1, "[8, 1, 3, 16, 15]"),
        ("no binary", 1, "cannot read"),
        ("a file as folder", 1, "is no folder"),
        ("a folder below a file", 1, "is no folder"),
        ("an empty name", 1, "names no folder"),
        ("no folder named", 2, "Missing option"),
        ("0 samples", 2, "--samples"),
    ],
)
def test_faults_leave_nothing(bpuc: Bpuc, compiled: Path, tmp_path: Path, case: str, code: int, said: str) -> None:
    with np.load(DATA) as data:
        ((name, array),) = ((n, data[n]) for n in data.files)
    bad, out = tmp_path / "bad.npz", tmp_path / "o"
    if case == "nan":
        array = array.copy()
        array[0].flat[3] = np.nan
    np.savez(bad, **{name: array[..., :-1] if case == "shape" else array})
    model = MODELS / "add_fixed.onnx" if case == "other model" else MODEL
    words: list[Any] = [model, compiled / "hybrid.bpuc", "--data", bad, "-o", out]
    if case == "no data":
        words = [model, compiled / "hybrid.bpuc", "-o", out]
    if case == "no binary":
        words[1] = tmp_path / "none.bpuc"
    if case == "a file as folder":
        words[-1] = bad
    if case == "a folder below a file":
        words[-1] = bad / "below"
    if case == "an empty name":
        words[-1] = ""
    if case == "no folder named":
        words = words[:-2]
    if case == "0 samples":
        words += ["--samples", "0"]
    done = bpuc("compare", *words)
    assert done.code == code
    assert said in " ".join(done.err.split())
    assert not out.exists()


def test_a_shared_scale_is_named(bpuc: Bpuc, tmp_path: Path) -> None:
    """A branch of a Concat that is 60 times smaller than the other, made to share the scale."""
    rng = np.random.default_rng(3)
    weights = {"wa": rng.normal(0, 0.01, (16, 3, 1, 1)), "wb": rng.normal(0, 0.6, (16, 3, 1, 1))}
    nodes = [
        helper.make_node("Conv", ["x", "wa"], ["a"], name="conv_a"),
        helper.make_node("Conv", ["x", "wb"], ["b"], name="conv_b"),
        helper.make_node("Concat", ["a", "b"], ["c"], name="cat", axis=1),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [info("c", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )
    path, data = tmp_path / "m.onnx", tmp_path / "d.npz"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    np.savez(data, x=rng.normal(0, 1, (4, 1, 3, 16, 16)).astype(np.float32))
    words = ["--march", "bayes-e", "--data", data, "--effort", 0, "--share-scales", "always"]
    assert bpuc("compile", path, *words, "-o", tmp_path / "x.bpuc").code == 0
    (hint,) = document(bpuc, tmp_path / "o", path, tmp_path / "x.bpuc", "--data", data)["hints"]
    assert hint["tensor"] == "a"
    assert "shares with 2 more" in hint["text"]
    assert "--keep-scale a " in hint["text"]
    words[-1:] = ["auto", "--keep-scale", "a"]
    assert bpuc("compile", path, *words, "-o", tmp_path / "x.bpuc").code == 0
    assert document(bpuc, tmp_path / "o", path, tmp_path / "x.bpuc", "--data", data)["hints"] == []
