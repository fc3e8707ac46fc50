"""Writes FORMAT.md: the prose below, and a table an instruction from its own declaration.

Run ``python -m bpuc.program.format_doc`` after any change of `bpuc/isa` or of the container; a test compares.
"""

from __future__ import annotations

import inspect
import types
import typing
from pathlib import Path

from bpuc.base.dtypes import DType
from bpuc.base.files import write_atomic
from bpuc.isa import Instruction, Space
from bpuc.isa.core import MAX_RANK, WORD, layout, opcodes
from bpuc.program.container import FORMAT, MIMETYPE

PATH = Path(__file__).with_name("FORMAT.md")

_STORED = {
    "int": "int64",
    "float": "float64",
    "ints": "int64 count, then that many int64",
    "ref": "int64 1, and one operand word",
    "refs": "int64 count, and that many operand words",
}

HEAD = f"""\
# The .bpuc file, format {FORMAT[0]}.{FORMAT[1]}

<!-- written by bpuc/program/format_doc.py; edit that file, then run `python -m bpuc.program.format_doc` -->

A `.bpuc` file holds a compiled network for bpuc's simulator. It is a **simulated binary**: the instruction set is
bpuc's own, since those of the real machines are not public, and no chip runs it. Everything is little endian.

## Container

A zip archive, entries stored without compression, all timestamps 1980-01-01 00:00:00, in this order:

| entry | content |
| --- | --- |
| `mimetype` | the text `{MIMETYPE.decode()}` |
| `manifest.json` | see below |
| `program.bin` | instructions |
| `constants.bin` | weights, biases, multipliers, tables: the memory that constant operands point into |
| `symbols.json` | names: inputs, outputs, tensors, ops, segments |
| `report.json` | the compiler's report, schema `bpuc.report/1`, without the path of the source |
| `schedule.bin` | how the instructions are carried out; absent in older files |
| `cpu/0.onnx`, `cpu/1.onnx`, ... | ONNX models that the host runs |

The archive comment is 64 hexadecimal digits: the SHA-256 of all bytes before it. A reader verifies it before it
trusts anything else, then the SHA-256 of each part, which names the part at fault. JSON is UTF-8 with sorted keys
and holds neither NaN nor infinity. So the same program always gives the same bytes.

`manifest.json`: `format` [major, minor], `purpose`, `bpuc` (version of the writer), `march`, `arena_bytes`,
`parts`: name to `bytes` and `sha256`. A reader refuses a larger major number, and ignores parts and keys that it
does not know. It refuses an operand of more than 2^28 elements and an `arena_bytes` above 2^30. The first entry,
the comment and the key `format` stay as they are in every version.

`symbols.json`:

- `inputs`, `outputs`: `name`, `shape`, `ref` (the operand that holds the value, in the type that the model
  declares) and `tensor`, the name of the tensor that holds its integers.
- `tensors`: `name`, `ref`, `at` (index of the instruction after which the value is complete, -1 before the first;
  memory is reused, so it must be read before a later instruction writes over it), `scale` (list of one number, or
  of one an index of `axis`; null where the tensor is not quantized), `axis`.
- `ops`: `name`, `op`, `segment`, `onnx_nodes`. `segments`: `id`, `device`, and the instructions `start` to `stop`
  (excluded).
- A `ref` is [space, dtype, address, shape, strides].

## Memory

| space | name | use |
| --- | --- | --- |
| {int(Space.ARENA)} | ARENA | activations, inputs and outputs; `arena_bytes` long; its first content is arbitrary |
| {int(Space.CONST)} | CONST | `constants.bin`, read only |

An instruction reads all of its operands before it writes its result.

## Instructions

`program.bin` is a sequence of instructions, each a whole number of {WORD}-byte words: a header with scalar fields,
padded with zeros, then one word an operand.

| bytes | header field |
| --- | --- |
| 0-1 | opcode, uint16 |
| 2-3 | words of header and scalar fields, uint16 |
| 4-7 | index into `ops` of `symbols.json`, uint32 |
| 8-11 | number of operand words, uint32 |
| 12-15 | 0 |

From byte 16 the fields of the instruction follow in the order of its table. Operand words come in the order of
their fields.

| bytes | operand word |
| --- | --- |
| 0 | space |
| 1 | dtype: {", ".join(f"{i} {d}" for i, d in enumerate(d for d in DType if d is not DType.HOST))} |
| 2 | number of dimensions, at most {MAX_RANK} |
| 3-7 | 0 |
| 8-15 | address of element 0 in bytes, uint64 |
| 16-39 | {MAX_RANK} dimensions, uint32, unused ones 0 |
| 40-63 | {MAX_RANK} strides in bytes, int32, unused ones 0; a stride of 0 repeats an element |

## Schedule

The instructions say what is computed, `schedule.bin` in which pieces, from which memory and in which order. The machine
has on-chip memory: `activations` bytes, and behind them `constants` bytes. A *window* is a stretch of it that stands
for `planes` times `pitch` bytes of the arena or of the constants from byte `lo`; of each plane it holds the same rows
of `row` bytes, plane after plane, packed. An operand whose bytes lie in a window that is held is read and written
there, any other one in DDR while the instruction runs. Without a schedule every instruction runs whole, its operands
in DDR; so it does where the instructions have other operands than those that the schedule was made for.

The part starts with nine int64: activations, constants, channel_align, channel_block (the layout of transfers),
optimization level, cores that share a frame, the first eight bytes of the SHA-256 of all operand words of
`program.bin` in order, number of windows, number of steps. Then come the windows, eight int64
each: space, lo, planes, pitch, row, row_stored (bytes that a transfer of a row of all planes moves, channels padded as
the machine stores them), at (address on chip), room (bytes there). Then the steps, five int32 each: kind, what, ins,
first, last.

| kind | name | effect |
| --- | --- | --- |
| 0 | HOLD | window `what` stands for rows first..last (excluded) from now on; rows that it held before stay |
| 1 | LOAD | rows first..last from the arena or the constants |
| 2 | RUN | indices first..last of axis `what` of the result of `ins`; 2147483647 is the end; axis -1 means all |
| 3 | STORE | rows first..last to the arena |
| 4 | DROP | window `what` is free |

`ins` names the instruction that a step serves. In a part of a Conv or Pool the operand x is cut to the rows under the
windows of those results, and `pads` to the padding that they still see; every other operand that has the axis is cut
along it.

## Arithmetic

`>>` is the arithmetic shift (floor), `//` is floor division, `clamp(v, lo, hi)` limits to lo..hi. One rounding
rule holds everywhere: half a step is added, then floor, so ties go toward plus infinity. Sums are exact; an
accumulator of int8 products must fit int32, one with an int16 factor int64, and a product with a multiplier int64:
a program that breaks this is wrong.
"""


def render() -> str:
    """The whole text of FORMAT.md."""
    return "\n".join([HEAD, *(_section(cls) for _, cls in sorted(opcodes().items()))])


def _section(cls: type[Instruction]) -> str:
    hints = typing.get_type_hints(cls)
    rows = []
    for name, kind in layout(cls):
        optional = typing.get_origin(hints[name]) in (types.UnionType, typing.Union)
        stored = "int64 0 where absent, else 1 and one operand word" if optional else _STORED[kind]
        rows.append(f"| `{name}` | {stored} |{' result' if name in cls.outputs else _choices(hints[name])} |")
    return "\n".join(
        [
            f"### {cls.opcode}: {cls.__name__}, on the {cls.device.value}\n",
            inspect.cleandoc(cls.__doc__ or "") + "\n",
            "| field | stored as | |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _choices(hint: object) -> str:
    """Names of the members where a field is an enumeration."""
    if isinstance(hint, type) and hint is not int and issubclass(hint, int):
        return " " + ", ".join(f"{int(m)} {m.name}" for m in hint)  # type: ignore[attr-defined]
    return ""


if __name__ == "__main__":
    write_atomic(PATH, render())
