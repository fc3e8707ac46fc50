"""A few dozen damaged files of each kind: a result or a BpucError, in time. ``make fuzz`` goes on for minutes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpuc.base.errors import BpucError
from tests.fuzz import zoo
from tests.fuzz.targets import TARGETS, attempt

SECONDS = 10


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_give_a_result_or_an_error_of_ours(kind):
    target = TARGETS[kind]

    @settings(max_examples=40, deadline=SECONDS * 1000, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32))
    def run(seed):
        with tempfile.TemporaryDirectory() as folder:
            attempt(target, Path(folder), seed)

    run()


@pytest.mark.parametrize("kind", TARGETS)
def test_healthy_files_give_a_result(kind, tmp_path):
    target = TARGETS[kind]
    path = tmp_path / f"healthy{target.suffix}"
    path.write_bytes(target.healthy())
    target.use(path)


def test_most_damage_is_noticed(tmp_path):
    """Damage must reach what it is meant for: nearly no damaged archive or program may pass as healthy."""
    for kind in ("bpuc", "npz"):
        found = [attempt(TARGETS[kind], tmp_path, seed) for seed in range(20)]
        assert found.count("result") < 10, kind


def test_what_is_no_error_of_ours_is_not_swallowed(tmp_path):
    from dataclasses import replace

    def bug(path):
        raise KeyError(path)

    with pytest.raises(KeyError):
        attempt(replace(TARGETS["yaml"], use=bug), tmp_path, 0)

    def refusal(path):
        raise BpucError("no")

    assert attempt(replace(TARGETS["yaml"], use=refusal), tmp_path, 0) == "error"


def test_the_models_are_healthy(tmp_path):
    for raw in zoo.healthy():
        (tmp_path / "m.onnx").write_bytes(raw)
        assert TARGETS["onnx-graph"].use(tmp_path / "m.onnx").instructions
