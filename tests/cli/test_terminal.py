"""What people read on stderr: as wide as their terminal, whole where they copy, and untouched in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.conftest import MODELS, Bpuc

HYBRID = str(MODELS / "hybrid.onnx")
ROOT = Path(__file__).parents[2]


def on_terminal(columns: int, *words: str, **env: str) -> str:
    """stderr of a command whose stderr is a terminal; its stdout is a file, whose width nobody knows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    known = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    path = os.pathsep.join([str(ROOT), str(ROOT / "passes"), str(ROOT / "targets")])
    started = subprocess.Popen(
        [sys.executable, "-m", "bpuc", *words],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**known, "PYTHONPATH": path, "TERM": "xterm", **env},
    )
    os.close(theirs)
    read = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        read += piece
    os.close(ours)
    started.wait(timeout=60)
    return read.decode().replace("\r\n", "\n")


CASES = [
    (["check", HYBRID, "--march", "bayes-e", "--dtype", "foo=int8"], "`bpuc check MODEL --march M`"),
    (["check", "models/" + "x" * 70 + ".onnx", "--march", "bayes-e"], "models/" + "x" * 70 + ".onnx"),
    (["perf", HYBRID, "--march", "bayes-g"], "(S600)"),
    (["check", HYBRID, "--march", "nash-e", "--max-bits-lost", "1", "--share-scales", "never"], "--max-bits-lost"),
]


@pytest.mark.parametrize(("words", "whole"), CASES)
def test_lines_end_at_the_width_of_the_terminal(bpuc: Bpuc, words: list[str], whole: str) -> None:
    said = on_terminal(50, *words, NO_COLOR="1")
    assert "\x1b" not in said
    assert whole in said
    # only one word, which has to stay whole, may be longer
    assert [x for x in said.splitlines() if len(x) > 50 and whole not in x] == []
    assert max(map(len, said.splitlines())) > 25
    # in a pipe the same words are not broken
    piped = bpuc(*words).err
    assert said.split() == piped.split()
    assert len(piped.splitlines()) < len(said.splitlines())


def test_colour_is_for_terminals_that_have_it() -> None:
    words = ["check", "none.onnx", "--march", "bayes-e"]
    assert "\x1b[" in on_terminal(80, *words)
    assert "\x1b[" not in on_terminal(80, *words, TERM="dumb")
    assert "\x1b[" not in on_terminal(80, *words, NO_COLOR="1")


def test_no_bar_where_the_terminal_knows_no_control_sequences(tmp_path: Path) -> None:
    words = ["calibrate", HYBRID, "--data", str(MODELS / "hybrid_calib.npz"), "-o", str(tmp_path / "t.calib.json")]
    assert "calibrating" in on_terminal(80, *words)
    plain = on_terminal(80, *words, TERM="dumb")
    assert ("calibrating" in plain, "\x1b" in plain, "tensors" in plain) == (False, False, True)
