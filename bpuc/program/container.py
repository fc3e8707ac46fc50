"""The .bpuc file: a stored zip with fixed timestamps whose comment is the SHA-256 of all bytes before it.

FORMAT.md describes the parts. The file is a simulated binary: it does not run on a chip.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import struct
import zipfile
from typing import Any

from bpuc import __version__
from bpuc.base.dtypes import DType
from bpuc.base.errors import FileError, ModelError
from bpuc.base.files import read_bytes, write_atomic
from bpuc.base.image import ImageInput
from bpuc.isa import Device, Instruction, Ref, Space, decode, encode
from bpuc.isa.check_words import MAX_ELEMENTS
from bpuc.isa.core import MAX_RANK
from bpuc.program.check import MAX_ARENA, check_program
from bpuc.program.parts import FIRST, MANIFEST, REPORT, SYMBOLS
from bpuc.program.program import OpSymbol, Port, Program, Segment, TensorSymbol
from bpuc.program.schedule import Schedule, decode_schedule, encode_schedule
from bpuc.program.schema import read_json

MIMETYPE = b"application/x-bpuc-simulated"
FORMAT = (2, 1)
_SUM = 64
_EPOCH = (1980, 1, 1, 0, 0, 0)


def to_bytes(program: Program) -> bytes:
    """The container as bytes; the same program gives the same bytes."""
    _check_limits(program)
    parts: dict[str, bytes] = {
        "program.bin": b"".join(encode(i) for i in program.instructions),
        "constants.bin": program.constants,
        "symbols.json": _json(_symbols(program)),
        "report.json": _json(program.report),
    }
    if program.schedule is not None:
        parts["schedule.bin"] = encode_schedule(program.schedule)
    parts |= {f"cpu/{i}.onnx": part for i, part in enumerate(program.parts)}
    manifest = {
        "format": list(FORMAT),
        "purpose": "simulated binary: runs in bpuc's simulator, not on a chip",
        "bpuc": __version__,
        "march": program.march,
        "arena_bytes": program.arena_bytes,
        "parts": {n: {"bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()} for n, b in parts.items()},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as z:
        for name, blob in {"mimetype": MIMETYPE, "manifest.json": _json(manifest), **parts}.items():
            z.writestr(zipfile.ZipInfo(name, _EPOCH), blob)
    # the comment is not known yet: write its length into the end record, then append the hash of all that; in place, as
    # constants may be gigabytes
    with buffer.getbuffer() as raw:
        raw[-2:] = _SUM.to_bytes(2, "little")
        comment = hashlib.sha256(raw).hexdigest().encode()
    buffer.seek(0, io.SEEK_END)
    buffer.write(comment)
    return buffer.getvalue()


def _check_limits(program: Program) -> None:
    """An operand of the file has at most six axes and so many elements, also where only the CPU touches it."""
    for ins in program.instructions:
        for _, ref in ins.operands():
            if len(ref.shape) > MAX_RANK:
                op = program.ops[ins.op]
                raise ModelError(
                    f"{op.name} ({op.op}): a tensor has {len(ref.shape)} dimensions",
                    where=f"shape {list(ref.shape)}",
                    want=f"at most {MAX_RANK}, on the BPU as on the CPU",
                    hint="join dimensions in the model before this op, or end the model before it",
                )
            if ref.elements > MAX_ELEMENTS:
                op = program.ops[ins.op]
                raise ModelError(
                    f"{op.name} ({op.op}): a tensor has {ref.elements} elements",
                    where=f"shape {list(ref.shape)}",
                    want=f"at most {MAX_ELEMENTS}",
                    hint="give the model a smaller input or batch",
                )
    if program.arena_bytes > MAX_ARENA:
        raise ModelError(
            f"the model needs {program.arena_bytes} bytes of activation memory",
            want=f"at most {MAX_ARENA}",
            hint="give the model a smaller input or batch",
        )


def save_program(program: Program, path: str | os.PathLike[str]) -> None:
    """Write the container atomically; raises FileError."""
    write_atomic(path, to_bytes(program))


def load_program(path: str | os.PathLike[str]) -> Program:
    """Read a container and verify every checksum before anything of it is used.

    Raises:
        FileError: no .bpuc file, damaged, of a newer format, or inconsistent in itself.
    """
    return from_bytes(read_bytes(path, "the simulated binary"), str(path))


def from_bytes(raw: bytes, where: str) -> Program:
    """`load_program` on bytes; `where` names the file in messages."""
    again = "compile the model again, or copy the file again"
    # the type is the first entry, stored as it is: the zip directory is not trusted before the checksum is verified
    if MIMETYPE not in raw[:128]:
        what = "is a zip archive but no .bpuc file" if raw[:2] == b"PK" else "is no .bpuc file"
        onnx = where.lower().endswith(".onnx")
        hint = "an ONNX model is compiled first: bpuc compile; check and perf take it as it is" if onnx else None
        raise FileError(f"{where} {what}", want="a file written by `bpuc compile`", hint=hint)
    if hashlib.sha256(raw[:-_SUM]).hexdigest().encode() != raw[-_SUM:]:
        raise FileError(f"{where} is damaged: the checksum of the file does not match", hint=again)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as z:
            if sum(i.file_size for i in z.infolist() if i.compress_type == zipfile.ZIP_STORED) > len(raw):
                raise ValueError("its parts have more bytes than the file")
            manifest = read_json(_read(z, "manifest.json"), FIRST, "manifest.json")
            major, minor = manifest["format"]
            if major > FORMAT[0]:
                raise FileError(
                    f"{where} has format {major}.{minor}, newer than this bpuc reads",
                    want=f"format {FORMAT[0]}.x",
                    hint="install a newer bpuc",
                )
            manifest = read_json(_read(z, "manifest.json"), MANIFEST, "manifest.json")
            parts = {}
            for name, entry in manifest["parts"].items():
                parts[name] = _read(z, name)
                if hashlib.sha256(parts[name]).hexdigest() != entry["sha256"]:
                    raise FileError(f"{where} is damaged: the checksum of part {name} does not match", hint=again)
        try:
            instructions = decode(parts.get("program.bin", b""))
        except FileError as e:
            raise ValueError(e.message) from e
        return _build(manifest, parts, instructions, where)
    except FileError:
        raise
    except Exception as e:  # the checksum holds, so the writer was not ours: anything may be wrong
        said = str(e) if type(e) is ValueError else f"{type(e).__name__}: {e}"
        text = f"{where} is no valid .bpuc file ({said})"
        raise FileError(text, want="a file written by `bpuc compile`", hint=again) from e


def _read(z: zipfile.ZipFile, name: str) -> bytes:
    """A part, which is stored: a packed one might unpack to any size."""
    if name not in z.namelist():
        raise ValueError(f"part {name} is missing")
    if z.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"part {name} is compressed")
    return z.read(name)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False).encode()


def _ref(r: Ref) -> list[Any]:
    return [int(r.space), r.dtype.value, r.address, list(r.shape), list(r.strides)]


def _unref(v: list[Any]) -> Ref:
    return Ref(Space(v[0]), DType(v[1]), v[2], tuple(v[3]), tuple(v[4]))


def _symbols(p: Program) -> dict[str, Any]:
    def port(x: Port) -> dict[str, Any]:
        return {
            "name": x.name,
            "shape": list(x.shape),
            "ref": _ref(x.ref),
            "tensor": x.tensor,
            "declared": x.declared,
        } | ({} if x.image is None else {"image": x.image.as_json()})

    return {
        "inputs": [port(x) for x in p.inputs],
        "outputs": [port(x) for x in p.outputs],
        "tensors": [
            {
                "name": t.name,
                "ref": _ref(t.ref),
                "at": t.at,
                "scale": None if t.scale is None else list(t.scale),
                "axis": t.axis,
            }
            for t in p.tensors
        ],
        "ops": [dataclasses.asdict(o) for o in p.ops],
        "segments": [{"id": s.id, "device": s.device.value, "start": s.start, "stop": s.stop} for s in p.segments],
    }


def _schedule(raw: bytes) -> Schedule:
    try:
        return decode_schedule(raw)
    except (ValueError, struct.error) as e:
        raise ValueError(f"schedule.bin is damaged: {e}") from e


def _build(manifest: dict[str, Any], parts: dict[str, bytes], instructions: list[Instruction], where: str) -> Program:
    missing = {"program.bin", "constants.bin", "symbols.json", "report.json"} - parts.keys()
    count = sum(n.startswith("cpu/") for n in parts)
    missing |= {f"cpu/{i}.onnx" for i in range(count)} - parts.keys()
    if missing:
        raise ValueError(f"the manifest has no part {min(missing)}")
    s = read_json(parts["symbols.json"], SYMBOLS, "symbols.json")

    def port(d: dict[str, Any]) -> Port:
        declared = None if d["declared"] is None else DType(d["declared"])
        image = ImageInput.from_json(d["image"]) if d.get("image") else None
        return Port(d["name"], tuple(d["shape"]), _unref(d["ref"]), d["tensor"], declared, image)

    program = Program(
        march=manifest["march"],
        instructions=instructions,
        arena_bytes=manifest["arena_bytes"],
        constants=parts["constants.bin"],
        parts=[parts[f"cpu/{i}.onnx"] for i in range(count)],
        inputs=[port(d) for d in s["inputs"]],
        outputs=[port(d) for d in s["outputs"]],
        tensors=[
            TensorSymbol(
                d["name"], _unref(d["ref"]), d["at"], None if d["scale"] is None else tuple(d["scale"]), d["axis"]
            )
            for d in s["tensors"]
        ],
        ops=[OpSymbol(d["name"], d["op"], d["segment"], tuple(d["onnx_nodes"])) for d in s["ops"]],
        segments=[Segment(d["id"], Device(d["device"]), d["start"], d["stop"]) for d in s["segments"]],
        report=read_json(parts["report.json"], REPORT, "report.json"),
        schedule=_schedule(parts["schedule.bin"]) if "schedule.bin" in parts else None,
    )
    check_program(program, where)
    return program
