"""Programs changed with sense, whose checksums are then made valid again, and all that the commands do with one."""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import zipfile
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bpuc.base.dtypes import DType
from bpuc.base.errors import FileError
from bpuc.cli.info_cmd import describe, render
from bpuc.flow.compile import compile_model
from bpuc.flow.estimate import estimate_source
from bpuc.flow.request import make_request
from bpuc.isa import Ref, Space, decode, encode
from bpuc.isa.core import WORD, layout
from bpuc.program import Program
from bpuc.program.container import from_bytes, to_bytes
from bpuc.program.schedule import operands_digest
from bpuc.report.certificates import explain_certificates
from bpuc.report.csvfile import render_csv
from bpuc.report.explain import explain_placement, explain_refinements, explain_rescales, explain_scales, records
from bpuc.report.html import render_html
from bpuc.report.text import render_text
from bpuc.report.trace import render_trace
from bpuc.sim.run import run_program
from tests.fuzz import zoo
from tests.fuzz.mutate import HUGE, damaged

VALUES = (
    None,
    True,
    -1,
    0,
    3,
    1e300,
    float("nan"),
    10**400,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[1]],
    [1, 2, 3, 4],
    2**40,
    0.5,
)
WORK = 20_000_000  # multiply-accumulates and elements that a run may ask for


HEAD = '<ir_version: 8, opset_import: ["": 17]> g (float[1, 4, 8, 8] x) => (float[a, b, c, d] y) '
MORE = (
    """<int64[3] three = {1, 4, 64}, int64[4] four = {1, 4, 8, 8}, int64[2] at = {0, 2}> {
      a = Reshape(x, three)  t = Transpose <perm = [0, 2, 1]> (a)  m = MatMul(a, t)  s = Softmax <axis = -1> (m)
      n = MatMul(s, a)  u = Reshape(n, four)  k = ReduceMean <axes = [3]> (u)  v = Add(u, k)
      w = Gather <axis = 1> (v, at)  z = Concat <axis = 1> (w, v)  y = Sigmoid(z) }""",
    """<float[8] one = {1, 1, 1, 1, 1, 1, 1, 1}, float[8] bias = {0, 0, 0, 0, 1, 1, 1, 1}> {
      a = LayerNormalization(x, one, bias)  b = Pad <mode = "constant"> (a, pads)  c = ReduceMax <axes = [1]> (b)
      d = Mul(b, c)  e = ArgMax <axis = 1> (d)  f = Cast <to = 1> (e)  y = Concat <axis = 1> (d, f) }""",
)


def _parsed(text: str) -> bytes:
    model = onnx.parser.parse_model(HEAD + text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1]), "pads"))
    return model.SerializeToString()


@cache
def binaries() -> list[bytes]:
    """Compiled models of all instruction families that the zoo has."""
    found = []
    folder = zoo.MODELS.parent / "build"
    folder.mkdir(exist_ok=True)
    for number, raw in enumerate((*zoo.healthy(), *map(_parsed, MORE))):
        path = folder / f"forged{number}.onnx"
        path.write_bytes(raw)
        made = compile_model(make_request(str(path), "nash" if number % 2 else "bayes-e", random_data=True, threads=1))
        found.append(to_bytes(made.program))
    return found


def forged(raw: bytes, rng: random.Random) -> bytes:
    """One of the binaries with one to three changes of its parts, and checksums that hold; `raw` is not used."""
    with zipfile.ZipFile(io.BytesIO(rng.choice(binaries()))) as z:
        entries = {n: z.read(n) for n in z.namelist()}
    manifest = json.loads(entries["manifest.json"])
    for _ in range(rng.randint(1, 3)):
        part = rng.choice((*list(entries)[1:], "symbols.json", "report.json", *["program.bin", "schedule.bin"] * 3))
        if part == "manifest.json":
            manifest = changed(manifest, rng)
        elif part in ("symbols.json", "report.json"):
            try:
                entries[part] = json.dumps(changed(json.loads(entries[part]), rng)).encode()
            except ValueError:
                entries[part] = damaged(entries[part], rng)
        elif part == "program.bin" and rng.random() < 0.7:
            entries[part] = _fields(entries[part], rng)
        elif part in ("program.bin", "schedule.bin") and part in entries:
            entries[part] = _words(entries[part], WORD if part == "program.bin" else 4, rng)
        elif part in entries:
            entries[part] = damaged(entries[part], rng)
    _sign_schedule(entries, rng)
    return sealed(entries, manifest)


def sealed(entries: dict[str, bytes], manifest: Any, how: int = zipfile.ZIP_STORED) -> bytes:
    """The archive with its checksums made right."""
    parts = manifest.get("parts") if isinstance(manifest, dict) else None
    for name, entry in parts.items() if isinstance(parts, dict) else ():
        if name in entries and isinstance(entry, dict):
            entry["sha256"] = hashlib.sha256(entries[name]).hexdigest()
            entry["bytes"] = len(entries[name]) if "bytes" in entry else 0
    entries["manifest.json"] = json.dumps(manifest).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        for name, blob in entries.items():
            z.writestr(name, blob, zipfile.ZIP_STORED if name == "mimetype" else how)
    raw = buffer.getvalue()[:-2] + (64).to_bytes(2, "little")
    return raw + hashlib.sha256(raw).hexdigest().encode()


def changed(value: Any, rng: random.Random) -> Any:
    """A JSON value with another value, a key less, or a list made longer or shorter, anywhere in it."""
    at = value
    while isinstance(at, (dict, list)) and at:
        key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
        if not isinstance(at[key], (dict, list)) or not at[key] or rng.random() < 0.15:
            match rng.randrange(6):
                case 0:
                    del at[key]
                case 1 if isinstance(at, list):
                    at.append(deepcopy(at[key]))
                case 2 if isinstance(at[key], (int, float)) and abs(at[key]) < 1e300:
                    at[key] = at[key] * rng.choice((-1, 2, 1e3)) + rng.choice((0, 1, -1))
                case 3 if isinstance(at[key], int):
                    at[key] = rng.choice(HUGE)
                case _:
                    at[key] = deepcopy(rng.choice(VALUES))
            break
        at = at[key]
    return value


def _fields(raw: bytes, rng: random.Random) -> bytes:
    """A field of an instruction changed, or of one of its operands, so that all else is as it was."""
    try:
        program = decode(raw)
    except FileError:
        return raw
    if not program:
        return raw
    at = rng.randrange(len(program))
    ins, (name, kind) = program[at], rng.choice(layout(type(program[at])))
    value: Any = getattr(ins, name)
    if kind == "int":
        value = _number(value, rng)
    elif kind == "float":
        value = rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e-320, 1e300))
    elif kind == "ints" and value:
        k = rng.randrange(len(value))
        value = rng.choice((value[:k], (*value[:k], _number(value[k], rng), *value[k + 1 :]), (*value, value[k])))
    elif isinstance(value, Ref):
        value = _view(value, rng)
    elif isinstance(value, tuple) and value:
        k = rng.randrange(len(value))
        value = rng.choice((value[:k], (*value[:k], _view(value[k], rng), *value[k + 1 :])))
    try:
        program[at] = replace(ins, **{name: value})
        return b"".join(map(encode, program))
    except (struct.error, OverflowError, ValueError):  # what no file can say
        return raw


def _number(old: int, rng: random.Random) -> int:
    return rng.choice((*HUGE, old + 1, old - 1, 2 * old, -old, 2, 3, 10))


def _view(ref: Ref, rng: random.Random) -> Ref:
    """Another address, type or space; another length or stride of an axis; an axis more or less."""
    axis = rng.randrange(max(1, len(ref.shape)))

    def one(values: tuple[int, ...]) -> tuple[int, ...]:
        return (*values[:axis], abs(_number(values[axis], rng)), *values[axis + 1 :]) if values else values

    return rng.choice(
        (
            replace(ref, address=abs(_number(ref.address, rng))),
            replace(ref, dtype=rng.choice(list(DType))),
            replace(ref, space=rng.choice(list(Space))),
            replace(ref, shape=one(ref.shape)),
            replace(ref, shape=one(ref.shape), strides=(0,) * len(ref.shape)),
            replace(ref, strides=one(ref.strides)),
            replace(ref, shape=ref.shape[:axis], strides=ref.strides[:axis]),
            replace(ref, shape=(*ref.shape, 1), strides=(*ref.strides, 1)),
            replace(ref, shape=ref.shape[::-1], strides=ref.strides[::-1]),
        )
    )


def _words(raw: bytes, word: int, rng: random.Random) -> bytes:
    """Other bytes, another number at some place, or a word left out or doubled."""
    data = bytearray(raw)
    at = rng.randrange(len(data)) if data else 0
    start = at // word * word
    size = rng.choice((1, 2, 4, 8))
    place = at // size * size
    match rng.randrange(8):
        case 0:
            data[at:at] = data[start : start + word]
        case 1:
            del data[start : start + word]
        case 2:
            return damaged(raw, rng)
        case 3 if data:
            data[at] ^= 1 << rng.randrange(8)
        case 4:
            data[start : start + word] = data[(other := rng.randrange(len(data) + 1) // word * word) : other + word]
        case _ if place + 8 <= len(data):
            old = int.from_bytes(data[place : place + size], "little", signed=True)
            new = rng.choice((*HUGE, old + 1, old - 1, 2 * old, -old, old + 64))
            data[place : place + size] = struct.pack("<q", (new + (1 << 63)) % (1 << 64) - (1 << 63))[:size]
    return bytes(data)


def _sign_schedule(entries: dict[str, bytes], rng: random.Random) -> None:
    """Make the schedule one for these operands, mostly, so that it is followed."""
    if rng.random() < 0.9 and len(entries.get("schedule.bin", b"")) >= 56:
        try:
            digest = operands_digest(decode(entries["program.bin"]))
        except (FileError, struct.error):
            return
        old = entries["schedule.bin"]
        entries["schedule.bin"] = old[:48] + struct.pack("<q", digest) + old[56:]


def use(path: Path) -> object:
    """Load, info, explain, perf with all its forms, and runs of all tensors by both engines, where that is quick."""
    raw = path.read_bytes()
    program = from_bytes(raw, path.name)
    with zipfile.ZipFile(io.BytesIO(raw)) as z:
        manifest = json.loads(z.read("manifest.json"))
    info = describe(program, manifest, raw)
    _shown(render(info, path.name), info)
    told = {
        "rescales": explain_rescales,
        "placement": explain_placement,
        "scales": explain_scales,
        "certificates": explain_certificates,
        "refinements": explain_refinements,
    }
    for topic, tell in told.items():
        _shown(tell(program.report), records(program.report, topic, None))
    for node in program.report.get("nodes", [])[:2]:
        _shown(explain_scales(program.report, node["name"]), explain_placement(program.report, node["name"]))
    for certificate in program.report.get("certificates", [])[:1]:
        explain_certificates(program.report, certificate["node"])
    perf = estimate_source(str(path), None, {}, {})
    _shown(render_text(perf, 80, 20) + render_html(perf, path.name) + render_csv(perf) + render_trace(perf), perf)
    if _work(program) <= WORK:
        feeds = {p.name: np.zeros(p.shape, p.ref.dtype.numpy) for p in program.inputs}
        for engine in ("fast", "reference"):
            run_program(program, feeds, engine, integers=engine == "fast", tensors="all", threads=1)
    return program


def _shown(text: str, value: object) -> None:
    """As `bpuc.cli.ui.emit` writes it."""
    text.encode()
    json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False).encode()


def _work(program: Program) -> int:
    schedule = program.valid_schedule()
    runs = [s.ins for s in schedule.steps] if schedule else range(len(program.instructions))
    done = [program.instructions[i] for i in runs]
    sizes = [ins.work().macs + sum(r.elements for _, r in ins.operands()) for ins in done]
    return sum(sizes) + program.arena_bytes
