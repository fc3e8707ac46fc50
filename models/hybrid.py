"""A chain to split between CPU and BPU: Conv, Identity, PRelu, Selu, a block of Conv, PRelu, Selu, then Conv, Conv,
Identity, Conv, Selu. Compiled with ``--run-on-cpu Selu --run-on-cpu conv1.conv --run-on-cpu conv3`` every border of a
hybrid model occurs: BPU to CPU, CPU to BPU, several ops in one CPU part, and a CPU op at the end.

Input ``image`` float32 ``[1, 3, 16, 16]``; output ``out`` float32 ``[1, 8, 16, 16]``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models.onnxfile import OnnxFile, model_bytes, npz_bytes, save, uniform

SEED = 7


def model() -> bytes:
    """The ONNX file."""
    rng = np.random.default_rng(SEED)
    file = OnnxFile("hybrid")

    def conv(x: str, name: str, channels: int, out: int = 8) -> str:
        weight = uniform(rng, (out, channels, 3, 3), (3 / (9 * channels)) ** 0.5)
        return file.conv(x, name, weight, uniform(rng, (out,), 0.1))

    def prelu(x: str, name: str) -> str:
        slope = file.const(f"{name}.slope", np.abs(uniform(rng, (8, 1, 1), 0.5)))
        return file.node("PRelu", [x, slope], name)

    x = conv(file.input("image", 1, 3, 16, 16), "conv0", 3)
    x = prelu(file.node("Identity", [x], "identity0"), "prelu0")
    x = file.node("Selu", [x], "selu0")
    x = prelu(conv(x, "conv1.conv", 8), "conv1.prelu")
    x = file.node("Selu", [x], "conv1.selu")
    x = conv(conv(x, "conv2", 8), "conv3", 8)
    x = conv(file.node("Identity", [x], "identity1"), "conv4", 8)
    file.node("Selu", [x], "out", name="selu1")
    file.output("out", 1, 8, 16, 16)
    return model_bytes(file.model())


def calibration() -> bytes:
    """Eight samples of whole sixteenths in -1..1."""
    x = np.random.default_rng(SEED + 1).integers(-16, 17, (8, 1, 3, 16, 16)).astype(np.float32) / 16
    return npz_bytes({"image": x})


def build(folder: Path) -> None:
    """Write the model and its calibration data."""
    save(folder, {"hybrid.onnx": model(), "hybrid_calib.npz": calibration()})
