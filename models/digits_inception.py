"""A net of two four-branch blocks, a residual addition and an upsampled branch, trained on scikit-learn's digits.

Input ``image`` float32 ``[1, 1, 16, 16]``: the 8x8 grey pictures enlarged bilinearly, ink 0 to 1. Output ``logits``
float32 ``[1, 10]``. The last 500 of the 1797 pictures are held out.
Training takes about a minute on one core; the seed is fixed, but another BLAS may end with slightly different weights.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from models.exporter import Exporter, Ref
from models.onnxfile import OnnxFile, model_bytes, npz_bytes, save
from models.tape import Adam, Tape, Value

SEED = 20240607
HELD_OUT = 500
CALIBRATION = 64
EPOCHS = 40
BATCH = 64


def network(f: Any, x: Any) -> Any:
    """The net, spelled once for training (`Tape`) and once for the file (`Exporter`)."""
    x = f.conv(x, "stem", 16, 3)
    x = _block(f, x, "a", (8, 8, 12, 4, 8, 8))
    x = f.max_pool(x, "pool", 2, 2)
    x = _block(f, x, "b", (12, 12, 16, 6, 8, 12))
    y = f.conv(x, "res1", 48, 3)
    y = f.conv(y, "res2", 48, 3, relu=False)
    x = f.add_relu(y, x, "res.add")
    small = f.max_pool(x, "down", 2, 2)
    small = f.conv(small, "context", 16, 3)
    x = f.concat([x, f.upsample(small, "up", 2)], "joined")
    x = f.conv(x, "head", 64, 1)
    return f.classify(x, "logits", 10)


def _block(f: Any, x: Any, name: str, width: tuple[int, ...]) -> Any:
    """Four branches as in GoogLeNet: 1x1; 1x1 and 3x3; 1x1 and 5x5; max-pool and 1x1."""
    w1, r3, w3, r5, w5, wp = width
    return f.concat(
        [
            f.conv(x, f"{name}.b1", w1, 1),
            f.conv(f.conv(x, f"{name}.b3.reduce", r3, 1), f"{name}.b3", w3, 3),
            f.conv(f.conv(x, f"{name}.b5.reduce", r5, 1), f"{name}.b5", w5, 5),
            f.conv(f.max_pool(x, f"{name}.bp.pool", 3, 1), f"{name}.bp", wp, 1),
        ],
        f"{name}.concat",
    )


def data() -> tuple[np.ndarray, np.ndarray]:
    """Pictures ``[1797, 1, 16, 16]`` float32 in 0..1, exact in binary, and labels int64."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = digits.images.astype(np.float32) / 16
    # Bilinear to twice the size with half-pixel centres: weights 1/4 and 3/4, edges repeated.
    for axis in (1, 2):
        before = np.concatenate([x.take([0], axis), x.take(range(7), axis)], axis)
        after = np.concatenate([x.take(range(1, 8), axis), x.take([7], axis)], axis)
        pair = np.stack([0.75 * x + 0.25 * before, 0.75 * x + 0.25 * after], axis + 1)
        x = pair.reshape(*x.shape[:axis], 16, *x.shape[axis + 1 :])
    return x[:, None].astype(np.float32), digits.target.astype(np.int64)


def train(x: np.ndarray, labels: np.ndarray, *, epochs: int = EPOCHS, log: Any = None) -> dict[str, np.ndarray]:
    """Adam, cosine rate, label smoothing and shifts of up to two pixels. Returns all parameters by name."""
    rng = np.random.default_rng(SEED)
    params: dict[str, np.ndarray] = {}
    adam = Adam(decay=0.02)
    steps = len(x) // BATCH
    for epoch in range(epochs):
        order, total = rng.permutation(len(x)), 0.0
        for step in range(steps):
            pick = order[step * BATCH : (step + 1) * BATCH]
            tape = Tape(params, rng, training=True)
            logits = network(tape, Value(_shifted(x[pick], rng).transpose(1, 0, 2, 3)))
            total += tape.cross_entropy(logits, labels[pick], smoothing=0.1)
            tape.backward()
            done = (epoch * steps + step) / (epochs * steps)
            adam.step(params, tape.grads, 0.004 * 0.5 * (1 + np.cos(np.pi * done)))
        if log:
            log(f"epoch {epoch + 1:2d}/{epochs}  loss {total / steps:.4f}")
    return params


def _shifted(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each picture moved by up to two pixels either way, zeros moving in."""
    padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)))
    moves = rng.integers(0, 5, (len(x), 2))
    return np.stack([p[:, i : i + 16, j : j + 16] for p, (i, j) in zip(padded, moves)])


def predict(params: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """Logits ``[n, 10]`` by the trainer's own forward run, with running statistics."""
    tape = Tape(params, np.random.default_rng(0), training=False)
    logits: Value = network(tape, Value(x.transpose(1, 0, 2, 3)))
    return logits.data[:, :, 0, 0].T


def export(params: dict[str, np.ndarray]) -> bytes:
    """The ONNX file of a trained net."""
    file = OnnxFile("digits_inception")
    file.input("image", 1, 1, 16, 16)
    network(Exporter(file, params), Ref("image", 1))
    file.output("logits", 1, 10)
    return model_bytes(file.model())


def data_files() -> dict[str, bytes]:
    """Calibration pictures (from the training part), evaluation pictures and their labels."""
    x, labels = data()
    rng = np.random.default_rng(SEED)
    calib = np.sort(rng.choice(len(x) - HELD_OUT, CALIBRATION, replace=False))
    # One more axis in front: samples of a model input that already has a batch axis of 1.
    return {
        "digits_calib.npz": npz_bytes({"image": x[calib][:, None]}),
        "digits_eval.npz": npz_bytes({"image": x[-HELD_OUT:][:, None]}),
        "digits_labels.npz": npz_bytes({"label": labels[-HELD_OUT:]}),
    }


def build(folder: Path) -> None:
    """Train, report the held-out accuracy, write the model and its data."""
    x, labels = data()
    params = train(x[:-HELD_OUT], labels[:-HELD_OUT], log=lambda text: print(text, file=sys.stderr, flush=True))
    right = (predict(params, x[-HELD_OUT:]).argmax(1) == labels[-HELD_OUT:]).mean()
    print(f"digits_inception: float accuracy {right:.4f} on {HELD_OUT} held-out pictures")
    save(folder, {"digits_inception.onnx": export(params), **data_files()})
