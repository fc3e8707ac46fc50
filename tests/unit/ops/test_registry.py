"""Every kind of op is declared whole and once."""

import inspect

import pytest

from bpuc.ir import Attrs
from bpuc.ops import attrs, registry
from bpuc.ops.base import Behaviour, OpDef
from bpuc.ops.unary import FUNCTIONS

DEFS = registry.all_defs()
BY_THE_COMPILER = {"Table", "Quantize", "Dequantize", "Rescale", "Image", "Onnx"}


@pytest.mark.parametrize("kind", sorted(DEFS))
def test_definition_is_whole(kind):
    definition = registry.get(kind)
    assert definition.kind == kind
    assert issubclass(definition.attrs, Attrs)
    assert isinstance(definition.behaviour, Behaviour)
    assert inspect.getdoc(type(definition)) != inspect.getdoc(OpDef)
    assert bool(definition.onnx) == (kind not in BY_THE_COMPILER)
    if definition.onnx:
        assert type(definition).parse is not OpDef.parse


def test_every_attribute_class_belongs_to_a_kind():
    classes = {c for _, c in inspect.getmembers(attrs, inspect.isclass) if issubclass(c, Attrs) and c is not Attrs}
    assert classes - {attrs.Step} == {d.attrs for d in DEFS.values()}


def test_functions_of_one_variable_map_through_tables():
    mapping = {kind for kind, d in DEFS.items() if d.behaviour is Behaviour.MAPS}
    assert mapping == set(FUNCTIONS) | {"Table", "PRelu"}


def test_by_onnx():
    assert registry.by_onnx("Gemm") is registry.get("MatMul")
    assert registry.by_onnx("GlobalMaxPool") is registry.get("ReduceMax")
    assert registry.by_onnx("NonZero") is None


def test_unknown_kind():
    with pytest.raises(KeyError):
        registry.get("Frobnicate")
