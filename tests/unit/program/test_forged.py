"""Parts that were changed and whose checksums were then made right: refused by name, before anything uses them."""

import io
import json
import math
import zipfile
from dataclasses import replace

import pytest

from bpuc.base.dtypes import DType
from bpuc.base.errors import FileError, ModelError
from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.isa import Conv, Dequantize, Lut, Quantize, Space
from bpuc.isa.check import check_instruction
from bpuc.program.container import from_bytes, load_program, to_bytes
from bpuc.program.parts import REPORT
from bpuc.program.schema import read_json
from bpuc.sim.run import Simulation
from tests.fuzz import zoo
from tests.fuzz.forged import sealed


@pytest.fixture(scope="module")
def raw() -> bytes:
    return to_bytes(compile_model(make_request(str(zoo.MODELS / "hybrid.onnx"), "bayes-e", random_data=True)).program)


def _forged(raw: bytes, part: str, change) -> bytes:
    """With one JSON part changed in place, or replaced by what `change` gives."""
    with zipfile.ZipFile(io.BytesIO(raw)) as z:
        entries = {n: z.read(n) for n in z.namelist()}
    manifest = json.loads(entries["manifest.json"])
    value = manifest if part == "manifest.json" else json.loads(entries[part])
    change(value)
    if part != "manifest.json":
        entries[part] = json.dumps(value).encode()
    return sealed(entries, manifest)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("manifest.json", lambda v: v.update(arena_bytes="10"), r"manifest\.json: arena_bytes is '10', not an integer"),
        ("manifest.json", lambda v: v.update(arena_bytes=2**40), "arena_bytes is 1099511627776, of which 10240"),
        ("manifest.json", lambda v: v.pop("purpose"), "the document has no 'purpose'"),
        ("manifest.json", lambda v: v["parts"].pop("report.json"), r"has no part report\.json"),
        ("manifest.json", lambda v: v["parts"].update({"cpu/7.onnx": {"bytes": 0, "sha256": "0" * 64}}), "is missing"),
        ("symbols.json", lambda v: v["ops"][1].update(segment=9), "op conv0 is in segment 9"),
        ("symbols.json", lambda v: v["segments"].pop(), "the segments have 11 of 12 instructions"),
        ("symbols.json", lambda v: v["segments"][1].update(id=0), "two segments have one id"),
        ("symbols.json", lambda v: v["inputs"].append(v["inputs"][0]), "two of the inputs have one name"),
        ("symbols.json", lambda v: v["inputs"][0].update(shape=[1, 3, 16, 15]), "port image has shape"),
        ("symbols.json", lambda v: v["outputs"][0]["ref"].__setitem__(0, True), r"outputs\[0\]\.ref\[0\] is True"),
        ("symbols.json", lambda v: v["outputs"][0]["ref"][3].append(2**70), r"ref\[3\] is .*, not a shape"),
        ("symbols.json", lambda v: v["outputs"][0]["ref"][4].pop(), "port out has 4 dimensions and 3 strides"),
        ("symbols.json", lambda v: v["outputs"][0].update(tensor="image"), "output out has shape .*, its tensor image"),
        ("symbols.json", lambda v: v["tensors"][0].update(scale=[]), "a list of numbers, not empty"),
        ("symbols.json", lambda v: v["tensors"][0].update(scale=[0.1, 0.2]), "has 2 scales, axis None"),
        ("symbols.json", lambda v: v["inputs"][0].update(name="\ud800"), "text in Unicode"),
        ("report.json", lambda v: v["nodes"][0].pop("outputs"), r"nodes\[0\] has no 'outputs'"),
        ("report.json", lambda v: v["nodes"][0].update(name=[1]), r"nodes\[0\]\.name is \[1\], not text"),
        ("report.json", lambda v: v["tensors"][0].update(scale=math.inf), r"tensors\[0\]\.scale is inf"),
        ("report.json", lambda v: v.update(groups=3), "groups is 3, not a list"),
        ("report.json", lambda v: v["certificates"][0].update(limit=0), "not an integer of at least 1"),
        ("report.json", lambda v: v["passes"][0].update(changes=math.nan), r"passes\[0\]\.changes is nan"),
    ],
)
def test_a_wrong_value_is_named_with_its_part_and_place(raw, part, change, message):
    with pytest.raises(FileError, match=message):
        from_bytes(_forged(raw, part, change), "x.bpuc")


def test_keys_of_a_later_version_are_ignored(raw):
    program = from_bytes(_forged(raw, "report.json", lambda v: v["nodes"][0].update(new={"a": [1.5]})), "x.bpuc")
    assert program.report["nodes"][0]["new"] == {"a": [1.5]}


def test_endless_nesting_is_refused_under_an_unknown_key():
    deep = '{"new": ' + "[" * 400 + "]" * 400 + "}"
    with pytest.raises(ValueError, match=r"report\.json: new is nested too deeply"):
        read_json(deep.encode(), REPORT, "report.json")


def test_packed_parts_are_refused(raw):
    """They might unpack to any size."""
    with zipfile.ZipFile(io.BytesIO(raw)) as z:
        entries = {n: z.read(n) for n in z.namelist()}
    with pytest.raises(FileError, match=r"part manifest\.json is compressed"):
        from_bytes(sealed(entries, json.loads(entries["manifest.json"]), zipfile.ZIP_DEFLATED), "x.bpuc")


def _edit(ins, name, **changes):
    return replace(ins, **{name: replace(getattr(ins, name), **changes)})


@pytest.mark.parametrize(
    ("kind", "edit", "message"),
    [
        (Conv, lambda i: _edit(i, "y", space=Space.CONST), "y is written, but lies in read-only memory"),
        (Conv, lambda i: _edit(i, "x", dtype=DType.FLOAT64, shape=(1, 3, 4, 4)), "x is float64"),
        (Conv, lambda i: replace(i, group=0), "channels and w of"),
        (Conv, lambda i: replace(i, strides=(0, 1)), "below 1"),
        (Conv, lambda i: replace(i, strides=(1,)), "are not for 2 axes"),
        (Conv, lambda i: replace(i, pads=(2**27, 0, 0, 0)), "elements with its border"),
        (Conv, lambda i: replace(i, dilations=(2**60, 1)), "an absurd window"),
        (Conv, lambda i: replace(i, mult=None), "mult and shift go together"),
        (Conv, lambda i: replace(i, lo=5, hi=4), r"the clamp 5\.\.4 is empty"),
        (Conv, lambda i: _edit(i, "bias", shape=(3,)), "bias has shape .3. for 8 channels"),
        (Lut, lambda i: _edit(i, "table", shape=(255,), strides=(1,)), "a table of shape"),
        (Quantize, lambda i: replace(i, scale=math.nan), "scale is nan"),
        (Quantize, lambda i: _edit(i, "y", shape=(768,), strides=(1,)), "x has shape"),
        (Dequantize, lambda i: _edit(i, "y", strides=(0, 0, 0, 0)), "y is written twice at one place"),
    ],
)
def test_an_instruction_without_a_meaning_is_refused(raw, kind, edit, message):
    program = from_bytes(raw, "x")
    at = next(i for i, ins in enumerate(program.instructions) if isinstance(ins, kind))
    program.instructions[at] = edit(program.instructions[at])
    with pytest.raises(FileError, match=rf"instruction {at} \({kind.__name__}\).*{message}"):
        from_bytes(to_bytes(program), "x.bpuc")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s: replace(s, chip=replace(s.chip, activations=2**40)), "bytes on chip"),
        (lambda s: replace(s, chip=replace(s.chip, channel_align=0)), "channels of 0"),
        (lambda s: replace(s, cores=0), "0 cores"),
        (lambda s: replace(s, steps=tuple(x for x in s.steps if x.ins != 3)), "never ends instruction 3"),
        (
            lambda s: replace(s, steps=(*s.steps, replace(s.steps[-1], do=2, ins=1, what=0))),
            "cannot be cut along axis 0",
        ),
    ],
)
def test_an_impossible_schedule_is_refused(raw, edit, message):
    program = from_bytes(raw, "x")
    program.schedule = edit(program.schedule)
    with pytest.raises(FileError, match=message):
        from_bytes(to_bytes(program), "x.bpuc")


def test_a_program_that_needs_more_memory_than_there_is(tmp_path, raw, monkeypatch):
    (tmp_path / "x.bpuc").write_bytes(raw)

    def full(*_):
        raise MemoryError

    monkeypatch.setattr("bpuc.sim.fast.storage._Replay.__init__", full)
    with pytest.raises(FileError, match="more memory than there is"):
        Simulation(load_program(tmp_path / "x.bpuc"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: setattr(p, "arena_bytes", 2**30 + 1), "needs 1073741825 bytes"),
        (
            lambda p: p.instructions.append(_edit(p.instructions[0], "x", shape=(2**14, 2**14 + 1), strides=(0, 0))),
            "a tensor has 268451840 elements",
        ),
    ],
)
def test_what_could_not_be_read_is_not_written(raw, change, message):
    program = from_bytes(raw, "x")
    change(program)
    with pytest.raises(ModelError, match=message):
        to_bytes(program)


def test_an_operand_of_absurd_size_has_no_meaning(raw):
    """In no more bytes than one element has."""
    conv = next(i for i in from_bytes(raw, "x").instructions if isinstance(i, Conv))
    with pytest.raises(ValueError, match="x has 4611686018427387904 elements, of at most"):
        check_instruction(_edit(conv, "x", shape=(2**31, 2**31), strides=(0, 0)))
