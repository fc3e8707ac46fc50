"""The installed targets load, and the best-known limits answer."""

import pytest

from bpuc.base.errors import ConfigError
from bpuc.plugins import get_target, targets
from bpuc.support.check import supports
from bpuc.support.facts import OpFacts, TensorFacts


def conv(kernel: tuple[int, int]) -> OpFacts:
    x, y = TensorFacts("x", (1, 3, 224, 224)), TensorFacts("y", (1, 64, 224, 224))
    return OpFacts(
        "conv", "Conv", (x, TensorFacts("w", (64, 3, *kernel), constant=True)), (y,), {"kernel_shape": kernel}
    )


def test_nash_is_nash_e():
    assert get_target("nash").march == "nash-e"
    assert {"nash-e", "nash-m", "nash-p"} <= set(targets())


def test_unknown_march_names_the_known_ones():
    with pytest.raises(ConfigError, match="bayes-e") as e:
        get_target("bayes-f")
    assert "did you mean" in str(e.value)


def test_kernel_height():
    target = get_target("bayes-e")
    assert supports(conv((31, 1)), target).ok
    verdict = supports(conv((33, 1)), target)
    assert not verdict.ok
    assert verdict.reason.startswith("Conv kernel 33x1: bayes-e takes kernel height 1..31")
