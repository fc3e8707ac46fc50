"""`bpuc sensitivity` against numpy, and its table in `compile --template sensitive`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bpuc.flow.request import make_request
from bpuc.flow.sensitivity import sensitivity
from tests.cli.conftest import MODELS, Bpuc

RNG = np.random.default_rng(7)
W1, W2 = (RNG.normal(0, s, (8, 8, 1, 1)).astype(np.float32) for s in (0.3, 1.0))
W1[0], W2[:, 0] = 0, 40
X = RNG.normal(0, 1, (4, 1, 8, 6, 6)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two convolutions; what the second has for a channel that is always 0 spoils the scale of its weights."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="conv1"),
        helper.make_node("Relu", ["a"], ["b"], name="relu1"),
        helper.make_node("Conv", ["b", "w2"], ["y"], name="conv2"),
        helper.make_node("Sigmoid", ["b"], ["z"], name="side"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, [1, 8, 6, 6])],
        [info(n, TensorProto.FLOAT, None) for n in "yz"],
        [numpy_helper.from_array(W1, "w1"), numpy_helper.from_array(W2, "w2")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    np.savez(tmp_path / "x.npz", x=X)
    return path


def ranked(bpuc: Bpuc, model: Path, *more: Any, march: str = "bayes-e") -> dict[str, Any]:
    out = model.parent / "o"
    words = [model, "--data", model.parent / "x.npz", "--march", march, "-o", out]
    done = bpuc("sensitivity", *words, "--observer", "min_max", "--effort", 0, *more)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads((out / "sensitivity.json").read_text(encoding="utf-8"))
    return found


def by_weight(w: np.ndarray) -> np.ndarray:
    step = np.abs(w.astype(np.float64)).max((1, 2, 3), keepdims=True) / 127
    step = np.where(step > 0, step, 1)
    return np.clip(np.floor(w / step + 0.5), -127, 127) * step


def rounded(v: np.ndarray) -> np.ndarray:
    step = np.abs(v).max() / 127
    return np.clip(np.floor(v / step + 0.5), -128, 127) * step


def forward(x: np.ndarray, w1: np.ndarray, w2: np.ndarray, at: str = "") -> dict[str, np.ndarray]:
    def conv(v: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.einsum("snchw,kc->snkhw", v, w[:, :, 0, 0].astype(np.float64))

    x = rounded(x) if "x" in at else x
    b = np.maximum(conv(x.astype(np.float64), w1), 0)
    b = rounded(b) if "b" in at else b
    return {"y": conv(b, w2), "z": 1 / (1 + np.exp(-b))}


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


ALONE = {
    ("x", "activation"): (W1, W2, "x"),
    ("conv1", "activation"): (W1, W2, "b"),
    ("conv1", "weight"): ("1", W2, ""),
    ("conv2", "weight"): (W1, "2", ""),
}


def test_each_part_alone_against_numpy(bpuc: Bpuc, model: Path) -> None:
    found = ranked(bpuc, model)
    rows = {(r["op"], r["kind"]): r for r in found["ops"]}
    plain = forward(X, W1, W2)
    for key, (w1, w2, at) in ALONE.items():
        got = forward(X, by_weight(W1) if isinstance(w1, str) else w1, by_weight(W2) if isinstance(w2, str) else w2, at)
        want = {n: 1 - cosine(plain[n], got[n]) for n in plain}
        # the range is that of float32 results, numpy's is of float64
        assert rows[key]["by_output"] == pytest.approx(want, rel=0.02, abs=1e-9), key
        assert rows[key]["sensitivity"] == pytest.approx(np.mean([*want.values()]), rel=0.02, abs=1e-9)
        mse = np.mean([np.square(plain[n] - got[n]).mean() for n in plain])
        assert rows[key]["mse"] == pytest.approx(mse, rel=0.02)
    assert [r["sensitivity"] for r in found["ops"]] == sorted((r["sensitivity"] for r in found["ops"]), reverse=True)
    assert found["outputs"] == ["y", "z"]


def test_one_output_may_count_alone(bpuc: Bpuc, model: Path) -> None:
    rows = {(r["op"], r["kind"]): r for r in ranked(bpuc, model, "--at", "z")["ops"]}
    assert rows["conv2", "weight"]["sensitivity"] == 0
    assert rows["conv2", "weight"]["sqnr"] == 120
    assert rows["conv1", "weight"]["sensitivity"] > 0


def test_leaving_one_in_float(bpuc: Bpuc, model: Path) -> None:
    found = ranked(bpuc, model, "--leave-float", "--metric", "sqnr", "--at", "y")
    rows = {(r["op"], r["kind"]): r for r in found["ops"]}
    for r in rows.values():
        assert r["sensitivity"] == pytest.approx(r["sqnr"] - found["all_rounded"]["sqnr"], abs=1e-4)
    assert max(rows, key=lambda k: rows[k]["sensitivity"]) == ("conv2", "weight")


@pytest.mark.parametrize("metric", ["cosine", "sqnr", "mse", "l1"])
def test_the_worst_is_first_by_every_metric(bpuc: Bpuc, model: Path, metric: str) -> None:
    found = ranked(bpuc, model, "--metric", metric, "--at", "y")
    assert (found["ops"][0]["op"], found["ops"][0]["kind"]) == ("conv2", "weight")
    assert found["metric"] == metric


def test_compile_reads_the_table(bpuc: Bpuc, model: Path) -> None:
    ranked(bpuc, model, march="nash-e")
    report = model.parent / "r.json"
    table = f"sensitive={model.parent / 'o' / 'sensitivity.json'}"
    words = [model, "--march", "nash-e", "--data", model.parent / "x.npz", "--no-auto-int16", "--report", report]
    types = {}
    for topk in (0, 1):
        done = bpuc("compile", *words, "--template", f"{table},topk={topk}", "-o", model.parent / "x.bpuc")
        assert done.code == 0, done.err
        tensors = json.loads(report.read_text(encoding="utf-8"))["tensors"]
        types[topk] = {t["name"]: t["dtype"] for t in tensors if t["constant"]}
    assert types[0]["w2"] == "int8"
    assert types[1]["w2"] == "int16"
    assert types[1]["w1"] == "int8"


@pytest.mark.parametrize("name", ["digits_inception", "ln_mlp", "hybrid"])
def test_every_name_is_one_that_rules_know(bpuc: Bpuc, tmp_path: Path, name: str) -> None:
    data = MODELS / f"{name.removesuffix('_inception')}_calib.npz"
    words = [MODELS / f"{name}.onnx", "--march", "bayes-e", "--data", data]
    done = bpuc("sensitivity", *words, "-o", tmp_path / "o", "--samples", 1, "--effort", 0)
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    table = tmp_path / "o/sensitivity.json"
    assert json.loads(table.read_text(encoding="utf-8"))["ops"]
    done = bpuc("compile", *words, "--effort", 0, "--template", f"sensitive={table}", "-o", tmp_path / "x.bpuc")
    assert done.code == 0, done.err


def test_the_same_bytes(bpuc: Bpuc, model: Path) -> None:
    ranked(bpuc, model, "--threads", 1)
    first = {p.name: p.read_bytes() for p in (model.parent / "o").iterdir()}
    ranked(bpuc, model, "--threads", 2)
    assert sorted(first) == ["sensitivity.csv", "sensitivity.html", "sensitivity.json"]
    assert {p.name: p.read_bytes() for p in (model.parent / "o").iterdir()} == first


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ([], 2, "no data were named"),
        (["--random-data"], 2, "No such option"),
        (["--data", "x.npz", "--at", "q"], 1, "no output 'q'"),
        (["--data", "x.npz", "--run-on-cpu", "Conv", "--run-on-cpu", "Relu", "--run-on-cpu", "Sigmoid"], 1, "no op of"),
        (["--data", "nan.npz"], 1, "NaN or infinity"),
        (["--data", "x.npz", "--metric", "best"], 2, "Invalid value"),
    ],
)
def test_faults(
    bpuc: Bpuc, model: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(model.parent)
    np.savez("nan.npz", x=np.where(X > 2, np.nan, X))
    done = bpuc("sensitivity", model, "--march", "bayes-e", "-o", "o", *more)
    assert done.code == code, done.err
    assert said in done.err
    assert not Path("o").exists()


def test_another_document_is_no_table(bpuc: Bpuc, model: Path) -> None:
    """The first number of its rows would be an index."""
    other = model.parent / "compare.json"
    other.write_text(json.dumps({"schema": "bpuc.compare/1", "rows": [{"name": "conv1", "index": 0, "cosine": 1}]}))
    words = [model, "--march", "bayes-e", "--data", model.parent / "x.npz", "-o", model.parent / "m.bpuc"]
    done = bpuc("compile", *words, "--template", f"sensitive={other},topk=1")
    assert done.code == 1
    assert "bpuc.compare/1" in done.err
    assert "compare.json" in done.err
    assert not (model.parent / "m.bpuc").exists()


def test_a_table_with_two_unnamed_numbers_is_refused(bpuc: Bpuc, model: Path) -> None:
    table = model.parent / "table.csv"
    table.write_text("name,index,cosine\nconv1,0,0.9\n")
    words = [model, "--march", "bayes-e", "--data", model.parent / "x.npz", "-o", model.parent / "m.bpuc"]
    done = bpuc("compile", *words, "--template", f"sensitive={table},topk=1")
    assert done.code == 1
    assert "table.csv" in done.err


def test_json_does_not_take_the_place_of_a_result(bpuc: Bpuc, model: Path) -> None:
    out = model.parent / "o"
    out.mkdir()
    words = [model, "--data", model.parent / "x.npz", "--march", "bayes-e", "-o", out]
    done = bpuc("sensitivity", *words, "--json", out / "sensitivity.html")
    assert done.code == 1
    assert "this file is written by -o already" in done.err
    assert not list(out.iterdir())


def test_how_much_there_is_to_measure_is_said_first(bpuc: Bpuc, model: Path) -> None:
    words = [model, "--data", model.parent / "x.npz", "--march", "bayes-e", "-o", model.parent / "o", "--samples", 3]
    done = bpuc("sensitivity", *words)
    rows = json.loads((model.parent / "o/sensitivity.json").read_text(encoding="utf-8"))["ops"]
    assert f"measuring {len(rows)} parts (results of ops, weights) one by one on 3 samples" in done.err
    assert bpuc("sensitivity", *words, "--quiet").err == ""


def test_progress_goes_part_by_part(model: Path) -> None:
    seen: list[int] = []

    def measuring(items: Any, length: int) -> Any:
        for item in items:
            seen.append(length)
            yield item

    request = make_request(str(model), "bayes-e", data=str(model.parent / "x.npz"))
    document, _ = sensitivity(request, samples=2, measuring=measuring)
    assert seen == [2 * len(document["ops"])] * (2 * len(document["ops"]))
