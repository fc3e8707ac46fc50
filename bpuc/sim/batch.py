"""Inputs of a program whose runs take several samples at once, from arrays with any whole number of batches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bpuc.base.errors import DataError
from bpuc.base.shapes import samples_in
from bpuc.program import Port, Program
from bpuc.sim.engine import Array


def batch_of(program: Program) -> tuple[int, dict[str, list[str]]]:
    """Samples of a run, and the model's inputs with the program's inputs that each has become; 1 and none without."""
    said = program.report.get("batch") or {}
    size, ports = int(said.get("size", 1)), {p.name: p for p in program.inputs}
    found = {n: list(parts) for n, parts in said.get("inputs", {}).items()}
    for parts in found.values():
        whole = len(parts) == 1 and parts[0] in ports and ports[parts[0]].shape[:1] == (size,)
        if size < 2 or not (whole or (len({*parts}) == size == len(parts) and {*parts} <= ports.keys())):
            return 1, {}
    return (size, found) if found else (1, {})


def in_runs(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays of samples, as `samples_in` reads them, under the names of the model's inputs as the program's take them.

    What has the form of a port already stays, as does what belongs to no batch.

    Raises:
        DataError: the number of samples is no multiple of the batch.
    """
    ports = {p.name: p for p in program.inputs}
    out, (size, batch) = dict(inputs), batch_of(program)
    for name, parts in batch.items():
        if name not in inputs or (name in ports and _fits(ports[name], inputs[name])):
            continue
        array, port, apart = inputs[name], ports[parts[0]], len(parts) > 1
        shapes = [port.shape] + ([port.image.shape] if port.image is not None and array.dtype.kind == "f" else [])
        ones = [s if apart else (1, *s[1:]) for s in shapes]
        one = next((s for s in ones if samples_in(array.shape, s, size) is not None), None)
        if one is None:
            continue
        del out[name]
        count = samples_in(array.shape, one, size) or 0
        if count % size or not count:
            raise DataError(
                f"input {name!r} holds {count} samples, and a run takes {size} at once",
                want=f"a multiple of {size}",
            )
        runs = array.reshape(count // size, size, *(one if apart else one[1:]))
        if not apart:
            out[name] = runs
            continue
        for index, part in enumerate(parts):
            rows = runs[:, index]
            out[part] = rows[0] if len(rows) == 1 else rows
    return out


def _fits(port: Port, array: Array) -> bool:
    shapes = [port.shape] + ([port.image.shape] if port.image is not None else [])
    return any(array.shape == s or array.shape[1:] == s for s in shapes)


def joined(samples: list[Mapping[str, Array]], program: Program) -> dict[str, Array]:
    """One run from the samples of a batch, each as the model's inputs take them one by one."""
    ports, batch = {p.name: p for p in program.inputs}, batch_of(program)[1]
    out = {n: a for n, a in samples[0].items() if n not in batch}
    for name, parts in batch.items():
        frames = [s[name] for s in samples]
        if len(parts) > 1:
            out |= {part: f.reshape(ports[part].shape) for part, f in zip(parts, frames)}
        else:
            out[name] = np.stack(frames).reshape(ports[name].shape)
    return out
