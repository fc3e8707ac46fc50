"""The published layers of the J5: operations to the last one, and compute times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

FIT = Path(__file__).parents[3] / "targets/fit"


@pytest.fixture(scope="module")
def pairs():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FIT))
        import layers

        return layers.compare(layers.read_rows(), "bayes")


def test_operations_are_exact(pairs):
    assert len(pairs) == 53
    assert [2 * op["macs"] for _, op in pairs] == [row["ops"] for row, _ in pairs]


@pytest.mark.parametrize(("least", "count"), [(1, 53), (8, 10)])
def test_layers_are_met_on_average(pairs, least, count):
    errors = [abs(op["compute_us"] / row["compute_us"] - 1) for row, op in pairs if row["size"] >= least]
    assert len(errors) == count
    assert np.mean(errors) <= 0.30
