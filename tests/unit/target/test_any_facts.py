"""Whatever an operator looks like, the answer is a verdict: a reason, or none."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from bpuc import plugins
from bpuc.support.check import supports
from bpuc.support.facts import OpFacts, TensorFacts

OPS = sorted({op for target in plugins.targets().values() for op in target.rules})
shapes = st.lists(st.integers(0, 40), max_size=6).map(tuple)
tensors = st.builds(TensorFacts, st.just("t"), shapes, st.sampled_from(["float32", "int64"]), st.booleans())
small = st.lists(st.integers(0, 9), max_size=6).map(tuple)


@st.composite
def facts(draw):
    inputs = tuple(draw(st.lists(st.none() | tensors, max_size=4)))
    outputs = tuple(draw(st.lists(tensors, min_size=1, max_size=3)))
    rank = max((len(t.shape) for t in (*inputs, *outputs) if t is not None), default=0)
    names = {
        "axis": st.integers(-rank, max(0, rank - 1)),
        "axes": st.lists(st.integers(-rank, max(0, rank - 1)), max_size=3),
        "kernel_shape": small,
        "strides": small,
        "dilations": small,
        "pads": small,
        "output_padding": small,
        "group": st.integers(1, 4),
        "perm": st.permutations(range(rank)),
        "mode": st.sampled_from(["nearest", b"linear", "constant", "DCR"]),
        "parts": st.lists(st.sampled_from(OPS), max_size=3),
        "blocksize": st.integers(1, 4),
        "layout": st.integers(0, 1),
    }
    attrs = draw(st.fixed_dictionaries({}, optional=names))
    return OpFacts("n", draw(st.sampled_from(OPS)), inputs, outputs, attrs)


@settings(max_examples=400, deadline=None)
@given(facts(), st.sampled_from(["int8", "int16"]))
def test_verdict(op, dtype):
    for target in plugins.targets().values():
        verdict = supports(op, target, dtype)
        assert verdict.ok == (verdict.reason == "")
        assert verdict.ok or op.op_type in verdict.reason
        assert verdict.ok or target.march in verdict.reason


def test_malformed_facts_are_refused():
    pool = OpFacts("p", "ConvTranspose", (TensorFacts("x", (1, 8, 4, 4)),), (TensorFacts("y", (1, 8, 8, 8)),))
    odd = replace(pool, attrs={"kernel_shape": (4, 4), "strides": (2, 2), "pads": (1,)})
    verdict = supports(odd, plugins.get_target("bayes-e"))
    assert "ConvTranspose 'p' is not supported on the BPU of bayes-e: its shapes and attributes" in verdict.reason
