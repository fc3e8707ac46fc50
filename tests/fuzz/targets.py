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
from bpuc.config import Config, load_config
from bpuc.data import InputSpec, open_data
from bpuc.flow.compile import compile_model
from bpuc.flow.prepare import prepare
from bpuc.flow.request import make_request
from bpuc.program import load_program
from bpuc.program.container import to_bytes
from bpuc.sim.run import run_program
from tests.fuzz import commands, forged, zoo
from tests.fuzz.mutate import damaged, damaged_model


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


def _file(name: str) -> bytes:
    return (commands.folder() / name).read_bytes()


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
    """Bytes damaged, or one value replaced by another of any type, or left out."""
    if rng.random() < 0.3:
        return damaged(raw, rng)
    value = json.loads(raw)
    for _ in range(rng.randint(1, 2)):
        value = forged.changed(value, rng)
    return json.dumps(value).encode()


def _arrays(raw: bytes, rng: random.Random) -> bytes:
    """Bytes damaged, or an archive of other arrays."""
    if rng.random() < 0.5:
        return damaged(raw, rng)
    with np.load(io.BytesIO(raw)) as file:
        arrays = dict(file)
    name = rng.choice(list(arrays))
    array = arrays.pop(name)
    shape = [rng.choice((n, n, n, 0, 1, n + 1)) for n in array.shape]
    dtype = rng.choice(("f4", "f4", "f2", "f8", "i1", "u1", "i8", "?", "c8", "U3", "M8[s]", "f4,i4", ">f4"))
    fill = rng.choice((0, 1, np.nan, np.inf, -1e30, 1e-40))
    with np.errstate(all="ignore"):
        made = np.zeros(shape[rng.choice((0, 0, 0, 1, 2)) :], dtype)
        if made.dtype.kind == "f":
            made += fill
    arrays[rng.choice((name, name, name, "other", "", "../x", "a" * 300))] = made
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


TARGETS = {
    "onnx-bytes": Target(".onnx", lambda: zoo.healthy()[1], damaged, _prepare),
    "onnx-graph": Target(".onnx", lambda: zoo.healthy()[0], _any_model, _compile),
    "bpuc": Target(".bpuc", _program, damaged, _run),
    "forged": Target(".bpuc", lambda: forged.binaries()[0], forged.forged, forged.use),
    "calibration": Target(".calib.json", lambda: _file("m.calib.json"), _json, commands.with_calibration),
    "yaml": Target(".yaml", lambda: _file("m.yaml"), _json, commands.with_yaml),
    "npz": Target(".npz", lambda: _file("m.npz"), _arrays, commands.with_data),
    "image": Target(".png", _png, damaged, _image),
    "arguments": Target(".json", commands.healthy, commands.arguments, commands.with_arguments),
}
