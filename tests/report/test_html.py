"""The page as text: well formed, self-contained, and names of strangers stay text."""

from __future__ import annotations

import base64
import hashlib
import html
import html.parser
import json
import re
from typing import Any

import pytest

from bpuc.report import values as v
from bpuc.report.html import render_html
from bpuc.report.labels import LABELS
from bpuc.report.view import KINDS, kind_of, parts, roofs
from tests.report.report_samples import HOSTILE, bare, hostile, large, realistic

MAKERS = {"realistic": realistic, "large": large, "hostile": hostile, "bare": bare}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@pytest.fixture(scope="module", params=MAKERS)
def page(request):
    perf = MAKERS[request.param]()
    return perf, render_html(perf, "a <model>.onnx")


class Reader(html.parser.HTMLParser):
    """Tags in order, text outside of scripts and styles, and every element that is closed wrongly."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()} inside {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def test_every_element_is_closed_in_order(page):
    read = Reader(page[1])
    assert page[1].startswith("<!doctype html>")
    assert not read.wrong
    assert not read.open


def test_it_is_utf8_and_says_so(page):
    page[1].encode("utf-8")
    assert '<meta charset="utf-8">' in page[1][:300]


def test_nothing_is_fetched(page):
    for tag, attrs in Reader(page[1]).tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attrs
        if "href" in attrs:
            assert attrs["href"].startswith("#") or attrs["href"] == "data:,"
        assert not any(name.startswith("on") for name in attrs)
    assert "url(" not in page[1]
    assert "@import" not in page[1]


def test_the_policy_names_the_one_script(page):
    (script,) = re.findall(r"<script>(.*?)</script>", page[1], re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page[1]
    assert page[1].count("<script") == 2  # the data and the script


def test_a_row_and_a_data_record_for_every_op(page):
    perf, text = page
    rows = re.findall(r'<tr id="op-(\d+)"', text)
    assert [int(r) for r in rows] == list(range(len(perf["ops"])))
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert [o["name"] for o in json.loads(data)["ops"]] == [v.clean(o["name"]) for o in perf["ops"]]


def test_the_roof_of_on_chip_memory_is_that_of_activations_and_constants():
    rows = [{"name": n, "value": v, "unit": "bytes"} for n, v in (("sram_bytes", 100), ("constant_buffer_bytes", 20))]
    assert roofs({"hardware": rows}) == {"sram": 120}


def test_hostile_names_are_shown_and_stay_text():
    text = render_html(hostile(), HOSTILE[1])
    read = Reader(text)
    shown = "".join(read.text)
    for name in HOSTILE:
        assert v.clean(name) in shown
    lowered = text.lower()
    for raw in ("<script>window", "<img", "<b>bold", "</script><script>w"):
        assert raw not in lowered
    assert "\x00" not in text
    assert "\u202e" not in text
    assert html.escape(HOSTILE[1]) in text  # quotes in the form that html.escape gives
    assert "{{ 7*7 }}" in shown
    assert "49" not in "".join(re.findall(r'<td class="n"><bdi>([^<]*)</bdi>', text))


def test_what_is_shown():
    perf = realistic()
    shown = " ".join("".join(Reader(render_html(perf, "net.onnx")).text).split())
    for text in ("net.onnx", "bayes-e", "Simulated estimate", "Softmax over 8400 elements of axis 3", "0.0413 → 0.0127",
                 "branch 7 reaches 5.2", "133 published rows", "call.overhead", "inputs of one Concat"):  # fmt: skip
        assert text in shown
    assert v.time(perf["summary"]["latency_us"]) in shown
    assert "237 us saved by shared scales" in shown  # 12 * 19.75
    assert "Rescales avoided by shared scales: 12, 237 us" in shown


def test_what_the_other_device_would_cost_is_shown_where_it_is_known():
    perf = realistic()
    shown = " ".join("".join(Reader(render_html(perf, "x")).text).split())
    assert "412 us → BPU 656 us" in shown
    assert "compute -12.0, quantize +255.5" in shown  # what stays the same is left out
    assert "Softmax /head/softmax runs on the CPU" in shown
    assert "508 us → BPU 777 us" in shown
    assert shown.count(LABELS["other_device"][0]) == 7  # two heads, three CPU ops, two segments
    for r in [*perf["ops"], *perf["segments"]]:
        r.pop("alternative", None)
    assert LABELS["other_device"][0] not in " ".join("".join(Reader(render_html(perf, "x")).text).split())


def test_a_document_without_numbers_shows_dashes():
    shown = "".join(Reader(render_html(bare(), "x")).text)
    assert "None" not in shown
    assert "nan" not in shown.lower().split()
    assert "Undefined" not in shown


def test_the_same_document_gives_the_same_bytes():
    assert render_html(realistic(), "x") == render_html(realistic(), "x")


def test_every_label_of_the_page_has_both_languages():
    text = render_html(realistic() | {"notes": ["n"]}, "x")
    used = set(re.findall(r'data-t(?:-[a-z-]+)?="([a-z_]+)"', text)) | set(re.findall(r"tr\('([a-z_]+)'\)", text))
    assert used <= set(LABELS)
    assert all(en and zh for en, zh in LABELS.values())


def test_kinds():
    cases = {
        "mac": {"op": "Conv", "device": "BPU", "macs": 5}, "vector": {"op": "Concat", "device": "BPU", "macs": 0},
        "rescale": {"op": "Rescale", "device": "BPU"}, "cpu": {"op": "Softmax", "device": "CPU", "macs": 9},
        "move": {"op": "Load", "device": "BPU"}, "border": {"op": "Quantize", "device": "BPU"},
        "overhead": {"op": "Overhead", "device": "BPU"},
    }  # fmt: skip
    assert {k: kind_of(o) for k, o in cases.items()} == {k: k for k in KINDS}
    assert kind_of({}) == "vector"


def test_parts_of_the_latency():
    summary = {"latency_us": 100.0, "bpu_us": 60.0, "cpu_us": 30.0, "rescale_us": 12.0}
    found = parts(summary)
    assert [(k, us) for k, us, _ in found] == [
        ("part_bpu", 48.0), ("part_rescale", 12.0), ("part_cpu", 30.0), ("part_rest", 10.0)
    ]  # fmt: skip
    assert [s for _, _, s in found] == pytest.approx([0.48, 0.12, 0.3, 0.1])
    calls = [{"op": "Overhead", "device": d, "latency_us": us} for d, us in (("BPU", 8.0), ("CPU", 25.0))]
    assert [(k, us) for k, us, _ in parts(summary, calls)] == [
        ("part_bpu", 40.0), ("part_rescale", 12.0), ("part_cpu", 5.0), ("part_rest", 43.0)
    ]  # fmt: skip
    overlapped = parts({"latency_us": 100.0, "bpu_us": 90.0, "cpu_us": 30.0, "rescale_us": None})
    assert [(k, us) for k, us, _ in overlapped] == [("part_bpu", 90.0), ("part_cpu", 30.0)]
    assert sum(s for _, _, s in overlapped) == pytest.approx(1.0)
    assert parts({}) == []


def test_roofs():
    assert roofs(realistic()) == {
        "peak": 1000 * 2048,
        "ddr": 8000,
    }  # 1 GHz * 2048 MAC = 2,048,000 MAC/us; 8 GB/s = 8000 B/us
    assert roofs({"roofline": {"peak_macs_per_us": 5.0, "ddr_bytes_per_us": None}}) == {"peak": 5.0}
    assert roofs(hostile()) == roofs(bare()) == {}
