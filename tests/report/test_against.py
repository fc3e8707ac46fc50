"""Two builds compared: what is matched, counted and said."""

from __future__ import annotations

import copy
import json

import pytest

from bpuc.report.against import change, compare, metrics
from bpuc.report.against_text import render_against
from bpuc.report.html import render_html
from bpuc.report.plain import width_of
from tests.report.report_samples import HOSTILE, bare, hostile, realistic


@pytest.fixture
def builds():
    """The realistic document, and one before it: one conv slower, one renamed, one more rescale, softmax on the BPU."""
    perf = realistic()
    before = copy.deepcopy(perf)
    convs = [o for o in before["ops"] if o["op"] == "Conv"]
    convs[0]["latency_us"] += 100.0
    convs[1]["name"] = "conv_of_old"
    next(o for o in before["ops"] if o["op"] == "Softmax")["device"] = "BPU"
    before["ops"].append({**copy.deepcopy(convs[2]), "name": "_hz_old_rescale_0", "op": "Rescale", "latency_us": 30.0})
    before["summary"]["latency_us"] += 130.0
    before["summary"]["rescale_count"] += 1
    perf["against"] = compare(perf, before, "old.bpuc")
    return perf, before


def test_changes_are_found_largest_first(builds):
    perf, before = builds
    against = perf["against"]
    slow = next(o for o in perf["ops"] if o["op"] == "Conv")
    assert [o["name"] for o in against["ops"]] == [slow["name"], "_hz_old_rescale_0", "/head/softmax"]
    first, second, moved = against["ops"]
    assert first["delta_us"] == pytest.approx(-100)
    assert (second["after_us"], second["before_us"], second["device"]) == (None, 30.0, None)
    assert (moved["before_device"], moved["device"], moved["delta_us"]) == ("BPU", "CPU", 0)
    assert against["unchanged"] == len(before["ops"]) - 3
    assert [o["name"] for o in against["rescales_removed"]] == ["_hz_old_rescale_0"]
    assert (against["rescales_added"], against["to_cpu"], against["to_bpu"]) == ([], ["/head/softmax"], [])
    conv = next(t for t in against["types"] if t["op"] == "Conv")
    assert conv["after_us"] - conv["before_us"] == pytest.approx(-100)
    assert (conv["after"], conv["before"]) == (18, 18)
    json.dumps(against, allow_nan=False)


def test_a_sum_in_another_order_is_no_change_of_a_type():
    perf = realistic()
    before = copy.deepcopy(perf)
    times = [0.1, 0.2, 0.3]
    for ops, order in ((perf["ops"], times), (before["ops"], times[::-1])):
        for op, us in zip([o for o in ops if o["op"] == "Conv"], order):
            op["latency_us"] = us
    types = {t["op"]: t for t in compare(perf, before, "old.bpuc")["types"]}
    assert types["Conv"]["after_us"] == types["Conv"]["before_us"]


def test_the_summaries_stand_side_by_side(builds):
    perf, before = builds
    rows = {m["key"]: m for m in metrics(perf)}
    old, new = before["summary"]["latency_us"], perf["summary"]["latency_us"]
    assert rows["latency_us"]["change"] == pytest.approx(100 * (new - old) / old)
    assert rows["latency_us"]["better"] is True
    assert (rows["rescale_count"]["after"], rows["rescale_count"]["before"]) == ("2", "3")
    assert (rows["macs"]["change"], rows["macs"]["better"]) == (0.0, None)
    assert [change(x) for x in (None, 0.0, 12.34, -5.0)] == ["new", "=", "+12.3 %", "-5.0 %"]


def test_more_frames_are_better():
    perf, before = realistic(), realistic()
    before["summary"]["fps"] *= 2
    perf["against"] = compare(perf, before, "b")
    assert next(m for m in metrics(perf) if m["key"] == "fps")["better"] is False


@pytest.mark.parametrize("width", [40, 80, 120])
def test_text_fits(builds, width):
    out = render_against(builds[0], "new.bpuc", width)
    assert max(map(width_of, out.splitlines())) <= width
    flat = " ".join(out.split())
    assert "1 rescales gone, 30.0 us: _hz_old_rescale_0" in flat
    assert "1 ops moved to the CPU: /head/softmax" in flat


def test_a_build_against_itself():
    perf = realistic()
    perf["against"] = compare(perf, realistic(), "same")
    assert perf["against"]["ops"] == []
    assert "no op changed" in render_against(perf, "x")
    assert "No type of op changed." in render_html(perf, "x")


@pytest.mark.parametrize("make", [hostile, bare])
def test_documents_of_strangers(make):
    perf = make()
    perf["against"] = compare(perf, realistic(), HOSTILE[0])
    page = render_html(perf, "x")
    assert "<script>window" not in page
    assert page.count("<script") == 2
    assert all(c == "\n" or c.isprintable() for c in render_against(perf, HOSTILE[6]))


def test_lists_that_are_cut_say_how_much_is_missing(builds):
    """Five of seven names, and that two are not shown."""
    perf, before = builds
    row = next(o for o in before["ops"] if o["name"] == "_hz_old_rescale_0")
    for i in range(1, 7):
        before["ops"].append({**row, "name": f"_hz_old_rescale_{i}"})
    perf["against"] = compare(perf, before, "old.bpuc")
    flat = " ".join(render_against(perf, "new.bpuc", 80, 5).split())
    gone = flat[flat.index("7 rescales gone") :].split(" us: ")[1]
    assert gone.count("_hz_old_rescale_") == 5
    assert gone.split("_rescale_4")[1].startswith(" and 2 more")
    assert f"changed ops (5 of {len(perf['against']['ops'])}, " in flat
