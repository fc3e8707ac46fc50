"""The descriptions, loaded without the plug-in machinery."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import bpuc_targets
import pytest

from bpuc.support.check import Verdict, supports
from bpuc.target.load import load_target_toml
from bpuc.target.model import Target


@pytest.fixture(scope="session")
def marches() -> dict[str, Target]:
    files = sorted(Path(bpuc_targets.__path__[0]).glob("*/target.toml"))
    return {t.march: t for file in files for t in load_target_toml(file)}


@pytest.fixture
def ask(marches: dict[str, Target]) -> Callable[..., Verdict]:
    return lambda march, facts, dtype="int8": supports(facts, marches[march], dtype)
