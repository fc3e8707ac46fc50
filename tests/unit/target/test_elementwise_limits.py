"""Limits of element-wise operators, tables, softmax and normalizations."""

import pytest

from tests.unit.target.target_samples import op, tensor

MAP = (1, 64, 56, 56)


@pytest.mark.parametrize(
    ("march", "a", "b", "fits"),
    [
        ("bayes-e", MAP, MAP, True),
        ("bayes-e", MAP, (1, 64, 1, 1), True),
        ("bayes-e", (1, 64, 1, 1), (1, 1, 56, 56), True),  # both sides
        ("bayes-e", (2, 3, 4, 5, 6), (2, 3, 4, 5, 6), True),
        ("bayes-e", (2, 3, 4, 5, 6), (1, 1, 4, 5, 6), True),  # two runs
        ("bayes-e", (2, 3, 4, 5, 6), (2, 1, 4, 1, 6), False),  # five runs
        ("bayes-e", (2, 3, 1, 5, 6), (2, 1, 1, 1, 6), True),  # the 1 goes, two broadcast neighbours merge
        ("bayes-e", (1, 3, 4, 5, 6), (2, 1, 4, 1, 6), False),  # broadcast on different operands does not merge
        ("bayes", MAP, (1, 64, 1, 1), True),
        ("bayes", (2, 64, 8, 8), (1, 64, 8, 8), False),  # along the batch
        ("bayes", (2, 3, 4, 5, 6), (2, 3, 1, 1, 6), True),  # 2x3 merge: 6, 1, 1, 6
        ("bayes", (2, 3, 4, 5, 6), (2, 1, 4, 1, 6), False),
        ("bernoulli2", MAP, MAP, True),
        ("bernoulli2", MAP, (1, 64, 1, 1), True),
        ("bernoulli2", (1, 64, 1, 1), MAP, True),
        ("bernoulli2", MAP, (1, 1, 56, 56), False),
        ("bernoulli2", (1, 2049, 8, 8), (1, 2049, 8, 8), False),
    ],
)
def test_add_of_two_activations(ask, march, a, b, fits):
    out = tuple(max(p, q) for p, q in zip(a, b, strict=True))
    verdict = ask(march, op("Add", a, b, out=out))
    assert verdict.ok is fits, verdict.reason
    assert fits or verdict.reason.startswith("Add ")


def test_constant_operands(ask):
    bias = tensor((1, 64, 1, 1), True)
    assert ask("bayes-e", op("Add", MAP, bias)).ok
    assert ask("bayes", op("Add", (2, 64, 8, 8), bias)).ok  # a constant is expanded at compile time
    assert "two activations" in ask("bernoulli2", op("Add", MAP, bias)).reason
    assert "at most one constant" in ask("bayes-e", op("Mul", bias, bias, out=(1, 64, 1, 1))).reason
    assert ask("bernoulli2", op("Mul", MAP, tensor((), 0.5))).ok
    assert "zero" in ask("bernoulli2", op("Mul", MAP, tensor((), 0.0))).reason
    assert "1CHW" in ask("bernoulli2", op("Mul", (2, 64, 8, 8), tensor((), 0.5))).reason


def test_gain_and_offset_a_channel(ask):
    gain = tensor((64,), True)
    for march in ("bernoulli2", "bayes", "bayes-e", "nash-e"):
        assert ask(march, op("Affine", MAP, gain, gain, axis=1)).ok
    assert "2048 channels" in ask("bernoulli2", op("Affine", (1, 2049, 4, 4), gain, gain, axis=1)).reason


def test_max_is_broadcast_on_one_side_on_bayes(ask):
    both = op("Max", (1, 64, 1, 1), (1, 1, 56, 56), out=MAP)
    assert ask("bayes-e", both).ok
    assert "on both sides: bayes takes broadcast on one side" in ask("bayes", both).reason
    assert ask("bayes", op("Max", MAP, (1, 64, 1, 1))).ok


def test_manual_operators_are_allowed_and_marked(ask):
    assert ask("bayes-e", op("Greater", MAP, MAP)).manual
    assert ask("bayes-e", op("Min", MAP, MAP)).manual
    assert not ask("bayes-e", op("Max", MAP, MAP)).manual


def test_division(ask):
    constant = tensor((), 2.0)
    assert ask("bayes", op("Div", MAP, MAP)).origin == "known"
    assert ask("bayes", op("Div", MAP, constant)).origin == "derived"
    assert not ask("bayes", op("Div", tensor((), 1.0), MAP)).ok
    assert ask("bayes-e", op("Div", tensor((), 1.0), MAP)).ok


def test_pow_takes_one_constant_exponent(ask):
    for march in ("bernoulli2", "bayes", "bayes-e", "nash-e"):
        assert ask(march, op("Pow", MAP, tensor((), 2.0))).ok
        assert "exponent" in ask(march, op("Pow", MAP, MAP)).reason
        assert "exponent" in ask(march, op("Pow", MAP, tensor((64, 1, 1), True))).reason


# 30x30x8: 8W4C blocks 32*30*8 = 7680, 32C blocks 30*30*32 = 28800
# 10x25x32: 8W4C blocks 32*10*32 = 10240, 32C blocks 10*25*32 = 8000
@pytest.mark.parametrize(
    ("shape", "fits"),
    [((1, 8, 30, 30), True), ((1, 32, 10, 25), True), ((1, 33, 10, 25), False), ((1, 64, 40, 40), False)],
)
def test_bernoulli2_sigmoid_counts_blocks(ask, shape, fits):
    assert ask("bernoulli2", op("Sigmoid", shape)).ok is fits
    silu = ask("bernoulli2", op("Table", shape, parts=["Sigmoid", "Mul"]))
    assert silu.ok is fits
    assert fits or "8192 elements" in silu.reason


def test_bernoulli2_other_tables_count_elements(ask):
    assert ask("bernoulli2", op("Tanh", (1, 8, 32, 32))).ok
    assert "8192" in ask("bernoulli2", op("Tanh", (1, 8, 32, 33))).reason
    assert "batch of 1" in ask("bernoulli2", op("Tanh", (2, 8, 4, 4))).reason


def test_table_needs_every_part(ask):
    def table(*parts):
        return op("Table", (1, 8, 8, 8), parts=list(parts))

    gelu = ("Div", "Erf", "Add", "Mul", "Mul")
    assert all(ask(m, table(*gelu)).ok for m in ("bernoulli2", "bayes", "bayes-e", "nash-e"))
    assert not ask("bayes", table("Erf")).ok  # alone it is the operator of the list
    assert not ask("bayes", op("Erf", (1, 8, 8, 8))).ok
    assert "Table (Round, Mul) needs Round, and Round is not supported" in ask("bayes", table("Round", "Mul")).reason
    assert ask("bayes-e", table("Round", "Mul")).ok
    assert ask("bayes-e", table("Sigmoid", "Mul")).int16


def test_parts_decide_composites(ask):
    assert ask("bayes-e", op("HardSwish", MAP)).ok
    assert "HardSigmoid" in ask("bernoulli2", op("HardSwish", MAP)).reason
    assert ask("bayes-e", op("Mish", MAP)).ok
    scale = tensor((96,), True)
    assert ask("bayes-e", op("LayerNormalization", (1, 56, 56, 96), scale, scale, axis=-1)).ok
    over_two = ask("bayes-e", op("LayerNormalization", (1, 8, 56, 96), scale, axes=(1, 2)))
    assert "LayerNormalization needs ReduceMean" in over_two.reason
    assert "16384" in ask("bayes", op("LayerNormalization", (1, 8, 129, 128), scale, axis=-1)).reason
    assert not ask("bernoulli2", op("LayerNormalization", (1, 4, 4, 96), scale, axis=-1)).ok


def test_instance_normalization_where_the_front_end_is_known_to_split_it(ask):
    facts = op("InstanceNormalization", MAP, tensor((64,), True), tensor((64,), True))
    assert ask("nash-e", facts).ok
    assert "not supported" in ask("bayes-e", facts).reason


@pytest.mark.parametrize(
    ("march", "shape", "axis", "feeds", "fits"),
    [
        ("bayes-e", (1, 8, 49, 49), 3, False, True),
        ("bayes-e", (1, 8, 49, 49), -1, False, True),
        ("bayes-e", (2, 8, 49, 49), 0, False, False),
        ("bayes-e", (3, 10), 0, False, True),  # axis 2 of 1x1x3x10
        ("bayes-e", (1, 2, 3, 4, 5), 4, False, True),
        ("bayes-e", (2, 2, 3, 4, 5), 0, False, False),
        ("bernoulli2", (1, 10, 1, 1), 1, True, True),
        ("bernoulli2", (1, 10, 1, 1), 1, False, False),
        ("bernoulli2", (1, 10, 4, 4), 3, True, False),
        ("bernoulli2", (1, 10), -1, True, True),
        ("bernoulli2", (1, 7, 10), -1, True, False),
    ],
)
def test_softmax_axis(ask, march, shape, axis, feeds, fits):
    verdict = ask(march, op("Softmax", shape, axis=axis, feeds_output=feeds))
    assert verdict.ok is fits, verdict.reason
    assert not verdict.manual
