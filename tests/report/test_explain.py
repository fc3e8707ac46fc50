"""The checker's table and the answers of explain, from report.json."""

from __future__ import annotations

import pytest

from bpuc.base.errors import ConfigError
from bpuc.report.certificates import explain_certificates
from bpuc.report.checktable import render_check
from bpuc.report.explain import explain_placement, explain_refinements, explain_rescales, explain_scales, records
from tests.report.report_document import build_report
from tests.report.report_samples import realistic


def flat(text: str) -> str:
    return " ".join(text.split())


def test_check_table():
    lines = render_check(build_report()).splitlines()
    assert lines[0].split() == ["Node", "ON", "Subgraph", "Type", "DataType"]
    cells = {line.split()[0]: line.split()[1:] for line in lines[2:6]}
    assert cells == {
        "conv_a": ["BPU", "id(0)", "Conv", "int8/int8"],
        "_hz_cat_rescale_1": ["BPU", "id(0)", "Rescale", "int8/int8"],
        "nms": ["CPU", "--", "NonMaxSuppression", "int8/float32"],
        "tail": ["BPU", "id(1)", "Conv", "int8/int16"],
    }
    text = flat("\n".join(lines))
    assert "3 of 4 nodes on the BPU (bayes-e) in 2 parts; 1 CPU op" in text
    assert "reason: bayes-e has no BPU form of NonMaxSuppression" in text
    assert "warning: tensor z never leaves 0 (tail)" in text
    assert "estimate" not in text


def test_check_with_an_estimate():
    perf = realistic()
    perf["summary"] |= {"latency_us": 2500.0, "fps": 400.0, "ddr_read_bytes": 2**20, "ddr_write_bytes": 2**19}
    assert "estimate (simulated): latency = 2.50 ms, FPS = 400.0, DDR = 1.50 MiB a frame" in render_check(
        build_report(), perf=perf
    )


def test_check_fits_a_narrow_terminal():
    report = build_report()
    report["nodes"][0]["name"] = "/a/very/long/path" * 10 + "/conv_a"
    assert max(len(line) for line in render_check(report, width=60).splitlines()) <= 60


def test_rescales():
    text = flat(explain_rescales(build_report()))
    assert "1 rescale, 12.5 us (estimate)" in text
    assert "_hz_cat_rescale_1: input 1 of cat, 12.5 us" in text
    assert "tensor b_out: scale 0.04 -> 0.02 (x2)" in text
    assert "remedy: drop --fixed-scale b_out" in text
    assert "shared scales save 2 rescales, 15.5 us" in text  # 10 + 5.5


def test_rescales_of_one_name():
    report = build_report()
    assert "_hz_cat_rescale_1" in explain_rescales(report, "b_out")
    assert "cat2" not in explain_rescales(report, "b_out")
    assert explain_rescales(report, "tail").startswith("no rescales at tail")
    with pytest.raises(ConfigError, match="no node or tensor named 'b_oot'") as e:
        explain_rescales(report, "b_oot")
    assert "'b_out'" in (e.value.hint or "")


def test_what_a_rescale_has_at_stake():
    report = build_report()
    report["rescales"][0] |= {"readers": ["relu", "pool"], "bits_lost": 2.25, "yaml": 'bpuc:\n  share: ["b_out"]'}
    lines = explain_rescales(report).splitlines()
    assert "  at stake: relu, pool would lose 2.25 bits" in lines
    at = lines.index("  in YAML:")
    assert lines[at + 1 : at + 3] == ["    bpuc:", '      share: ["b_out"]']


def test_what_was_avoided_and_what_it_cost():
    report = build_report()
    report["avoided"] = [
        {"node": "cat", "tensor": "a", "latency_us": 10.0, "how": "joins for free", "bits_lost": 0.0, "noise_db": 3.0},
        {"node": "cat", "tensor": "b", "latency_us": 5.0, "how": "readers lose", "bits_lost": 0.5, "noise_db": 1.8},
    ]
    text = explain_rescales(report)
    assert "1 at no cost, 1 for up to 0.50 bits that other readers lose" in flat(text)
    assert max(len(line) for line in text.splitlines()) <= 80


def test_records_are_what_the_text_is_made_of():
    report = build_report()
    assert records(report, "rescales") == {"rescales": report["rescales"], "avoided": report["avoided"]}
    one = records(report, "rescales", "b_out")
    assert [r["name"] for r in one["rescales"]] == ["_hz_cat_rescale_1"]
    assert [n["name"] for n in records(report, "placement", "nms")["nodes"]] == ["nms"]
    assert [t["name"] for t in records(report, "scales", "b_out")["tensors"]] == ["b_out"]
    with pytest.raises(ConfigError):
        records(report, "scales", "nothing")


def test_no_rescales():
    assert explain_rescales({"rescales": [], "avoided": []}) == "no rescales\n"


@pytest.mark.parametrize("name", ["conv_a", "relu_a", "a_out"])
def test_placement_finds_a_node_by_any_of_its_names(name):
    text = flat(explain_placement(build_report(), name))
    assert text.startswith("conv_a (Conv): BPU, segment 0, int8")
    assert "from ONNX nodes: conv_a_raw, relu_a" in text


def test_placement():
    text = flat(explain_placement(build_report()))
    assert "3 nodes on the BPU; 1 CPU op; 3 segments" in text
    assert "nms (NonMaxSuppression): CPU" in text
    assert "conv_a" not in text
    with pytest.raises(ConfigError, match="no node named 'image'"):
        explain_placement(build_report(), "image")


def test_scales():
    text = explain_scales(build_report(), "b_out")
    rows = [line.split() for line in text.splitlines()]
    assert ["scale", "0.02"] in rows
    assert ["threshold", "2.54"] in rows
    assert ["observer", "percentile"] in rows
    assert ["group", "g0,", "threshold", "2.54", "(inputs", "of", "Concat", "cat)"] in rows
    assert ["b_out", "0.415"] in rows
    assert ["a_out", "0.000"] in rows
    assert "none: the scale is the tensor's own" in explain_scales(build_report(), "image")


def test_scales_of_all_leave_constants_out():
    rows = [line.split() for line in explain_scales(build_report()).splitlines()]
    assert ["image", "int8", "0.0078125", "0.992188", "fixed", "-"] in rows
    assert not any(r and r[0] == "a_w" for r in rows)
    assert "0.01 .. 0.04 (4 channels)" in explain_scales(build_report(), "a_w")


def test_scales_by_node_name_and_unknown():
    assert explain_scales(build_report(), "conv_a") == explain_scales(build_report(), "a_out")
    with pytest.raises(ConfigError, match="nothing_here"):
        explain_scales(build_report(), "nothing_here")


def test_refinements_in_order_or_those_of_one_place() -> None:
    rows = [
        {"step": "choose-thresholds", "what": "thresholds as observed", "where": "", "gain": "1.00 dB"},
        {"step": "refine-layers", "what": "corrected bias", "where": "conv1", "gain": "2 steps"},
    ]
    report = {"refinements": rows, "nodes": [], "tensors": [{"name": "x"}]}
    text = explain_refinements(report)
    assert text.splitlines() == [
        "2 corrections for accuracy",
        "  choose-thresholds: thresholds as observed; 1.00 dB",
        "  refine-layers at conv1: corrected bias; 2 steps",
    ]
    assert explain_refinements(report, "conv1").startswith("1 correction for accuracy\n  refine-layers at conv1")
    assert explain_refinements(report, "x") == "no corrections for accuracy at x\n"
    assert records(report, "refinements", "conv1") == {"refinements": rows[1:]}
    with pytest.raises(ConfigError, match="no node or tensor named 'conv7'"):
        explain_refinements(report, "conv7")


def test_placement_tells_what_the_other_device_would_cost() -> None:
    more = {"compute": -8.0, "quantize": 9.0, "dequantize": 9.0, "calls": 0.0}
    report = build_report()
    other = {"device": "BPU", "here_us": 9.0, "there_us": 19.0, "more_us": more}
    (node,) = [n for n in report["nodes"] if n["name"] == "nms"]
    node["alternative"] = other
    want = (
        "alternative: here 9.0 us, on the BPU 19.0 us with conversions and calls "
        "(compute -8.0, quantize +9.0, dequantize +9.0; estimate, ops priced one by one, without the overlap of the "
        "time line)"
    )
    assert want in flat(explain_placement(report, "nms"))
    assert want in flat(explain_placement(report))
    assert records(report, "placement", "nms")["nodes"][0]["alternative"] == other


def test_certificates_keep_their_words_in_80_columns():
    clipped = {"least": 65432, "most": 123456, "of": 4194304, "sampling": 16}
    one = {"node": "/backbone/stage4/block2/conv/Conv", "bound": 1234567890, "limit": 2147483647, "exact_in": "int64"}
    one |= {"bias": [-1234567, 7654321], "mult": [2097152, 4194303], "shift": [17, 31], "over": 12.345}
    report = {"certificates": [one | {"clipped": clipped, "clipped_channels": 0.25, "float32_channels": 0.5}]}
    for name in (None, one["node"]):
        text = explain_certificates(report, name, 80)
        assert max(map(len, text.splitlines())) <= 80
        flat = " ".join(text.split())
        for word in ("1234567890", "57 %", "12.3"):
            assert word in flat
        # 65432 and 123456 of 4194304
        assert ("1.6 to 2.9 %" if name is None else "(1.56 to 2.94 %; one value in 16 was counted)") in flat
    head = explain_certificates(report, None, 80).splitlines()[0]
    assert head.split() == ["node", "at", "most", "of", "type", "type", "peak/range", "clipped"]
