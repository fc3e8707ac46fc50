"""The latency model for many sets of hardware numbers at once: the formulas of `bpuc/perf` over arrays of candidates.

What does not depend on the numbers is taken from the rows of a program once. `prefetch_ops` and the sizes that decide
on the schedule are the same for all candidates; everything else may differ between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from amounts import Amounts, Numbers, Vector

from bpuc.isa import Device, Instruction
from bpuc.perf.memory import MemoryPlan
from bpuc.perf.rows import build_rows
from bpuc.perf.timeline import CALL, Row, frees
from bpuc.program import Program
from bpuc.target.hardware import Hardware


@dataclass
class Batch:
    """A program as the batch model needs it: by segment its rows, the amounts of all their instructions, and where in
    those each row begins."""

    segments: list[tuple[list[Row], Amounts, list[int]]] = field(default_factory=list)

    @classmethod
    def of(cls, program: Program, plan: MemoryPlan, hw: Hardware) -> Batch:
        """Rows of the BPU; those before them that only the CPU has are left out."""
        work: dict[int, list[Instruction]] = {}
        for ins in program.instructions:
            if ins.device is Device.BPU:
                work.setdefault(ins.op, []).append(ins)
        all_rows = build_rows(program, plan, hw)
        segments: list[list[Row]] = []
        places: dict[int, int] = {}
        for i, r in enumerate(all_rows):
            if not r.bpu:
                continue
            if r.engine == CALL:
                segments.append([])
                continue
            r.producers = [places[p] for p in r.producers if p in places and all_rows[p].segment == r.segment]
            places[i] = len(segments[-1])
            segments[-1].append(r)
        found = cls()
        for rows in segments:
            starts = np.cumsum([0, *(len(work[r.op]) for r in rows)])[:-1]
            found.segments.append((rows, Amounts([i for r in rows for i in work[r.op]]), starts.tolist()))
        return found

    def busy_us(self, n: Numbers, prefetch: int, buffer: float) -> Vector:
        """Busy time of one BPU core for a frame, for every candidate."""
        total = np.zeros_like(n["call_us"])
        for rows, amounts, starts in self.segments:
            times = np.add.reduceat(amounts.compute_us(n), starts) if rows else np.zeros((0, 1))
            counts = np.diff([*starts, amounts.count])
            total = total + n["call_us"] + self._segment(rows, times, counts, n, prefetch, buffer)
        return total

    def _segment(
        self, rows: list[Row], times: Vector, counts: Vector, n: Numbers, prefetch: int, buffer: float
    ) -> Vector:
        zero = np.zeros_like(n["call_us"])
        free: dict[str, Vector] = {}
        starts, ends, loaded = list[Vector](), list[Vector](), list[Vector]()
        first = list[Vector]()  # when the first tile of a row is there
        bus = end = zero
        per_byte = 1 / (n["ddr_gb_per_s"] * 1e3)
        for i, row in enumerate(rows):
            compute = times[i]
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
            overhead = counts[i] * n["instruction_us"]
            done = start + compute + overhead
            for p in begun:
                done = np.maximum(done, ends[p] + compute / n["tiles"])
            done = np.maximum(done, loaded[i] + compute / n["load_tiles"])
            ends.append(done)
            first.append(start + overhead + (done - start - overhead) / n["tiles"])
            free[row.engine] = done
            if row.stores:
                store = row.stores * per_byte
                bus = np.maximum(bus, start) + store
                end = np.maximum(end, done + store / n["tiles"])
            end = np.maximum(np.maximum(end, done), bus)
        return end
