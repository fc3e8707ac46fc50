"""`bpuc badcase`: the worst samples against onnxruntime and `bpuc run`, and what is kept of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import MODELS, Bpuc
from tests.cli.test_compare import floats

MODEL = MODELS / "hybrid.onnx"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six calibration samples, of which number 2 is ten times as large and 4 three times."""
    with np.load(MODELS / "hybrid_calib.npz") as f:
        x = f["image"][:6].copy()
    x[2] *= 10
    x[4] *= 3
    np.savez(tmp_path / "x.npz", image=x)
    return tmp_path / "x.npz"


def found(bpuc: Bpuc, out: Path, *words: Any) -> dict[str, Any]:
    done = bpuc("badcase", *words, "-o", out)
    assert done.code == 0, done.err
    document: dict[str, Any] = json.loads((out / "badcase.json").read_text(encoding="utf-8"))
    return document


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_ranking_and_arrays(bpuc: Bpuc, compiled: Path, data: Path, tmp_path: Path) -> None:
    binary = compiled / "hybrid.bpuc"
    document = found(bpuc, tmp_path / "o", MODEL, binary, "--data", data, "--top", 3)
    assert bpuc("run", binary, "--inputs", data, "-o", tmp_path / "out.npz").code == 0
    with np.load(data) as f, np.load(tmp_path / "out.npz") as got:
        (output,) = got.files
        x, integers = f["image"], got[output]
        truth = np.stack([floats(MODEL, {"image": s.reshape(1, 3, 16, 16)})[output] for s in x])
    want = [cosine(a, b) for a, b in zip(truth, integers)]
    assert [r["cosine"] for r in document["rows"]] == pytest.approx(want, abs=1e-6)
    order = np.argsort(want)[:3].tolist()
    assert order[:2] == [2, 4]
    assert [r["sample"] for r in document["worst"]] == order
    assert [r["rank"] for r in document["worst"]] == [1, 2, 3]
    with np.load(tmp_path / "o/inputs.npz") as a, np.load(tmp_path / "o/float.npz") as b:
        assert np.array_equal(a["image"].reshape(3, -1), x[order].reshape(3, -1))
        assert b[output] == pytest.approx(truth[order], rel=1e-4, abs=1e-5)
    with np.load(tmp_path / "o/integer.npz") as c:
        assert np.array_equal(c[output], integers[order].reshape(c[output].shape))
    # the inputs are data for other commands, worst first there too
    again = found(bpuc, tmp_path / "p", MODEL, binary, "--data", tmp_path / "o/inputs.npz")
    assert [r["cosine"] for r in again["rows"]] == [r["cosine"] for r in document["worst"]]


@pytest.mark.parametrize("metric", ["cosine", "sqnr", "mse", "l1", "max_abs", "relative"])
def test_the_planted_sample_is_the_worst(
    bpuc: Bpuc, compiled: Path, data: Path, tmp_path: Path, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = [MODEL, compiled / "hybrid.bpuc", "--data", data, "--metric", metric, "--top", 1]
    document = found(bpuc, tmp_path / "a", *words)
    assert [r["sample"] for r in document["worst"]] == [2]
    done = bpuc("badcase", *words, "-o", tmp_path / "b", "--threads", 2)
    assert max(map(len, done.out.splitlines())) <= 80
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert names == ["badcase.csv", "badcase.html", "badcase.json", "float.npz", "inputs.npz", "integer.npz"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_images_are_kept(bpuc: Bpuc, compiled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    rng = np.random.default_rng(1)
    for i in range(4):
        pixels = rng.integers(0, 256 if i == 1 else 40, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"picture{i}.png")
    (tmp_path / "c.yaml").write_text(
        "input_parameters:\n  input_type_train: rgb\n  input_layout_train: NCHW\n  norm_type: data_scale\n"
        "  scale_value: 0.05\n",
        encoding="utf-8",
    )
    words = [MODEL, compiled / "hybrid.bpuc", "--data", folder, "-c", tmp_path / "c.yaml", "--top", 2]
    document = found(bpuc, tmp_path / "o", *words, "--metric", "max_abs")
    first = document["worst"][0]
    assert (first["sample"], first["file"]) == (1, "picture1.png")
    assert first["images"] == ["worst_01_picture1.png"]
    assert (tmp_path / "o/worst_01_picture1.png").read_bytes() == (folder / "picture1.png").read_bytes()
    assert len(list((tmp_path / "o").glob("worst_*"))) == 2
    # another run into the folder keeps its own and what is none of ours
    (tmp_path / "o/worst_07_mine.png").write_bytes(b"mine")
    names = found(bpuc, tmp_path / "o", *words, "--metric", "max_abs", "--top", 1)["worst"][0]["images"]
    assert sorted(p.name for p in (tmp_path / "o").glob("worst_*")) == sorted([*names, "worst_07_mine.png"])
    for text in ("{", "[]", '{"worst": [{"images": ["../images/picture1.png", 3]}]}'):
        (tmp_path / "o/badcase.json").write_text(text, encoding="utf-8")
        found(bpuc, tmp_path / "o", *words, "--metric", "max_abs", "--top", 1)
    assert (folder / "picture1.png").exists()


def test_a_batch_is_told_apart(bpuc: Bpuc, data: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("input_parameters:\n  input_batch: 2\n", encoding="utf-8")
    calib = MODELS / "hybrid_calib.npz"
    rows = []
    for name, more in (("one", []), ("two", ["-c", config])):
        binary = tmp_path / f"{name}.bpuc"
        assert bpuc("compile", MODEL, "--march", "bayes-e", "--data", calib, *more, "-o", binary).code == 0
        rows.append(found(bpuc, tmp_path / name, MODEL, binary, "--data", data, "--top", 2))
    assert [r["sample"] for r in rows[1]["rows"]] == [*range(6)]
    assert [r["sample"] for r in rows[1]["worst"]] == [2, 4]
    assert [r["cosine"] for r in rows[1]["rows"]] == pytest.approx([r["cosine"] for r in rows[0]["rows"]], abs=1e-3)
    with np.load(tmp_path / "one/inputs.npz") as a, np.load(tmp_path / "two/inputs.npz") as b:
        assert np.array_equal(a["image"], b["image"])


@pytest.mark.parametrize(
    ("case", "said"),
    [("other model", "another model"), ("no output", "no output 'q'"), ("no data", "no data were named")],
)
def test_faults(bpuc: Bpuc, compiled: Path, data: Path, tmp_path: Path, case: str, said: str) -> None:
    model = MODELS / "add_fixed.onnx" if case == "other model" else MODEL
    words: list[Any] = [model, compiled / "hybrid.bpuc", "-o", tmp_path / "o"]
    words += [] if case == "no data" else ["--data", data]
    words += ["--at", "q"] if case == "no output" else []
    done = bpuc("badcase", *words)
    assert done.code == (2 if case == "no data" else 1)
    assert said in done.err
    assert not (tmp_path / "o").exists()
