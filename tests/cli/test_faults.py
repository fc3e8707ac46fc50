"""What users get wrong: one clear message, the exit code of the contract, and nothing half-written."""

from __future__ import annotations

import errno
import json
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bpuc.cli.main import _run
from tests.cli.conftest import MODELS, Bpuc

MODEL, DATA = MODELS / "hybrid.onnx", MODELS / "hybrid_calib.npz"
Words = list[Any]


def array(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "bad.npz", **arrays)
    return folder / "bad.npz"


def with_data(make: Callable[[Path], Path]) -> Callable[[Path], Words]:
    return lambda folder: [MODEL, "--march", "bayes-e", "--data", make(folder)]


def with_model(make: Callable[[Path], bytes]) -> Callable[[Path], Words]:
    def words(folder: Path) -> Words:
        (folder / "bad.onnx").write_bytes(make(folder))
        return [folder / "bad.onnx", "--march", "bayes-e", "--random-data"]

    return words


def options(*more: str) -> Callable[[Path], Words]:
    return lambda _: [MODEL, "--march", "bayes-e", "--data", DATA, *more]


def image(value: float = 0.0, shape: tuple[int, ...] = (2, 1, 3, 16, 16)) -> Any:
    return np.full(shape, value, np.float32)


def other_calibration(folder: Path) -> Words:
    document = {"schema": "bpuc.calib/1", "model_sha256": "0" * 64, "observer": "min_max", "options": {}}
    document |= {"samples": 1, "data_sha256": "0" * 64, "tensors": {}, "weights": {}}  # type: ignore[dict-item]
    (folder / "other.calib.json").write_text(json.dumps(document))
    return [MODEL, "--march", "bayes-e", "--calib", folder / "other.calib.json"]


def edited(*path: str, value: Any) -> Callable[[Path], Words]:
    """A calibration of the model in which one number was changed by hand."""

    def words(folder: Path) -> Words:
        file = folder / "edited.calib.json"
        assert _run(["calibrate", str(MODEL), "--data", str(DATA), "-o", str(file)]) == 0
        document = json.loads(file.read_text())
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        assert path[-1] in inner
        inner[path[-1]] = value
        file.write_text(json.dumps(document))
        return [MODEL, "--march", "bayes-e", "--calib", file]

    return words


def damaged_config(folder: Path) -> Words:
    (folder / "bad.yaml").write_text("model_parameters:\n  onnx_model: x.onnx\n  march: bayes-f\n")
    return ["-c", folder / "bad.yaml", MODEL, "--data", DATA]


# name -> (arguments, exit code, words of the message)
FAULTS: dict[str, tuple[Callable[[Path], Words], int, tuple[str, ...]]] = {
    "no model": (lambda _: ["missing.onnx", "--march", "bayes-e", "--random-data"], 1, ("missing.onnx",)),
    "a folder as model": (lambda f: [f, "--march", "bayes-e", "--random-data"], 1, ()),
    "an empty file": (with_model(lambda _: b""), 1, ("bad.onnx",)),
    "half a model": (with_model(lambda _: MODEL.read_bytes()[:3000]), 1, ("bad.onnx",)),
    "noise": (with_model(lambda _: bytes(range(256)) * 9), 1, ("bad.onnx",)),
    "no data file": (with_data(lambda f: f / "no.npz"), 1, ("no.npz",)),
    "an empty folder": (with_data(lambda f: f), 1, ()),
    "data for another input": (with_data(lambda f: array(f, picture=image())), 1, ("image",)),
    "data of another shape": (with_data(lambda f: array(f, image=image(shape=(2, 1, 3, 8, 8)))), 1, ("image", "16")),
    "no sample": (with_data(lambda f: array(f, image=image(shape=(0, 1, 3, 16, 16)))), 1, ()),
    "NaN": (with_data(lambda f: array(f, image=image(np.nan))), 1, ("image", "NaN")),
    "infinity": (with_data(lambda f: array(f, image=image(np.inf))), 1, ("image",)),
    "no source of scales": (lambda _: [MODEL, "--march", "bayes-e"], 2, ("--data",)),
    "no march": (lambda _: [MODEL, "--data", DATA], 2, ("--march",)),
    "unknown march": (lambda _: [MODEL, "--march", "bayes-f", "--data", DATA], 2, ("bayes-f", "bayes-e")),
    "chip for march": (lambda _: [MODEL, "--march", "x5", "--data", DATA], 2, ("did you mean 'bayes-e'?", "(X5)")),
    "unknown march in YAML": (damaged_config, 1, ("bayes-f", "bayes-e", "bad.yaml:3")),
    "unknown observer": (options("--observer", "minmax"), 2, ("minmax", "min_max")),
    "unknown observer option": (options("--observer-opt", "percent=99"), 2, ("percent", "percentile")),
    "unknown option": (options("--dtyp", "x=int8"), 2, ("--dtype",)),
    "dtype of nothing": (options("--dtype", "Convv=int16"), 1, ("Convv", "Conv")),
    "unknown dtype": (options("--dtype", "Conv=int4"), 2, ("int4", "int8")),
    "fixed scale of nothing": (options("--fixed-scale", "imag=0.5"), 1, ("imag", "image")),
    "negative scale": (options("--fixed-scale", "image=-1"), 2, ("-1",)),
    "CPU for nothing": (options("--run-on-cpu", "Seluu"), 1, ("Seluu", "Selu")),
    "calibration of another model": (other_calibration, 1, ("another model",)),
    "a threshold that is text": (edited("tensors", "conv3", "threshold", value="1.5"), 1, ("conv3", "'1.5'")),
    "a threshold of 401 digits": (edited("tensors", "conv3", "threshold", value=10**400), 1, ("conv3", "float32")),
    "a threshold beyond float32": (edited("tensors", "conv3", "threshold", value=1e300), 1, ("conv3", "float32")),
    "no range": (edited("tensors", "conv3", "min", value=1e9), 1, ("conv3", "min")),
    "weights with one threshold": (
        edited("weights", "conv3.weight", "threshold", value=[1.0]),
        1,
        ("conv3.weight", "channel"),
    ),
    "weights along another axis": (edited("weights", "conv3.weight", "axis", value=3), 1, ("conv3.weight", "axis 3")),
    "a scale beyond float32": (options("--fixed-scale", "image=1e300"), 2, ("1e300", "float32")),
    "CPU and BPU": (options("--run-on-cpu", "Selu", "--run-on-bpu", "Selu"), 2, ("Selu",)),
    "bits that are no number": (options("--max-bits-lost", "nan"), 2, ("nan",)),
    "a gate that is no number": (options("--max-latency-ms", "nan"), 2, ("nan",)),
    "too many threads": (options("--threads", "100000"), 2, ("256",)),
    "a shape in other digits": (options("--input-shape", "image:²x3x16x16"), 2, ("--input-shape", "cannot be read")),
    "a binary as model": (with_model(lambda _: b"PK\x03\x04" + bytes(99)), 1, ("compiled already",)),
    "shape of nothing": (options("--input-shape", "img:1x3x16x16"), 1, ("img", "image")),
    "a scale out of reach": (options("--fixed-scale", "conv3=1e-30"), 1, ("conv3", "--run-on-cpu")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_one_message_and_nothing_written(bpuc: Bpuc, tmp_path: Path, name: str) -> None:
    words, code, parts = FAULTS[name]
    out = tmp_path / "out"
    out.mkdir()
    done = bpuc("compile", *words(tmp_path), "-o", out / "x.bpuc", "--report", out / "r.json")
    assert done.code == code, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    faults = [line for line in done.err.splitlines() if line.lower().startswith("error")]
    assert len(faults) == 1, done.err
    for part in parts:
        assert part in done.err
    assert list(out.iterdir()) == []


def test_what_stood_there_stays(bpuc: Bpuc, tmp_path: Path) -> None:
    (tmp_path / "x.bpuc").write_text("precious")
    done = bpuc("compile", MODEL, "--march", "bayes-e", "--data", "missing.npz", "-o", tmp_path / "x.bpuc")
    assert done.code == 1
    assert (tmp_path / "x.bpuc").read_text() == "precious"


@pytest.mark.parametrize("where", ["folder", "no/such/folder/x.bpuc", "/dev/null"])
def test_impossible_outputs_are_refused_at_once(bpuc: Bpuc, tmp_path: Path, where: str) -> None:
    (tmp_path / "folder").mkdir()
    path = tmp_path / where
    done = bpuc("compile", "model-that-nobody-reads.onnx", "--march", "bayes-e", "--random-data", "-o", path)
    assert done.code == 1
    assert "cannot write" in done.err
    assert "model-that-nobody-reads" not in done.err


@pytest.mark.parametrize("gate", [["--fail-on", "cpu-op"], ["--max-latency-ms", "0.001"]])
def test_a_gate_is_exit_3(bpuc: Bpuc, tmp_path: Path, gate: list[str]) -> None:
    words = ("--march", "bayes-e", "--data", DATA, "--run-on-cpu", "Selu", "-o", tmp_path / "x.bpuc")
    done = bpuc("compile", MODEL, *words, *gate)
    assert done.code == 3
    assert "error[gate]" in done.err
    raw = (tmp_path / "x.bpuc").read_bytes()  # the result is there all the same
    assert bpuc("compile", MODEL, *words).code == 0
    assert (tmp_path / "x.bpuc").read_bytes() == raw


def test_a_rescale_gate(bpuc: Bpuc, tmp_path: Path) -> None:
    kv = (MODELS / "kv_concat.onnx", "--march", "bayes-e", "--data", MODELS / "kv_concat_calib.npz")
    done = bpuc("compile", *kv, "--share-scales", "never", "--fail-on", "rescale", "-o", tmp_path / "x.bpuc")
    assert (done.code, "104" in done.err) == (3, True)
    assert bpuc("compile", *kv, "--fail-on", "rescale", "-o", tmp_path / "x.bpuc").code == 0


@pytest.mark.parametrize("command", ["run", "perf", "info", "explain"])
def test_every_reader_refuses_a_damaged_binary(bpuc: Bpuc, compiled: Path, tmp_path: Path, command: str) -> None:
    raw = bytearray((compiled / "hybrid.bpuc").read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / "bad.bpuc").write_bytes(raw)
    more = ["--inputs", DATA, "-o", tmp_path / "o.npz"] if command == "run" else []
    done = bpuc(command, tmp_path / "bad.bpuc", *more)
    assert done.code == 1
    assert "error[file]" in done.err
    assert "Traceback" not in done.err


def test_training_mode_and_missing_shapes_are_named(bpuc: Bpuc, tmp_path: Path) -> None:
    h = onnx.helper
    x = h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, "h", 8])
    y = h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = h.make_graph([h.make_node("Relu", ["x"], ["y"], "relu")], "g", [x], [y])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), tmp_path / "open.onnx")
    words = (tmp_path / "open.onnx", "--march", "bayes-e", "--random-data", "-o", tmp_path / "x.bpuc")
    done = bpuc("compile", *words)
    assert done.code == 1
    assert "--input-shape x:" in done.err
    assert bpuc("compile", *words, "--input-shape", "x:1x3x8x8").code == 0


@pytest.mark.parametrize("option", ["--dump-dir", "--keep-stages"])
def test_a_file_where_a_folder_is_wanted(bpuc: Bpuc, tmp_path: Path, option: str) -> None:
    (tmp_path / "file").write_text("precious")
    done = bpuc("check", MODEL, "--march", "bayes-e", option, tmp_path / "file")
    assert (done.code, "no folder" in done.err) == (1, True), done.err
    assert (tmp_path / "file").read_text() == "precious"


def test_nothing_is_written_over_what_is_read(bpuc: Bpuc, compiled: Path, tmp_path: Path) -> None:
    for source in (MODEL, DATA, compiled / "hybrid.bpuc"):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    model, data, binary = (tmp_path / n for n in ("hybrid.onnx", "hybrid_calib.npz", "hybrid.bpuc"))
    (tmp_path / "link").symlink_to(model)
    before = {p: p.read_bytes() for p in (model, data, binary)}
    words: list[Words] = [
        ["compile", model, "--march", "bayes-e", "--random-data", "-o", model],
        ["compile", model, "--march", "bayes-e", "--random-data", "-o", tmp_path / "link"],
        ["compile", model, "--march", "bayes-e", "--random-data", "-o", tmp_path / "x", "--report", tmp_path / "x"],
        ["calibrate", model, "--data", data, "-o", data],
        ["check", model, "--march", "bayes-e", "--json", model],
        ["run", binary, "--inputs", data, "-o", data],
        ["run", binary, "--inputs", data, "-o", binary],
        ["perf", binary, "--json", binary],
        ["perf", binary, "--html", tmp_path / "x", "--csv", tmp_path / "." / "x"],
    ]
    for line in words:
        done = bpuc(*line)
        assert (done.code, "a file of its own" in done.err) == (1, True), (line, done.err)
    assert {p: p.read_bytes() for p in before} == before
    assert not (tmp_path / "x").exists()


def test_a_full_disk_behind_stdout_is_no_bug_of_ours(bpuc: Bpuc, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("click.echo", full, raising=True)
    monkeypatch.setattr("bpuc.cli.ui.error", lambda text: sys.stderr.write(text))
    done = bpuc("targets")
    assert (done.code, "standard output: No space left" in done.err) == (1, True), done.err


def npz_of(folder: Path, shape: tuple[int, ...], data: int) -> Path:
    with zipfile.ZipFile(folder / "in.npz", "w") as z, z.open("image.npy", "w") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": shape})
        f.write(bytes(data))
    return folder / "in.npz"


@pytest.mark.parametrize("shape", [(10**12, 1, 3, 16, 16), (-4, 1, 3, 16, 16)])
def test_inputs_that_promise_more_than_there_is(
    bpuc: Bpuc, compiled: Path, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    done = bpuc("run", compiled / "hybrid.bpuc", "--inputs", npz_of(tmp_path, shape, 5000), "-o", tmp_path / "o.npz")
    assert done.code == 1
    assert "error[data]" in done.err
    assert str(shape[0]) in done.err
    assert not (tmp_path / "o.npz").exists()


@pytest.mark.parametrize("command", ["info", "targets"])
def test_a_closed_stdout_is_told_not_taken_for_a_bug(compiled: Path, command: str) -> None:
    words = [command, *([str(compiled / "hybrid.bpuc")] if command == "info" else [])]
    code = "import sys\nfrom bpuc.cli.main import main\nmain(sys.argv[1:])"
    line = shlex.join([sys.executable, "-c", code, *words]) + " >&-"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error[file]")
    assert "standard output is closed" in done.stderr
    assert "--json" in done.stderr  # the way out
    assert "Traceback" not in done.stderr


def test_more_dimensions_than_an_instruction_has_are_the_cpu_s(bpuc: Bpuc, tmp_path: Path) -> None:
    h, shape = onnx.helper, [1, 1, 1, 2, 2, 2, 2]
    x, y = (h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n in "xy")
    graph = h.make_graph([h.make_node("Relu", ["x"], ["y"], "relu")], "g", [x], [y])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), tmp_path / "seven.onnx")
    out = tmp_path / "x.bpuc"
    done = bpuc("compile", tmp_path / "seven.onnx", "--march", "bayes-e", "--random-data", "-o", out)
    assert done.code == 0, done.err
    done = bpuc("explain", out, "placement", "relu")
    assert "rank 7, the simulated machine addresses at most 6 axes" in " ".join(done.out.split())


def test_names_of_a_model_cannot_steer_the_terminal(bpuc: Bpuc, tmp_path: Path) -> None:
    h = onnx.helper
    x, y = (h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 4]) for n in ("x", "y"))
    graph = h.make_graph([h.make_node("Nothing", ["x"], ["y"], "red\x1b[31m节点")], "g", [x], [y])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), tmp_path / "red.onnx")
    done = bpuc("check", tmp_path / "red.onnx", "--march", "bayes-e")
    assert done.code == 1
    assert "red\\x1b[31m节点" in done.err
    assert "\x1b" not in done.err


@pytest.mark.parametrize("in_yaml", [False, True], ids=["usage", "configuration"])
@pytest.mark.parametrize(
    "words",
    [
        "calibrate -o NEW",
        "compile --march bayes-e -o NEW",
        "compare-scales --march bayes-e",
        "sensitivity --march bayes-e -o NEW",
        "stats -o NEW",
        "check",
        "perf",
    ],
)
def test_what_nobody_named_is_a_fault_of_usage_or_of_the_configuration(
    bpuc: Bpuc, tmp_path: Path, words: str, in_yaml: bool
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"model_parameters: {{onnx_model: {MODEL}}}\n")
    command, *more = words.replace("NEW", str(tmp_path / "new")).split()
    done = bpuc(command, MODEL, *more, *(["-c", config] if in_yaml else []))
    assert (done.code, "error[config]" in done.err, "named" in done.err or "nothing to choose" in done.err) == (
        1 if in_yaml else 2,
        True,
        True,
    ), done.err
    assert not (tmp_path / "new").exists()


def test_options_that_exclude_each_other_are_a_fault_of_usage(bpuc: Bpuc, tmp_path: Path) -> None:
    words = ("compile", MODEL, "--march", "bayes-e", "-o", tmp_path / "x.bpuc")
    for more in (("--data", DATA, "--random-data"), ("--data", DATA, "--workers", 2, "--scheduler", "tcp://h:1")):
        done = bpuc(*words, *more)
        assert (done.code, "both given" in done.err) == (2, True), done.err


def test_a_calibration_edited_by_hand(bpuc: Bpuc, tmp_path: Path) -> None:
    file = tmp_path / "m.calib.json"
    assert bpuc("calibrate", MODEL, "--data", DATA, "-o", file).code == 0
    whole = file.read_text(encoding="utf-8")
    words = ("compile", MODEL, "--march", "bayes-e", "--calib", file, "-o", tmp_path / "x.bpuc")

    def compiled(text: str, mark: str = "") -> Any:
        file.write_text(mark + text, encoding="utf-8")
        return bpuc(*words)

    assert compiled(whole, "\ufeff").code == 0  # as some editors save it
    raw = (tmp_path / "x.bpuc").read_bytes()
    done = compiled(whole.replace('"conv3": {', '"conv3": {"threshold": 9.0}, "conv3": {', 1))
    assert (done.code, "'conv3' stands there twice" in done.err) == (1, True), done.err
    assert (tmp_path / "x.bpuc").read_bytes() == raw
    done = compiled(whole.replace('"samples": 8', '"samples": -8', 1))
    assert (done.code, "the number of samples is -8" in done.err) == (1, True), done.err
    done = compiled(whole.replace('"axis": 0', '"axis": "x"', 1))
    assert (done.code, "axis of weight conv0.weight is 'x'" in done.err) == (1, True), done.err
    document = json.loads(whole)
    document["tensors"]["convv3"] = {**document["tensors"]["conv3"], "threshold": 9.0}
    done = compiled(json.dumps(document))
    assert (done.code, "convv3 is no tensor of the model; did you mean 'conv3'" in done.err) == (0, True), done.err
    assert "no tensor of the model" not in compiled(whole).err
