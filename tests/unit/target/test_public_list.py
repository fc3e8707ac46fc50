"""Every operator of the public operator lists has a rule, on the device and in the types that the list gives it."""

import pytest

from bpuc.target.model import Target

BPU_EVERYWHERE = """
    Add ArgMax AveragePool BatchNormalization Clip Concat Conv ConvTranspose Cos DepthToSpace Div Dropout Exp
    Gemm GlobalAveragePool GlobalMaxPool LSTM LeakyRelu MatMul MaxPool Mul Pad Pow Reciprocal ReduceMean Relu
    Resize Sigmoid Sin Slice Softmax Softplus SpaceToDepth Split Sqrt Sum Tanh Upsample
"""
BPU_BAYES = """
    Abs ArgMin Atan Ceil Elu Equal Expand Flatten Floor Gather GatherElements Greater GreaterOrEqual
    GridSample HardSigmoid Less LessOrEqual Log Max Min ReduceMax ReduceSum Reshape Squeeze Sub Tile TopK
    Transpose Unsqueeze
"""
BPU_BAYES_E = BPU_BAYES + "Acos Acosh Asin Asinh Atanh Cosh Erf PRelu Round Selu Sign Sinh Softsign Tan"
CPU_EVERYWHERE = """
    And Cast CumSum DequantizeLinear EyeLike GRU GatherND GlobalLpPool LRN LogSoftmax LpNormalization LpPool
    MaxRoiPool Not OneHot Or QuantizeLinear RNN RandomUniform RandomUniformLike Range ReduceL1 ReduceL2
    ReduceLogSum ReduceLogSumExp ReduceMin ReduceProd ReduceSumSquare ReverseSequence RoiAlign ScatterElements
    ScatterND ThresholdedRelu Where Constant ConstantOfShape Shape Size
"""
CPU_OF_BAYES = "Acos Acosh Asin Asinh Atanh Cosh Erf InstanceNormalization PRelu Round Selu Sign Sinh Softsign Tan"
CPU_OF_BERNOULLI2 = """
    Abs Acos Acosh ArgMin Asin Asinh Atan Atanh Ceil Cosh Elu Equal Erf Expand Floor Gather GatherElements
    Greater GreaterOrEqual HardSigmoid InstanceNormalization Less LessOrEqual Log Max Min NonZero ReduceMax
    ReduceSum Round Selu Sign Sinh Softsign Sub Tan Tile TopK
"""
# The list has a CPU kernel only; why they may run on the BPU all the same stands in the NOTES.md of the target.
DERIVED = {
    "bernoulli2": "Neg Identity Reshape Flatten Squeeze Unsqueeze Transpose Relu",
    "bayes": "Neg",
    "bayes-e": "Neg",
}
INT8_ONLY = """
    AveragePool BatchNormalization ConvTranspose Gather GlobalAveragePool GlobalMaxPool Resize Upsample PRelu
    GridSample
"""


def devices(target: Target, op: str) -> set[str]:
    return {rule.place for rule in target.rules.get(op, ())}


@pytest.mark.parametrize(
    ("march", "bpu", "cpu"),
    [
        ("bernoulli2", BPU_EVERYWHERE + "PRelu", CPU_EVERYWHERE + CPU_OF_BERNOULLI2),
        ("bayes", BPU_EVERYWHERE + BPU_BAYES, CPU_EVERYWHERE + CPU_OF_BAYES),
        ("bayes-e", BPU_EVERYWHERE + BPU_BAYES_E, CPU_EVERYWHERE + "InstanceNormalization Mod"),
        ("nash-e", BPU_EVERYWHERE + BPU_BAYES_E + " GroupNormalization InstanceNormalization", CPU_EVERYWHERE + "Mod"),
        ("nash-m", BPU_EVERYWHERE + BPU_BAYES_E, CPU_EVERYWHERE),
        ("nash-p", BPU_EVERYWHERE + BPU_BAYES_E, CPU_EVERYWHERE),
    ],
)
def test_device(marches, march, bpu, cpu):
    target = marches[march]
    assert {op for op in bpu.split() if not devices(target, op) or "cpu" in devices(target, op)} == set()
    assert {op for op in cpu.split() if devices(target, op) != {"cpu"}} == set()


@pytest.mark.parametrize("march", ["bernoulli2", "bayes", "bayes-e"])
def test_what_goes_beyond_the_list_says_so(marches, march):
    for op in DERIVED[march].split():
        rules = marches[march].rules[op]
        assert all(r.origin == "derived" or "fused away" in r.reason for r in rules), op


def test_default_device_is_cpu_only_where_the_list_says_so_and_softmax_is_not(marches):
    manual = {op for op in marches["bayes-e"].rules if "manual" in devices(marches["bayes-e"], op)}
    assert manual == {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Min"}


def test_types(marches):
    target = marches["bayes-e"]
    for op in INT8_ONLY.split():
        assert all(r.dtypes == ("int8",) or r.like for r in target.rules[op]), op
    for op in [
        "Add",
        "Concat",
        "Conv",
        "Erf",
        "MaxPool",
        "Mul",
        "Pad",
        "Reshape",
        "Sigmoid",
        "Slice",
        "Softmax",
        "Split",
        "Transpose",
    ]:
        assert "int16" in {d for r in target.rules[op] for d in r.dtypes}, op
    assert marches["bayes"].rules["DepthToSpace"][0].dtypes == ("int8",)
    assert target.rules["DepthToSpace"][0].dtypes == ("int8", "int16")
    for t in marches.values():
        assert (t.int16_activations, t.int16_weights) == (t.march != "bernoulli2", t.march.startswith("nash"))


def test_every_rule_and_number_has_a_source(marches):
    for target in marches.values():
        for rules in target.rules.values():
            for rule in rules:
                assert rule.source
                assert all(limit.source for limit in rule.limits)
        for name, quantity in target.hardware.items():
            assert quantity.source, name
            assert quantity.unit, name


def test_scale_rules(marches):
    for target in marches.values():
        assert target.scale_rules["Concat"].rule == "all-equal"
        assert {target.scale_rules[op].rule for op in ("MaxPool", "Reshape", "Split", "Slice")} == {"transparent"}
        assert target.scale_rules["Resize"].when == {"mode": ("nearest",)}
        assert not {"Conv", "Add", "Mul", "AveragePool", "Sigmoid", "Softmax"} & set(target.scale_rules)
