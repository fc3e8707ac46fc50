"""Calibration as a user runs it: observers, processes, interruptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bpuc.observe import observer_names
from tests.cli.conftest import MODELS, Bpuc

MODEL, DATA = MODELS / "hybrid.onnx", MODELS / "hybrid_calib.npz"
NEEDED = {"fixed": ["--observer-opt", "scale=0.0625"], "clip": ["--observer-opt", "range=2"]}


@pytest.mark.parametrize("name", observer_names())
def test_every_observer_gives_every_tensor_a_threshold(bpuc: Bpuc, tmp_path: Path, name: str) -> None:
    to = tmp_path / "x.calib.json"
    done = bpuc("calibrate", MODEL, "--data", DATA, "--observer", name, *NEEDED.get(name, []), "-o", to)
    assert done.code == 0, done.err
    tensors = json.loads(to.read_text())["tensors"]
    assert tensors
    assert all(t["threshold"] > 0 for t in tensors.values())


def test_some_tensors_have_an_observer_of_their_own(bpuc: Bpuc, tmp_path: Path) -> None:
    to, plain = tmp_path / "x.json", tmp_path / "plain.json"
    words = ["calibrate", MODEL, "--data", DATA]
    assert bpuc(*words, "-o", plain).code == 0
    names = list(json.loads(plain.read_text())["tensors"])
    own = ["--observer-for", "Conv=percentile,percentile=50", "--observer-for", f"{names[0]}=min_max"]
    done = bpuc(*words, *own, "-o", to)
    assert done.code == 0, done.err
    got = json.loads(to.read_text())["tensors"]
    assert got[names[0]]["observer"] == "min_max"
    assert got[names[0]]["threshold"] == max(-got[names[0]]["min"], got[names[0]]["max"])
    halves = [n for n, t in got.items() if t["observer"] == "percentile" and t["threshold"] < t["max"] / 2]
    assert halves
    assert names[0] not in halves


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        ("Convv=mse", "did you mean 'Conv'", 1),
        ("Conv=mean", "there is no observer 'mean'", 2),
        ("Conv=mse,width=3", "no option 'width'", 2),
        ("Conv", "cannot be read", 2),
    ],
)
def test_own_observers_that_cannot_be(bpuc: Bpuc, tmp_path: Path, words: str, told: str, code: int) -> None:
    done = bpuc("calibrate", MODEL, "--data", DATA, "--observer-for", words, "-o", tmp_path / "x.json")
    assert done.code == code
    assert told in done.err


def test_several_processes_write_the_bytes_of_one(bpuc: Bpuc, tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    assert bpuc("calibrate", MODEL, "--data", DATA, "-o", one).code == 0
    assert bpuc("calibrate", MODEL, "--data", DATA, "--workers", "2", "-o", two).code == 0
    assert one.read_bytes() == two.read_bytes()


def test_processes_and_a_cluster_exclude_each_other(bpuc: Bpuc, tmp_path: Path) -> None:
    words = ["calibrate", MODEL, "--data", DATA, "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"]
    done = bpuc(*words, "-o", tmp_path / "x.json")
    assert done.code == 2
    assert "--workers and --scheduler were both given" in done.err


def test_effort_0_keeps_no_channels(bpuc: Bpuc, tmp_path: Path) -> None:
    to = tmp_path / "x.json"
    assert bpuc("calibrate", MODEL, "--data", DATA, "--effort", "0", "-o", to).code == 0
    assert "channels" not in to.read_text()
    assert bpuc("calibrate", MODEL, "--data", DATA, "-o", to).code == 0
    assert "channels" in to.read_text()


def test_a_killed_run_goes_on_to_the_same_bytes(bpuc: Bpuc, tmp_path: Path) -> None:
    with np.load(DATA) as data:
        many = {k: np.concatenate([v] * (6000 // len(v))) for k, v in data.items()}
    np.savez(tmp_path / "many.npz", **many)
    to, part = tmp_path / "x.calib.json", tmp_path / "x.calib.json.part"
    words = ["calibrate", str(MODEL), "--data", str(tmp_path / "many.npz"), "--resume", "-o", str(to)]
    process = subprocess.Popen([sys.executable, "-m", "bpuc", *words], cwd=Path(__file__).parents[2], env=os.environ)
    deadline = time.monotonic() + 100
    while not part.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert part.exists()
    assert not to.exists()
    done = bpuc(*words[:-1], to, "--observer", "mse")
    assert done.code == 1
    assert "another observer" in done.err
    assert bpuc(*words[:-1], to).code == 0
    assert not part.exists()
    whole = tmp_path / "whole.json"
    assert bpuc(*words[:4], "-o", whole).code == 0
    assert to.read_bytes() == whole.read_bytes()
