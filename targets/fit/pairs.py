"""Pairs of a compiled program and its measured time, from a folder of graphs and published latencies."""

from __future__ import annotations

import csv
import json
import tempfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from bpuc.base.errors import BpucError
from bpuc.flow.compile import compile_for_perf
from bpuc.isa import Quantize
from bpuc.perf.memory import MemoryPlan, plan_memory
from bpuc.perf.model import busy_us
from bpuc.perf.rows import build_rows
from bpuc.perf.timeline import schedule
from bpuc.plugins import get_target
from bpuc.program import Program
from bpuc.target.hardware import Hardware

# which sets of measurements count for a march: of several rows of a graph the first set's
SETS = {
    "bayes-e": ("x5-cls", "x5-ul-2025-11", "x5-ul-2025-07"),
    "nash-e": ("s100-ul-2025-11",),
    "nash-m": ("s100p-ul-2025-11",),
    "bernoulli2": ("x3-cls", "x3-yolo", "x3-yolov5-2024-09"),
}


@dataclass
class Pair:
    """A model with its measured BPU time, compiled for the sizes of memories that its target has."""

    name: str
    family: str
    measured_us: float
    thread_us: float | None  # one thread, the CPU's part included
    program: Program
    plan: MemoryPlan

    def predicted_us(self, hw: Hardware) -> float:
        """Busy time of one BPU core for a frame."""
        rows = build_rows(self.program, self.plan, hw)
        schedule(rows, hw)
        return busy_us(rows, bpu=True)

    def predicted_thread_us(self, hw: Hardware) -> float:
        """One thread of the board's benchmark tool, which hands over images as the BPU takes them (nv12)."""
        rows = build_rows(self.program, self.plan, hw)
        end = schedule(rows, hw)
        given = {i.op for i in self.program.instructions if isinstance(i, Quantize)}
        return end - sum(r.compute + r.overhead for r in rows if r.op in given)

    @property
    def ddr_bytes(self) -> float:
        """What the schedule moves."""
        return sum(t.constants + t.loads + t.stores for t in self.plan.traffic)


def load_pairs(folder: Path, march: str, only: Collection[str] = ()) -> list[Pair]:
    """Compile the graphs of the folder that have a measurement for the march; what fails to compile is printed.

    Args:
        only: names of graphs; all where there are none.
    """
    pairs = []
    hw = Hardware.of(get_target(march))
    for name, (measured, thread) in sorted(_measured(folder, march).items()):
        if only and name not in only:
            continue
        try:
            program = compile_graph(folder / "graphs" / f"{name}.onnx", march)
        except BpucError as e:
            print(f"{name}: left out: {e.message}")
            continue
        pairs.append(Pair(name, _families(folder).get(name, name), measured, thread, program, plan_memory(program, hw)))
    return pairs


def _measured(folder: Path, march: str) -> dict[str, tuple[float, float | None]]:
    """Microseconds of the BPU, and of one thread where it was fed with nv12, by graph."""
    cores, clock = (get_target(march).hw(k) for k in ("cores", "clock_mhz"))
    best: dict[str, tuple[int, float, float | None]] = {}
    for row in rows_of(folder / "published.csv"):
        if row["march"] != march or row["set"] not in SETS[march] or row["confidence"] != "good" or not row["fps_max"]:
            continue
        if row["bpu_clock_ghz"] and float(row["bpu_clock_ghz"]) * 1000 != clock:
            continue
        if not (folder / "graphs" / f"{row['graph']}.onnx").exists():
            continue
        rank = SETS[march].index(row["set"])
        if row["graph"] not in best or rank < best[row["graph"]][0]:
            thread = 1e3 * float(row["latency_ms"]) if row["latency_ms"] and row["input_format"] == "nv12" else None
            best[row["graph"]] = rank, 1e6 * cores / float(row["fps_max"]), thread
    return {name: (us, thread) for name, (_, us, thread) in best.items()}


def _families(folder: Path) -> dict[str, str]:
    return {row["graph"].removesuffix(".onnx"): row["family"] for row in rows_of(folder / "graphs" / "INDEX.csv")}


def rows_of(path: Path) -> list[dict[str, str]]:
    """A CSV file as one dict a row."""
    with path.open(newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def compile_graph(path: Path, march: str) -> Program:
    """The program of a graph, without its constants: the estimate asks for their sizes only."""
    with tempfile.TemporaryDirectory() as folder:
        filled = Path(folder) / path.name
        onnx.save(_filled(path), filled)
        program = compile_for_perf(str(filled), march, {})
    program.constants, program.parts = b"", []
    return program


def _filled(path: Path) -> onnx.ModelProto:
    model = onnx.load(path)
    side = path.with_suffix(".json")
    if side.exists():
        for name, (dims, kind) in json.loads(side.read_text(encoding="utf-8"))["initializers"].items():
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
            rng = np.random.default_rng(zlib.crc32(name.encode()))
            fan = max(int(np.prod(dims[1:])), 1)
            # positive values of unit mean stay finite as variances, gains and divisors too
            value = rng.uniform(0.5, 1.5, dims) if len(dims) < 2 else rng.standard_normal(dims) / np.sqrt(fan)
            array = value.astype(dtype) if np.issubdtype(dtype, np.floating) else np.zeros(dims, dtype)
            model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model
