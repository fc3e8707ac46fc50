"""`bpuc compare-scales` on a small model with two unequal branches."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.conftest import Bpuc

RNG = np.random.default_rng(3)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Convolutions of ranges 1 to 4, joined; the smaller branch is an output too."""
    # 16 channels are whole blocks of the bayes-e: a shared concat then needs no copy, and a Rescale is only a cost
    weights = {"wa": RNG.normal(0, 0.1, (16, 3, 1, 1)), "wb": RNG.normal(0, 0.4, (16, 3, 1, 1))}
    nodes = [
        helper.make_node("Conv", ["x", "wa"], ["a"], name="conv_a"),
        helper.make_node("Conv", ["x", "wb"], ["b"], name="conv_b"),
        helper.make_node("Concat", ["a", "b"], ["c"], name="cat", axis=1),
        helper.make_node("Tanh", ["a"], ["t"], name="tanh"),
    ]
    info = helper.make_tensor_value_info
    outputs = [info(n, TensorProto.FLOAT, None) for n in ("c", "t")]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
        outputs,
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    for name in ("d", "t"):
        np.savez(tmp_path / f"{name}.npz", x=RNG.normal(0, 1, (4, 1, 3, 32, 32)).astype(np.float32))
    return path


def compared(bpuc: Bpuc, model: Path, *more: str) -> tuple[str, list[dict[str, float]]]:
    out = model.with_suffix(".json")
    given = [model, "--march", "bayes-e", "--data", model.parent / "d.npz", "--json", out, *more]
    done = bpuc("compare-scales", *given)
    assert done.code == 0, done.err
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["schema"] == "bpuc.compare-scales/1"
    return done.out, document["variants"]


def read_weights(model: Path) -> list[np.ndarray]:
    return [numpy_helper.to_array(i)[:, :, 0, 0] for i in onnx.load(str(model)).graph.initializer]


def test_one_table_of_80_columns(bpuc: Bpuc, model: Path) -> None:
    text, rows = compared(bpuc, model, "--observer", "min_max")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert [r["name"] for r in rows] == ["never", "auto", "always", "auto+equalize"]
    never, _, always, _ = rows
    assert never["rescales"] >= 1
    assert always["rescales"] == 0
    assert never["latency_us"] >= always["latency_us"]
    x = np.load(model.parent / "d.npz")["x"][:, 0]
    a, b = (np.abs(np.einsum("oi,nihw->nohw", w, x)).max() for w in read_weights(model))
    assert always["most_bits_lost"] == pytest.approx(np.log2(b / a), abs=1e-3)
    assert never["most_bits_lost"] == 0


def test_other_samples_for_accuracy(bpuc: Bpuc, model: Path) -> None:
    same = compared(bpuc, model)[1]
    other = compared(bpuc, model, "--test-data", str(model.parent / "t.npz"))[1]
    assert [r["rescales"] for r in other] == [r["rescales"] for r in same]
    assert [r["sqnr_db"] for r in other] != [r["sqnr_db"] for r in same]


def test_no_data_no_comparison(bpuc: Bpuc, model: Path) -> None:
    done = bpuc("compare-scales", model, "--march", "bayes-e")
    assert done.code == 2
    assert "--data" in done.err
