"""Linear, LayerNorm, Relu, Linear, Linear: a stack for int16 choices, such as all activations int16 but the LayerNorm
int8.

Input ``tokens`` float32 ``[1, 16, 32]``; output ``linear3`` float32 ``[1, 16, 8]``. A Linear on tokens is a MatMul
(node ``linear1.matmul``) and an Add (node ``linear1``). Opset 17, the first with LayerNormalization.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models.onnxfile import OnnxFile, model_bytes, npz_bytes, save, uniform

SEED = 16
TOKENS, WIDTH, HIDDEN, OUT = 16, 32, 64, 8


def model() -> bytes:
    """The ONNX file."""
    rng = np.random.default_rng(SEED)
    file = OnnxFile("ln_mlp", opset=17)

    def linear(x: str, name: str, channels: int, out: int) -> str:
        weight = file.const(f"{name}.weight", uniform(rng, (channels, out), (3 / channels) ** 0.5))
        bias = file.const(f"{name}.bias", uniform(rng, (out,), 0.1))
        return file.node("Add", [file.node("MatMul", [x, weight], f"{name}.matmul"), bias], name)

    x = linear(file.input("tokens", 1, TOKENS, WIDTH), "linear1", WIDTH, HIDDEN)
    gain = file.const("norm.weight", 1 + uniform(rng, (HIDDEN,), 0.5))
    shift = file.const("norm.bias", uniform(rng, (HIDDEN,), 0.25))
    x = file.node("LayerNormalization", [x, gain, shift], "norm", axis=-1, epsilon=1e-5)
    x = file.node("Relu", [x], "relu")
    x = linear(linear(x, "linear2", HIDDEN, WIDTH), "linear3", WIDTH, OUT)
    file.output(x, 1, TOKENS, OUT)
    return model_bytes(file.model())


def calibration() -> bytes:
    """Sixteen samples of whole sixteenths in -2..2."""
    x = np.random.default_rng(SEED + 1).integers(-32, 33, (16, 1, TOKENS, WIDTH)).astype(np.float32) / 16
    return npz_bytes({"tokens": x})


def build(folder: Path) -> None:
    """Write the model and its calibration data."""
    save(folder, {"ln_mlp.onnx": model(), "ln_mlp_calib.npz": calibration()})
