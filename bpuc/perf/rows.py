"""From a program to the rows of the time line: what each op computes, moves and depends on."""

from __future__ import annotations

from bpuc.isa import Device, Instruction
from bpuc.isa.tiling import stripe_axis
from bpuc.perf.cost import compute_us, engine
from bpuc.perf.memory import MemoryPlan
from bpuc.perf.timeline import CALL, Row
from bpuc.program import Program
from bpuc.target.hardware import Hardware


def build_rows(program: Program, plan: MemoryPlan, hw: Hardware) -> list[Row]:
    """A row for each op that has instructions, in the order of its last one, and the overhead rows of BPU calls."""
    last = {ins.op: i for i, ins in enumerate(program.instructions)}
    order = sorted(last, key=lambda op: last[op])
    segment = {i: s for s in program.segments for i in range(s.start, s.stop)}
    rows: list[Row] = []
    place: dict[int, int] = {}
    for op in order:
        home = segment[last[op]]
        bpu = home.device is Device.BPU
        if bpu and not any(r.segment == home.id for r in rows):
            rows.append(Row(-1, home.id, False, "cpu", overhead=hw.submit_us))
            rows.append(Row(-1, home.id, True, CALL, overhead=hw.call_us))
        place[op] = len(rows)
        rows.append(Row(op, home.id, bpu, "cpu"))
    steps = program.valid_schedule()
    cores = steps.cores if steps else 1
    busy: dict[int, dict[str, float]] = {}
    for i, ins in enumerate(program.instructions):
        row, traffic, time = rows[place[ins.op]], plan.traffic[i], compute_us(ins, hw) * share_of_core(ins, cores)
        row.compute += time
        row.overhead += hw.instruction_us if row.bpu else hw.cpu_node_overhead_us
        row.constants += traffic.constants
        row.loads += traffic.loads
        row.stores += traffic.stores
        row.macs += ins.work().macs
        row.sram, row.ddr = max(row.sram, plan.sram[i]), max(row.ddr, plan.ddr[i])
        row.producers += [place[program.instructions[p].op] for p in plan.producers[i]]
        engines = busy.setdefault(ins.op, {})
        unit = engine(ins).value
        engines[unit] = engines.get(unit, 0.0) + time
    for op, engines in busy.items():
        rows[place[op]].engine = max(engines, key=lambda e: engines[e])
    return rows


def share_of_core(ins: Instruction, cores: int) -> float:
    """The part of an instruction that the busiest of some cores does: its rows are dealt out, the bus is shared."""
    axis = stripe_axis(ins) if ins.device is Device.BPU and cores > 1 else None
    if axis is None:
        return 1.0
    rows = max(1, ins.writes()[0].shape[axis])
    return -(-rows // cores) / rows
