"""The multi-scale K/V module of a user's question, repeated until the naive compile needs 104 Rescales.

Features pass convolutions of window 3, 7 and 9; each of the three is projected for a K path and for a V path, and
each path joins its three projections in a Concat. A Concat moves bytes, so on the BPU its inputs must share one
scale. Here the projections end in a Relu6 and have different gains: the window-3 one saturates, the other two stay
well below 6. So the Concat's own range is that of one input, the other two differ from it, and keeping every tensor's
own scale takes two Rescales a Concat: 2 x 2 paths x 26 modules = 104. A saturated value is common enough for every
observer to keep 6 as the threshold.

The big kernels are shared between the modules, which keeps the file small, and each module adds little to a residual
stream, which keeps the ranges alike from the first to the last.

Input ``image`` float32 ``[1, 4, 32, 32]``; output ``features`` of the same shape.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models.onnxfile import OnnxFile, model_bytes, npz_bytes, save, uniform

SEED = 104
MODULES = 26
CHANNELS, SIZE = 4, 32
WINDOWS = (3, 7, 9)
GAIN = {"k": (12.0, 1.2, 0.8), "v": (9.0, 0.9, 0.5)}  # projection gains by path, in the order of WINDOWS


def model(modules: int = MODULES) -> bytes:
    """The ONNX file, with ``4 * modules`` Rescales in the naive compile."""
    rng = np.random.default_rng(SEED)
    file = OnnxFile("kv_concat")
    x = file.input("image", 1, CHANNELS, SIZE, SIZE)
    bounds = [file.const("zero", np.array(0, np.float32)), file.const("six", np.array(6, np.float32))]
    kernels = {w: uniform(rng, (CHANNELS, CHANNELS, w, w), (3 / (CHANNELS * w * w)) ** 0.5) for w in WINDOWS}
    for m in range(modules):
        features = [file.conv(x, f"m{m}.conv{w}", kernels[w], share=f"conv{w}") for w in WINDOWS]
        merged = []
        for path, gains in GAIN.items():
            branches = []
            for w, feature, gain in zip(WINDOWS, features, gains):
                name = f"m{m}.{path}{w}"
                weight = uniform(rng, (CHANNELS, CHANNELS, 1, 1), gain * (3 / CHANNELS) ** 0.5)
                branches.append(file.node("Clip", [file.conv(feature, f"{name}.proj", weight), *bounds], name))
            joined = file.node("Concat", branches, f"m{m}.{path}", axis=1)
            weight = uniform(rng, (CHANNELS, 3 * CHANNELS, 1, 1), 0.02)
            merged.append(file.conv(joined, f"m{m}.{path}.out", weight))
        update = file.node("Add", merged, f"m{m}.update")
        last = m == modules - 1
        x = file.node("Add", [x, update], "features" if last else f"m{m}.features")
    file.output(x, 1, CHANNELS, SIZE, SIZE)
    return model_bytes(file.model())


def calibration() -> bytes:
    """Eight samples of whole sixteenths in -1..1."""
    rng = np.random.default_rng(SEED + 1)
    x = rng.integers(-16, 17, (8, 1, CHANNELS, SIZE, SIZE)).astype(np.float32) / 16
    return npz_bytes({"image": x})


def build(folder: Path) -> None:
    """Write the model and its calibration data."""
    save(folder, {"kv_concat.onnx": model(), "kv_concat_calib.npz": calibration()})
