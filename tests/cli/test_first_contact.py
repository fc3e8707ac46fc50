"""What a newcomer types: stdout as a path, wrong names, one file in the place of another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import click
import numpy as np
import pytest

from bpuc.base.errors import did_you_mean
from bpuc.cli.main import COMMANDS, cli
from bpuc.program.container import from_bytes
from tests.cli.conftest import MODELS

MODEL, DATA = MODELS / "hybrid.onnx", MODELS / "hybrid_calib.npz"


@pytest.mark.parametrize(
    "words",
    [("perf", "X", "--csv", "-"), ("perf", "X", "--html", "-"), ("run", "X", "--inputs", DATA, "-o", "-"),
     ("compile", MODEL, "--march", "bayes-e", "--random-data", "-o", "-"),
     ("calibrate", MODEL, "--data", DATA, "-o", "-")],
)  # fmt: skip
def test_only_json_goes_to_stdout(bpuc, compiled, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    done = bpuc(*(compiled / "hybrid.bpuc" if w == "X" else w for w in words))
    assert done.code == 2
    assert "only --json goes to stdout" in done.err
    assert not list(tmp_path.iterdir())


def test_what_is_in_a_binary_fits_the_terminal(bpuc, compiled, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    done = bpuc("info", compiled / "hybrid.bpuc")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("ops on the BPU"))
    assert max(map(len, lines[start:])) <= 40
    assert any(line.startswith("  ") for line in lines[start : lines.index("parts:")])


@pytest.mark.parametrize("option", ["--balance-factor", "--max-latency-loss", "--max-bits-lost", "--max-latency-ms"])
def test_nan_is_no_number(bpuc, tmp_path, option):
    words = ("--march", "bayes-e", "--random-data", "--compile-mode", "balance", option, "nan")
    done = bpuc("compile", MODEL, *words, "-o", tmp_path / "o.bpuc")
    assert done.code == 2
    assert "'nan' is no number" in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("topic", ["rescales", "placement", "scales", "refinements", "certificates"])
def test_a_name_that_nothing_has(bpuc, compiled, topic):
    done = bpuc("explain", compiled / "hybrid.bpuc", topic, "no_such_thing")
    assert done.code == 1
    assert "named 'no_such_thing'" in done.err
    assert "expected: " in done.err


def test_close_names_are_said_once():
    assert did_you_mean("jioned", ["joined", "joined", "joined"]) == "did you mean 'joined'?"


@pytest.mark.parametrize("content", [b"no archive", b"", b"PK\x03\x04 cut off"])
def test_inputs_that_are_no_archive(bpuc, compiled, tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    done = bpuc("run", compiled / "hybrid.bpuc", "--inputs", tmp_path / "x.npz", "-o", tmp_path / "o.npz")
    assert done.code == 1
    assert "x.npz is not a readable .npz file" in done.err
    assert "pickle" not in done.err


def test_one_array_as_inputs(bpuc, compiled, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3, np.float32))
    done = bpuc("run", compiled / "hybrid.bpuc", "--inputs", tmp_path / "x.npy", "-o", tmp_path / "o.npz")
    assert done.code == 1
    assert "input 'image' has shape [3]" in done.err


def test_whole_numbers_as_data(bpuc, compiled, tmp_path):
    whole = np.arange(2 * 768, dtype=np.int64).reshape(2, 1, 3, 16, 16) % 7
    np.save(tmp_path / "x.npy", whole)
    np.save(tmp_path / "f.npy", whole.astype(np.float32))
    hybrid = MODELS / "hybrid.onnx"
    for name in "xf":
        done = bpuc(
            "run", compiled / "hybrid.bpuc", "--inputs", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}.npz"
        )
        calibrated = bpuc("calibrate", hybrid, "--data", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}.json")
        assert done.code == calibrated.code == 0
        said = [
            "input 'image' takes float32; the int64 given are taken as they are" in d.err for d in (done, calibrated)
        ]
        assert said == [name == "x"] * 2
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "f.npz").read_bytes()
    assert (tmp_path / "x.json").read_bytes() == (tmp_path / "f.json").read_bytes()


def test_calibration_warns_of_zeros(bpuc, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 1, 3, 16, 16), np.float32))
    done = bpuc("calibrate", MODELS / "hybrid.onnx", "--data", tmp_path / "x.npy", "-o", tmp_path / "x.json")
    assert done.code == 0
    assert "warning: input image is zero in all samples" in done.err


@pytest.mark.parametrize(
    "words",
    [("--run-on-cpu", "zzzzzz"), ("--dtype", "zzzzzz=int8"), ("--observer-for", "zzzzzz=mse"),
     ("--fixed-scale", "zzzzzz=0.5")],
)  # fmt: skip
def test_names_that_are_near_nothing(bpuc, tmp_path, words):
    data = MODELS / "hybrid_calib.npz"
    done = bpuc(
        "calibrate", MODELS / "hybrid.onnx", "--data", data, *words, "-o", tmp_path / "x.json", "--march", "bayes"
    )
    if done.code == 0:  # asked at compile
        done = bpuc(
            "compile", MODELS / "hybrid.onnx", "--march", "bayes", "--data", data, *words, "-o", tmp_path / "x.bpuc"
        )
    assert done.code == 1
    assert "hint: `bpuc check MODEL --march M` lists" in done.err


def test_quiet_before_and_behind_the_command(bpuc, compiled, tmp_path):
    words = ["run", compiled / "hybrid.bpuc", "--inputs", tmp_path / "x.npz", "-o", tmp_path / "o.npz"]
    np.savez(tmp_path / "x.npz", image=np.zeros((1, 3, 16, 16), np.float32))
    assert "fast engine" in bpuc(*words).err
    assert bpuc("--quiet", *words).err == bpuc(*words, "--quiet").err == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_quiet(name):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert "--quiet" in [o for p in command.params for o in p.opts]


def test_what_the_command_line_does_not_name_is_a_fault_of_usage(bpuc, tmp_path):
    model, data = MODELS / "hybrid.onnx", ("--data", MODELS / "hybrid_calib.npz")
    (tmp_path / "c.yaml").write_text("bpuc: {observer: mse}\n")
    from_file = ("-c", tmp_path / "c.yaml")
    for lacking, words in {
        "no model": ("--march", "bayes", *data, "-o", tmp_path / "x.bpuc"),
        "no march": (model, *data, "-o", tmp_path / "x.bpuc"),
        "no output": (model, "--march", "bayes", *data),
    }.items():
        for more, code in (((), 2), (from_file, 1)):
            done = bpuc("compile", *words, *more)
            assert (done.code, lacking in done.err) == (code, True)


@pytest.mark.parametrize(("mode", "warned"), [((), True), (("--compile-mode", "balance"), False)])
def test_a_balance_factor_without_balance(bpuc, mode, warned):
    done = bpuc("check", MODELS / "hybrid.onnx", "--march", "bayes", "--balance-factor", "20", *mode)
    assert done.code == 0
    assert ("the balance factor has no effect with compile mode latency" in done.err) is warned


def test_data_as_model_and_a_binary_as_calibration(bpuc, compiled, tmp_path):
    done = bpuc("check", DATA, "--march", "bayes-e")
    assert done.code == 1
    assert "compiled already" not in done.err
    words = ("--march", "bayes-e", "--calib", compiled / "hybrid.bpuc", "-o", tmp_path / "o.bpuc")
    done = bpuc("compile", MODEL, *words)
    assert done.code == 1
    assert "no valid calibration file: it is no text" in done.err
    assert "codec" not in done.err


def test_samples_of_another_size_do_not_almost_fit(bpuc, tmp_path):
    with np.load(DATA) as data:
        name, array = next(iter(data.items()))
    # as many elements as a whole number of samples has, but not sample by sample
    np.savez(tmp_path / "x.npz", **{name: np.zeros((array.shape[-1], *array.shape[1:-1], 3), np.float32)})
    done = bpuc("calibrate", MODEL, "--data", tmp_path / "x.npz", "-o", tmp_path / "o.calib.json")
    assert done.code == 1
    assert "would fit" not in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("after", [0.5, 0.9, 1.5])
def test_a_kill_while_processes_start_leaves_no_traceback(tmp_path, sign, after):
    words = ["-m", "bpuc", "compile", MODELS / "digits_inception.onnx", "--march", "bayes-e", "--workers", "2"]
    words += ["--data", MODELS / "digits_calib.npz", "-o", tmp_path / "o.bpuc"]
    process = subprocess.Popen([sys.executable, *map(str, words)], stderr=subprocess.PIPE, env={**os.environ})
    time.sleep(after)
    process.send_signal(sign)
    _, err = process.communicate(timeout=60)  # ends when the last process has closed its stderr
    assert b"Traceback" not in err
    assert process.returncode in (0, 128 + sign, -sign)
    # a signal behind the renaming of the file finds it whole
    if process.returncode == 0 or (tmp_path / "o.bpuc").exists():
        assert from_bytes((tmp_path / "o.bpuc").read_bytes(), "o.bpuc").march == "bayes-e"
