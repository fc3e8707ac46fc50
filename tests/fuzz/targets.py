"""What is fuzzed: for each kind of input a healthy file, a way to damage it, and what bpuc does with it."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from bpuc.base.errors import BpucError
from bpuc.calibrate import Calibration, TensorRange, load_calibration, save_calibration
from bpuc.config import Config, load_config
from bpuc.data import InputSpec, open_data
from bpuc.flow.compile import compile_model
from bpuc.flow.prepare import prepare
from bpuc.flow.request import make_request
from bpuc.program import load_program
from bpuc.program.container import to_bytes
from bpuc.sim.run import run_program
from tests.fuzz import forged, zoo
from tests.fuzz.mutate import damaged, damaged_model

YAML = """
model_parameters: {onnx_model: m.onnx, march: bayes-e, working_dir: out, node_info: 'a:int16;b:int16'}
input_parameters: {input_name: x, input_type_train: rgb, input_layout_train: NCHW, input_type_rt: nv12,
  input_shape: 1x3x8x8, norm_type: data_mean_and_scale, mean_value: 1 2 3, scale_value: 0.5}
calibration_parameters: {cal_data_dir: ./d, calibration_type: max, max_percentile: 0.9999, per_channel: true}
compiler_parameters: {compile_mode: latency, optimize_level: O2, core_num: 1}
bpuc: {observer: mse, dtype: {c: int16}, fixed_scale: {d: 0.5}, input_shape: {x: 1x3x8x8}}
"""


@dataclass(frozen=True)
class Target:
    """`suffix`: of the file; `healthy`: its bytes; `damage`; `use`: what a command does with the path."""

    suffix: str
    healthy: Callable[[], bytes]
    damage: Callable[[bytes, random.Random], bytes]
    use: Callable[[Path], object]


def attempt(target: Target, folder: Path, seed: int) -> str:
    """Use one damaged file; returns "result" or the kind of error. What is no BpucError passes through."""
    path = folder / f"fuzz{target.suffix}"
    path.write_bytes(target.damage(target.healthy(), random.Random(seed)))
    try:
        target.use(path)
    except BpucError as e:
        e.render()
        return e.kind
    return "result"


def _any_model(raw: bytes, rng: random.Random) -> bytes:
    return damaged_model(rng.choice(zoo.healthy()), rng)


@cache
def _program() -> bytes:
    return to_bytes(compile_model(make_request(str(zoo.MODELS / "hybrid.onnx"), "bayes-e", random_data=True)).program)


@cache
def _calibration() -> bytes:
    path = zoo.MODELS.parent / "build" / "fuzz.calib.json"
    path.parent.mkdir(exist_ok=True)
    ranges = {n: TensorRange(-1.0, 2.0, 2.0, "mse") for n in "abc"}
    save_calibration(Calibration("0" * 64, "mse", {}, 3, "1" * 64, ranges, {"w": ([1.0, 2.0], 0)}), path)
    return path.read_bytes()


@cache
def _npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, x=np.ones((3, 1, 3, 8, 8), np.float32))
    return file.getvalue()


@cache
def _png() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(file, "png")
    return file.getvalue()


def _prepare(path: Path) -> object:
    return prepare(make_request(str(path), "bayes-e"))


def _compile(path: Path) -> object:
    return compile_model(make_request(str(path), "bayes-e", random_data=True, threads=1)).program


def _run(path: Path) -> object:
    program = load_program(path)
    return run_program(program, {p.name: np.zeros(p.shape, p.ref.dtype.numpy) for p in program.inputs})


def _data(path: Path, config: Config | None = None) -> object:
    return [s["x"].sum() for s in open_data(path, [InputSpec("x", (1, 3, 8, 8))], config)]


def _image(path: Path) -> object:
    folder = path.parent / "images"
    folder.mkdir(exist_ok=True)
    path.replace(folder / path.name)
    config = path.parent / "images.yaml"
    config.write_text("input_parameters: {input_name: x, input_type_train: rgb, input_layout_train: NCHW}")
    return _data(folder, load_config(config))


def _json(raw: bytes, rng: random.Random) -> bytes:
    """Bytes damaged, or one value replaced by another of any type."""
    if rng.random() < 0.5:
        return damaged(raw, rng)
    value = json.loads(raw)
    at = value
    while isinstance(at, dict) and at:
        key = rng.choice(list(at))
        if not isinstance(at[key], dict) or rng.random() < 0.3:
            at[key] = rng.choice((None, -1, 1e400, "x", [], {}, True, [[1]], 10**400, {"threshold": None}))
            break
        at = at[key]
    return json.dumps(value).encode()


TARGETS = {
    "onnx-bytes": Target(".onnx", lambda: zoo.healthy()[1], damaged, _prepare),
    "onnx-graph": Target(".onnx", lambda: zoo.healthy()[0], _any_model, _prepare),
    "onnx-compile": Target(".onnx", lambda: zoo.healthy()[0], _any_model, _compile),
    "bpuc": Target(".bpuc", _program, damaged, _run),
    "forged": Target(".bpuc", lambda: forged.binaries()[0], forged.forged, forged.use),
    "calibration": Target(".calib.json", _calibration, _json, load_calibration),
    "yaml": Target(".yaml", YAML.encode, damaged, load_config),
    "npz": Target(".npz", _npz, damaged, _data),
    "image": Target(".png", _png, damaged, _image),
}
