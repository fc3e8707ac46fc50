"""The .bpuc container: round trip, determinism, and refusal of everything that is not whole."""

import hashlib
import io
import json
import random
import zipfile
from dataclasses import replace

import pytest

from bpuc.base.dtypes import DType
from bpuc.base.errors import FileError
from bpuc.isa import CallOnnx, Dequantize, Device, Fill, Quantize, Ref, Space
from bpuc.program import OpSymbol, Port, Program, Segment, TensorSymbol, container, load_program, save_program
from bpuc.program.container import from_bytes, to_bytes


def ref(address: int, dtype: DType = DType.FLOAT32, space: Space = Space.ARENA) -> Ref:
    return Ref(space, dtype, address, (4,), (dtype.itemsize,))


def program() -> Program:
    scale = Ref(Space.CONST, DType.FLOAT64, 0, (1,), (8,))
    return Program(
        march="bayes-e",
        instructions=[
            Quantize(op=0, x=ref(0), y=ref(64, DType.INT8), scale=0.1, lo=-128, hi=127),
            CallOnnx(op=1, inputs=(ref(0),), results=(ref(128),), part=0, flops=4),
            Dequantize(op=2, x=ref(64, DType.INT8), scale=scale, y=ref(128), axis=0),
        ],
        arena_bytes=160,
        constants=bytes(range(16)),
        parts=[b"an ONNX model", b"another"],
        inputs=[Port("图像", (4,), ref(0), "q")],
        outputs=[Port("y", (4,), ref(128), "y")],
        tensors=[TensorSymbol("q", ref(64, DType.INT8), 0, (0.1,), None), TensorSymbol("y", ref(128), 2, None, None)],
        ops=[OpSymbol(n, n, i % 2, ("node",)) for i, n in enumerate(("Quantize", "Cpu", "Dequantize"))],
        segments=[Segment(0, Device.CPU, 0, 2), Segment(1, Device.CPU, 2, 3)],
        report={"schema": "bpuc.report/1", "warnings": []},
    )


RAW = to_bytes(program())


def test_round_trip(tmp_path) -> None:
    path = tmp_path / "x.bpuc"
    save_program(program(), path)
    assert load_program(path) == program()


def test_the_same_program_gives_the_same_bytes() -> None:
    assert to_bytes(program()) == RAW
    assert to_bytes(from_bytes(RAW, "x")) == RAW


def test_any_zip_tool_can_open_it() -> None:
    with zipfile.ZipFile(io.BytesIO(RAW)) as z:
        assert z.testzip() is None
        assert z.namelist()[0] == "mimetype"
        assert z.comment.decode() == hashlib.sha256(RAW[:-64]).hexdigest()
        manifest = json.loads(z.read("manifest.json"))
        assert "not on a chip" in manifest["purpose"]
        for name, entry in manifest["parts"].items():
            assert hashlib.sha256(z.read(name)).hexdigest() == entry["sha256"]
            assert len(z.read(name)) == entry["bytes"]
        assert all(i.compress_type == zipfile.ZIP_STORED and i.date_time[0] == 1980 for i in z.infolist())


def test_every_flipped_byte_is_noticed() -> None:
    for at in range(len(RAW)):
        flipped = RAW[:at] + bytes([RAW[at] ^ 0xFF]) + RAW[at + 1 :]
        with pytest.raises(FileError):
            from_bytes(flipped, "x.bpuc")


def test_single_bits_are_noticed() -> None:
    dice = random.Random(1)
    for _ in range(500):
        at, bit = dice.randrange(len(RAW)), 1 << dice.randrange(8)
        with pytest.raises(FileError):
            from_bytes(RAW[:at] + bytes([RAW[at] ^ bit]) + RAW[at + 1 :], "x.bpuc")


@pytest.mark.parametrize("size", [0, 1, 40, 64, 65, 200, len(RAW) // 2, len(RAW) - 65, len(RAW) - 1])
def test_truncation_is_noticed(size) -> None:
    with pytest.raises(FileError):
        from_bytes(RAW[:size], "x.bpuc")


def test_appended_bytes_are_noticed() -> None:
    with pytest.raises(FileError, match="checksum of the file does not match"):
        from_bytes(RAW + b"\xa5" * 10, "x.bpuc")


def rebuilt(change, sign=True) -> bytes:
    """A container with some entries changed, with its checksums made right again."""
    with zipfile.ZipFile(io.BytesIO(RAW)) as z:
        entries = {n: z.read(n) for n in z.namelist()}
    manifest = json.loads(entries["manifest.json"])
    change(entries, manifest)
    if sign:
        for name in manifest.get("parts") or {}:
            if name in entries:
                manifest["parts"][name]["sha256"] = hashlib.sha256(entries[name]).hexdigest()
    entries["manifest.json"] = json.dumps(manifest).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        for name, blob in entries.items():
            z.writestr(name, blob)
    raw = buffer.getvalue()[:-2] + (64).to_bytes(2, "little")
    return raw + hashlib.sha256(raw).hexdigest().encode()


def test_rebuilding_without_a_change_loads() -> None:
    assert from_bytes(rebuilt(lambda e, m: None), "x") == program()


def test_a_newer_format_is_refused_with_advice() -> None:
    raw = rebuilt(lambda e, m: m.update(format=[container.FORMAT[0] + 1, 0]))
    with pytest.raises(FileError, match="newer than this bpuc reads") as e:
        from_bytes(raw, "x.bpuc")
    assert e.value.hint == "install a newer bpuc"


def test_a_newer_minor_format_may_bring_unknown_parts() -> None:
    def change(entries, manifest) -> None:
        manifest["format"] = [container.FORMAT[0], container.FORMAT[1] + 1]
        entries["notes.txt"] = b"from the future"
        manifest["parts"]["notes.txt"] = {"bytes": 15}

    assert from_bytes(rebuilt(change), "x") == program()


def test_a_damaged_part_is_named() -> None:
    raw = rebuilt(lambda e, m: e.update({"constants.bin": b"x" * 16}), sign=False)
    with pytest.raises(FileError, match=r"checksum of part constants\.bin"):
        from_bytes(raw, "x.bpuc")


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "is no .bpuc file"),
        (b"\x08\x01 an onnx model", "is no .bpuc file"),
        (b"PK\x03\x04 zip", "is a zip archive but no"),
    ],
)
def test_other_files_are_refused(blob, message) -> None:
    with pytest.raises(FileError, match=message):
        from_bytes(blob, "model.onnx")


@pytest.mark.parametrize(
    "change",
    [
        lambda e, m: m.pop("march"),
        lambda e, m: m.update(format="1.0"),
        lambda e, m: m.update(parts=None),
        lambda e, m: m["parts"].pop("symbols.json"),
        lambda e, m: e.update({"symbols.json": b"[" * 100000}),
        lambda e, m: e.update({"symbols.json": b"[]"}),
        lambda e, m: e.update({"report.json": b"\xff"}),
        lambda e, m: e.update({"program.bin": b"\0" * 64}),
    ],
)
def test_inconsistent_files_are_refused(change) -> None:
    with pytest.raises(FileError):
        from_bytes(rebuilt(change), "x.bpuc")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda p: setattr(p, "arena_bytes", 143),
            r"instruction 1 \(CallOnnx\) operand results reaches bytes 128..144",
        ),
        (lambda p: setattr(p, "constants", b""), r"instruction 2 \(Dequantize\) operand scale"),
        (lambda p: setattr(p, "ops", p.ops[:1]), "instruction 1 belongs to op 1 of 1"),
        (lambda p: setattr(p, "parts", []), "instruction 1 calls ONNX part 0 of 0"),
        (lambda p: setattr(p, "outputs", [replace(p.outputs[0], ref=ref(1000))]), "port y reaches"),
        (lambda p: setattr(p, "tensors", [replace(p.tensors[0], ref=ref(1000))]), "tensor q reaches"),
        (lambda p: setattr(p, "tensors", [replace(p.tensors[0], at=3)]), "tensor q follows instruction 3"),
        (
            lambda p: p.instructions.append(Fill(op=0, y=Ref(Space.ARENA, DType.INT8, 0, (2,), (-1,)), value=0)),
            "reaches bytes -1",
        ),
    ],
)
def test_references_outside_are_refused(change, message) -> None:
    p = program()
    change(p)
    with pytest.raises(FileError, match=message):
        from_bytes(to_bytes(p), "x.bpuc")


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(FileError, match=r"cannot read the simulated binary .*nothing\.bpuc"):
        load_program(tmp_path / "nothing.bpuc")
