"""Commands in odd surroundings: nothing but what the user names is written, and messages name what the user named."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import MODELS, Bpuc

HYBRID, DATA = MODELS / "hybrid.onnx", MODELS / "hybrid_calib.npz"
ROOT = Path(__file__).parents[2]


def test_nothing_is_left_in_the_home_of_the_user(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    # what would keep onnxruntime from it in a test run anyway
    known = {k: v for k, v in os.environ.items() if k not in ("CI", "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")}
    path = os.pathsep.join([str(ROOT), str(ROOT / "passes"), str(ROOT / "targets")])
    words = ["compile", str(HYBRID), "--march", "bayes-e", "--data", str(DATA), "-o", "x.bpuc"]
    done = subprocess.run(
        [sys.executable, "-m", "bpuc", *words],
        cwd=work,
        env={**known, "HOME": str(home), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [p.name for p in work.iterdir()] == ["x.bpuc"]
    assert [*home.rglob("*")] == []


def test_a_folder_that_cannot_be_written_is_named_as_given(bpuc: Bpuc, tmp_path: Path) -> None:
    def locked(path: str, *_: object, **__: object) -> None:  # root, whom tests may run as, is let into any folder
        raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.mkdir", locked)
        done = bpuc("stats", HYBRID, "--data", DATA, "-o", tmp_path / "new")
    assert (done.code, f"the folder {tmp_path / 'new'}" in done.err) == (1, True), done.err
    assert "result.json" not in done.err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", ["x" * 250 + ".bpuc", "量" * 83 + ".bpuc"])
def test_the_longest_name_that_a_file_can_have(bpuc: Bpuc, tmp_path: Path, name: str) -> None:
    done = bpuc("compile", HYBRID, "--march", "bayes-e", "--random-data", "-o", tmp_path / name)
    assert done.code == 0, done.err
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_path_that_is_no_utf8(bpuc: Bpuc, tmp_path: Path) -> None:
    strange = os.fsdecode(os.fsencode(tmp_path) + b"/\xe9t\xe9.onnx")
    Path(strange).write_bytes(HYBRID.read_bytes())
    report, binary = tmp_path / "r.json", tmp_path / "x.bpuc"
    done = bpuc("compile", strange, "--march", "bayes-e", "--random-data", "-o", binary, "--report", report)
    assert done.code == 0, done.err
    assert json.loads(report.read_text(encoding="utf-8"))["source"]["path"] == strange
    assert bpuc("explain", binary).code == 0


def test_a_full_disk_is_that_of_the_output(bpuc: Bpuc, compiled: Path, tmp_path: Path) -> None:
    def full(**_: object) -> object:
        return Path("/dev/full").open("w+b")

    out = tmp_path / "o.npz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bpuc.cli.run_cmd.tempfile.TemporaryFile", full)
        done = bpuc("run", compiled / "hybrid.bpuc", "--inputs", DATA, "-o", out)
    assert (done.code, f"cannot keep results in {tmp_path}: No space left" in done.err) == (1, True), done.err
    assert [*tmp_path.iterdir()] == []


FINALIZER = """
import os, signal, time
import bpuc.cli.main as m

class Slow:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)  # the handler raises here, where Python drops it

def work(*args, **more):
    Slow()
    time.sleep(30)

m.cli.main = work
m.main([])
"""


def test_an_interrupt_in_a_finalizer_is_not_lost() -> None:
    path = os.pathsep.join([str(ROOT), str(ROOT / "passes"), str(ROOT / "targets")])
    done = subprocess.run(
        [sys.executable, "-c", FINALIZER],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
