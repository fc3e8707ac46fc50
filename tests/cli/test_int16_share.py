"""The share of multiplications that read int16, where `compile` and `info` tell it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.unit.ops.onnx_cases import model

RNG = np.random.default_rng(2)


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ([], 0.0),
        # the first convolution: 8 channels of 8 x 8, 27 taps; the second: 4 channels of 8 x 8, 8 taps
        (["--dtype", "x=int16"], 13824 / 15872),
        (["--dtype", "r=int16"], 2048 / 15872),
        (["--dtype", "x=int16", "--dtype", "r=int16"], 1.0),
    ],
)
def test_the_share_is_that_of_the_multiplications(
    options: list[str], share: float, bpuc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    w = {"w1": RNG.normal(size=(8, 3, 3, 3)), "w2": RNG.normal(size=(4, 8, 1, 1))}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "c1"),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "w2"], ["y"], "c2"),
    ]
    m = model(nodes, {"x": (1, 3, 10, 10)}, ["y"], {n: a.astype(np.float32) for n, a in w.items()})
    Path("m.onnx").write_bytes(m.SerializeToString())
    np.savez("d.npz", x=RNG.normal(size=(4, 1, 3, 10, 10)).astype(np.float32))
    words = ["compile", "m.onnx", "--march", "bayes-e", "--data", "d.npz", "--effort", "0", "-o", "m.bpuc"]
    done = bpuc(*words, "--no-auto-int16", *options)
    assert done.code == 0, done.err
    told = f"int16 for {100 * share:.1f} % of the multiplications"
    assert (told in " ".join(done.err.split())) == (share > 0)
    assert json.loads(bpuc("info", "m.bpuc", "--json", "-").out)["int16_mac_share"] == pytest.approx(share, abs=1e-6)
    assert (f"int16: read by {100 * share:.1f} % of" in bpuc("info", "m.bpuc").out) == (share > 0)
