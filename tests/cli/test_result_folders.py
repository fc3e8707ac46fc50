"""What stands in the way of results is told before any work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpuc.data import npz
from tests.cli.conftest import MODELS, Bpuc

MODEL, DATA = MODELS / "hybrid.onnx", MODELS / "hybrid_calib.npz"
FILES = {
    "compare": ("compare.html", "compare.csv", "compare.json"),
    "badcase": ("badcase.html", "badcase.json", "inputs.npz", "float.npz", "integer.npz"),
    "stats": ("stats.html", "stats.csv"),
    "sensitivity": ("sensitivity.csv",),
}


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sample can be read: who is refused before any work does not notice."""

    def read(*_: Any) -> None:
        raise AssertionError("data were read")

    monkeypatch.setattr(npz.NpzSource, "__init__", read)


def words(tool: str, compiled: Path) -> list[Any]:
    binary = [compiled / "hybrid.bpuc"] if tool in ("compare", "badcase") else []
    return [tool, MODEL, *binary, "--data", DATA, *(["--march", "bayes-e"] if tool == "sensitivity" else [])]


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize(("tool", "name"), [(tool, name) for tool, names in FILES.items() for name in names])
def test_a_folder_in_the_place_of_a_file(bpuc: Bpuc, compiled: Path, tmp_path: Path, tool: str, name: str) -> None:
    (tmp_path / "o" / name).mkdir(parents=True)
    done = bpuc(*words(tool, compiled), "-o", tmp_path / "o")
    assert done.code == 1
    assert f"cannot write {tmp_path / 'o' / name}: it is a folder" in done.err
    assert [p.name for p in (tmp_path / "o").iterdir()] == [name]


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("tool", [*FILES])
def test_json_over_a_result(bpuc: Bpuc, compiled: Path, tmp_path: Path, tool: str) -> None:
    (tmp_path / "o").mkdir()
    done = bpuc(*words(tool, compiled), "-o", tmp_path / "o", "--json", tmp_path / "o" / FILES[tool][0])
    assert (done.code, "this file is written by -o already" in done.err) == (1, True), done.err


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("to", ["none/x.json", "there", "file/x.json"])
def test_other_outputs(bpuc: Bpuc, compiled: Path, tmp_path: Path, to: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    common = [MODEL, "--march", "bayes-e", "--data", DATA]
    for command in (
        ["calibrate", *common, "-o", tmp_path / to],
        ["calibrate", *common, "-o", tmp_path / "x.json", "--export-qdq", tmp_path / to],
        ["compare-scales", *common, "--json", tmp_path / to],
        ["compile", *common, "-o", tmp_path / to],
        ["compile", *common, "-o", tmp_path / "x.bpuc", "--report", tmp_path / to],
        ["run", compiled / "hybrid.bpuc", "--inputs", DATA, "-o", tmp_path / to],
        *([*words(tool, compiled), "-o", tmp_path / "o", "--json", tmp_path / to] for tool in FILES),
        *([*words(tool, compiled), "-o", tmp_path / "file"] for tool in FILES),
    ):
        done = bpuc(*command)
        assert (done.code, "cannot write" in done.err) == (1, True), (command, done.err)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "there"]


def _paths(folder: Path) -> dict[str, Path]:
    """Copies of a model and its samples, which a command might write over, and a configuration that names them."""
    model, data, samples = folder / "mine.onnx", folder / "mine.npz", folder / "samples"
    model.write_bytes((MODELS / "hybrid.onnx").read_bytes())
    data.write_bytes((MODELS / "hybrid_calib.npz").read_bytes())
    samples.mkdir()
    for i, image in enumerate(np.load(data)["image"][:2]):
        np.savez(samples / f"{i}.npz", image=image)
    config, table = folder / "mine.yaml", folder / "table.json"
    sections = {
        "model_parameters": {"onnx_model": str(model), "march": "bayes-e"},
        "calibration_parameters": {"cal_data_dir": str(samples)},
    }
    config.write_text(json.dumps(sections))  # which is YAML too
    rows = [{"op": "conv0", "kind": "activation", "sensitivity": 1.0}]
    table.write_text(json.dumps({"schema": "bpuc.sensitivity/1", "ops": rows}))
    return {"MODEL": model, "DATA": data, "FOLDER": samples, "CONFIG": config, "TABLE": table}


@pytest.mark.parametrize(
    ("words", "kept", "said"),
    [
        ("calibrate MODEL --data DATA -o NEW --export-qdq MODEL", "MODEL", "read by this command"),
        ("calibrate MODEL --data DATA -o NEW --export-qdq DATA", "DATA", "read by this command"),
        ("calibrate MODEL --data DATA -o NEW --export-qdq NEW", "DATA", "written by -o already"),
        ("calibrate -c CONFIG -o MODEL", "MODEL", "read by this command"),
        ("calibrate MODEL --data FOLDER -o FOLDER/1.npz", "FOLDER/1.npz", "one of the samples in"),
        ("calibrate -c CONFIG -o FOLDER/1.npz", "FOLDER/1.npz", "one of the samples in"),
        ("check -c CONFIG --json MODEL", "MODEL", "read by this command"),
        ("perf -c CONFIG --json MODEL", "MODEL", "read by this command"),
        ("perf -c CONFIG --march all --html MODEL", "MODEL", "read by this command"),
        ("compile -c CONFIG -o NEW --report MODEL", "MODEL", "read by this command"),
        (
            "compile MODEL --march bayes-e --data DATA -o NEW --template sensitive=TABLE,topk=1 --report TABLE",
            "TABLE",
            "",
        ),
        (
            "compare-scales MODEL --march bayes-e --data DATA --test-data FOLDER/0.npz --json FOLDER/0.npz",
            "FOLDER/0.npz",
            "",
        ),
        ("stats -c CONFIG MODEL -o NEW --json MODEL", "MODEL", "read by this command"),
        ("sensitivity -c CONFIG -o NEW --json MODEL", "MODEL", "read by this command"),
    ],
)
def test_no_command_writes_over_what_it_reads(bpuc: Bpuc, tmp_path: Path, words: str, kept: str, said: str) -> None:
    paths = {**_paths(tmp_path), "NEW": tmp_path / "new"}

    def real(word: str) -> str:
        for name, path in paths.items():
            word = word.replace(name, str(path))
        return word

    before = Path(real(kept)).read_bytes()
    done = bpuc(*map(real, words.split()))
    assert (done.code, said in done.err, "a file of its own" in done.err) == (1, True, True), done.err
    assert Path(real(kept)).read_bytes() == before
    assert not paths["NEW"].exists()


def test_badcase_keeps_the_worst_samples_that_it_is_given(bpuc: Bpuc, tmp_path: Path) -> None:
    model, data = MODELS / "hybrid.onnx", MODELS / "hybrid_calib.npz"
    binary, worst = tmp_path / "m.bpuc", tmp_path / "worst"
    assert bpuc("compile", model, "--march", "bayes-e", "--data", data, "-o", binary).code == 0
    assert bpuc("badcase", model, binary, "--data", data, "--top", 2, "-o", worst).code == 0
    before = (worst / "inputs.npz").read_bytes()
    done = bpuc("badcase", model, binary, "--data", worst / "inputs.npz", "--top", 1, "-o", worst)
    assert (done.code, "read by this command" in done.err) == (1, True), done.err
    assert (worst / "inputs.npz").read_bytes() == before


def test_a_folder_of_samples_may_hold_the_results_beside_them(bpuc: Bpuc, tmp_path: Path) -> None:
    paths = _paths(tmp_path)
    for _ in range(2):  # the second time the file is there
        done = bpuc("calibrate", paths["MODEL"], "--data", paths["FOLDER"], "-o", paths["FOLDER"] / "m.calib.json")
        assert done.code == 0, done.err
