"""`bpuc stats`: values of every tensor of the file against onnxruntime and numpy."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.conftest import MODELS, Bpuc
from tests.cli.test_compare import floats

MODEL, DATA = MODELS / "digits_inception.onnx", MODELS / "digits_calib.npz"


def test_every_figure_against_numpy(bpuc: Bpuc, tmp_path: Path) -> None:
    done = bpuc("stats", MODEL, "--data", DATA, "--samples", 4, "-o", tmp_path / "o")
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "o/stats.json").read_text(encoding="utf-8"))
    assert (found["schema"], found["samples"]) == ("bpuc.stats/1", 4)
    with np.load(DATA) as data:
        truth = [floats(MODEL, {"image": a.reshape(1, 1, 16, 16)}) for a in data["image"][:4]]
    weights = {i.name: numpy_helper.to_array(i) for i in onnx.load(str(MODEL)).graph.initializer}
    rows = {r["tensor"]: r for r in found["tensors"]}
    assert {*truth[0]} <= {*rows}
    for name, r in rows.items():
        if name not in truth[0] and name not in weights:
            continue
        whole = weights[name] if name in weights else np.stack([t[name] for t in truth])
        x = whole.astype(np.float64).ravel()
        near = {"abs": 1e-5, "rel": 1e-4}
        assert r["values"] == x.size
        assert r["min"] == pytest.approx(x.min(), **near), name
        assert r["max"] == pytest.approx(x.max(), **near)
        assert r["mean"] == pytest.approx(x.mean(), **near)
        assert r["std"] == pytest.approx(x.std(), **near)
        assert r["kurtosis"] == pytest.approx(((x - x.mean()) ** 4).mean() / x.var() ** 2, rel=1e-3)
        assert r["zeros"] == pytest.approx((x == 0).mean(), abs=1e-3)
        assert sum(r["histogram"]["counts"]) == x.size
        if name in truth[0] and whole.ndim == 5:
            assert r["channels"]["max"] == pytest.approx(whole.max((0, 1, 3, 4)), **near)
    assert {r["role"] for r in rows.values()} == {"input", "weight", "bias", "result", "output"}
    assert rows["stem.weight"]["role"] == "weight"
    assert "stem.bn.gamma" not in rows
    assert rows["image"]["role"] == "input"
    assert rows["logits"]["role"] == "output"
    lines = list(csv.DictReader((tmp_path / "o/stats.csv").read_text(encoding="utf-8").splitlines()))
    assert [x["tensor"] for x in lines] == [*rows]
    assert float(lines[0]["percentiles.50"]) == rows["image"]["percentiles"]["50"]


def test_the_same_bytes_and_80_columns(bpuc: Bpuc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for folder, threads in (("a", 1), ("b", 2)):
        done = bpuc("stats", MODEL, "--data", DATA, "--samples", 2, "-o", tmp_path / folder, "--threads", threads)
        assert max(map(len, done.out.splitlines())) <= 80
    for name in ("stats.json", "stats.csv", "stats.html"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Log of data with a zero, a channel that is 100 times the others, a value far out, and what is far from 0."""
    nodes = [
        helper.make_node("Log", ["x"], ["log"], name="log"),
        helper.make_node("Mul", ["x", "gains"], ["wide"], name="wide"),
        helper.make_node("Pow", ["x", "power"], ["tail"], name="tail"),
        helper.make_node("Add", ["x", "far"], ["away"], name="away"),
    ]
    gains = np.array([1, 1, 100], np.float32).reshape(1, 3, 1, 1)
    constants = {"gains": gains, "power": np.float32(8), "far": np.float32(50)}
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, [1, 3, 40, 40])],
        [info(n, TensorProto.FLOAT, None) for n in ("log", "wide", "tail", "away")],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    path = tmp_path / "odd.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    x = np.random.default_rng(0).uniform(0.1, 1, (2, 1, 3, 40, 40)).astype(np.float32)
    x[0, 0, 0, 0, 0], x[1, 0, 1, 1, 1] = 0.0, 4.0
    np.savez(tmp_path / "x.npz", x=x)
    return path


def test_what_stands_out_is_named(bpuc: Bpuc, odd: Path) -> None:
    done = bpuc("stats", odd, "--data", odd.parent / "x.npz", "-o", odd.parent / "o")
    assert done.code == 0, done.err
    rows = {r["tensor"]: r for r in json.loads((odd.parent / "o/stats.json").read_text(encoding="utf-8"))["tensors"]}
    assert rows["log"]["not_finite"] == 1
    assert rows["log"]["min"] == pytest.approx(np.log(0.1), abs=0.01)
    assert "infinite" in rows["log"]["note"]
    assert "100 times" in rows["wide"]["note"] or "channels differ" in rows["wide"]["note"]
    assert rows["tail"]["note"].startswith("outliers")
    assert rows["tail"]["kurtosis"] > 100
    assert rows["away"]["note"].startswith("far from zero")
    assert rows["x"]["note"] is None
    assert "log: 1 values" in done.out


@pytest.mark.parametrize(
    ("more", "code", "said"), [([], 2, "no data were named"), (["--data", "none.npz"], 1, "cannot read data")]
)
def test_faults(bpuc: Bpuc, tmp_path: Path, more: list[str], code: int, said: str) -> None:
    done = bpuc("stats", MODEL, *more, "-o", tmp_path / "o")
    assert done.code == code
    assert said in done.err
    assert not (tmp_path / "o").exists()
    assert bpuc("stats", "-o", tmp_path / "o", "--data", DATA).code == 2


def test_of_many_results_those_of_the_largest_kurtosis_come_first(bpuc: Bpuc, tmp_path: Path) -> None:
    words = ["stats", MODELS / "digits_inception.onnx", "--data", MODELS / "digits_calib.npz", "--samples", 2]
    done = bpuc(*words, "-o", tmp_path / "o", "--top", 5)
    rows = json.loads((tmp_path / "o/stats.json").read_text(encoding="utf-8"))["tensors"]
    rows = [r for r in rows if r["role"] in ("input", "result", "output")]
    want = [r["tensor"] for r in sorted(rows, key=lambda r: -r["kurtosis"])[:5]]
    lines = done.out.splitlines()
    start = next(i for i, line in enumerate(lines) if "largest kurtosis first" in line) + 3
    assert [line.split()[0] for line in lines[start : start + 5]] == want
