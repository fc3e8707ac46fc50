"""Tensors that stand in others: no copy is left, and both engines give the same integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bpuc.isa import Move
from tests.unit.lower.bench import build, exact_weights, int8s, node

STEP = 2.0**-6


@pytest.mark.parametrize("channels", [1, 5, 16, 19])
def test_members_of_any_width_are_written_in_place(tmp_path: Path, channels: int) -> None:
    """The second member begins within a block of channels, or at one; neither is copied."""
    w = {f"w{i}": exact_weights((channels, 3, 1, 1), [2**-7] * channels) for i in (0, 1)}
    nodes = [node("Conv", ["x", f"w{i}"], [f"t{i}"], f"conv{i}") for i in (0, 1)]
    nodes.append(node("Concat", ["t0", "t1"], ["y"], "join", axis=1))
    net = build(tmp_path, nodes, {"x": (1, 3, 4, 5)}, constants=w, scales=dict.fromkeys(("x", "t0", "t1", "y"), STEP))
    assert net.instructions(Move) == []
    y = net.run(x=int8s((1, 3, 4, 5)))["y"]
    assert y.shape == (1, 2 * channels, 4, 5)
    assert np.ptp(y) > 0


def test_a_norm_over_channels_writes_channels_first(tmp_path: Path) -> None:
    """Channels last for the normalization and first again behind it: the machine stores both alike."""
    nodes = [
        node("Transpose", ["x"], ["t"], "last", perm=[0, 2, 3, 1]),
        node("LayerNormalization", ["t", "gain", "bias"], ["n"], "norm", axis=-1),
        node("Transpose", ["n"], ["y"], "first", perm=[0, 3, 1, 2]),
    ]
    constants = {"gain": np.linspace(0.5, 1.5, 8, dtype=np.float32), "bias": np.zeros(8, np.float32)}
    scales = dict.fromkeys(("x", "t", "n", "y"), 2.0**-5)
    net = build(tmp_path, nodes, {"x": (1, 8, 3, 5)}, constants=constants, scales=scales)
    x = int8s((1, 8, 3, 5))
    got = net.run(x=x)["y"] * 2.0**-5
    mean = x.mean(1, keepdims=True)
    want = (x - mean) / np.sqrt(x.var(1, keepdims=True)) * constants["gain"].reshape(1, 8, 1, 1)
    np.testing.assert_allclose(got, np.clip(want, -4, 127 / 32), atol=0.04)
    assert len(net.instructions(Move)) == 1  # the input is copied, the result is not
