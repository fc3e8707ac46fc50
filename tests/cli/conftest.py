"""Commands as a user gives them, run in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bpuc.cli.main import _run

MODELS = Path(__file__).parents[2] / "models"


@dataclass
class Done:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


Bpuc = Callable[..., Done]


@pytest.fixture
def bpuc(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bpuc:
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*words: Any) -> Done:
        capsys.readouterr()
        code = _run([str(w) for w in words])
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a compiled hybrid.onnx: hybrid.bpuc and report.json; some ops on the CPU, some rescales."""
    folder = tmp_path_factory.mktemp("compiled")
    words = ["compile", MODELS / "hybrid.onnx", "--march", "bayes-e", "--data", MODELS / "hybrid_calib.npz"]
    words += ["--run-on-cpu", "Selu", "-o", folder / "hybrid.bpuc", "--report", folder / "report.json"]
    assert _run([str(w) for w in words]) == 0
    return folder
