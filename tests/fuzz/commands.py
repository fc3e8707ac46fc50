"""Whole commands, as a shell calls them: with damaged YAML, calibration and data, and with arguments of any kind."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import click
import numpy as np

from bpuc.base.errors import BpucError
from bpuc.cli.main import COMMANDS, cli
from tests.fuzz import zoo

BUILD = zoo.MODELS.parent / "build" / "fuzz"
MODEL = zoo.MODELS / "hybrid.onnx"
FILES = ("m.onnx", "two.onnx", "m.bpuc", "m.calib.json", "m.npz", "m.yaml", "folder", "missing", "sub/new", "m.png")
PATHS = (
    "",
    " ",
    ".",
    "..",
    "-",
    "/dev/null",
    "/dev/full",
    "/proc/self/mem",
    "x" * 300,
    "a\nb",
    "\udcff.onnx",
    "~",
    "*",
)
WORDS = (
    "",
    "x",
    "a=b",
    "=",
    ":",
    "a:",
    "x:1x2",
    "image:1x3x16x16",
    "batch=1",
    "x=0",
    "x=int8",
    "x=int16",
    "Add=int16",
    "Conv",
)
WORDS += ("percentile", "percentile=99.99", "mse", "kl", "x=1e-3", "x=nan", "x=-1", "x=1e999", "int16", "sensitive=t")
WORDS += (
    "default",
    "bayes-e",
    "nash",
    "bernoulli2",
    "all",
    "output",
    "0",
    "-1",
    "1e400",
    "\0",
    "\ud800",
    "é" * 50,
    "%s",
)
NUMBERS = ("0", "1", "2", "3", "4", "-1", "0.5", "nan", "inf", "1e999", "9" * 30, "", "x", "0x10", "100", "1_0", "٣")
NEVER = ("scheduler", "workers", "help")  # other machines, and other processes whose memory nobody bounds


def call(arguments: Sequence[str], quick: bool = True) -> int:
    """A command in this process; `quick`: without the work on accuracy that samples cost.

    Raises:
        BpucError: what the user is told. click.ClickException never: it is an answer, 2.
    """
    more = ["--effort", "0", "-O", "1", "--threads", "1"] if quick else []
    quiet = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        try:
            found = cli.main([*arguments, *more], prog_name="bpuc", standalone_mode=False)
        except click.ClickException as e:
            e.show()
            return e.exit_code
        quiet.flush()
    return found if isinstance(found, int) else 0


@cache
def folder() -> Path:
    """A model with all that belongs to it, and another one."""
    shutil.rmtree(BUILD, ignore_errors=True)
    (BUILD / "folder").mkdir(parents=True)
    shutil.copy(MODEL, BUILD / "m.onnx")
    shutil.copy(MODEL.with_name("add_fixed.onnx"), BUILD / "two.onnx")
    shutil.copy(MODEL.with_name("hybrid_calib.npz"), BUILD / "m.npz")
    model, data = str(BUILD / "m.onnx"), str(BUILD / "m.npz")
    call(["calibrate", model, "--data", data, "-o", str(BUILD / "m.calib.json")])
    call(["compile", model, "--data", data, "--march", "bayes-e", "-o", str(BUILD / "m.bpuc")])
    names = list(np.load(data).files)
    parameters = {
        "model_parameters": {"onnx_model": model, "march": "bayes-e", "working_dir": "out"},
        "input_parameters": {"input_name": ";".join(names), "input_type_train": "featuremap"},
        "calibration_parameters": {"cal_data_dir": data, "calibration_type": "max", "per_channel": True},
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O1", "core_num": 1},
        "bpuc": {"observer": "min_max", "dtype": {names[0]: "int8"}},
    }
    (BUILD / "m.yaml").write_text(json.dumps(parameters, indent=1))
    for i, array in enumerate(np.load(data)[names[0]][:2]):
        np.save(BUILD / "folder" / f"{i}.npy", array)
    return BUILD


@contextlib.contextmanager
def inside(path: Path) -> Iterator[None]:
    """Relative paths that a file names are below `path`."""
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def with_calibration(path: Path) -> int:
    """Compile with a calibration file."""
    model = str(folder() / "m.onnx")
    return call(["compile", model, "--march", "nash", "--calib", str(path), "-o", f"{path}.bpuc"])


def with_yaml(path: Path) -> int:
    """Check and compile by a configuration file."""
    folder()
    with inside(path.parent):
        call(["check", "-c", str(path)], quick=False)
        return call(["compile", "-c", str(path), "-o", f"{path}.bpuc"], quick=False)


def with_data(path: Path) -> int:
    """Calibrate with an .npz, then run a program on it; the second also where the first is refused."""
    with contextlib.suppress(BpucError):
        call(["calibrate", str(folder() / "m.onnx"), "--data", str(path), "-o", f"{path}.calib.json"])
    run = ["run", str(folder() / "m.bpuc"), "--inputs", str(path), "-o", f"{path}.out.npz", "--tensors", "all"]
    return call(run, quick=False)


def healthy() -> bytes:
    """A command line that works."""
    folder()
    return json.dumps(["compile", "m.onnx", "--march", "bayes-e", "--data", "m.npz", "-o", "new.bpuc"]).encode()


def arguments(raw: bytes, rng: random.Random) -> bytes:
    """A command line as JSON; `raw` is not used. Half of the values are what the option wants."""
    name = rng.choice(list(COMMANDS))
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, name
    line = [] if rng.random() < 0.95 else ["--quiet"]
    line.append(name if rng.random() < 0.98 else rng.choice(WORDS))
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            if rng.random() < 0.9:
                line.append(_value(parameter, rng))
        elif parameter.name not in NEVER:
            usual = parameter.required or parameter.name in ("march", "data", "output", "calib", "random_data")
            while rng.random() < (0.8 if usual else 0.06):
                option = rng.choice((*parameter.opts, *parameter.secondary_opts))
                line += [option] if getattr(parameter, "is_flag", False) else [option, _value(parameter, rng)]
                usual = False
    if rng.random() < 0.05:
        line.insert(rng.randrange(len(line) + 1), rng.choice((*WORDS, "--", "--no-such", "-c", "-x", "--march")))
    return json.dumps(line).encode()


def _value(parameter: click.Parameter, rng: random.Random) -> str:
    if rng.random() < 0.06:
        return rng.choice((*PATHS, *WORDS, *NUMBERS))
    kind, shown = parameter.type, str(parameter.metavar)
    if isinstance(kind, click.Choice):
        return rng.choice(list(kind.choices))
    if isinstance(kind, (click.types.FloatParamType, click.types.IntParamType)):
        return rng.choice(NUMBERS if rng.random() < 0.3 else NUMBERS[1:5])
    if shown in ("M", "[M]", "M|all"):
        return rng.choice(("bayes-e", "nash-e", "bernoulli2", "bayes", "nash-p"))
    likely = [f for f in FILES if any(end in shown for end in (Path(f).suffix or "?", "PATH", "CONFIG"))]
    if likely or shown in ("F", "FILE", "DIR", "B"):
        own = {"PATH": ["m.npz", "folder"], "CONFIG": ["m.yaml"], "DIR": ["new", "folder"], "F": ["new.json"]}
        return rng.choice((*(own.get(shown) or likely or ["new"]), *(rng.choice((FILES, PATHS)))[:1]))
    if shown.startswith(("NAME", "TENSOR", "NODE", "K=V", "[NAME")):
        known = ("image", "out", "Conv", "conv0", "Sigmoid", "x")
        return rng.choice((*WORDS, *(f"{n}={v}" for n in known for v in ("int8", "int16", "0.01", "mse", "max"))))
    return rng.choice((*WORDS, *FILES))


def with_arguments(path: Path) -> int:
    """Call a command in a folder with fresh copies of the files."""
    line = json.loads(path.read_bytes())
    work = path.parent / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder(), work)
    with inside(work):
        return call([str(word) for word in line], quick=False)
