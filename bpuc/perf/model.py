"""The use case: a program and a target in, the document perf.json (schema bpuc.perf/1) out."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from bpuc.isa import Ref
from bpuc.perf.cost import rescale_us
from bpuc.perf.memory import plan_memory
from bpuc.perf.rows import build_rows
from bpuc.perf.timeline import CALL, Row, schedule
from bpuc.program import Program
from bpuc.target.hardware import Hardware
from bpuc.target.model import Target

SCHEMA = "bpuc.perf/1"
VIEW = "view"  # an op that only renames bytes: no engine is busy with it


def estimate(program: Program, target: Target) -> dict[str, Any]:
    """The latency estimate of a decoded program as the plain dict that perf.json holds; times in us, sizes in bytes.

    Times come from the instructions and the target's hardware numbers alone; the program's report only adds names,
    scales and reasons.

    Raises:
        ConfigError: the target lacks a hardware number that the model needs.
    """
    hw = Hardware.of(target)
    plan = plan_memory(program, hw)
    rows = build_rows(program, plan, hw)
    latency = schedule(rows, hw)
    ops, record_of = _records(program, rows, hw)
    bpu, cpu = busy_us(rows, True), busy_us(rows, False)
    steps = program.valid_schedule()
    at_once = max(1.0, hw.cores // (steps.cores if steps else 1))
    rescales = [o for o in ops if o["op"] == "Rescale"]
    fps, throughput = 1e6 / latency if latency else 0.0, _throughput(bpu / at_once, cpu / hw.cpu_cores)
    batch = program.report.get("batch", {}).get("size", 1)
    summary = {
        "latency_us": latency,
        "fps": fps,
        "throughput_fps": throughput,
        "bpu_us": bpu,
        "cpu_us": cpu,
        "rescale_us": math.fsum(o["latency_us"] for o in rescales),
        "rescale_count": len(rescales),
        "macs": sum(o["macs"] for o in ops),
        "ddr_read_bytes": sum(o["read_bytes"] for o in ops),
        "ddr_write_bytes": sum(o["write_bytes"] for o in ops),
        "sram_peak_bytes": round(plan.sram_peak),
        "ddr_peak_bytes": round(plan.ddr_peak),
    }
    if batch > 1:  # a run is a frame of several samples
        summary |= {"batch": batch, "samples_per_s": batch * fps, "throughput_samples_per_s": batch * throughput}
    return {
        "schema": SCHEMA,
        "march": program.march,
        "estimate": True,
        "hardware": [
            {"name": n, "value": q.value, "unit": q.unit, "origin": q.origin, "source": q.source}
            for n, q in target.hardware.items()
        ],
        "accuracy": None if target.accuracy is None else asdict(target.accuracy),
        "summary": summary,
        "ops": ops,
        "transfers": _transfers(rows, record_of),
        "rescales": _priced(program, ops, "rescales", target),
        "avoided": _priced(program, ops, "avoided", target),
        "groups": program.report.get("groups", []),
        "segments": program.report.get("segments", []),
        "warnings": program.report.get("warnings", []),
    }


def _throughput(*stages_us: float) -> float:
    """Frames a second when every stage works on another frame: the slowest one decides."""
    slowest = max(stages_us)
    return 1e6 / slowest if slowest else 0.0


def busy_us(rows: list[Row], bpu: bool) -> float:
    """Time of a frame on one device: the BPU core with the overhead of its calls, or the CPU."""
    spans: dict[int, tuple[float, float]] = {}
    for r in rows:
        if r.bpu == bpu:
            start, end = spans.get(r.segment, (r.start, r.end))
            spans[r.segment] = min(start, r.start), max(end, r.end)
    return math.fsum(end - start for start, end in spans.values())


def _records(program: Program, rows: list[Row], hw: Hardware) -> tuple[list[dict[str, Any]], dict[int, dict[str, Any]]]:
    """The rows as perf.json lists them, and by op; ops without instructions (pure views) follow the op before them, at
    no cost."""
    record_of: dict[int, dict[str, Any]] = {}
    written: dict[int, Ref] = {}
    for ins in program.instructions:
        written.update((ins.op, ref) for ref in ins.writes())
    nodes = {n["name"]: n for n in program.report.get("nodes", [])}
    tensors = {t["name"]: t for t in program.report.get("tensors", [])}
    by_op = {r.op: r for r in rows if r.op >= 0}
    wired = {t for n in nodes.values() for t in n["outputs"]} | {t["name"] for t in program.report.get("inputs", [])}
    records = [_overhead(r) for r in rows if r.op < 0]
    now = 0.0
    for index, symbol in enumerate(program.ops):
        row = by_op.get(index)
        node = nodes.get(symbol.name, {})
        if row is None:
            on_bpu = node.get("device", "BPU") == "BPU"
            row = Row(index, symbol.segment, on_bpu, VIEW if on_bpu else "cpu", start=now, end=now)
        now = row.end
        outputs = node.get("outputs") or [symbol.name]
        tensor = tensors.get(outputs[0], {})
        ref = written.get(index)
        record_of[index] = {
            "name": symbol.name,
            "op": symbol.op,
            **_numbers(row, hw),
            "shape": tensor.get("shape", list(ref.shape) if ref else None),
            "dtype": tensor.get("dtype", ref.dtype.value if ref else None),
            "scale": tensor.get("scale"),
            "reason": node.get("reason"),
            "remedy": node.get("remedy"),
            **({"alternative": node["alternative"]} if node.get("alternative") else {}),
            "onnx_nodes": list(symbol.onnx_nodes),
            "inputs": [t for t in node.get("inputs", []) if t in wired],
            "outputs": outputs,
        }
    records += record_of.values()
    records.sort(key=lambda r: (r["start_us"], r["end_us"]))
    seen: dict[str, int] = {}
    for r in records:
        seen[r["name"]] = seen.get(r["name"], 0) + 1
        if seen[r["name"]] > 1:
            r["name"] += f"#{seen[r['name']]}"
    return records, record_of


def _transfers(rows: list[Row], record_of: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """What the DDR bus carries, in order: an op's loads and its stores, each a row of the engine `load` or `store`.

    `after` is the op whose end made room on chip for a load, None where it had to wait for none.
    """
    found = []
    for row in rows:
        for engine, span, nbytes in (
            ("load", row.load, row.constants + row.loads),
            ("store", row.store, row.stores),
        ):
            if span is not None:
                waits = row.waits if engine == "load" else -1
                found.append(
                    {
                        "op": record_of[row.op]["name"],
                        "engine": engine,
                        "segment": row.segment,
                        "start_us": span[0],
                        "end_us": span[1],
                        "bytes": round(nbytes),
                        "after": record_of[rows[waits].op]["name"] if waits >= 0 else None,
                    }
                )
    return sorted(found, key=lambda t: (t["start_us"], t["end_us"]))


def _numbers(row: Row, hw: Hardware) -> dict[str, Any]:
    transfer = row.transfer_us(hw)
    bound = "memory" if transfer > row.compute else "compute"
    return {
        "device": "BPU" if row.bpu else "CPU",
        "engine": row.engine,
        "segment": row.segment,
        "start_us": row.start,
        "end_us": row.end,
        "latency_us": row.end - row.start,
        "compute_us": row.compute,
        "transfer_us": transfer,
        "macs": row.macs,
        "read_bytes": round(row.constants + row.loads),
        "write_bytes": round(row.stores),
        "sram_bytes": round(row.sram),
        "ddr_bytes": round(row.ddr),
        "bound": "overhead" if row.overhead >= max(row.compute, transfer) else bound,
    }


def _overhead(row: Row) -> dict[str, Any]:
    name, reason = (
        (f"_call_{row.segment}", "the BPU core starts and ends a call")
        if row.engine == CALL
        else (f"_submit_{row.segment}", "the host hands a call to the BPU and waits for its end")
    )
    return {
        "name": name,
        "op": "Overhead",
        "device": "BPU" if row.bpu else "CPU",
        "engine": row.engine,
        "segment": row.segment,
        "start_us": row.start,
        "end_us": row.end,
        "latency_us": row.end - row.start,
        "compute_us": 0.0,
        "transfer_us": 0.0,
        "macs": 0,
        "read_bytes": 0,
        "write_bytes": 0,
        "sram_bytes": None,
        "ddr_bytes": None,
        "bound": "overhead",
        "shape": None,
        "dtype": None,
        "scale": None,
        "reason": reason,
        "remedy": None,
        "onnx_nodes": [],
        "inputs": [],
        "outputs": [],
    }


def _priced(program: Program, ops: list[dict[str, Any]], key: str, target: Target) -> list[dict[str, Any]]:
    """Rescales of the report, those without a time given one: their row's, or what such a rescale costs alone."""
    times = {o["name"]: o["latency_us"] for o in ops}
    tensors = {t["name"]: t for t in program.report.get("tensors", [])}
    found = []
    for record in program.report.get(key, []):
        if record.get("latency_us") is None:
            tensor = tensors.get(record.get("tensor"), {})
            width = 2 if tensor.get("dtype") == "int16" else 1
            alone = rescale_us(math.prod(tensor.get("shape", [0])), width, target)
            record = {**record, "latency_us": times.get(record.get("name"), alone)}
        found.append(record)
    return found
