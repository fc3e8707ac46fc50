"""One model on all marches: the table as text and as page."""

from __future__ import annotations

import pytest

from bpuc.report.html import render_marches_html
from bpuc.report.marches_text import render_marches
from bpuc.report.plain import width_of
from tests.report.report_samples import HOSTILE, realistic


def document(name: str = "toy-1", reason: str = "no BPU form"):
    perf = realistic()
    ops = [{"name": f"{name}/{k}", "op": op, "device": "CPU", "latency_us": us, "reason": f"{reason} {k}"}
           for k, (op, us) in enumerate([("TopK", 5.0), ("Loop", 90.0), ("TopK", 7.0)])]  # fmt: skip
    good = {"march": name, "chips": ["T1"], "summary": perf["summary"], "accuracy": perf["accuracy"], "cpu_ops": ops}
    bad = {"march": "toy-2", "chips": [], "summary": None, "error": f"{reason} at all"}
    return {"schema": "bpuc.perf-marches/1", "given": {"clock_mhz": 900.0}, "marches": [good | {"error": None}, bad]}


@pytest.mark.parametrize("width", [40, 80, 120])
def test_text_fits_and_says_why(width):
    out = render_marches(document(), "m.onnx", width)
    assert max(map(width_of, out.splitlines())) <= width
    flat = " ".join(out.split())
    assert "toy-1: 3 CPU ops, 102 us" in flat
    assert "1 Loop, 90.0 us: no BPU form 1" in flat
    assert "2 TopK, 12.0 us: no BPU form 2" in flat  # the costlier of the two says why
    assert "toy-2: no BPU form at all" in flat
    assert "given: clock_mhz = 900" in flat


def test_a_row_for_each_march():
    lines = render_marches(document(), "m.onnx", 100).splitlines()
    row = next(line for line in lines if line.startswith("toy-1 "))
    assert row.split()[-5:] == ["MiB", "3", "2", "6.3", "%"]


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page(open_page, width):
    browser = open_page(render_marches_html(document(HOSTILE[1], HOSTILE[0]), HOSTILE[0]), width)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script("return document.querySelectorAll('.marches tbody tr').length") == 2
    assert browser.execute_script("return window.broken ?? null") is None
    assert HOSTILE[1] in browser.find_element("css selector", ".marches tbody").text
    browser.find_element("id", "lang").click()
    assert browser.find_element("css selector", "#marches h2").text == "全部架构"
    browser.find_element("id", "lang").click()  # the choice is kept for the next page
