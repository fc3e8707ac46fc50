"""The pages, tables and texts of the accuracy tools: well formed, nothing fetched, names of strangers stay text."""

from __future__ import annotations

import csv
import re
from typing import Any

import pytest

from bpuc.report import values as v
from bpuc.report.curve import bars, curve
from bpuc.report.html import render_tool_html
from bpuc.report.labels import LABELS
from bpuc.report.plain import width_of
from bpuc.report.tool_csv import tool_csv
from bpuc.report.tool_labels import TOOL_LABELS
from bpuc.report.tool_text import badcase_text, compare_text, sensitivity_text, stats_text
from tests.report.report_samples import HOSTILE
from tests.report.test_html import Reader

METRICS = {"cosine": 0.99, "sqnr": 20.0, "mse": 1e-4, "l1": 0.01, "l2": 0.01, "max_abs": 0.5, "relative": 0.1}
MOMENTS = {"min": -1.0, "max": 2.0, "mean": 0.1, "var": 0.5}


def compare(name: str) -> dict[str, Any]:
    rows = [
        {"index": i, "tensor": f"{name}{i}", "output": f"{name}" if i == 4 else None, "op": "Conv", "node": f"n{i}",
         "onnx_nodes": [name, "b"], "device": "CPU" if i == 3 else "BPU", "shape": [1, 3, 8, 8], "dtype": "int8",
         "scale": 0.1 if i else [0.1, 0.2], **METRICS, "sqnr": 40.0 - 7 * i, "own_sqnr": 41.0 if i != 3 else None,
         "clipped": 0.01, "not_finite": 0, "fall": 7.0, "float": MOMENTS, "integer": MOMENTS,
         "hint": f"{name} falls" if i == 2 else None}
        for i in range(5)
    ]  # fmt: skip
    channels = [{"tensor": name, "axis": 1, "count": 9,
                 "rows": [{"channel": 3, "sqnr": 8.0, "max_abs": 1.0, "reach": 2.0}]}]  # fmt: skip
    hints = [{"tensor": name, "text": f"{name} falls"}]
    return {"schema": "bpuc.compare/1", "march": "toy", "samples": 3, "tensors": rows, "outputs": [f"{name}4"],
            "channels": channels, "hints": hints, "warnings": [f"{name} warns"]}  # fmt: skip


def stats(name: str) -> dict[str, Any]:
    rows = [
        {"index": i, "tensor": f"{name}{i}", "role": role, "node": name, "op": None if role == "input" else "Conv",
         "shape": [2, 3], "dtype": "float32", "values": 6, "not_finite": 0, "min": -1.0, "max": 3.0, "mean": 0.5,
         "std": 1.0, "skewness": 0.0, "kurtosis": 3.0 + i, "zeros": 0.25, "percentiles": {"0.1": -1.0, "99.9": 3.0},
         "channels": {"axis": 1, "min": [-1.0, 0.0, 0.5], "max": [0.0, 3.0, 1.0]} if i else None,
         "histogram": {"edges": [-1.0, 1.0, 3.0], "counts": [5, 1]}, "note": f"{name} notes" if i == 1 else None}
        for i, role in enumerate(["input", "weight", "result", "output"])
    ]  # fmt: skip
    return {"schema": "bpuc.stats/1", "samples": 3, "tensors": rows, "warnings": []}


def sensitivity(name: str) -> dict[str, Any]:
    rows = [
        {"op": f"{name}{i}", "kind": "weight" if i % 2 else "activation", "sensitivity": 0.5 - 0.2 * i,
         "op_type": "Conv", "dtype": "int8", **METRICS, "by_output": {name: 0.1}, "tensors": [name]}
        for i in range(4)
    ]  # fmt: skip
    return {"schema": "bpuc.sensitivity/1", "march": "toy", "samples": 3, "metric": "cosine", "leave_float": False,
            "ops": rows, "warnings": []}  # fmt: skip


def badcase(name: str) -> dict[str, Any]:
    rows = [{"sample": i, "file": f"{name}{i}", **METRICS, "cosine": 1 - 0.1 * i, "by_output": {}} for i in range(4)]
    return {"schema": "bpuc.badcase/1", "march": "toy", "samples": 4, "metric": "cosine", "rows": rows,
            "worst": [{"rank": 1, **rows[3]}], "warnings": []}  # fmt: skip


MAKERS = {"compare": compare, "stats": stats, "sensitivity": sensitivity, "badcase": badcase}
NAMES = {
    "compare": ("tensors", "tensor"),
    "stats": ("tensors", "tensor"),
    "sensitivity": ("ops", "op"),
    "badcase": ("rows", "file"),
}


@pytest.fixture(scope="module", params=[(t, n) for t in MAKERS for n in ("conv", HOSTILE[0], HOSTILE[1])])
def page(request):
    tool, name = request.param
    return tool, name, render_tool_html(tool, MAKERS[tool](name), f"{name}.onnx")


def test_pages_are_well_formed_and_fetch_nothing(page):
    read = Reader(page[2])
    assert not read.wrong
    assert not read.open
    for tag, attrs in read.tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attrs
        assert not any(a.startswith("on") for a in attrs)
        assert attrs.get("href", "#").startswith("#") or attrs["href"] == "data:,"
    assert sum(tag == "script" for tag, _ in read.tags) == 2
    assert "url(" not in page[2]


def test_every_row_is_on_the_page(page):
    tool, name, text = page
    shown = "".join(Reader(text).text)
    rows, key = NAMES[tool]
    wanted = [r[key] for r in MAKERS[tool](name)[rows]]
    assert [n for n in wanted if v.clean(n) not in shown] == []


def test_words_are_known_and_in_both_languages():
    used = {k for t in MAKERS for k in re.findall(r'data-t="(\w+)"', render_tool_html(t, MAKERS[t]("a"), "x"))}
    assert used <= {*LABELS, *TOOL_LABELS}
    assert not LABELS.keys() & TOOL_LABELS.keys()
    assert all(en and zh for en, zh in TOOL_LABELS.values())


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("render", [compare_text, stats_text, sensitivity_text, badcase_text])
def test_texts_fit(render, width):
    tool = render.__name__.removesuffix("_text")
    for name in ("conv", *HOSTILE):
        out = render(MAKERS[tool](name), f"{name}.onnx", width)
        assert max(map(width_of, out.splitlines())) <= width
        assert "\x1b" not in out


def test_compare_is_worst_first():
    lines = compare_text(compare("t"), "m", 100, top=2).splitlines()
    at = lines.index("worst 2 tensors")
    assert [x.split()[0] for x in lines[at + 3 : at + 5]] == ["t4", "t3"]


def test_bars_of_sensitivity_and_marks_of_the_worst():
    page = render_tool_html("sensitivity", sensitivity("n"), "m")
    # from -0.1 to 0.5
    assert re.findall(r'class="bar \w+" style="width:([\d.]+)%', page) == ["100.00", "66.67", "33.33", "0.00"]
    assert render_tool_html("badcase", badcase("n"), "m").count('class="main marked"') == 1


def test_csv_has_a_column_for_what_is_inside():
    rows = list(csv.DictReader(tool_csv("compare", compare('a,"b"\n')).splitlines(keepends=True)))
    assert rows[2]["tensor"] == 'a,"b"\n2'
    assert rows[0]["float.max"] == "2.0"
    assert rows[0]["shape"] == "1x3x8x8"
    assert rows[0]["scale"] == "0.1 0.2"
    assert rows[3]["own_sqnr"] == ""


def test_a_curve_is_higher_for_larger_values_and_breaks_at_none():
    drawn = curve([("main", [1.0, None, 3.0, 2.0])], ["a", "b", "c", "d"], [2])
    ((line),) = drawn["lines"]
    ys = [float(p["y"]) for p in line["points"]]
    assert ys[1] < ys[2] < ys[0]
    assert line["path"].count("M") == 2
    assert [p["marked"] for p in line["points"]] == [False, True, False]
    assert line["points"][1]["title"] == "c: 3"
    assert curve([("main", [None])], ["a"]) is None
    assert len(curve([("main", [5.0])], ["a"])["ticks"]) >= 2


def test_bars_mark_zero():
    drawn = bars([-1.0, 1.0, 3.0], [5, 0], 100)
    assert drawn["zero"] == "25.0"
    assert drawn["path"].count("M") == 1
    assert bars([1.0, 2.0], [3])["zero"] is None


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("tool", MAKERS)
def test_in_a_browser(open_page, tool, width):
    browser = open_page(render_tool_html(tool, MAKERS[tool](HOSTILE[1]), HOSTILE[0]), width)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return window.broken ?? null") is None
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    curves = browser.execute_script(
        "return [...document.querySelectorAll('.curve')].map(c => [c.getBoundingClientRect().width, "
        "c.parentElement.scrollWidth > c.parentElement.clientWidth])"
    )
    assert len(curves) == (tool in ("compare", "stats", "badcase"))
    for drawn, moves in curves:  # a text of 11 units is 8 pixels high or more, and what does not fit can be moved
        assert 11 * drawn / 1200 >= 8
        assert moves == (width == 390)
    browser.find_element("id", "lang").click()
    assert TOOL_LABELS["t_samples"][1] in browser.find_element("css selector", ".lead").text
    browser.find_element("id", "lang").click()  # the choice is kept for the next page
