"""What a target.toml must hold, and what is refused."""

import pytest

from bpuc.base.errors import ConfigError, FileError
from bpuc.support.check import supports, validate
from bpuc.target.load import load_target_toml
from bpuc.target.model import Accuracy
from tests.unit.target.target_samples import conv

HEAD = """
schema = 1
family = "toy"
source = "toy list"
march = "toy-1"
chips = ["T1"]
description = "a toy"
int16 = { activations = false, weights = false, reason = "no int16", origin = "known" }
general = { rank = [0, 4], origin = "known" }
[hardware]
clock_mhz = { value = 500, unit = "MHz", origin = "known", source = "data sheet" }
anything_else = { value = 1, unit = "", origin = "assumed", source = "a guess" }
"""
RULE = """
[[op]]
ops = ["Conv"]
reason = "convolution"
origin = "known"
limits = [{ field = "kernel_h", range = [1, 3], reason = "kernel height 1..3" }]
"""


@pytest.fixture
def load(tmp_path):
    def write(text, name="target.toml"):
        (tmp_path / name).write_text(text)
        return load_target_toml(tmp_path / name)

    return write


def test_a_whole_file(load):
    (target,) = load(HEAD + RULE)
    validate(target)
    assert target.hw("clock_mhz") == 500
    assert target.hw("anything_else") == 1  # further numbers are the perf model's business
    assert supports(conv((1, 3, 8, 8), (8, 3, 3, 9)), target).ok
    verdict = supports(conv((1, 3, 8, 8), (8, 3, 4, 1)), target)
    assert verdict.reason == "Conv kernel 4x1: toy-1 takes kernel height 1..3 (toy list)"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('reason = "convolution"\n', "", "op[0].reason"),
        ('origin = "known"\nlimits', "limits", "op[0].origin"),
        ('origin = "known"\nlimits', 'origin = "heard"\nlimits', "op[0].origin"),
        (', reason = "kernel height 1..3"', "", "op[0].limits[0].reason"),
        ("range = [1, 3]", "range = [3, 1]", "range [3, 1] is empty"),
        ("range = [1, 3]", "range = [1, 5]", "does not name the bound 5"),
        ("range = [1, 3]", "range = [1, 3], one_of = [1]", "exactly one of"),
        ("range = [1, 3], ", "", "exactly one of"),
        ('field = "kernel_h", ', "", "need either field or product"),
        ("limits = [", "colour = 1\nlimits = [", "op[0].colour"),
        (', source = "data sheet"', "", "hardware.clock_mhz.source"),
        ("value = 500", "value = nan", "hardware.clock_mhz.value"),
        ("schema = 1", "schema = 2", "schema"),
        ('march = "toy-1"\n', "", "either one `march` or several"),
        ("schema = 1", "schema = = 1", "no valid TOML"),
    ],
)
def test_refused(load, old, new, says):
    text = HEAD + RULE
    assert old in text
    with pytest.raises(ConfigError) as e:
        load(text.replace(old, new, 1))
    assert says in str(e.value)
    assert "target.toml" in str(e.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('field = "kernel_h"', 'field = "kernel_hight"', "unknown field 'kernel_hight'"),
        ('field = "kernel_h", range = [1, 3]', 'check = "no_such_check"', "unknown check 'no_such_check'"),
        ("limits = [", 'like = "Convo"\nlimits = [', "unknown operator to be like 'Convo'"),
        ("limits = [", 'like = "Conv"\nlimits = [', "unknown operator to be like 'Conv'"),
    ],
)
def test_names_that_do_not_exist(load, old, new, says):
    (target,) = load((HEAD + RULE).replace(old, new, 1))
    with pytest.raises(ConfigError) as e:
        validate(target)
    assert says in str(e.value)


def test_missing_file(tmp_path):
    with pytest.raises(FileError):
        load_target_toml(tmp_path / "none.toml")


def test_variants_override_hardware(load):
    text = HEAD.replace('march = "toy-1"\nchips = ["T1"]\ndescription = "a toy"\n', "") + RULE
    text += """
[variant.toy-a]
chips = ["A"]
description = "the first"
[variant.toy-b]
chips = ["B"]
description = "the second"
[variant.toy-b.hardware]
clock_mhz = { value = 900, unit = "MHz", origin = "fitted", source = "board" }
"""
    a, b = load(text)
    assert (a.march, a.hw("clock_mhz"), b.march, b.hw("clock_mhz")) == ("toy-a", 500, "toy-b", 900)
    assert a.rules is b.rules


def test_rules_taken_over_are_assumed(load):
    load(HEAD + RULE + RULE.replace('"Conv"', '"Add"'), "model.toml")
    (target,) = load(_like("model.toml") + RULE)
    assert target.rules["Conv"][0].origin == "known"  # stated in the file itself
    (taken,) = target.rules["Add"]
    assert (taken.origin, taken.source, taken.limits[0].origin) == ("assumed", "as toy-1", "assumed")


def _like(name):
    return HEAD.replace('march = "toy-1"', f'like = "{name}"\nmarch = "toy-2"')


ACCURACY = '[accuracy]\nmean_percent = 6.5\nworst_percent = 20\nmodels = 12\nsource = "rows of a test"\n'


def test_the_error_of_the_estimate_is_that_of_the_numbers_it_was_found_with(load):
    (target,) = load(HEAD + ACCURACY)
    assert target.accuracy == Accuracy(6.5, 20, 12, "rows of a test")
    assert target.with_hardware({"clock_mhz": 750}).accuracy is None
    with pytest.raises(ConfigError, match="models"):
        load(HEAD + ACCURACY.replace("12", "0"))


def test_overrides_say_so(load):
    (target,) = load(HEAD)
    faster = target.with_hardware({"clock_mhz": 750})
    assert (faster.hw("clock_mhz"), target.hw("clock_mhz")) == (750, 500)
    assert (faster.hardware["clock_mhz"].origin, faster.hardware["clock_mhz"].source) == ("given", "set by the user")
    assert target.with_hardware({}) is target
    with pytest.raises(ConfigError, match="clock_mhz"):
        target.with_hardware({"clock_mzh": 1})
