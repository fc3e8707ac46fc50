"""What a command leaves behind when it fails or its streams are closed, and what it says of files of another kind."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bpuc.base import files
from bpuc.base.errors import FileError
from bpuc.base.files import write_together
from bpuc.observe.registry import observer_names
from tests.cli.conftest import MODELS, Bpuc

MODEL, DATA = MODELS / "hybrid.onnx", MODELS / "hybrid_calib.npz"


def test_several_files_are_written_all_or_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("precious")
    with pytest.raises(FileError, match="no folder"):
        write_together({str(tmp_path / "a"): "new", str(tmp_path / "none" / "b"): "new"})
    assert (tmp_path / "a").read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    write_together({str(tmp_path / "a"): "new", str(tmp_path / "b"): b"\0"})
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_bytes()) == ("new", b"\0")


def test_no_binary_without_its_report(bpuc: Bpuc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.tempfile.mkstemp

    def full(prefix: str, **more: Any) -> Any:
        if "report" in prefix:
            raise OSError(28, "No space left on device")
        return real(prefix=prefix, **more)

    monkeypatch.setattr(files.tempfile, "mkstemp", full)
    words = ["-o", tmp_path / "x.bpuc", "--report", tmp_path / "report.json"]
    done = bpuc("compile", MODEL, "--march", "bayes-e", "--random-data", *words)
    assert (done.code, "No space left" in done.err, "report.json" in done.err) == (1, True, True), done.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_made_for_nothing_goes(bpuc: Bpuc, tmp_path: Path) -> None:
    text = f"model_parameters:\n  onnx_model: {MODEL}\n  march: bayes-e\n  working_dir: {tmp_path}/a/b\n"
    (tmp_path / "c.yaml").write_text(text + "  output_model_file_prefix: x\n")
    assert bpuc("compile", "-c", tmp_path / "c.yaml", "--data", tmp_path / "none.npz").code == 1
    assert [p.name for p in tmp_path.iterdir()] == ["c.yaml"]
    assert bpuc("compile", "-c", tmp_path / "c.yaml", "--random-data").code == 0
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["x.bpuc"]


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "2>&-"])
def test_closed_streams_stop_no_work(tmp_path: Path, closed: str) -> None:
    code = "import sys\nfrom bpuc.cli.main import main\nmain(sys.argv[1:])"
    words = ["compile", MODEL, "--march", "bayes-e", "--data", DATA, "-o", tmp_path / "x.bpuc"]
    line = f"{shlex.join(map(str, [sys.executable, '-c', code, *words]))} {closed}"
    assert subprocess.run(line, shell=True, check=False).returncode == 0
    from bpuc.program import load_program

    assert load_program(tmp_path / "x.bpuc").march == "bayes-e"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "git lfs pull"),
        (b"<!DOCTYPE html>\n<html><body>404</body></html>", "web page"),
    ],
)
def test_what_stands_in_place_of_a_model_is_named(bpuc: Bpuc, tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    done = bpuc("check", tmp_path / "m.onnx", "--march", "bayes-e")
    assert (done.code, word in done.err) == (1, True), done.err


def test_a_model_where_a_binary_is_wanted(bpuc: Bpuc) -> None:
    done = bpuc("info", MODEL)
    assert (done.code, "bpuc compile" in done.err, "compiled first" in done.err) == (1, True, True), done.err


def test_a_device_is_no_model(bpuc: Bpuc) -> None:
    done = bpuc("check", "/dev/zero", "--march", "bayes-e")
    assert (done.code, "it is a device" in done.err) == (1, True), done.err


@pytest.mark.parametrize(
    ("shape", "word"),
    [((2, 2, 3, 16, 16), "only the batch differs"), ((2, 1, 16, 16, 3), "transpose them by (0, 1, 4, 2, 3)")],
)
def test_inputs_of_another_shape_come_with_the_way_out(
    bpuc: Bpuc, compiled: Path, tmp_path: Path, shape: tuple[int, ...], word: str
) -> None:
    np.savez(tmp_path / "in.npz", image=np.zeros(shape, np.float32))
    done = bpuc("run", compiled / "hybrid.bpuc", "--inputs", tmp_path / "in.npz", "-o", tmp_path / "o.npz")
    assert (done.code, word in done.err) == (1, True), done.err


def test_values_near_the_end_of_float32_raise_no_warning(bpuc: Bpuc, tmp_path: Path) -> None:
    h, rng = onnx.helper, np.random.default_rng(0)
    weight = rng.normal(size=(4, 3, 3, 3)).astype(np.float32)
    weight[1, 1, 0, 0] = 2e37
    x = h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 16, 16])
    y = h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    node = h.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1] * 4)
    graph = h.make_graph([node], "g", [x], [y], [onnx.numpy_helper.from_array(weight, "w")])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(8, 1, 3, 16, 16)).astype(np.float32))
    words = ["--march", "bayes-e", "--data", tmp_path / "d.npz", "-o", tmp_path / "x.bpuc"]
    done = bpuc("compile", tmp_path / "m.onnx", *words)
    assert (done.code, "Warning" in done.err) == (0, False), done.err


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_options_stand_under_headings_each_once(bpuc: Bpuc, word: str) -> None:
    done = bpuc("compile", word)
    heads = [line.rstrip(":") for line in done.out.splitlines() if line and line[0].isalpha() and line.endswith(":")]
    assert (done.code, heads[0], heads[-1]) == (0, "Options", "Running")
    assert {"Scales at concats", "Accuracy", "Gates"} < set(heads)
    found = [line.split()[0] for line in done.out.splitlines() if line.startswith("  -")]
    assert len(found) == len(set(found))
    assert {"--march", "--share-scales", "--effort", "--cores", "--quiet"} < set(found)


def test_help_names_every_observer(bpuc: Bpuc) -> None:
    words = set(bpuc("calibrate", "--help").out.replace(",", " ").split())
    # example_plugin brings one more where it is installed
    assert {n for n in observer_names() if n != "headroom"} <= words


@pytest.mark.parametrize("tool", ["compare", "badcase"])
def test_a_binary_before_its_model(bpuc: Bpuc, compiled: Path, tmp_path: Path, tool: str) -> None:
    done = bpuc(tool, compiled / "hybrid.bpuc", MODEL, "--data", DATA, "-o", tmp_path / "o")
    assert (done.code, f"the model comes first: bpuc {tool} {MODEL}" in done.err) == (2, True), done.err


@pytest.mark.parametrize(("count", "said"), [("0", "x>=1"), (str(1 << 31), "more than 2147483647"), ("two", "two")])
def test_counts(bpuc: Bpuc, tmp_path: Path, count: str, said: str) -> None:
    done = bpuc("stats", MODEL, "--data", DATA, "-o", tmp_path / "o", "--samples", count)
    assert (done.code, said in done.err, (tmp_path / "o").exists()) == (2, True, False), done.err


def test_data_and_random_data_exclude_each_other(bpuc: Bpuc, tmp_path: Path) -> None:
    words = ["--march", "bayes-e", "--data", DATA, "--random-data", "-o", tmp_path / "x.bpuc"]
    done = bpuc("compile", MODEL, *words)
    assert (done.code, "--random-data" in done.err, list(tmp_path.iterdir())) == (2, True, []), done.err
