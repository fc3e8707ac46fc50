"""Functions of one variable, by their ONNX names: how to parse, compute in float64, and write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import UnaryAttrs
from bpuc.ops.base import Array, Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import bounds
from bpuc.ops.erf import erf

Params = Mapping[str, float]
Function = Callable[[Array, Params], Array]

# attributes with the defaults of their ONNX operators
PARAMS: dict[str, dict[str, float]] = {
    "LeakyRelu": {"alpha": 0.01},
    "Elu": {"alpha": 1.0},
    "Celu": {"alpha": 1.0},
    "Selu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "ThresholdedRelu": {"alpha": 1.0},
    "Shrink": {"bias": 0.0, "lambd": 0.5},
    "Swish": {"alpha": 1.0},
}


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):  # an infinite power gives 0
        return np.asarray(1 / (1 + np.exp(-x)))


def _softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(0.0, x))


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _gelu(x: Array, p: Params) -> Array:
    if p.get("tanh", 0.0):
        curve: Array = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    else:
        curve = erf(x / math.sqrt(2))
    return np.asarray(0.5 * x * (1 + curve))


def _shrink(x: Array, p: Params) -> Array:
    bias, lambd = p.get("bias", 0.0), p.get("lambd", 0.5)
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0.0))


Plain = Callable[[Array], Array]

_PLAIN: dict[str, Plain] = {
    "Relu": lambda x: np.maximum(x, 0.0),
    "Sigmoid": _sigmoid,
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0.0, 1.0),
    "Mish": lambda x: x * np.tanh(_softplus(x)),
    "Softplus": _softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Reciprocal": lambda x: 1 / x,
    "Abs": np.abs,
    "Neg": lambda x: -x,
    "Sign": np.sign,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.round,  # half to even, as ONNX
    "Erf": erf,
    "Tanh": np.tanh,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
}

_WITH_PARAMS: dict[str, Function] = {
    "Clip": lambda x, p: np.minimum(np.maximum(x, p.get("min", -math.inf)), p.get("max", math.inf)),
    "LeakyRelu": lambda x, p: np.where(x < 0, p.get("alpha", 0.01) * x, x),
    "ThresholdedRelu": lambda x, p: np.where(x > p.get("alpha", 1.0), x, 0.0),
    "Shrink": _shrink,
    "HardSigmoid": lambda x, p: np.clip(p.get("alpha", 0.2) * x + p.get("beta", 0.5), 0.0, 1.0),
    "Swish": lambda x, p: x * _sigmoid(p.get("alpha", 1.0) * x),
    "Gelu": _gelu,
    "Elu": lambda x, p: _elu(x, p.get("alpha", 1.0)),
    "Celu": lambda x, p: np.where(x < 0, p.get("alpha", 1.0) * np.expm1(np.minimum(x, 0) / p.get("alpha", 1.0)), x),
    "Selu": lambda x, p: p.get("gamma", PARAMS["Selu"]["gamma"]) * _elu(x, p.get("alpha", PARAMS["Selu"]["alpha"])),
    "Pow": lambda x, p: np.power(x, p["exponent"]),
}


def _ignoring_params(f: Plain) -> Function:
    return lambda x, _: f(x)


# float64 array and parameters -> float64 array; outside the domain the result is NaN or infinite, as numpy gives it
FUNCTIONS: dict[str, Function] = _WITH_PARAMS | {kind: _ignoring_params(f) for kind, f in _PLAIN.items()}


def evaluate(kind: str, x: Array, params: Params) -> Array:
    """The function on a float64 array, without numpy's warnings; the shape is kept."""
    with np.errstate(all="ignore"):
        return np.asarray(FUNCTIONS[kind](np.asarray(x, np.float64), params), np.float64)


class Unary(OpDef):
    """One function of one variable."""

    attrs = UnaryAttrs
    behaviour = Behaviour.MAPS

    def __init__(self, kind: str):
        self.kind, self.onnx = kind, (kind,)

    def parse(self, node: OnnxNode, build: Builder) -> None:
        if self.kind == "Clip":
            params = _clip_params(node)
        elif self.kind == "Pow":
            params = _pow_params(node)
        elif self.kind == "Gelu":
            params = {"tanh": 1.0} if node.attrs.get("approximate", "none") == "tanh" else {}
        else:
            defaults = PARAMS.get(self.kind, {})
            params = {name: float(node.attrs.get(name, value)) for name, value in defaults.items()}
        build.op(self.kind, UnaryAttrs(tuple(params.items())), [node.operand(0)], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        return [op.input(0).shape]

    def export(self, op: Op, to: Exporter) -> None:
        export_unary(self.kind, dict(cast(UnaryAttrs, op.attrs).params), to.operand(op.input(0)), op.out.name, to)

    def facts(self, op: Op) -> dict[str, Any]:
        params: dict[str, Any] = dict(cast(UnaryAttrs, op.attrs).params)
        if self.kind == "Gelu":
            return {"approximate": "tanh" if params.get("tanh") else "none"}
        return params


def export_unary(kind: str, params: Params, x: str, out: str, to: Exporter) -> None:
    """Write one function from tensor `x` to tensor `out`."""
    if kind == "Clip":
        to.node("Clip", [x, *bounds(to, params.get("min"), params.get("max"), out)], [out])
    elif kind == "Pow":
        to.node("Pow", [x, to.const(params["exponent"], f"{out}_exponent")], [out])
    elif kind == "Swish":
        scaled = x
        if params.get("alpha", 1.0) != 1.0:
            scaled = to.temp(f"{out}_scaled")
            to.node("Mul", [x, to.const(params["alpha"], f"{out}_alpha")], [scaled])
        gate = to.temp(f"{out}_sigmoid")
        to.node("Sigmoid", [scaled], [gate])
        to.node("Mul", [x, gate], [out])
    elif kind == "Gelu":
        to.node("Gelu", [x], [out], approximate="tanh" if params.get("tanh") else "none")
    else:
        to.node(kind, [x], [out], **params)


def _clip_params(node: OnnxNode) -> dict[str, float]:
    if node.opset < 11:
        values = {name: float(node.attrs[name]) for name in ("min", "max") if name in node.attrs}
    else:
        values = {}
        for index, name in ((1, "min"), (2, "max")):
            if index < len(node.inputs) and node.inputs[index] is not None:
                array = node.const(index)
                if array is None:
                    raise Opaque(f"Clip whose {name} is not constant")
                values[name] = float(array.reshape(-1)[0])
    largest = float(np.finfo(np.float32).max)
    # the ends of float32 mean "no bound"
    return {k: v for k, v in values.items() if abs(v) < largest}


def _pow_params(node: OnnxNode) -> dict[str, float]:
    exponent = node.const(1)
    if exponent is None or exponent.size != 1:
        raise Opaque("Pow whose exponent is not one constant")
    if exponent.ndim > node.operand(0).rank:
        raise Opaque("Pow that raises the rank")
    return {"exponent": float(exponent.reshape(-1)[0])}


DEFS = tuple(Unary(kind) for kind in FUNCTIONS)
