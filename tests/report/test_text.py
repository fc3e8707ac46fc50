"""perf.json as terminal text, CSV and trace."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise

import pytest

from bpuc.report.csvfile import COLUMNS, render_csv
from bpuc.report.plain import width_of
from bpuc.report.text import render_text
from bpuc.report.trace import render_trace
from tests.report.report_samples import HOSTILE, bare, hostile, large, realistic

ALL = pytest.mark.parametrize("make", [realistic, large, hostile, bare])


@ALL
@pytest.mark.parametrize("width", [40, 80, 120])
def test_text_fits_and_is_plain(make, width):
    out = render_text(make(), width=width)
    assert max(map(width_of, out.splitlines())) <= width
    assert all(ch == "\n" or ch.isprintable() for ch in out)
    assert "estimate" in out
    assert "simulated" in out
    assert "nan" not in out.lower().split()


def test_text_says_what_matters():
    perf = realistic()
    out = render_text(perf)
    for o in perf["ops"]:
        if o["device"] == "CPU":
            assert o["name"] in out
    flat = " ".join(out.split())
    assert "reason: Softmax over 8400 elements of axis 3: bayes-e takes at most 4096" in flat
    assert "remedy: reduce over the channel axis" in flat
    assert (
        "alternative: here 412.0 us, on the BPU 655.5 us with conversions and calls "
        "(compute -12.0, quantize +255.5; estimate, ops priced one by one, without the overlap of the time line)"
        in flat
    )
    assert "1 CPU op, 412 us (and 2 border conversions, 214 us)" in flat  # 118 + 96
    assert "2 rescales, 43.0 us" in flat  # 2 * 21.5
    assert "scale 0.0413 -> 0.0127 (x3.252)" in flat
    assert "shared scales save 12 rescales, 237 us" in flat  # 12 * 19.75
    assert flat.count("branch 7 reaches 5.2") == 1  # one reason for both
    assert "BPU time 6.3 % on average, 21 % at worst, 9.8 % for unseen families (50 rows)" in flat
    assert "error of the estimate: unknown" in render_text(perf | {"accuracy": None})
    us = {b: sum(o["latency_us"] for o in perf["ops"] if o["device"] == "BPU" and o["bound"] == b)
          for b in ("compute", "memory", "overhead")}  # fmt: skip
    latency = perf["summary"]["latency_us"]
    shares = ", ".join(f"{b} {100 * t / latency:.1f} %" for b, t in us.items())
    assert f"BPU ops are bound by: {shares} of the latency" in flat  # compute most, overhead least


def test_text_lists_the_slowest_first():
    perf = realistic()
    lines = render_text(perf, width=200, top=3).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("slowest 3 of"))
    want = sorted(perf["ops"], key=lambda o: -o["latency_us"])[:3]
    assert [line.split()[0] for line in lines[at + 3 : at + 6]] == [o["name"] for o in want]


def test_text_passes_notes_on():
    perf = bare() | {"notes": ["made without data"], "warnings": [{"message": "range unknown", "where": "conv"}]}
    assert "note: made without data" in render_text(perf)
    assert "note: range unknown (conv)" in render_text(perf)


@ALL
def test_csv_gives_the_ops_back(make):
    perf = make()
    rows = list(csv.DictReader(io.StringIO(render_csv(perf), newline="")))
    assert len(rows) == len(perf["ops"])
    assert tuple(rows[0]) == COLUMNS
    for row, op in zip(rows, perf["ops"]):
        assert row["name"] == op["name"]
        assert row["latency_us"] == ("" if op.get("latency_us") is None else repr(op["latency_us"]))


def test_csv_lists():
    perf = bare() | {"ops": [{"name": "a", "shape": [1, 2], "scale": [0.5, 0.25], "onnx_nodes": ["p", "q"]}]}
    row = next(csv.DictReader(io.StringIO(render_csv(perf))))
    assert (row["shape"], row["scale"], row["onnx_nodes"]) == ("1x2", "0.5 0.25", "p q")


def test_csv_and_trace_show_when_the_bus_is_busy():
    bus = [{"op": "a", "engine": "load", "start_us": 1.0, "end_us": 2.5, "bytes": 9, "after": None},
           {"op": "a", "engine": "store", "start_us": 4.0, "end_us": 5.0, "bytes": 3, "after": None}]  # fmt: skip
    perf = bare() | {"ops": [{"name": "a", "op": "Conv"}], "transfers": bus}
    row = next(csv.DictReader(io.StringIO(render_csv(perf))))
    assert [row[k] for k in COLUMNS[-4:]] == ["1.0", "2.5", "4.0", "5.0"]
    events = [e for e in json.loads(render_trace(perf))["traceEvents"] if e["ph"] in "be"]
    assert [(e["name"], e["id"], e["ph"], e["ts"]) for e in events] == [
        ("a", "load", "b", 1.0), ("a", "load", "e", 2.5), ("a", "store", "b", 4.0), ("a", "store", "e", 5.0)
    ]  # fmt: skip
    assert events[0]["args"] == {"bytes": 9}


@ALL
def test_trace_has_every_op_once_and_lanes_without_overlap(make):
    perf = make()
    events = json.loads(render_trace(perf))["traceEvents"]
    complete = [e for e in events if e["ph"] == "X"]
    assert sorted(e["name"] for e in complete) == sorted(o["name"] for o in perf["ops"])
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    device = {o["name"]: o.get("device") for o in perf["ops"]}
    lanes: dict = {}
    for e in complete:
        assert e["ts"] >= 0
        assert e["dur"] >= 0
        lanes.setdefault((e["pid"], e["tid"]), []).append(e)
    assert set(lanes) == named
    for lane in lanes.values():
        lane.sort(key=lambda e: e["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-5 for a, b in pairwise(lane))
        assert len({device[e["name"]] for e in lane}) == 1


def test_trace_moves_an_overlapping_op_to_a_further_lane():
    ops = [
        {"name": n, "device": "BPU", "engine": "conv", "start_us": s, "end_us": e, "latency_us": e - s}
        for n, s, e in (("a", 0.0, 10.0), ("b", 5.0, 8.0), ("c", 10.0, 11.0))
    ]
    events = {e["name"]: e for e in json.loads(render_trace({"ops": ops}))["traceEvents"] if e["ph"] == "X"}
    assert (events["b"]["ts"], events["b"]["dur"]) == (5.0, 3.0)
    assert events["a"]["tid"] == events["c"]["tid"] != events["b"]["tid"]


def test_trace_counts_rates_and_memory():
    ops = [
        {"name": "a", "device": "BPU", "engine": "conv", "start_us": 0.0, "end_us": 4.0, "read_bytes": 8000,
         "macs": 4000, "sram_bytes": 100},
        {"name": "b", "device": "BPU", "engine": "dma", "start_us": 2.0, "end_us": 6.0, "read_bytes": 4000,
         "write_bytes": 2000, "sram_bytes": 300},
    ]  # fmt: skip
    found: dict = {}
    for e in json.loads(render_trace({"ops": ops}))["traceEvents"]:
        if e["ph"] == "C":
            found.setdefault(e["name"], []).append((e["ts"], *e["args"].values()))
    # 8000 bytes in 4 us are 2 GB/s, joined by 1 read and 0.5 written from 2 us on
    assert found["DDR GB/s"] == [(0, 2, 0), (2, 3, 0.5), (4, 1, 0.5), (6, 0, 0)]
    assert found["GMAC/s"] == [(0, 1), (2, 1), (4, 0), (6, 0)]
    assert found["on-chip bytes"] == [(0, 100), (2, 300)]
    assert "DDR bytes" not in found


def test_the_same_document_gives_the_same_bytes():
    for render in (render_text, render_csv, render_trace):
        assert render(realistic()) == render(realistic())


def test_hostile_names_survive_csv_and_trace():
    assert [r["name"] for r in csv.DictReader(io.StringIO(render_csv(hostile()), newline=""))] == HOSTILE
    assert {e["name"] for e in json.loads(render_trace(hostile()))["traceEvents"] if e["ph"] == "X"} == set(HOSTILE)


def test_rescales_without_a_list_are_told_from_the_ops():
    perf = {"ops": [{"name": "r", "op": "Rescale", "device": "BPU", "latency_us": 2.0}]}
    text = render_text(perf)
    assert "1 rescale, 2.00 us" in text
    assert "scale -" not in text


def test_overhead_is_no_op_on_the_cpu():
    perf = {"ops": [{"name": "_submit", "op": "Overhead", "device": "CPU", "latency_us": 200.0}]}
    assert "0 CPU ops\n" in render_text(perf)
