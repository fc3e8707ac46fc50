"""``bpuc perf`` as users give it: marches, other hardware numbers, two builds, gates."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[2] / "models"
KV, HYBRID = MODELS / "kv_concat.onnx", MODELS / "hybrid.onnx"
DIGITS = MODELS / "digits_inception.onnx"


def test_one_table_over_all_marches(bpuc, tmp_path):
    done = bpuc("perf", HYBRID, "--march", "all", "--json", tmp_path / "a.json", "--html", tmp_path / "a.html")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    document = json.loads((tmp_path / "a.json").read_text())
    names = [m["march"] for m in document["marches"]]
    assert {"bernoulli2", "bayes", "bayes-e", "nash-e", "nash-m", "nash-p"} <= set(names)
    one = bpuc("perf", HYBRID, "--march", "bayes-e", "--json", "-")
    assert document["marches"][names.index("bayes-e")]["summary"] == json.loads(one.out)["summary"]
    assert (tmp_path / "a.html").read_text().count("<b><bdi>nash-") == 3
    assert bpuc("perf", HYBRID, "--march", "all", "--csv", tmp_path / "x.csv").code == 2
    gate = bpuc("perf", HYBRID, "--march", "all", "--max-latency-ms", "0.0001")
    assert gate.code == 3
    assert "latency" in gate.out


def test_other_hardware_numbers_are_given(bpuc):
    base, fast = (
        json.loads(bpuc("perf", HYBRID, "--march", "bayes-e", "--json", "-", *more).out)
        for more in ((), ("--hw", "clock_mhz=2000", "--hw", "ddr_gb_per_s=20"))
    )
    assert fast["summary"]["bpu_us"] < base["summary"]["bpu_us"]
    rows = {h["name"]: h for h in fast["hardware"]}
    assert (rows["clock_mhz"]["value"], rows["clock_mhz"]["origin"]) == (2000, "given")
    assert {h["origin"] for h in base["hardware"]} <= {"known", "fitted", "derived", "assumed"}
    assert base["accuracy"]["mean_percent"] > 0
    assert fast["accuracy"] is None


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [("clock_mzh=3", 1, "clock_mhz"), ("clock_mhz", 2, "NAME=NUMBER"), ("clock_mhz=fast", 2, "NAME=NUMBER"),
     ("clock_mhz=nan", 2, "NAME=NUMBER"), ("clock_mhz=inf", 2, "NAME=NUMBER"), ("=3", 2, "NAME=NUMBER"),
     ("clock_mhz=0", 2, "a number above 0"), ("clock_mhz=-1000", 2, "a number above 0"),
     ("clock_mhz=1e300", 1, "1 to 1e+06"), ("clock_mhz=1e-300", 1, "1 to 1e+06"),
     ("cores=1.5", 2, "a whole number above 0"), ("cores=0", 2, "a whole number above 0"),
     ("cpu_cores=0.5", 2, "a whole number above 0"), ("sram_bytes=1000.5", 2, "a whole number 0 or more"),
     ("prefetch_ops=-1", 2, "a whole number 0 or more"), ("channel_align=16.5", 2, "a whole number above 0")],
)  # fmt: skip
def test_wrong_hardware_numbers(bpuc, compiled, text, code, said):
    for source in ((HYBRID, "--march", "bayes-e"), (compiled / "hybrid.bpuc",)):
        done = bpuc("perf", *source, "--hw", text)
        assert (done.code, said in done.err) == (code, True), done.err


@pytest.mark.parametrize("text", ["cores=2", "tiles=1.5", "sram_bytes=0", "prefetch_ops=0", "call_us=0"])
def test_hardware_numbers_that_can_be(bpuc, text):
    assert bpuc("perf", HYBRID, "--march", "bayes-e", "--hw", text).code == 0


def test_options_of_a_model_have_no_effect_on_a_binary(bpuc, compiled):
    done = bpuc("perf", compiled / "hybrid.bpuc", "--effort", "2", "--top", "3")
    assert done.code == 0
    assert "compiled already: --effort has no effect" in done.err
    assert "no effect" not in bpuc("perf", compiled / "hybrid.bpuc", "--effort", "2", "--against", HYBRID).err


def test_two_builds(bpuc, tmp_path):
    data = MODELS / "kv_concat_calib.npz"
    for mode in ("auto", "never"):
        words = ("--march", "bayes-e", "--data", data, "--share-scales", mode, "-o", tmp_path / f"{mode}.bpuc")
        assert bpuc("compile", KV, *words).code == 0
    out = {k: tmp_path / f"c.{k}" for k in ("json", "html")}
    files = [a for k, p in out.items() for a in (f"--{k}", p)]
    done = bpuc("perf", tmp_path / "auto.bpuc", "--against", tmp_path / "never.bpuc", *files)
    assert done.code == 0
    assert "rescales gone" in done.out
    perf = json.loads(out["json"].read_text())
    apart = perf["against"]["summary"]["rescale_count"] - perf["summary"]["rescale_count"]
    assert len(perf["against"]["rescales_removed"]) == apart > 0
    assert 'id="against"' in out["html"].read_text()
    both = bpuc("perf", tmp_path / "auto.bpuc", "--against", KV)  # a model is compiled for the march of the binary
    assert both.code == 0
    over = bpuc("perf", tmp_path / "auto.bpuc", "--against", tmp_path / "never.bpuc", "--html", tmp_path / "never.bpuc")
    assert over.code == 1


def test_every_gate_that_fails_is_named(bpuc):
    done = bpuc(
        "perf", HYBRID, "--march", "bayes-e", "--max-latency-ms", "0.001", "--fail-on", "cpu-op", "--run-on-cpu", "Selu"
    )
    assert done.code == 3
    assert "exceeds the limit of 0.001 ms" in done.err
    assert "op on the CPU" in done.err or "ops on the CPU" in done.err
    assert "latency, one thread" in done.out


def test_every_cpu_op_has_a_remedy(bpuc):
    done = bpuc("perf", HYBRID, "--march", "bayes-e", "--run-on-cpu", "Selu", "--json", "-")
    remedies = {o["name"]: o["remedy"] for o in json.loads(done.out)["ops"] if o["device"] == "CPU"}
    assert remedies["selu0"] == "leave out --run-on-cpu for selu0"
    assert remedies["selu0_HzQuantize"] == remedies["prelu0_HzDequantize"] == "gone once selu0 runs on the BPU"
    assert "input_type_rt" in remedies["image_HzQuantize"]
    assert all(remedies[n] for n in remedies if not n.startswith("_submit"))


def test_a_remedy_names_the_marches_that_take_an_op(bpuc):
    done = bpuc("perf", HYBRID, "--march", "bernoulli2", "--json", "-")
    ops = {o["name"]: o for o in json.loads(done.out)["ops"]}
    assert ops["selu0"]["device"] == "CPU"
    assert "the BPU of" in ops["selu0"]["remedy"]
    named = ops["selu0"]["remedy"].split("the BPU of ")[1].removesuffix(" takes it as it is").split(", ")
    for march in named:
        table = json.loads(bpuc("perf", HYBRID, "--march", march, "--run-on-bpu", "selu0", "--json", "-").out)
        assert next(o for o in table["ops"] if o["name"] == "selu0")["device"] == "BPU"


def test_border_conversions_are_counted_apart_everywhere(bpuc, tmp_path):
    model = ["compile", DIGITS, "--march", "bayes-e", "--random-data", "-o", tmp_path / "m.bpuc", "--fail-on", "cpu-op"]
    done = bpuc(*model)
    assert done.code == 0
    said = "0 CPU ops (and 2 border conversions"
    assert said + ")" in done.err
    assert said + ")" in " ".join(bpuc("check", DIGITS, "--march", "bayes-e").out.split())
    assert said + ")" in bpuc("explain", tmp_path / "m.bpuc", "placement").out
    done = bpuc("perf", tmp_path / "m.bpuc", "--html", tmp_path / "m.html", "--fail-on", "cpu-op")
    assert done.code == 0
    assert said + ", " in done.out
    page = re.sub(r"<[^>]*>", "", (tmp_path / "m.html").read_text())
    assert said + ")" in page
