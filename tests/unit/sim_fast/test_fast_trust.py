"""On machines whose kernels fail the probe, other ways give the same integers."""

from __future__ import annotations

import pytest

from bpuc.sim.fast import probe
from bpuc.sim.fast.plans import plan
from bpuc.sim.fast.storage import resolve
from tests.unit.sim_fast.fast_build import Builder
from tests.unit.sim_fast.fast_check import same
from tests.unit.sim_fast.test_fast_structure import residual_net

ALL = probe.forms()


@pytest.fixture(params=["no signed weights", "no fused requantization", "float only", "nothing"])
def trust(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    kept = {
        "no signed weights": {f for f in ALL if "signed" not in f.replace("unsigned", "")},
        "no fused requantization": {"ConvInteger", "Conv", "MatMulInteger"},
        "float only": {"Conv"},
        "nothing": set(),
    }[request.param]
    monkeypatch.setattr(probe, "forms", lambda: frozenset(kept))
    return str(request.param)


def test_a_small_network(trust: str) -> None:
    same(residual_net(3), samples=1)


def test_every_kind_of_convolution(trust: str) -> None:
    b = Builder(5)
    x = b.input("x", (1, 16, 9, 10))
    y = b.conv(x, 16, (3, 3), lo=0)
    b.output("dense", y)
    b.output("dilated", b.conv(x, 16, (3, 3), dilations=(2, 2), pads=(2, 2, 2, 2), strides=(2, 1), res=None))
    b.output("pointwise", b.conv(x, 24, (1, 1), res=None))
    b.output("depthwise", b.conv(x, 16, (3, 3), group=16, lo=-7))
    b.output("grouped", b.conv(x, 32, (3, 3), group=4))
    b.output("residual", b.conv(x, 16, (3, 3), res=y))
    b.output("depthwise residual", b.conv(x, 16, (3, 3), group=16, res=y))
    b.output("grouped residual", b.conv(x, 16, (3, 3), group=4, res=y))
    b.output("sums", b.conv(x, 16, (3, 3), quantized=False, lo=-(2**31), hi=2**31 - 1))
    b.output("transposed", b.conv_transpose(x, 8, (4, 4), (2, 2), (1, 1, 1, 1), (18, 20)))
    program = b.program()
    same(program, samples=1)
    planned = [plan(a) is not None for a in resolve(program).accesses]
    assert any(planned) == (trust != "nothing")


def test_matrix_products(trust: str) -> None:
    b = Builder(6)
    x, z = b.input("x", (2, 6, 16)), b.input("z", (2, 16, 10))
    b.output("linear", b.matmul(x, 12))
    b.output("linear sums", b.matmul(x, 12, quantized=False))
    b.output("product", b.matmul(x, z, bias=False, one=True))
    b.output("product with bias", b.matmul(x, z))
    same(b.program(), samples=1)


def test_a_form_with_one_wrong_integer_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    probe.forms.cache_clear()
    honest = probe._run

    def run(kind: str, inputs: list, attrs: dict, dtype: object) -> object:
        result = honest(kind, inputs, attrs, dtype)
        if kind == "ConvInteger":
            result.flat[3] += 1
        if kind == "MatMulInteger":
            raise RuntimeError("no such kernel")
        return result

    monkeypatch.setattr(probe, "_run", run)
    assert not probe.trusted("ConvInteger")
    assert not probe.trusted("MatMulInteger")
    assert probe.trusted("Conv")
    probe.forms.cache_clear()
