"""perf.json documents made up for the tests: realistic, large, hostile, and nearly empty."""

from __future__ import annotations

import random
from typing import Any

HOSTILE = [
    "</script><script>window.broken=1</script>",
    '"><img src=x onerror="window.broken=2">',
    "<!--<script>",
    "a&amp;b<b>bold</b>'\"`${window.broken=3}",
    "{{ 7*7 }}{% raw %}",
    "卷积/第一层",
    "\u202egnp.exe\u2028line\x1b[31mred\x00end",
    "__proto__",
    "constructor",
    "name with spaces, commas\nand a new line",
    "=1+1",
    "x" * 300,
]

HARDWARE = [
    {"name": "bpu.clock", "value": 1000, "unit": "MHz", "origin": "known", "source": "board manual, frequency table"},
    {
        "name": "bpu.peak_macs",
        "value": 2048,
        "unit": "MAC/cycle",
        "origin": "assumed",
        "source": "ceiling of dense nets",
    },
    {"name": "ddr.bandwidth", "value": 8.0, "unit": "GB/s", "origin": "fitted", "source": "133 published rows"},
    {"name": "call.overhead", "value": 200, "unit": "us", "origin": "fitted", "source": "15 models"},
    {"name": "sram.size", "value": None, "unit": "bytes", "origin": "assumed", "source": ""},
]


def _op(name: str, op: str, device: str, engine: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "op": op,
        "device": device,
        "engine": engine,
        "segment": 0,
        "start_us": 0.0,
        "end_us": 0.0,
        "latency_us": 0.0,
        "compute_us": 0.0,
        "transfer_us": 0.0,
        "macs": 0,
        "read_bytes": 0,
        "write_bytes": 0,
        "bound": "compute",
        "shape": [1, 32, 40, 40],
        "dtype": "int8",
        "scale": 0.0123,
        "reason": "",
        "remedy": "",
        "onnx_nodes": [name],
    } | more


def _finish(ops: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Run the ops one after the other, moves of data ahead of the op that they serve, and add the summary up."""
    now = 0.0
    for o in ops:
        if o["engine"] == "dma":
            o["start_us"] = max(0.0, now - o["latency_us"])
            before = [p["end_us"] for p in ops if p["engine"] == "dma" and p is not o and p["end_us"] <= now]
            o["start_us"] = max([o["start_us"], *before])
        else:
            o["start_us"] = now
        o["end_us"] = o["start_us"] + o["latency_us"]
        now = max(now, o["end_us"])
    rescales = [o for o in ops if o["op"] == "Rescale"]
    summary = {
        "latency_us": now,
        "fps": 1e6 / now,
        "throughput_fps": 1.1e6 / now,
        "bpu_us": sum(o["latency_us"] for o in ops if o["device"] == "BPU" and o["engine"] != "dma"),
        "cpu_us": sum(o["latency_us"] for o in ops if o["device"] == "CPU"),
        "rescale_us": sum(o["latency_us"] for o in rescales),
        "rescale_count": len(rescales),
        "macs": sum(o["macs"] for o in ops),
        "ddr_read_bytes": sum(o["read_bytes"] for o in ops),
        "ddr_write_bytes": sum(o["write_bytes"] for o in ops),
        "sram_peak_bytes": 1_572_864,
        "ddr_peak_bytes": 9_437_184,
    }
    return {
        "schema": "bpuc.perf/1",
        "march": "bayes-e",
        "estimate": True,
        "hardware": HARDWARE,
        "summary": summary,
        "ops": ops,
        "rescales": [],
        "avoided": [],
        "groups": [],
        "segments": [],
    } | more


def _wire(ops: list[dict[str, Any]], skip: int = 0) -> None:
    """Branches between concats, each op else behind the one before; every `skip`-th op reads an old result, too."""
    trunk, branches = "image", []
    for i, o in enumerate(ops):
        if o["op"] in ("Load", "Overhead"):
            continue
        out = f"{o['name']}_out"
        o |= {
            "inputs": [trunk],
            "outputs": [out],
            "sram_bytes": 40_000 + 977 * (i % 300),
            "ddr_bytes": 3_000_000 + 10_007 * i,
        }
        if skip and i % skip == 0 and i > 40:
            o["inputs"].append(f"{ops[i - 37]['name']}_out")
        if not skip and o["op"] == "Conv":
            branches.append(out)
        elif not skip and o["op"] == "Rescale":
            o["inputs"], branches[-1] = [branches[-1]], out
        else:
            if o["op"] == "Concat" and branches:
                o["inputs"], branches = branches, []
            trunk = out


def realistic(blocks: int = 6, seed: int = 1) -> dict[str, Any]:
    """A multi-branch net: convolutions, concats with rescales, a table activation and a CPU tail."""
    rng = random.Random(seed)
    ops = [
        _op(
            "quantize_images",
            "Quantize",
            "CPU",
            "cpu",
            latency_us=118.0,
            compute_us=110.0,
            bound="memory",
            macs=0,
            reason="inputs arrive as float32",
            remedy="feed nv12 or int8 images",
            shape=[1, 3, 320, 320],
        )
    ]
    ops.append(
        _op(
            "bpu_call",
            "Overhead",
            "BPU",
            "host",
            latency_us=60.0,
            bound="overhead",
            onnx_nodes=[],
            shape=[],
            scale=None,
            dtype=None,
        )
    )
    rescales, avoided, groups = [], [], []
    for b in range(blocks):
        base = f"/backbone/stage{b // 2}/block{b}"
        size = 160 >> (b // 2)
        channels = 32 << (b // 2)
        for k in (3, 5, 7):
            weights = k * k * channels * channels // 4
            macs = weights * size * size
            name = f"{base}/branch{k}/conv/Conv"
            ops.append(
                _op(
                    f"{name}/load",
                    "Load",
                    "BPU",
                    "dma",
                    latency_us=weights / 8000 + 1,
                    transfer_us=weights / 8000,
                    read_bytes=weights,
                    bound="memory",
                    onnx_nodes=[name],
                    shape=[weights],
                    scale=None,
                )
            )
            spent = macs / 1.5e6 * rng.uniform(0.9, 1.3)
            ops.append(
                _op(
                    name,
                    "Conv",
                    "BPU",
                    "conv",
                    macs=macs,
                    latency_us=spent + 2,
                    compute_us=spent,
                    transfer_us=spent * rng.uniform(0.1, 1.2),
                    read_bytes=channels * size * size,
                    write_bytes=channels * size * size,
                    shape=[1, channels, size, size],
                    scale=rng.uniform(0.01, 0.1),
                    onnx_nodes=[name, f"{base}/branch{k}/bn", f"{base}/branch{k}/relu"],
                )
            )
        cat = f"{base}/Concat"
        if b % 3 == 1:
            re = {
                "name": f"_hz_{cat}_rescale_2",
                "node": cat,
                "input_index": 2,
                "tensor": f"{base}/branch7/relu_out",
                "from_scale": 0.0413,
                "to_scale": 0.0127,
                "latency_us": 21.5,
                "reason": "branch 7 reaches 5.2 where the others stay below 1.6; one scale would cost them 1.7 bits",
                "remedy": "--share-scales always, or clip branch 7 at 1.6",
            }
            rescales.append(re)
            ops.append(
                _op(
                    re["name"],
                    "Rescale",
                    "BPU",
                    "vector",
                    latency_us=21.5,
                    compute_us=20.0,
                    transfer_us=18.0,
                    read_bytes=channels * size * size,
                    write_bytes=channels * size * size,
                    bound="memory",
                    reason=re["reason"],
                    remedy=re["remedy"],
                    onnx_nodes=[cat],
                )
            )
        members = [f"{base}/branch{k}/relu_out" for k in (3, 5)]
        avoided += [{"node": cat, "tensor": t, "latency_us": 19.75} for t in members]
        groups.append(
            {
                "id": f"g{b}",
                "tensors": [*members, f"{cat}_out"],
                "threshold": 1.61,
                "reason": "inputs of one Concat",
                "bits_lost": {members[0]: 0.31, members[1]: 0.0, f"{cat}_out": 0.0},
            }
        )
        ops.append(
            _op(
                cat,
                "Concat",
                "BPU",
                "vector",
                latency_us=9.5,
                compute_us=2.0,
                transfer_us=9.0,
                bound="memory",
                read_bytes=3 * channels * size * size,
                write_bytes=3 * channels * size * size,
            )
        )
    ops.append(
        _op(
            "/head/softmax",
            "Softmax",
            "CPU",
            "cpu",
            latency_us=412.0,
            compute_us=400.0,
            segment=1,
            dtype="float32",
            reason="Softmax over 8400 elements of axis 3: bayes-e takes at most 4096",
            remedy="reduce over the channel axis, or leave the softmax to the application",
            alternative={
                "device": "BPU",
                "here_us": 412.0,
                "there_us": 655.5,
                "more_us": {"compute": -12.0, "quantize": 255.5, "dequantize": 0.0, "calls": 0.0},
            },
            scale=None,
            shape=[1, 4, 16, 8400],
        )
    )
    ops.append(
        _op(
            "dequantize_boxes",
            "Dequantize",
            "CPU",
            "cpu",
            latency_us=96.0,
            compute_us=90.0,
            segment=1,
            dtype="float32",
            reason="the output is asked for as float32",
            remedy="read the int8 output and multiply by its scale where needed",
        )
    )
    segments = [
        {"id": 0, "device": "BPU", "nodes": [o["name"] for o in ops if o["device"] == "BPU"]},
        {
            "id": 1,
            "device": "CPU",
            "nodes": ["/head/softmax", "dequantize_boxes"],
            "reason": "Softmax /head/softmax runs on the CPU",
            "alternative": {"device": "BPU", "here_us": 508.0, "there_us": 777.25, "more_us": {}},
        },
    ]
    _wire(ops)
    return _finish(
        ops,
        rescales=rescales,
        avoided=avoided,
        groups=groups,
        segments=segments,
        accuracy={
            "mean_percent": 6.3,
            "worst_percent": 21.0,
            "models": 50,
            "held_out_percent": 9.8,
            "source": "50 rows",
        },
    )


def large(count: int = 2000, seed: int = 2) -> dict[str, Any]:
    """Exactly `count` ops on three engines, 1 in 50 on the CPU."""
    rng = random.Random(seed)
    ops = []
    for i in range(count):
        if i % 50 == 49:
            ops.append(
                _op(f"/m{i % 7}/cpu_{i}", "TopK", "CPU", "cpu", latency_us=rng.uniform(5, 90), reason="no BPU form")
            )
        elif i % 3 == 0:
            macs = rng.randrange(1, 400) * 100_000
            ops.append(
                _op(
                    f"/m{i % 7}/conv_{i}",
                    "Conv",
                    "BPU",
                    "conv",
                    macs=macs,
                    latency_us=macs / 1.3e6,
                    read_bytes=rng.randrange(10**6),
                    write_bytes=rng.randrange(10**5),
                )
            )
        else:
            ops.append(
                _op(
                    f"/m{i % 7}/add_{i}",
                    rng.choice(["Add", "Concat", "Table"]),
                    "BPU",
                    "vector",
                    bound="memory",
                    latency_us=rng.uniform(0.5, 30),
                    read_bytes=rng.randrange(10**5),
                )
            )
    _wire(ops, skip=10)
    perf = _finish(ops)
    perf["transfers"] = on_the_bus(perf["ops"])
    return perf


def on_the_bus(ops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Loads and stores of the ops at 5000 bytes a us, one after the other."""
    found: list[dict[str, Any]] = []
    free = 0.0
    for op in ops:
        for engine, key in (("load", "read_bytes"), ("store", "write_bytes")):
            if op[key]:
                begin = max(free, op["start_us"])
                free = begin + op[key] / 5000
                found.append({"op": op["name"], "engine": engine, "segment": op["segment"], "start_us": begin,
                              "end_us": free, "bytes": op[key], "after": None})  # fmt: skip
    return found


def hostile() -> dict[str, Any]:
    """Every string that a model or a target can bring is hostile."""
    ops = [
        _op(
            n,
            n[:40],
            "BPU" if i % 2 else "CPU",
            f"e{n[:20]}" if i % 2 else "cpu",
            latency_us=1.0 + i,
            reason=n,
            remedy=n,
            alternative={"device": n, "here_us": 1, "there_us": 2, "more_us": {n: 1}} if i else n,
            dtype=n,
            bound=n if i == 3 else "memory",
            onnx_nodes=[n, n],
        )
        for i, n in enumerate(HOSTILE)
    ]
    for i, o in enumerate(ops):
        o |= {"inputs": HOSTILE[i - 1 : i] if i else [], "outputs": [o["name"]]}
    n = HOSTILE[0]
    rescale = {
        "name": n,
        "node": n,
        "input_index": 0,
        "tensor": n,
        "from_scale": 1.0,
        "to_scale": 2.0,
        "latency_us": 1.0,
        "reason": n,
        "remedy": n,
    }
    return _finish(
        ops,
        march=n,
        rescales=[rescale],
        avoided=[{"node": n, "tensor": n, "latency_us": 1.0}],
        notes=[n],
        groups=[{"id": n, "tensors": [n, HOSTILE[1]], "threshold": 1.0, "reason": n, "bits_lost": {n: 0.1}}],
        segments=[{"id": n, "device": n, "nodes": [n], "reason": n, "alternative": {"device": n, "more_us": n}}],
        hardware=[{"name": n, "value": n, "unit": n, "origin": n, "source": n}],
        accuracy={"mean_percent": n, "worst_percent": n, "source": n},
    )


def bare() -> dict[str, Any]:
    """The least that a reader must bear: values absent or null everywhere."""
    return {
        "schema": "bpuc.perf/1",
        "march": None,
        "estimate": True,
        "summary": {"latency_us": None},
        "ops": [{"name": "only"}],
        "hardware": [{"name": "x"}],
        "rescales": [{}],
        "avoided": [{}],
        "groups": [{}],
        "segments": [{}],
        "accuracy": {},
    }
