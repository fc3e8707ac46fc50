"""The page in a real browser: no error, nothing fetched, everything answers, and names of strangers do no harm."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path

import pytest
from PIL import Image

from bpuc.report import values as v
from bpuc.report.html import render_html
from tests.report.report_samples import HOSTILE, bare, hostile, large, realistic

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]
MAKERS = [realistic, large, hostile, bare]

# Answers after the next two frames, so that what was asked for has been drawn.
FRAMES = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"
# Darkness of the page's own background, 0 black to 255 white.
LUMA = """
const c = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
return (c[0] + c[1] + c[2]) / 3;
"""
INK = """
const c = document.getElementById('tl-canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
let n = 0;
for (let i = 3; i < d.length; i += 4) n += d[i] > 0;
return n;
"""


def js(browser, code, *args):
    return browser.execute_script(code, *args)


def names(browser):
    return js(browser, "return [...document.querySelectorAll('#ops-table tbody td.n bdi')].map((e) => e.textContent)")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("make", MAKERS)
def test_opens_from_disk(open_page, make, width):
    perf = make()
    browser = open_page(render_html(perf, "model.onnx"), width)
    assert browser.get_log("browser") == []
    assert js(browser, "return performance.getEntriesByType('resource').length") == 0
    counts = js(browser, "const r = bpucReport; return [r.ops, r.bars, r.rows, r.shown()]")
    assert counts == [len(perf["ops"])] * 4
    assert names(browser) == [v.clean(o["name"]) for o in perf["ops"]]
    assert js(browser, "return document.documentElement.scrollWidth") <= width
    assert js(browser, INK) > 500


def test_loads_and_stores_have_lanes(open_page):
    perf = large(60)
    without = dict(perf, transfers=[])
    lanes = [
        js(open_page(render_html(p, "m")), "return [bpucReport.lanes, bpucReport.transfers]") for p in (without, perf)
    ]
    assert lanes == [[lanes[0][0], 0], [lanes[0][0] + 2, len(perf["transfers"])]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_screenshots(open_page, width, scheme):
    """Each part shows several of its colours on the ground of its theme; BPUC_SCREENSHOTS=FOLDER keeps the pictures."""
    browser = open_page(render_html(realistic(), "model.onnx"), width, scheme)
    browser.execute_async_script(FRAMES)
    for part, colours in (("summary", 5), ("timeline", 6), ("graph", 4), ("ops", 4), ("roofline", 3)):
        box = js(browser, "const r = document.getElementById(arguments[0]).getBoundingClientRect(); "
                 "return [r.left, r.top + scrollY, r.width, Math.min(r.height, 1500)]", part)  # fmt: skip
        clip = dict(zip(("x", "y", "width", "height"), box)) | {"scale": 1}
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
        raw = base64.b64decode(shot["data"])
        if folder := os.environ.get("BPUC_SCREENSHOTS"):
            (Path(folder) / f"{part}-{width}-{scheme}.png").write_bytes(raw)
        image = Image.open(io.BytesIO(raw)).convert("RGB")
        assert box[0] >= 0
        assert box[0] + image.width <= width
        found = sorted(image.getcolors(image.width * image.height), reverse=True)
        ground = found[0][1]
        assert (sum(ground) > 600) == (scheme == "light")
        vivid = {c for n, c in found if n > 25 and max(c) - min(c) > 40}
        assert len(vivid) >= colours, part
    assert browser.get_log("browser") == []


def test_hostile_names_run_nothing(open_page):
    browser = open_page(render_html(hostile(), HOSTILE[0]))
    for i in range(len(HOSTILE)):
        js(browser, "bpucReport.select(arguments[0])", i)
        assert browser.find_element("css selector", "#dock h2 bdi").text.strip() == v.clean(HOSTILE[i]).strip()
    js(browser, "document.getElementById('ops-group').value = 'type'; "
       "document.getElementById('ops-group').dispatchEvent(new Event('change'))")  # fmt: skip
    assert js(browser, "return window.broken ?? null") is None
    assert js(browser, "return document.querySelectorAll('img, b b, script').length") == 2
    assert browser.get_log("browser") == []


def test_table_sorts(open_page):
    perf = realistic()
    browser = open_page(render_html(perf, "m"))
    head = browser.find_element("css selector", 'th[data-key="latency_us"] button')
    head.click()
    want = sorted(perf["ops"], key=lambda o: -o["latency_us"])
    assert names(browser)[:5] == [o["name"] for o in want[:5]]
    assert js(browser, "return document.querySelector('th[data-key=latency_us]').ariaSort") == "descending"
    head.click()
    assert names(browser)[0] == min(perf["ops"], key=lambda o: o["latency_us"])["name"]
    browser.find_element("css selector", 'th[data-key="name"] button').click()
    assert names(browser)[0].startswith("_hz_/backbone/stage0/")
    assert js(browser, "return document.querySelectorAll('#ops-table th[aria-sort]').length") == 1


def test_table_filters_and_groups(open_page):
    perf = realistic()
    browser = open_page(render_html(perf, "m"))
    box = browser.find_element("id", "ops-filter")
    box.send_keys("BRANCH7 bn")  # an ONNX node that the op swallowed, in capitals
    assert set(names(browser)) == {o["name"] for o in perf["ops"] if any("branch7/bn" in n for n in o["onnx_nodes"])}
    assert browser.find_element("id", "ops-count").text == f"6 / {len(perf['ops'])} shown"
    js(browser, "bpucReport.filter('')")
    js(
        browser,
        "const s = document.getElementById('ops-group'); s.value = 'type'; s.dispatchEvent(new Event('change'))",
    )
    heads = js(browser, "return [...document.querySelectorAll('tr.group button')].map((e) => e.textContent)")
    assert heads[:2] == ["Conv (18)", "Softmax (1)"]
    assert sum(int(h.split("(")[1][:-1]) for h in heads) == len(perf["ops"])
    browser.find_element("css selector", "tr.group button").click()
    assert len(names(browser)) == len(perf["ops"]) - 18


def test_time_line_zooms_pans_and_picks(open_page):
    perf = realistic()
    browser = open_page(render_html(perf, "m"))
    canvas = browser.find_element("id", "tl-canvas")
    full = js(browser, "return bpucReport.view()")
    assert full == [0, pytest.approx(perf["summary"]["latency_us"], abs=0.01)]
    canvas.send_keys("+")
    a, b = js(browser, "return bpucReport.view()")
    assert b - a == pytest.approx(0.7 * full[1], rel=1e-6)
    canvas.send_keys("\ue014")  # arrow right
    assert js(browser, "return bpucReport.view()[0]") > a
    canvas.send_keys("0")
    assert js(browser, "return bpucReport.view()") == full
    wheel = "{deltaY: -200, ctrlKey: true, cancelable: true, clientX: 700}"
    js(browser, f"arguments[0].dispatchEvent(new WheelEvent('wheel', {wheel}))", canvas)
    a, b = js(browser, "return bpucReport.view()")
    assert b - a < 0.8 * full[1]
    canvas.send_keys("0")
    browser.execute_async_script(FRAMES)
    i = next(k for k, o in enumerate(perf["ops"]) if o["name"] == "/head/softmax")
    x, y = js(
        browser, "arguments[0].scrollIntoView({block: 'center'}); return bpucReport.centreOf(arguments[1])", canvas, i
    )
    from selenium.webdriver import ActionChains

    size = canvas.size
    ActionChains(browser).move_to_element_with_offset(canvas, x - size["width"] / 2, y - size["height"] / 2).perform()
    tip = browser.find_element("id", "tip").text
    for text in ("/head/softmax", "412 us", "1x4x16x8400", "float32", "at most 4096"):
        assert text in tip
    ActionChains(browser).click().perform()
    assert js(browser, "return bpucReport.picked()") == i
    dock = browser.find_element("id", "dock").text
    assert "reduce over the channel axis" in dock
    assert js(browser, "return document.querySelector('tr.picked').dataset.i") == str(i)
    canvas.send_keys("n")
    assert js(browser, "return bpucReport.picked()") == i + 1
    canvas.send_keys("\ue00c")  # escape
    assert js(browser, "return bpucReport.picked()") == -1
    assert not browser.find_element("id", "dock").is_displayed()


def test_tracks_show_rates_and_memory(open_page):
    perf = realistic()
    for o in perf["ops"]:
        o["read_bytes"], o["write_bytes"] = 6000 * o["latency_us"] if o["macs"] else 0, 0
    browser = open_page(render_html(perf, "m"))
    assert js(browser, "return bpucReport.tracks") == ["bandwidth", "mac_rate", "onchip_held", "ddr_held"]
    _, _, chip, ddr = js(browser, "return bpucReport.peaks()")
    assert (chip, ddr) == tuple(max(o.get(k) or 0 for o in perf["ops"]) for k in ("sram_bytes", "ddr_bytes"))
    js(browser, "bpucReport.show(0, 1)")
    browser.execute_async_script(FRAMES)
    assert js(browser, "return bpucReport.peaks()[0]") <= 8000 * 1.001  # the bus has 8 GB/s: 8000 bytes a us


def test_graph_picks_walks_and_leads_to_the_table(open_page):
    from selenium.webdriver import ActionChains

    perf = realistic()
    names_ = [o["name"] for o in perf["ops"]]
    browser = open_page(render_html(perf, "m"))
    wired = [o for o in perf["ops"] if o.get("inputs")]
    assert js(browser, "return bpucReport.nodes") == len(wired)
    canvas = browser.find_element("id", "g-canvas")
    i = names_.index("/backbone/stage0/block0/branch5/conv/Conv")
    js(browser, "arguments[0].scrollIntoView({block: 'center'}); bpucReport.select(arguments[1], 'x')", canvas, i)
    browser.execute_async_script(FRAMES)
    js(browser, "bpucReport.select(-1, 'x')")
    x, y = js(browser, "return bpucReport.graphCentreOf(arguments[0])", i)
    size = canvas.size
    ActionChains(browser).move_to_element_with_offset(canvas, x - size["width"] / 2, y - size["height"] / 2).perform()
    assert "branch5/bn" in browser.find_element("id", "tip").text
    ActionChains(browser).click().perform()
    assert js(browser, "return bpucReport.picked()") == i
    assert js(browser, "return document.querySelector('tr.picked').dataset.i") == str(i)
    canvas.send_keys("\ue014")  # arrow right: along the edge
    assert names_[js(browser, "return bpucReport.picked()")] == "/backbone/stage0/block0/Concat"
    canvas.send_keys("\ue012")  # arrow left: back to the first branch
    assert "block0/branch3" in names_[js(browser, "return bpucReport.picked()")]
    canvas.send_keys("\ue007")  # enter: the page moves to the row
    row = (
        "const r = document.querySelector('tr.picked').getBoundingClientRect(); return [r.top, innerHeight - r.bottom]"
    )
    assert min(js(browser, row)) >= 0
    js(browser, "bpucReport.graphTravel(1)")  # the overview leads to where ops are, however the graph drifts
    x, y = js(browser, "return bpucReport.graphCentreOf(arguments[0])", names_.index("dequantize_boxes"))
    assert 0 < x < size["width"]
    assert 0 < y < size["height"]
    wide = js(browser, "bpucReport.graphFit(); return bpucReport.graphView()[2]")
    js(browser, "bpucReport.graphZoom(0.5)")
    assert js(browser, "return bpucReport.graphView()[2]") == pytest.approx(2 * wide)
    js(browser, "bpucReport.find('rescale')")
    assert (
        js(browser, "return [...document.querySelectorAll('output.hits')].map((e) => e.textContent)") == ["2 hits"] * 2
    )


def test_a_page_without_wires_has_no_graph(open_page):
    browser = open_page(render_html(bare(), "m"))
    assert not browser.find_element("id", "graph").is_displayed()


def test_time_line_search(open_page):
    browser = open_page(render_html(realistic(), "m"))
    box = browser.find_element("id", "tl-search")
    box.send_keys("rescale")
    assert js(browser, "return bpucReport.hits()") == 2
    assert browser.find_element("id", "tl-hits").text == "2 hits"
    box.send_keys("\ue007")  # enter goes to the first
    assert "_rescale_2" in browser.find_element("css selector", "#dock h2").text
    a, b = js(browser, "return bpucReport.view()")
    assert b - a < 0.5 * js(browser, "return bpucReport.span")


def test_dark_light_and_choice(open_page):
    text = render_html(realistic(), "m")
    assert js(open_page(text, scheme="light"), LUMA) > 200
    browser = open_page(text, scheme="dark")
    assert js(browser, LUMA) < 60
    browser.find_element("id", "theme").click()  # auto -> light
    assert js(browser, LUMA) > 200
    browser.find_element("id", "theme").click()  # light -> dark
    assert js(browser, LUMA) < 60
    browser.find_element("id", "theme").click()


def test_chinese(open_page):
    browser = open_page(render_html(realistic(), "m"))
    assert browser.find_element("css selector", "#timeline h2").text == "Time line"
    browser.find_element("id", "lang").click()
    assert browser.find_element("css selector", "#timeline h2").text == "时间线"
    assert js(browser, "return document.documentElement.lang") == "zh-CN"
    assert "搜索" in browser.find_element("id", "tl-search").get_attribute("placeholder")
    browser.find_element("id", "lang").click()
    assert browser.find_element("css selector", "#timeline h2").text == "Time line"


def test_links_lead_to_the_op(open_page):
    perf = realistic()
    browser = open_page(render_html(perf, "m"))
    link = browser.find_element("css selector", "#rescales a[data-op]")
    js(browser, "arguments[0].scrollIntoView({block: 'center'})", link)
    link.click()
    assert perf["ops"][js(browser, "return bpucReport.picked()")]["name"] == perf["rescales"][0]["name"]


def test_works_without_script(browser, open_page):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        open_page(render_html(realistic(), "m"))
        assert len(browser.find_elements("css selector", "#ops-table tbody tr")) == len(realistic()["ops"])
        assert "412.00" in browser.find_element("id", "ops-table").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_two_thousand_ops_sort_filter_and_zoom(open_page):
    perf = large(2000)
    browser = open_page(render_html(perf, "m"))
    browser.execute_script("bpucReport.sort('latency_us', true)")
    slowest = max(perf["ops"], key=lambda o: o["latency_us"])["name"]
    assert slowest in browser.find_element("css selector", "tbody tr").text
    browser.execute_script("bpucReport.filter('conv')")
    browser.execute_script("bpucReport.show(100, bpucReport.span / 4)")
    browser.execute_script("bpucReport.graphFit(); bpucReport.select(1500, 'x')")
    assert browser.execute_script("return bpucReport.nodes") == 2000
    assert browser.execute_script("return bpucReport.span") > 0


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_labels_of_narrow_tables_stay_in_their_rows(open_page, lang):
    """No label of a cell reaches into the cell below it."""
    browser = open_page(render_html(realistic(), "m"), 390)
    if lang == "zh":
        js(browser, "document.getElementById('lang').click()")
    low = js(browser, "return [...document.querySelectorAll('.list .lab')].filter((e) => e.offsetHeight).map((e) => "
             "e.getBoundingClientRect().bottom - e.parentElement.getBoundingClientRect().bottom)")  # fmt: skip
    assert len(low) > 20
    assert max(low) <= 0.5


SPEAK = "if (document.documentElement.lang !== arguments[0]) document.getElementById('lang').click();"
SET = """
const [id, value, event] = arguments, e = document.getElementById(id);
e.value = value;
e.dispatchEvent(new Event(event));
"""


def texts(browser, css):
    return js(browser, "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", css)


@pytest.mark.parametrize("filtered", [False, True])
def test_words_of_closed_sets_are_translated_in_every_row(open_page, filtered):
    perf = realistic()
    browser = open_page(render_html(perf, "model.onnx"))
    bounds, chinese = "#ops-table tbody td:nth-last-child(3)", {"compute": "计算", "memory": "访存", "overhead": "开销"}
    js(browser, SPEAK, "en")
    assert texts(browser, bounds) == [o["bound"] for o in perf["ops"]]
    if filtered:  # rows that are out of sight when the language changes
        js(browser, SET, "ops-filter", "no such op", "input")
    js(browser, SPEAK, "zh-CN")
    js(browser, SET, "ops-filter", "", "input")
    assert texts(browser, bounds) == [chinese[o["bound"]] for o in perf["ops"]]
    origins = texts(browser, "#hardware .chip")
    assert set(origins) <= {"已知", "拟合", "推导", "假定", "用户给定"}
    assert len(origins) == len(perf["hardware"]) > 0
    # and are found in both languages
    memory = sum(o["bound"] == "memory" for o in perf["ops"])
    for word in ("访存", "memory"):
        js(browser, SET, "ops-filter", word, "input")
        assert len(names(browser)) == memory > 0
    js(browser, SET, "ops-group", "bound", "change")
    assert texts(browser, "#ops-table tr.group button") == [f"访存 ({memory})"]
    js(browser, SPEAK, "en")
    assert texts(browser, "#ops-table tr.group button") == [f"memory ({memory})"]
