"""The published layers of the J5: operations to the last one, and times where maps are not tiny."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

FIT = Path(__file__).parents[3] / "targets/fit"


@pytest.fixture(scope="module")
def pairs():
    spec = importlib.util.spec_from_file_location("layers_script", FIT / "layers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compare(module.read_rows(), "bayes")


def test_operations_are_exact(pairs):
    assert len(pairs) == 53
    assert [2 * op["macs"] for _, op in pairs] == [row["ops"] for row, _ in pairs]


def test_layers_with_maps_of_8_and_more_are_met_on_average(pairs):
    errors = [abs(op["compute_us"] / row["compute_us"] - 1) for row, op in pairs if row["size"] >= 8]
    assert len(errors) == 10
    assert np.mean(errors) <= 0.30
