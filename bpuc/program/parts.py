"""What the JSON parts of a .bpuc file hold, as descriptions for `bpuc.program.schema`.

The report's own keys may all be missing: a program needs no report to run.
"""

from __future__ import annotations

from typing import Any

from bpuc.base.dtypes import DType
from bpuc.base.image import CHANNELS
from bpuc.isa import Device, Space
from bpuc.program.schema import Fixed, Rule, is_int, is_number

_AXES = 32


def _is_shape(v: object) -> bool:
    size = 1
    for d in v if isinstance(v, list) and len(v) <= _AXES else [-1]:
        if not is_int(d, 0, (1 << 32) - 1):
            return False
        size *= d
    return size < 1 << 63


def one_of(values: Any) -> Rule:
    """One of some strings or numbers."""
    known = list(values)
    return Rule(f"one of {', '.join(map(str, known))}", lambda v: not isinstance(v, bool) and v in known)


TEXT = Rule("text", lambda v: isinstance(v, str))
YES_NO = Rule("true or false", lambda v: isinstance(v, bool))
INT = Rule("an integer of 64 bits", is_int)
COUNT = Rule("an integer of at least 0", lambda v: is_int(v, 0))
POSITIVE = Rule("an integer of at least 1", lambda v: is_int(v, 1))
NUMBER = Rule("a finite number", is_number)
SHAPE = Rule("a shape", _is_shape)
SCALES = Rule("a list of numbers, not empty", lambda v: isinstance(v, list) and bool(v) and all(map(is_number, v)))
HASH = Rule("64 hexadecimal digits", lambda v: isinstance(v, str) and len(v) == 64)
DTYPE = one_of(d.value for d in DType)
DEVICE = one_of(d.value for d in Device)
STRIDES = [Rule("an integer of 32 bits", lambda v: is_int(v, -(1 << 31), (1 << 31) - 1))]
REF = Fixed((one_of(int(s) for s in Space), DTYPE, COUNT, SHAPE, STRIDES))
ANY_SCALE = (NUMBER, SCALES, None)

IMAGE = {
    "runtime": one_of(CHANNELS),
    "layout": one_of(("NCHW", "NHWC")),
    "train": one_of(CHANNELS),
    "train_layout": one_of(("NCHW", "NHWC")),
    "shape": Fixed((POSITIVE,) * 4),
    "mean": [NUMBER],
    "scale": [NUMBER],
    "video": YES_NO,
    "pyramid": YES_NO,
    "resize": TEXT,
    "interpolation": TEXT,
    "pad_value": NUMBER,
}
_PORT = {
    "name": TEXT,
    "shape": SHAPE,
    "ref": REF,
    "tensor": TEXT,
    "declared": (DTYPE, None),
    "image?": (IMAGE, None),
}
SYMBOLS = {
    "inputs": [_PORT],
    "outputs": [_PORT],
    "tensors": [{"name": TEXT, "ref": REF, "at": INT, "scale": (SCALES, None), "axis": (INT, None)}],
    "ops": [{"name": TEXT, "op": TEXT, "segment": INT, "onnx_nodes": [TEXT]}],
    "segments": [{"id": INT, "device": DEVICE, "start": COUNT, "stop": COUNT}],
}
FIRST = {"format": Fixed((COUNT, COUNT))}  # what every version has
MANIFEST = {
    "format": Fixed((COUNT, COUNT)),
    "purpose": TEXT,
    "bpuc": TEXT,
    "march": TEXT,
    "arena_bytes": COUNT,
    "parts": {"*": {"bytes": COUNT, "sha256": HASH}},
}
_SPAN = (Fixed((INT, INT)), None)
_END = {"name": TEXT, "shape": SHAPE, "dtype": TEXT, "scale": ANY_SCALE, "image?": IMAGE, "note?": (TEXT, None)}
CLIPPED = {"least": COUNT, "most": COUNT, "of": (COUNT, None), "sampling": POSITIVE}
ALTERNATIVE = {"device": DEVICE, "here_us": NUMBER, "there_us": NUMBER, "more_us": {"*": NUMBER}}
REPORT = {
    "schema?": TEXT,
    "bpuc?": TEXT,
    "march?": TEXT,
    "source?": {},
    "inputs?": [_END],
    "outputs?": [_END],
    "tensors?": [
        {
            "name": TEXT,
            "shape": SHAPE,
            "dtype": TEXT,
            "scale": ANY_SCALE,
            "axis?": (INT, None),
            "qmax?": (INT, None),
            "threshold?": ANY_SCALE,
            "observer?": (TEXT, None),
            "group?": (INT, None),
            "constant?": YES_NO,
            "clipped?": (CLIPPED, None),
            "gain?": SCALES,
            "gain_axis?": (INT, None),
        }
    ],
    "groups?": [{"id": INT, "tensors": [TEXT], "threshold": NUMBER, "reason": TEXT, "bits_lost": {"*": NUMBER}}],
    "nodes?": [
        {
            "name": TEXT,
            "op": TEXT,
            "device": DEVICE,
            "segment": INT,
            "inputs": [TEXT],
            "outputs": [TEXT],
            "onnx_nodes": [TEXT],
            "dtype?": TEXT,
            "reason": (TEXT, None),
            "remedy?": (TEXT, None),
            "alternative?": ALTERNATIVE,
        }
    ],
    "segments?": [{"id": INT, "device": DEVICE, "nodes": [TEXT], "reason": (TEXT, None), "alternative?": ALTERNATIVE}],
    "rescales?": [
        {
            "name": TEXT,
            "node": TEXT,
            "input_index": INT,
            "tensor": TEXT,
            "from_scale": ANY_SCALE,
            "to_scale": ANY_SCALE,
            "reason": TEXT,
            "remedy": (TEXT, None),
            "latency_us?": (NUMBER, None),
            "bits_lost?": (NUMBER, None),
            "readers?": [TEXT],
            "yaml?": (TEXT, None),
        }
    ],
    "warnings?": [{"code": TEXT, "message": TEXT, "where": (TEXT, None)}],
    "avoided?": [
        {
            "node": TEXT,
            "tensor": TEXT,
            "latency_us?": (NUMBER, None),
            "how?": TEXT,
            "bits_lost?": (NUMBER, None),
            "noise_db?": (NUMBER, None),
        }
    ],
    "refinements?": [{"step": TEXT, "what": TEXT, "where": TEXT, "gain": TEXT}],
    "passes?": [{}],
    "certificates?": [
        {
            "node": TEXT,
            "bound": COUNT,
            "limit": POSITIVE,
            "exact_in": TEXT,
            "bias": _SPAN,
            "mult": _SPAN,
            "shift": _SPAN,
            "float32_channels": (NUMBER, None),
            "over?": (NUMBER, None),
            "clipped_channels?": (NUMBER, None),
            "clipped?": (CLIPPED, None),
        }
    ],
    "batch?": {"size": POSITIVE, "inputs": {"*": [TEXT]}},
    "int16_mac_share?": NUMBER,
}
