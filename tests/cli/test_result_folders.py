"""What stands in the way of results is told before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    assert (done.code, "-o writes this file already" in done.err) == (1, True), done.err


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
