"""Certificates of accumulating ops: bounds and ends by hand; layers too large for int32 get coarser weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bpuc.base.errors import BpucError, ConfigError
from bpuc.cli.main import cli
from bpuc.program import save_program
from bpuc.report.certificates import certificates_of
from tests.unit.lower.bench import build, int8s, node
from tests.unit.lower.test_int16 import int16s


def test_bound_bias_multiplier_and_shift(tmp_path: Path) -> None:
    w = np.array([[127, -1], [3, 127]], np.float32).reshape(2, 2, 1, 1) * 2**-7
    net = build(
        tmp_path,
        [node("Conv", ["x", "w", "b"], ["c"], "conv"), node("Relu", ["c"], ["y"], "relu")],
        {"x": (1, 2, 4, 4)},
        constants={"w": w, "b": np.array([1.0, -2.0], np.float32)},
        scales={"x": 2**-5, "y": 0.25},
    )
    (c,) = net.program.report["certificates"]
    # biases in steps of 2**-12; sums of |w| are 128 and 130, times 128
    assert (c["node"], c["bias"]) == ("conv", [-8192, 4096])
    assert c["bound"] == 130 * 128 + 8192
    assert (c["limit"], c["exact_in"]) == (2**31 - 1, "float32")
    # 2**-12 / 0.25 is 2**21 / 2**31
    assert (c["mult"], c["shift"], c["float32_channels"]) == ([2**21, 2**21], [31, 31], 1.0)
    assert (c["over"], c["clipped_channels"]) == (None, None)


def test_int16_operands_have_int64(tmp_path: Path) -> None:
    w = np.full((1, 2, 1, 1), 127 * 2**-7, np.float32)
    net = build(
        tmp_path,
        [node("Conv", ["x", "w"], ["c"], "conv"), node("Relu", ["c"], ["y"], "relu")],
        {"x": (1, 2, 4, 4)},
        constants={"w": w},
        scales={"x": 2**-13, "y": 2**-9},
        dtype=["x=int16", "y=int16"],
    )
    (c,) = net.program.report["certificates"]
    assert (c["bound"], c["limit"], c["exact_in"]) == (254 * 32768, 2**63 - 1, "float32")
    net.run(x=int16s((1, 2, 4, 4)))


def test_too_many_weights_become_coarser(tmp_path: Path) -> None:
    count = 1 << 18
    net = build(
        tmp_path,
        [node("Conv", ["x", "w"], ["y"], "large")],
        {"x": (1, count, 1, 1)},
        constants={"w": np.ones((1, count, 1, 1), np.float32)},
        scales={"x": 1.0},
        anywhere=True,
    )
    (c,) = net.program.report["certificates"]
    assert c["bound"] <= 2**31 - 1
    (warning,) = [w for w in net.program.report["warnings"] if w["code"] == "coarse-weights"]
    assert "large: with weights of 8 bits its accumulator could reach 4.278e+09, beyond int32" in warning["message"]
    x = np.full((1, count, 1, 1), -128)
    (scale,) = [t["scale"] for t in net.program.report["tensors"] if t["name"] == "y"]
    step = scale[0] if isinstance(scale, list) else scale
    # 2**18 ones in 8-bit steps of 1 / 63 or so: an integer off by at most a half
    assert net.run(x=x)["y"].item() * step == pytest.approx(-128 * count, rel=0.5 / 63)


def test_explain_and_info(tmp_path: Path) -> None:
    w = np.full((1, 2, 1, 1), 0.5, np.float32)
    net = build(
        tmp_path, [node("Conv", ["x", "w"], ["y"], "conv")], {"x": (1, 2, 4, 4)}, constants={"w": w}, scales={"x": 1.0}
    )
    save_program(net.program, tmp_path / "n.bpuc")
    text = CliRunner().invoke(cli, ["explain", str(tmp_path / "n.bpuc"), "certificates"]).output
    assert "32512" in text, "2 * 127 * 128"
    text = CliRunner().invoke(cli, ["explain", str(tmp_path / "n.bpuc"), "certificates", "conv"]).output
    assert "conv: the accumulator is at most 32512, 0.0015 % of int32, for any input" in text
    info = CliRunner().invoke(cli, ["info", str(tmp_path / "n.bpuc")]).output
    assert "accumulators: none leaves its type; conv needs most, at most 0.0015 % of its range" in " ".join(
        info.split()
    )
    with pytest.raises(ConfigError, match="no op with an accumulator named 'cnv'"):
        certificates_of(net.program.report, "cnv")
    net.run(x=int8s((1, 2, 4, 4)))


def test_a_product_of_activations_that_could_overflow_is_refused(tmp_path: Path) -> None:
    count = 1 << 17
    with pytest.raises(BpucError, match=f"mm.*accumulator could reach {count << 14}, beyond int32"):
        build(
            tmp_path,
            [node("MatMul", ["a", "b"], ["c"], "mm"), node("Relu", ["c"], ["y"], "relu")],
            {"a": (1, 1, count), "b": (1, count, 1)},
            scales={"a": 1.0, "b": 1.0, "y": 1.0},
            anywhere=True,
        )


@pytest.mark.parametrize("dtype", [[], ["x=int16", "y=int16"]])
def test_a_bias_beyond_int32_makes_the_weights_coarser(tmp_path: Path, dtype: list[str]) -> None:
    w = np.array([[1.0], [1.0]], np.float32).reshape(2, 1, 1, 1)
    net = build(
        tmp_path,
        [node("Conv", ["x", "w", "b"], ["c"], "conv"), node("Relu", ["c"], ["y"], "relu")],
        {"x": (1, 1, 2, 2)},
        constants={"w": w, "b": np.array([2.0**12, -(2.0**12)], np.float32)},
        scales={"x": 2**-30, "y": 2.0**6},
        dtype=dtype,
    )
    (c,) = net.program.report["certificates"]
    # at a weight scale of 1 / 127 the biases would be 2**42 * 127 steps
    assert c["bias"] == [-(2**30), 2**30]
    x = int8s((1, 1, 2, 2))
    np.testing.assert_array_equal(net.run(x=x.astype(np.int16) if dtype else x)["y"][0, :, 0, 0], [64, 0])
