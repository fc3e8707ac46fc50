"""One Add whose scales are physical quantities: compiled with ``--fixed-scale x1=0.03125 --fixed-scale x2=0.03125
--fixed-scale y=0.0625`` the observers have no say.

Inputs ``x1``, ``x2`` and output ``y``: float32 ``[1, 8, 16, 16]``. The data are whole 1/32 up to +-3.96875, which
int8 holds exactly at scale 1/32; the sums are whole 1/32 too, so at scale 1/16 an odd sum is a tie, the hard case of
rounding.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models.onnxfile import OnnxFile, model_bytes, npz_bytes, save

SEED = 32
SHAPE = (1, 8, 16, 16)


def model() -> bytes:
    """The ONNX file."""
    file = OnnxFile("add_fixed")
    file.node("Add", [file.input("x1", *SHAPE), file.input("x2", *SHAPE)], "y", name="add")
    file.output("y", *SHAPE)
    return model_bytes(file.model())


def calibration() -> bytes:
    """Four samples an input."""
    rng = np.random.default_rng(SEED)
    draw = {name: rng.integers(-127, 128, (4, *SHAPE)).astype(np.float32) / 32 for name in ("x1", "x2")}
    return npz_bytes(draw)


def build(folder: Path) -> None:
    """Write the model and its calibration data."""
    save(folder, {"add_fixed.onnx": model(), "add_fixed_calib.npz": calibration()})
