"""``bpuc info``: what is in a binary; reading it verifies every checksum."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from collections import Counter
from typing import Any

import click

from bpuc.base.files import read_bytes
from bpuc.cli import options, ui
from bpuc.program import Port, Program
from bpuc.program.container import from_bytes
from bpuc.report.plain import wrap

SCHEMA = "bpuc.info/1"


@click.command("info", cls=options.Command, epilog="Example: bpuc info model.bpuc --json -")
@click.argument("binary", metavar="X.bpuc")
@ui.json_option
def command(binary: str, json_to: str | None) -> None:
    """Show what is in a simulated binary: march, sizes, inputs and outputs, ops by device.

    Every checksum is verified; a damaged file is refused.
    """
    raw = read_bytes(binary, "the simulated binary")
    program = from_bytes(raw, binary)
    with zipfile.ZipFile(io.BytesIO(raw)) as z:
        manifest = json.loads(z.read("manifest.json"))
    info = describe(program, manifest, raw)
    ui.emit(render(info, binary), info, json_to)


def describe(program: Program, manifest: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The facts as JSON values; `manifest` is the container's own."""
    devices = {s.id: s.device.value for s in program.segments}
    ops = Counter((devices.get(o.segment, "BPU"), o.op) for o in program.ops)
    return {
        "schema": SCHEMA,
        "simulated": True,
        "purpose": manifest["purpose"],
        "format": manifest["format"],
        "bpuc": manifest["bpuc"],
        "march": program.march,
        "size_bytes": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
        "arena_bytes": program.arena_bytes,
        "constant_bytes": len(program.constants),
        "parts": [{"name": n, **entry} for n, entry in manifest["parts"].items()],
        "inputs": [_port(program, p) for p in program.inputs],
        "outputs": [_port(program, p) for p in program.outputs],
        "batch": program.report.get("batch"),
        "int16_mac_share": program.report.get("int16_mac_share", 0.0),
        "ops": [{"device": d, "op": op, "count": n} for (d, op), n in sorted(ops.items())],
        "segments": [
            {"id": s.id, "device": s.device.value, "instructions": s.stop - s.start} for s in program.segments
        ],
        "instructions": dict(sorted(Counter(type(i).__name__ for i in program.instructions).items())),
        "certificates": program.report.get("certificates", []),
        "tensors": [
            {
                "name": t.name,
                "shape": list(t.ref.shape),
                "dtype": t.ref.dtype.value,
                "scale": _scale(t.scale),
                "axis": t.axis,
            }
            for t in program.tensors
        ],
    }


def _port(program: Program, port: Port) -> dict[str, Any]:
    symbol = next((t for t in program.tensors if t.name == port.tensor), None)
    return {
        "name": port.name,
        "shape": list(port.shape),
        "dtype": port.ref.dtype.value,
        "tensor": port.tensor,
        "tensor_dtype": symbol.ref.dtype.value if symbol else port.ref.dtype.value,
        "scale": _scale(symbol.scale) if symbol else None,
        "axis": symbol.axis if symbol else None,
    }


def _scale(scale: tuple[float, ...] | None) -> float | list[float] | None:
    return None if scale is None else scale[0] if len(scale) == 1 else list(scale)


def render(info: dict[str, Any], name: str) -> str:
    """The same for a person."""
    major, minor = info["format"]
    width = shutil.get_terminal_size().columns
    lines = [
        f"{name}: simulated binary for {info['march']} (it does not run on a chip)",
        f"  format {major}.{minor}, written by bpuc {info['bpuc']}; all checksums hold",
        f"  sha256 {info['sha256']}",
        f"  file {_size(info['size_bytes'])}; constants {_size(info['constant_bytes'])};"
        f" activation memory {_size(info['arena_bytes'])}",
    ]
    for side in ("inputs", "outputs"):
        lines.append(f"{side}:")
        for p in info[side]:
            stored = "" if p["scale"] is None else f", as {p['tensor_dtype']} with {_scale_text(p['scale'])}"
            lines.append(f"  {p['name']}  {p['dtype']}{p['shape']}{stored}")
    if info["batch"]:
        parts = [f"{n} as {p[0]} to {p[-1]}" for n, p in info["batch"]["inputs"].items() if len(p) > 1]
        each = f", {'; '.join(parts)}" if parts else ""
        lines.append(wrap(f"batch: a run takes {info['batch']['size']} samples{each}", width, "  ", ""))
    for device in ("BPU", "CPU"):
        rows = [o for o in info["ops"] if o["device"] == device]
        text = ", ".join(f"{o['count']} {o['op']}" for o in rows) or "none"
        lines.append(wrap(f"ops on the {device}: {text}", width, "  ", ""))
    if info["int16_mac_share"]:
        lines.append(f"int16: read by {100 * info['int16_mac_share']:.1f} % of the multiplications")
    worst = max(info["certificates"], key=lambda c: c["bound"] / c["limit"], default=None)
    if worst is not None:
        share = 100 * worst["bound"] / worst["limit"]
        most = f"{worst['node']} needs most, at most {share:.2g} % of its range"
        lines.append(wrap(f"accumulators: none leaves its type; {most}", width, "  ", ""))
    lines.append(wrap(f"segments: {' '.join(s['device'] for s in info['segments']) or 'none'}", width, "  ", ""))
    lines.append("parts:")
    lines += [f"  {p['name']}  {_size(p['bytes'])}" for p in info["parts"]]
    return "\n".join(lines)


def _scale_text(scale: float | list[float]) -> str:
    if isinstance(scale, list):
        return f"{len(scale)} scales {min(scale):.6g}..{max(scale):.6g}"
    return f"scale {scale:.6g}"


def _size(n: int) -> str:
    return f"{n} bytes" if n < 10_000 else f"{n / 1e3:.1f} kB" if n < 10_000_000 else f"{n / 1e6:.1f} MB"
