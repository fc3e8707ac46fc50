"""Whether a program hangs together: operands in their memories, instructions with a meaning, references that exist."""

from __future__ import annotations

from math import prod

from bpuc.base.errors import FileError
from bpuc.base.image import CHANNELS, ImageInput
from bpuc.isa import CallOnnx, Ref, Space
from bpuc.isa.check import check_instruction
from bpuc.isa.check_words import MAX_ELEMENTS
from bpuc.program.program import Port, Program, TensorSymbol
from bpuc.program.schedule import check_schedule

MAX_ARENA = 1 << 30  # bytes: several times the memory that networks for these machines are made for
_SLACK = 4096  # bytes that rounding may leave behind the last operand


def check_program(program: Program, where: str) -> None:
    """All that a program from a file must be; else FileError names the culprit."""
    check_bounds(program, where)
    try:
        _check_arena(program)
        _check_segments(program)
        for i, ins in enumerate(program.instructions):
            try:
                check_instruction(ins)
            except ValueError as e:
                raise ValueError(f"program.bin: instruction {i} ({type(ins).__name__}): {e}") from e
        for side, ports in (("inputs", program.inputs), ("outputs", program.outputs)):
            if len({p.name for p in ports}) < len(ports):
                raise ValueError(f"symbols.json: two of the {side} have one name")
            for port in ports:
                _check_port(port, side == "inputs")
        for symbol in program.tensors:
            _check_tensor(symbol)
        _check_outputs(program)
    except ValueError as e:
        raise FileError(f"{where}: {e}", want="an intact file", hint="compile the model again") from e


def _check_arena(p: Program) -> None:
    refs = [r for ins in p.instructions for _, r in ins.operands()]
    refs += [x.ref for x in (*p.inputs, *p.outputs)] + [t.ref for t in p.tensors]
    end = max((r.span[1] for r in refs if r.space is Space.ARENA), default=0)
    if p.arena_bytes > min(MAX_ARENA, end + _SLACK):
        raise ValueError(f"manifest.json: arena_bytes is {p.arena_bytes}, of which {end} are used")


def _check_segments(p: Program) -> None:
    """They are the instructions in order, each once, and ops belong to one of them."""
    at = 0
    for s in p.segments:
        if not s.start == at <= s.stop:
            raise ValueError(f"symbols.json: segment {s.id} has instructions {s.start}..{s.stop}, not from {at} on")
        at = s.stop
    if at != len(p.instructions):
        raise ValueError(f"symbols.json: the segments have {at} of {len(p.instructions)} instructions")
    ids = {s.id for s in p.segments}
    if len(ids) < len(p.segments):
        raise ValueError("symbols.json: two segments have one id")
    for op in p.ops:
        if op.segment not in ids:
            raise ValueError(f"symbols.json: op {op.name} is in segment {op.segment}, which is not there")


def _check_port(port: Port, is_input: bool) -> None:
    if prod(port.shape) != port.ref.elements:
        raise ValueError(f"symbols.json: port {port.name} has shape {list(port.shape)}, its ref {list(port.ref.shape)}")
    if is_input and port.ref.space is not Space.ARENA:
        raise ValueError(f"symbols.json: input {port.name} lies in read-only memory")
    _check_view(port.ref, f"port {port.name}")
    if port.image is not None:
        _check_image(port, port.image)


def _check_outputs(p: Program) -> None:
    """The tensors that an output's values are taken from have as many as it has."""
    symbols = {t.name: t for t in p.tensors}
    for port in p.outputs:
        for symbol in (symbols.get(port.tensor), symbols.get(port.name)):
            if symbol is not None and symbol.ref.elements != port.ref.elements:
                shape, own = list(symbol.ref.shape), list(port.shape)
                raise ValueError(f"symbols.json: output {port.name} has shape {own}, its tensor {symbol.name} {shape}")


def _check_view(ref: Ref, what: str) -> None:
    if len(ref.shape) != len(ref.strides):
        raise ValueError(f"symbols.json: {what} has {len(ref.shape)} dimensions and {len(ref.strides)} strides")
    lo, hi = ref.span
    if ref.elements and (ref.elements > MAX_ELEMENTS or ref.nbytes > hi - lo):
        raise ValueError(f"symbols.json: {what} has elements that overlap")


def _check_image(port: Port, image: ImageInput) -> None:
    channels = CHANNELS[image.train]
    if image.port_shape != port.shape or CHANNELS[image.runtime] != channels:
        raise ValueError(f"symbols.json: port {port.name} has shape {list(port.shape)}, its image {image.port_shape}")
    if image.shape[3 if image.train_layout == "NHWC" else 1] != channels or not {
        len(image.mean),
        len(image.scale),
    } <= {0, 1, channels}:
        raise ValueError(f"symbols.json: the image of port {port.name} has not {channels} channels")
    if not all(image.scale):
        raise ValueError(f"symbols.json: the image of port {port.name} has a scale of 0")


def _check_tensor(t: TensorSymbol) -> None:
    _check_view(t.ref, f"tensor {t.name}")
    if t.scale is None or len(t.scale) == 1:
        return
    rank = len(t.ref.shape)
    if t.axis is None or not -rank <= t.axis < rank or t.ref.shape[t.axis] != len(t.scale):
        raise ValueError(
            f"symbols.json: tensor {t.name} has {len(t.scale)} scales, axis {t.axis} of {list(t.ref.shape)}"
        )


def check_bounds(program: Program, where: str) -> None:
    """Every operand, port and tensor lies in its memory, every index in its list; else FileError names the culprit."""
    limits = {Space.ARENA: program.arena_bytes, Space.CONST: len(program.constants)}

    def check(ref: Ref, what: str) -> None:
        lo, hi = ref.span
        if lo < 0 or hi > limits[ref.space]:
            raise FileError(f"{where}: {what} reaches bytes {lo}..{hi} of {limits[ref.space]}", want="an intact file")

    for i, ins in enumerate(program.instructions):
        for name, ref in ins.operands():
            check(ref, f"instruction {i} ({type(ins).__name__}) operand {name}")
        if isinstance(ins, CallOnnx) and not 0 <= ins.part < len(program.parts):
            raise FileError(f"{where}: instruction {i} calls ONNX part {ins.part} of {len(program.parts)}")
        if ins.op >= len(program.ops):
            raise FileError(f"{where}: instruction {i} belongs to op {ins.op} of {len(program.ops)}")
    for port in (*program.inputs, *program.outputs):
        check(port.ref, f"port {port.name}")
    for symbol in program.tensors:
        check(symbol.ref, f"tensor {symbol.name}")
        if not -1 <= symbol.at < len(program.instructions):
            raise FileError(f"{where}: tensor {symbol.name} follows instruction {symbol.at}, which is not there")
    if program.schedule is not None and (why := check_schedule(program.schedule, program.instructions)):
        raise FileError(f"{where}: {why}", want="an intact file")
