"""perf.json of small programs: times by hand, sums, order, and what growth does."""

from __future__ import annotations

import dataclasses
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpuc.base.dtypes import DType
from bpuc.isa import Move
from bpuc.perf import estimate
from bpuc.perf.memory import stored_bytes
from bpuc.program import OpSymbol, Program, Segment
from bpuc.target.hardware import Hardware
from tests.unit.perf.perf_samples import Builder, chain, dense, target


def rows(perf):
    return {o["name"]: o for o in perf["ops"]}


def test_a_chain_by_hand():
    perf = estimate(chain(), target())
    r = rows(perf)
    # Quantize: 512 elements at 2 ns and 10 us; then 70 us on the host and 50 us on the core for the call
    assert r["quant"]["end_us"] == pytest.approx(11.024)
    assert r["_submit_1"]["end_us"] == pytest.approx(81.024)
    assert r["_call_1"]["end_us"] == pytest.approx(131.024)
    # conv1: 9*8*16*64 MACs at 1e5 a us; the input and 9*8*16 weights at 1000 bytes a us; 3 us to start
    assert r["conv1"]["compute_us"] == pytest.approx(0.73728)
    assert (r["conv1"]["macs"], r["conv1"]["read_bytes"], r["conv1"]["write_bytes"]) == (73728, 512 + 1152, 0)
    assert r["conv1"]["latency_us"] == pytest.approx(3.73728)
    assert r["conv1"]["bound"] == "overhead"
    # conv2 stores 512 bytes behind its computation
    assert (r["conv2"]["read_bytes"], r["conv2"]["write_bytes"]) == (1152, 512)
    assert r["conv2"]["end_us"] == pytest.approx(131.024 + 2 * 3.73728 + 0.512)
    s = perf["summary"]
    assert s["bpu_us"] == pytest.approx(50 + 2 * 3.73728 + 0.512)
    assert s["cpu_us"] == pytest.approx(11.024 + 70 + 10 + 512 * 0.004)
    assert s["latency_us"] == pytest.approx(s["bpu_us"] + s["cpu_us"])
    assert s["fps"] == pytest.approx(1e6 / s["latency_us"])
    # 2 BPU cores, 4 CPU cores
    assert s["throughput_fps"] == pytest.approx(1e6 / max(s["bpu_us"] / 2, s["cpu_us"] / 4))
    assert (s["macs"], s["ddr_read_bytes"], s["ddr_write_bytes"]) == (147456, 512 + 2304, 512)
    assert s["sram_peak_bytes"] == 1024
    # the value between the convolutions waits on chip; input or output, the weights and one scale in DDR
    assert [r[n]["sram_bytes"] for n in ("quant", "conv1", "conv2")] == [0, 1024, 1024]
    assert [r[n]["ddr_bytes"] for n in ("conv1", "conv2")] == [2304 + 8 + 512] * 2
    assert r["_call_1"]["sram_bytes"] is None
    assert perf["estimate"] is True
    assert perf["schema"] == "bpuc.perf/1"
    json.dumps(perf, allow_nan=False)


def test_the_bus_carries_one_thing_at_a_time():
    perf = estimate(chain(), target())
    begin = rows(perf)["_call_1"]["end_us"]
    # 1000 bytes a us: conv1's operand and weights, conv2's weights right behind them, conv2's result as it ends
    first, second, last = perf["transfers"]
    assert (first["op"], first["engine"], first["bytes"]) == ("conv1", "load", 512 + 1152)
    assert (first["start_us"], first["end_us"]) == (pytest.approx(begin), pytest.approx(begin + 1.664))
    assert (second["op"], second["engine"], second["start_us"]) == ("conv2", "load", pytest.approx(begin + 1.664))
    assert (last["op"], last["engine"], last["bytes"]) == ("conv2", "store", 512)
    assert last["end_us"] == pytest.approx(perf["summary"]["bpu_us"] + begin - 50)
    assert [t["after"] for t in perf["transfers"]] == [None] * 3


def test_a_load_that_waits_for_room_says_for_which_op():
    perf = estimate(chain(channels=64, size=1), target(instruction_us=0.0, constant_buffer_bytes=5000.0))
    load = next(t for t in perf["transfers"] if t["op"] == "conv2" and t["engine"] == "load")
    assert load["after"] == "conv1"
    assert load["start_us"] == rows(perf)["conv1"]["end_us"]


def test_an_op_waits_for_its_weights():
    perf = estimate(chain(channels=64, size=1), target(instruction_us=0.0, prefetch_ops=0.0))
    r = rows(perf)
    # 9*8*64 weights and 8 bytes of input at 1000 bytes a us, then 9*8*64*4 MACs on them in one tile
    assert r["conv1"]["latency_us"] == pytest.approx(4.616 + 0.18432)
    assert r["conv1"]["bound"] == "memory"


def test_weights_of_the_next_op_are_loaded_ahead():
    slow = target(instruction_us=10.0, prefetch_ops=0.0)
    ahead = target(instruction_us=10.0, prefetch_ops=1.0)
    program = chain(channels=64, size=16)
    assert rows(estimate(program, slow))["conv2"]["latency_us"] == pytest.approx(10 + 9 * 8 * 64 * 256 / 1e5 + 2.048)
    a, b = estimate(program, slow)["summary"], estimate(program, ahead)["summary"]
    assert b["bpu_us"] <= a["bpu_us"]


def test_what_does_not_fit_on_chip_goes_through_ddr():
    r = rows(estimate(chain(), target(sram_bytes=800.0)))
    # the value between the convolutions needs 1024 bytes: 28 % more than there is, so 28 % of it go
    assert r["conv1"]["write_bytes"] == round(0.28 * 1024)
    assert r["conv2"]["read_bytes"] == 1152 + round(0.28 * 1024)
    gentle = rows(estimate(chain(), target(sram_bytes=800.0, spill_slope=2.0)))
    assert gentle["conv1"]["write_bytes"] == round(0.14 * 1024)
    assert rows(estimate(chain(), target(sram_bytes=500.0)))["conv1"]["write_bytes"] == 1024
    assert rows(estimate(chain(), target(sram_bytes=0.0)))["conv1"]["write_bytes"] == 1024


def test_a_pointwise_op_takes_its_operand_from_the_op_before_it():
    r = rows(estimate(chain(rescales=1), target(sram_bytes=0.0)))
    assert r["conv1"]["write_bytes"] == 0
    assert (r["rescale0"]["read_bytes"], r["rescale0"]["write_bytes"]) == (0, 1024)
    assert r["conv2"]["read_bytes"] == 1152 + 1024


@pytest.mark.parametrize(("channels", "size", "stored"), [(9, 5, 9 * 5 * 8), (7, 5, 5 * 5 * 8), (3, 5, 5 * 5 * 4)])
def test_channels_or_width_are_padded_in_memory(channels, size, stored):
    b = Builder()
    x = b.new(1, 8, size, size, dtype=DType.FLOAT32)
    y = b.dequantize("dequant", b.conv("conv", b.quantize("quant", x), channels))
    r = rows(estimate(b.program([x], [y]), target()))
    assert r["conv"]["write_bytes"] == stored
    assert r["conv"]["macs"] == 9 * 8 * channels * size * size


def test_the_stride_ladder():
    hw = Hardware.of(target(channel_align=16.0, channel_block=256.0))
    sizes = {1: 4, 5: 16, 16: 16, 17: 32, 33: 64, 65: 128, 96: 128, 144: 256, 256: 256, 257: 272, 400: 512}
    assert {c: stored_bytes(dense(0, (1, 1, c)), hw) for c in sizes} == sizes
    assert stored_bytes(dense(0, (1, 1, 48), DType.INT32), hw) == 256
    assert stored_bytes(dense(0, (1, 17)), hw) == 17


@pytest.mark.parametrize(("buffer", "conv2"), [(1e9, 9.224), (9216.0, 9.224), (5000.0, None)])
def test_constants_are_loaded_ahead_while_they_fit(buffer, conv2):
    perf = estimate(chain(channels=64, size=1), target(instruction_us=0.0, constant_buffer_bytes=buffer, call_us=0.0))
    r = rows(perf)
    begin = r["_call_1"]["end_us"]
    # both ops have 4608 bytes of constants, conv1 8 bytes of input, conv2 8 bytes of output; 1000 bytes a us
    if conv2 is None:  # the buffer holds 4608 bytes of one op only: conv2's are loaded when conv1 has ended
        conv2 = r["conv1"]["end_us"] - begin + 4.608
    assert r["conv2"]["end_us"] - begin == pytest.approx(conv2 + r["conv2"]["compute_us"] + 0.008)


def test_rescales_are_rows_and_counted():
    report = {"rescales": [{"name": "rescale0", "latency_us": None}, {"name": "rescale1", "latency_us": 44.0}],
              "avoided": [{"node": "n", "tensor": "t", "latency_us": None}],
              "tensors": [{"name": "t", "shape": [1, 10, 10, 10], "dtype": "int8"}]}  # fmt: skip
    perf = estimate(chain(rescales=2, report=report), target())
    assert perf["summary"]["rescale_count"] == 2
    # 1024 values at 8 a cycle, 100 cycles a us, 3 us each
    assert perf["summary"]["rescale_us"] == pytest.approx(2 * 4.28)
    assert [r["latency_us"] for r in perf["rescales"]] == [pytest.approx(4.28), 44.0]
    assert perf["avoided"][0]["latency_us"] == pytest.approx(4.25)


def test_reasons_and_scales_come_from_the_report():
    report = {"nodes": [{"name": "conv1", "device": "BPU", "outputs": ["t"], "reason": "why"}],
              "tensors": [{"name": "t", "shape": [1, 16, 8, 8], "dtype": "int8", "scale": 0.5}]}  # fmt: skip
    row = rows(estimate(chain(report=report), target()))["conv1"]
    assert (row["reason"], row["scale"], row["shape"], row["onnx_nodes"]) == ("why", 0.5, [1, 16, 8, 8], ["conv1"])


def test_an_op_of_several_instructions_is_one_row_and_a_view_costs_nothing():
    b = Builder()
    x = b.new(1, 8, 4, 4, dtype=DType.FLOAT32)
    t = b.quantize("quant", x)
    y = b.new(1, 16, 4, 4)
    for half in (0, 1):
        b.instructions.append(Move(op=1, x=t, y=dense(y.address + half * 128, (1, 8, 4, 4))))
    b.ops.append(("concat", "Concat"))
    z = b.dequantize("dequant", y)
    program = b.program([x], [z])
    program.ops.append(OpSymbol("reshape", "Reshape", 1, ("reshape",)))
    r = rows(estimate(program, target()))
    assert r["concat"]["compute_us"] == pytest.approx(2 * 128 / 8 / 100)
    assert r["concat"]["latency_us"] == pytest.approx(2 * 3 + 0.32 + 0.256)
    assert r["concat"]["engine"] == "vector"
    assert (r["reshape"]["latency_us"], r["reshape"]["engine"]) == (0.0, "view")


def test_interleaved_parts_of_a_tensor_are_one_value():
    b = Builder()
    x = b.new(1, 4, 2, dtype=DType.FLOAT32)
    t = b.quantize("quant", x)
    y = b.new(1, 4, 4)
    for half in (0, 1):
        part = dataclasses.replace(t, address=y.address + 2 * half, strides=(16, 4, 1))
        b.add(f"move{half}", "Move", Move(op=b.op, x=t, y=part))
    z = b.dequantize("dequant", y)
    r = rows(estimate(b.program([x], [z]), target(channel_align=1.0)))
    # both halves, 4 x 2 bytes each in blocks of four, are read by the CPU and so stored
    assert [r[f"move{i}"]["write_bytes"] for i in (0, 1)] == [16, 16]


def test_edits_of_the_program_show():
    program = chain()
    before = rows(estimate(program, target()))["conv1"]
    ins = program.instructions[1]
    wider = dataclasses.replace(ins, w=dense(ins.w.address, (16, 8, 5, 5), space=ins.w.space))
    program.instructions[1] = wider
    after = rows(estimate(program, target()))["conv1"]
    assert after["macs"] * 9 == before["macs"] * 25
    assert after["compute_us"] == pytest.approx(before["compute_us"] * 25 / 9)
    assert after["read_bytes"] - before["read_bytes"] == 16 * 8 * 16


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 12), st.integers(0, 3), st.sampled_from([0.0, 500.0, 3000.0, 1e9]),
    st.sampled_from([1.0, 4.0]), st.sampled_from([0.0, 1.0, 3.0]), st.integers(0, 2),
)  # fmt: skip
def test_growth_never_makes_a_program_faster(channels, size, rescales, sram, tiles, prefetch, which):
    machine = target(sram_bytes=sram, tiles=tiles, prefetch_ops=prefetch, instruction_us=0.1)
    bigger = [(channels + 1, size, rescales), (channels, size + 1, rescales), (channels, size, rescales + 1)][which]
    a = estimate(chain(channels, size, rescales), machine)["summary"]
    b = estimate(chain(*bigger), machine)["summary"]
    for key in ("latency_us", "bpu_us", "ddr_read_bytes", "ddr_write_bytes"):
        assert b[key] >= a[key] - 1e-9, key


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 30), st.sampled_from([0.0, 3000.0, 1e9]), st.sampled_from([1.0, 4.0]))
def test_sums_and_no_overlap_on_an_engine(depth, channels, sram, tiles):
    b = Builder()
    x = b.new(1, 8, 6, 6, dtype=DType.FLOAT32)
    t = b.quantize("quant", x)
    for i in range(depth):
        t = b.rescale(f"rescale{i}", b.conv(f"conv{i}", t, channels))
    perf = estimate(b.program([x], [b.dequantize("dequant", t)]), target(sram_bytes=sram, tiles=tiles))
    ops, s = perf["ops"], perf["summary"]
    assert max(o["end_us"] for o in ops) == pytest.approx(s["latency_us"])
    for engine, total in (("load", "ddr_read_bytes"), ("store", "ddr_write_bytes")):
        assert sum(t["bytes"] for t in perf["transfers"] if t["engine"] == engine) == s[total]
    for a, z in pairwise(perf["transfers"]):
        assert a["end_us"] <= z["start_us"] + 1e-9
    for row, total in (("read_bytes", "ddr_read_bytes"), ("write_bytes", "ddr_write_bytes"), ("macs", "macs")):
        assert sum(o[row] for o in ops) == s[total]
    assert len({o["name"] for o in ops}) == len(ops)
    lanes = {}
    for o in ops:
        assert o["latency_us"] == pytest.approx(o["end_us"] - o["start_us"])
        lanes.setdefault(o["engine"], []).append((o["start_us"], o["end_us"]))
    for lane in lanes.values():
        lane.sort()
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(lane))
    calls = [o for o in ops if o["op"] == "Overhead"]
    assert {o["device"]: o["latency_us"] for o in calls} == pytest.approx({"CPU": 70, "BPU": 50})


def test_an_empty_program_takes_no_time():
    perf = estimate(Program("bayes-e", [], 0, b"", [], [], [], [], [], [Segment(0, "BPU", 0, 0)]), target())
    assert (perf["summary"]["latency_us"], perf["summary"]["fps"], perf["ops"]) == (0.0, 0.0, [])


def test_a_run_of_several_samples_counts_them_too():
    alone, many = (estimate(chain(report=r), target())["summary"] for r in ({}, {"batch": {"size": 3, "inputs": {}}}))
    assert {k: v for k, v in many.items() if k in alone} == alone
    assert "batch" not in alone
    assert many["batch"] == 3
    assert many["samples_per_s"] == pytest.approx(3 * alone["fps"])
    assert many["throughput_samples_per_s"] == pytest.approx(3 * alone["throughput_fps"])
