"""From a model to integers and times, command by command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bpuc.ir.text import digest, parse_graph
from bpuc.ops.registry import all_defs
from tests.cli.conftest import MODELS, Bpuc

DIGITS, DIGITS_DATA = MODELS / "digits_inception.onnx", MODELS / "digits_calib.npz"
KV, KV_DATA = MODELS / "kv_concat.onnx", MODELS / "kv_concat_calib.npz"
HYBRID, HYBRID_DATA = MODELS / "hybrid.onnx", MODELS / "hybrid_calib.npz"


def read(path: Path) -> Any:
    def refuse(text: str) -> None:
        raise AssertionError(f"{text} in JSON")

    return json.loads(path.read_text("utf-8"), parse_constant=refuse)


def test_the_whole_way(bpuc: Bpuc, tmp_path: Path) -> None:
    calib, binary, report = tmp_path / "d.calib.json", tmp_path / "d.bpuc", tmp_path / "report.json"
    done = bpuc("calibrate", DIGITS, "--data", DIGITS_DATA, "--observer", "min_max", "-o", calib)
    assert (done.code, done.out) == (0, "")
    assert read(calib)["schema"] == "bpuc.calib/1"

    done = bpuc("compile", DIGITS, "--march", "bayes-e", "--calib", calib, "-o", binary, "--report", report)
    assert (done.code, done.out) == (0, "")
    assert "simulated binary" in done.err

    done = bpuc("info", binary, "--json", "-")
    assert done.code == 0
    assert json.loads(done.out)["march"] == "bayes-e"

    with np.load(MODELS / "digits_eval.npz") as z:
        images = z["image"][:8]
    np.savez(tmp_path / "in.npz", image=images)
    for engine in ("fast", "reference"):
        done = bpuc(
            "run", binary, "--inputs", tmp_path / "in.npz", "-o", tmp_path / f"{engine}.npz",
            "--engine", engine, "--integers", "--tensors", "all",
        )  # fmt: skip
        assert done.code == 0
    assert (tmp_path / "fast.npz").read_bytes() == (tmp_path / "reference.npz").read_bytes()
    with np.load(tmp_path / "fast.npz") as z:
        assert {t["name"] for t in read(report)["tensors"] if not t["constant"]} <= set(z.files)

    files = {kind: tmp_path / f"perf.{kind}" for kind in ("json", "csv", "html", "trace")}
    done = bpuc("perf", binary, *(w for kind, path in files.items() for w in (f"--{kind}", path)))
    assert done.code == 0
    assert "estimate" in done.out.lower()
    perf = read(files["json"])
    rows = list(csv.DictReader(files["csv"].read_text("utf-8").splitlines()))
    assert [r["name"] for r in rows] == [o["name"] for o in perf["ops"]]
    assert all(json.dumps(o["name"])[1:-1] in files["html"].read_text("utf-8") for o in perf["ops"])
    events = read(files["trace"])["traceEvents"]
    assert {o["name"] for o in perf["ops"] if o["latency_us"] > 0} <= {e["name"] for e in events}


def test_report_has_what_the_contract_names(compiled: Path) -> None:
    report = read(compiled / "report.json")
    fields = {
        "inputs": "name shape dtype scale",
        "outputs": "name shape dtype scale",
        "tensors": "name shape dtype scale axis qmax threshold observer group constant",
        "nodes": "name op device segment inputs outputs onnx_nodes dtype reason",
        "segments": "id device nodes",
        "warnings": "code message where",
        "refinements": "step what where gain",
        "passes": "name changes",
    }
    others = {"schema", "bpuc", "march", "source", "groups", "rescales", "avoided", "certificates"}
    assert set(report) == {*fields, *others}
    assert report["schema"] == "bpuc.report/1"
    assert set(report["source"]) == {"path", "sha256", "opset"}
    for key, names in fields.items():
        for row in report[key]:
            assert set(names.split()) <= set(row), key
    for tensor in report["tensors"]:
        if isinstance(tensor["scale"], float):
            assert tensor["threshold"] == pytest.approx(tensor["scale"] * tensor["qmax"])
        elif tensor["scale"]:
            assert tensor["axis"] is not None
    assert {n["device"] for n in report["nodes"]} == {"BPU", "CPU"}
    assert all(n["reason"] for n in report["nodes"] if n["device"] == "CPU")
    by_segment = {name: s["device"] for s in report["segments"] for name in s["nodes"]}
    assert by_segment == {n["name"]: n["device"] for n in report["nodes"]}


def test_perf_adds_up(bpuc: Bpuc, compiled: Path, tmp_path: Path) -> None:
    done = bpuc("perf", compiled / "hybrid.bpuc", "--json", tmp_path / "p.json")
    assert done.code == 0
    perf = read(tmp_path / "p.json")
    ops, summary = perf["ops"], perf["summary"]
    assert perf["estimate"] is True
    assert sum(o["read_bytes"] for o in ops) == summary["ddr_read_bytes"]
    assert sum(o["write_bytes"] for o in ops) == summary["ddr_write_bytes"]
    assert sum(o["macs"] for o in ops) == summary["macs"] == 9 * 16 * 16 * (3 * 8 + 4 * 8 * 8)
    assert max(o["end_us"] for o in ops) == pytest.approx(summary["latency_us"])
    assert summary["fps"] == pytest.approx(1e6 / summary["latency_us"])
    assert all(h["origin"] in ("known", "fitted", "derived", "assumed") for h in perf["hardware"])
    busy: dict[str, float] = {}
    for op in sorted(ops, key=lambda o: (o["engine"], o["start_us"])):
        assert op["start_us"] >= busy.get(op["engine"], 0.0) - 1e-6, "one engine does one thing at a time"
        busy[op["engine"]] = op["end_us"]


def test_explain_knows_every_device_and_scale(bpuc: Bpuc, compiled: Path) -> None:
    report = read(compiled / "report.json")
    selu = next(n for n in report["nodes"] if n["device"] == "CPU" and n["op"] == "Selu")
    done = bpuc("explain", compiled / "hybrid.bpuc", "placement", selu["name"])
    assert done.code == 0
    assert "--run-on-cpu" in done.out
    done = bpuc("explain", compiled / "hybrid.bpuc", "scales", "image")
    assert done.code == 0
    assert "percentile" in done.out


def test_the_same_command_gives_the_same_bytes(bpuc: Bpuc, tmp_path: Path) -> None:
    made = []
    for number, threads in enumerate((1, 2)):
        out, report = tmp_path / f"{number}.bpuc", tmp_path / f"{number}.json"
        words = ("--march", "nash-e", "--data", KV_DATA, "--threads", threads, "-o", out, "--report", report)
        assert bpuc("compile", KV, *words).code == 0
        made.append((out.read_bytes(), report.read_bytes()))
    assert made[0] == made[1]


def test_the_naive_setting_and_what_sharing_saves(bpuc: Bpuc, tmp_path: Path) -> None:
    counts = {}
    for mode in ("never", "auto"):
        out = tmp_path / f"{mode}.bpuc"
        assert bpuc("compile", KV, "--march", "bayes-e", "--data", KV_DATA, "--share-scales", mode, "-o", out).code == 0
        assert bpuc("perf", out, "--json", tmp_path / f"{mode}.json").code == 0
        perf = read(tmp_path / f"{mode}.json")
        counts[mode] = (perf["summary"]["rescale_count"], len(perf["avoided"]))
        done = bpuc("explain", out, "rescales")
        assert done.code == 0
        assert ("--share-scales auto" in done.out) == (mode == "never"), "the remedy"
    assert counts == {"never": (104, 0), "auto": (0, 104)}
    saved = read(tmp_path / "never.json")["summary"]["rescale_us"]
    assert saved > 0
    assert sum(a["latency_us"] for a in read(tmp_path / "auto.json")["avoided"]) > 0


def test_perf_of_a_model_needs_no_data(bpuc: Bpuc, tmp_path: Path) -> None:
    done = bpuc("perf", KV, "--march", "bayes-e", "--json", tmp_path / "p.json")
    assert done.code == 0
    perf = read(tmp_path / "p.json")
    assert perf["summary"]["rescale_count"] == 0
    assert any("no data" in w["message"] for w in perf["warnings"])


def test_an_edited_threshold_is_used_as_it_stands(bpuc: Bpuc, tmp_path: Path) -> None:
    calib, report = tmp_path / "h.calib.json", tmp_path / "r.json"
    assert bpuc("calibrate", HYBRID, "--data", HYBRID_DATA, "-o", calib).code == 0
    document = read(calib)
    document["tensors"]["image"]["threshold"] = 12.7
    calib.write_text(json.dumps(document))
    words = ("--march", "bayes-e", "--calib", calib, "-o", tmp_path / "h.bpuc", "--report", report)
    assert bpuc("compile", HYBRID, *words).code == 0
    image = next(t for t in read(report)["tensors"] if t["name"] == "image")
    assert image["scale"] == pytest.approx(0.1)


def test_dumps_can_be_read_back(bpuc: Bpuc, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    words = ("--march", "bayes-e", "--data", HYBRID_DATA, "-o", tmp_path / "h.bpuc", "--dump-dir", dumps)
    assert bpuc("compile", HYBRID, *words).code == 0
    files = sorted(dumps.glob("*.ir"))
    assert [int(f.name[:2]) for f in files] == list(range(len(files)))
    assert [f.name for f in files][-1].endswith("form-segments.ir")
    weights = {digest(a): a for a in map(onnx.numpy_helper.to_array, onnx.load(HYBRID).graph.initializer)}
    first = parse_graph(files[0].read_text("utf-8"), {k: d.attrs for k, d in all_defs().items()}, weights)
    assert {op.onnx_type for op in first} == {n.op_type for n in onnx.load(HYBRID).graph.node} - {"Identity"}
    assert all(f.with_suffix("").with_suffix(".changes.jsonl").exists() for f in files)


def test_stages_are_kept_under_the_vendor_names(bpuc: Bpuc, tmp_path: Path) -> None:
    stages = tmp_path / "stages"
    words = ("--march", "bayes-e", "--data", HYBRID_DATA, "-o", tmp_path / "h.bpuc", "--keep-stages", stages)
    assert bpuc("compile", HYBRID, *words).code == 0
    words = ("--data", HYBRID_DATA, "-o", tmp_path / "h.calib.json", "--export-qdq", stages / "hybrid_qdq.onnx")
    assert bpuc("calibrate", HYBRID, *words).code == 0
    quantized = ("calibrated_model", "ptq_model", "quantized_model", "qdq")
    for stage in ("original_float_model", "optimized_float_model", *quantized):
        kept = onnx.load(stages / f"hybrid_{stage}.onnx")
        onnx.checker.check_model(kept, full_check=True)
        assert {n.domain for n in kept.graph.node} == {""}
        assert ("QuantizeLinear" in {n.op_type for n in kept.graph.node}) == (stage in quantized)


@pytest.mark.parametrize("march", ["bernoulli2", "bayes", "bayes-e", "nash-e", "nash-m", "nash-p"])
def test_every_march_takes_the_digits(bpuc: Bpuc, march: str, tmp_path: Path) -> None:
    out = tmp_path / "d.bpuc"
    assert bpuc("compile", DIGITS, "--march", march, "--random-data", "-o", out).code == 0
    assert bpuc("perf", out).code == 0
    assert bpuc("check", DIGITS, "--march", march).code == 0
