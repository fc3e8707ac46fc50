"""The latency model for many sets of hardware numbers at once: the formulas of `bpuc/perf` over arrays of candidates.

What does not depend on the numbers is taken from the rows of a program once. `prefetch_ops` and the sizes that decide
on the schedule are the same for all candidates; everything else may differ between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bpuc.isa import Conv, ConvTranspose, Device, Instruction, Lut, MatMul, Move, Norm, Pool, Softmax
from bpuc.isa.core import Engine
from bpuc.perf.cost import operand_bytes, scatters
from bpuc.perf.memory import MemoryPlan
from bpuc.perf.rows import build_rows
from bpuc.perf.timeline import CALL, Row, frees
from bpuc.program import Program
from bpuc.target.hardware import Hardware

Vector = npt.NDArray[np.float64]
Numbers = Mapping[str, Vector]  # of each hardware number the values of all candidates


@dataclass
class Batch:
    """A program as the batch model needs it: rows by segment and the instructions of each row."""

    segments: list[list[Row]] = field(default_factory=list)
    work: dict[int, list[Instruction]] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program, plan: MemoryPlan, hw: Hardware) -> Batch:
        """Rows of the BPU; those before them that only the CPU has are left out."""
        found = cls()
        rows = build_rows(program, plan, hw)
        places: dict[int, int] = {}
        for i, r in enumerate(rows):
            if not r.bpu:
                continue
            if r.engine == CALL:
                found.segments.append([])
                continue
            segment = found.segments[-1]
            r.producers = [places[p] for p in r.producers if p in places and rows[p].segment == r.segment]
            places[i] = len(segment)
            segment.append(r)
        for ins in program.instructions:
            if ins.device is Device.BPU:
                found.work.setdefault(ins.op, []).append(ins)
        return found

    def busy_us(self, n: Numbers, prefetch: int, buffer: float) -> Vector:
        """Busy time of one BPU core for a frame, for every candidate."""
        total = np.zeros_like(n["call_us"])
        for rows in self.segments:
            total = total + n["call_us"] + self._segment(rows, n, prefetch, buffer)
        return total

    def _segment(self, rows: list[Row], n: Numbers, prefetch: int, buffer: float) -> Vector:
        zero = np.zeros_like(n["call_us"])
        free: dict[str, Vector] = {}
        starts, ends, loaded = list[Vector](), list[Vector](), list[Vector]()
        first = list[Vector]()  # when the first tile of a row is there
        bus = end = zero
        per_byte = 1 / (n["ddr_gb_per_s"] * 1e3)
        for i, row in enumerate(rows):
            work = self.work[row.op]
            compute = sum((compute_us(ins, n) for ins in work), zero)
            begun = sorted({p for p in row.producers if p < i})
            start = free.get(row.engine, zero)
            for p in begun:
                start = np.maximum(start, first[p])
            starts.append(start)
            while len(loaded) < len(rows) and (j := len(loaded)) <= i + prefetch:
                freed = frees(rows, 0, j, buffer)
                if freed > i:
                    break
                nbytes = rows[j].constants + rows[j].loads
                if nbytes:
                    window = starts[max(0, j - prefetch)]
                    bus = np.maximum(np.maximum(bus, window), ends[freed - 1] if freed else zero) + nbytes * per_byte
                loaded.append(bus if nbytes else zero)
            done = start + compute + len(work) * n["instruction_us"]
            for p in begun:
                done = np.maximum(done, ends[p] + compute / n["tiles"])
            done = np.maximum(done, loaded[i] + compute / n["load_tiles"])
            ends.append(done)
            first.append(start + (done - start) / n["tiles"])
            free[row.engine] = done
            if row.stores:
                store = row.stores * per_byte
                bus = np.maximum(np.maximum(bus, start) + store, done + store / n["tiles"])
            end = np.maximum(np.maximum(end, done), bus)
        return end


def compute_us(ins: Instruction, n: Numbers) -> Vector:
    """`bpuc.perf.cost.compute_us` of an instruction of the BPU."""
    return np.maximum(_cycles(ins, n), operand_bytes(ins) / n["sram_bytes_per_cycle"]) / n["clock_mhz"]


def _cycles(ins: Instruction, n: Numbers) -> Vector:
    if isinstance(ins, (Conv, ConvTranspose, MatMul)):
        return _mac_cycles(ins, n)
    work = ins.work()
    width = max((r.dtype.itemsize for r in (*ins.reads(), *ins.writes()) if r.space == 0), default=1)
    name = "vector_elems_per_cycle"
    if work.engine is Engine.DMA:
        name = "transpose_bytes_per_cycle" if isinstance(ins, Move) and scatters(ins) else "move_bytes_per_cycle"
    elif isinstance(ins, Lut):
        name = "lut_elems_per_cycle"
    elif isinstance(ins, Pool):
        name = "pool_elems_per_cycle"
    elif isinstance(ins, (Softmax, Norm)):
        name = "softmax_elems_per_cycle"
    return work.elements * width / n[name]


def _mac_cycles(ins: Conv | ConvTranspose | MatMul, n: Numbers) -> Vector:
    if isinstance(ins, MatMul):
        wide, taps, group = (ins.a, ins.b), 1, 1
        cin, cout = ins.a.shape[-1], ins.y.shape[-1]
        positions = ins.y.elements // max(cout, 1)
    else:
        wide, group, taps = (ins.x, ins.w), ins.group, int(np.prod(ins.w.shape[2:]))
        cin, cout = ins.x.shape[1], ins.y.shape[1]
        spread = ins.y if isinstance(ins, Conv) else ins.x
        positions = spread.elements // max(spread.shape[1], 1)
    inner = np.minimum(cin, np.maximum(cin / group, n["mac_out_block"]))
    block = np.where(inner > 4, n["mac_in_block"], 4.0)
    padded = _up(inner, block) * _up(cout, n["mac_out_block"]) * _up(positions, n["mac_pixel_block"])
    factor = n["mac_int16_factor"] ** sum(r.dtype.itemsize > 1 for r in wide)
    return factor * taps * padded / n["mac_per_cycle_int8"]


def _up(value: float | Vector, block: Vector) -> Vector:
    return np.ceil(value / block) * block
