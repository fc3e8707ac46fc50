"""Numbers, names and terminal columns as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpuc.report import plain
from bpuc.report import values as v
from bpuc.report.view import segment


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0 us"), (0.5, "0.500 us"), (12.34, "12.3 us"), (999.4, "999 us"), (999.6, "1.00 ms"), (1234.5, "1.23 ms"),
     (2.5e6, "2.50 s"), (9e9, "9,000 s"), (None, "-"), (math.nan, "-"), (math.inf, "-"), ("7", "-"), (True, "-")],
)  # fmt: skip
def test_time(us, text):
    assert v.time(us) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (1536, "1.50 KiB"), (3 * 2**20, "3.00 MiB"), (None, "-")],
)  # fmt: skip
def test_size(count, text):
    assert v.size(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1000, "1.00 k"), (118_013_952, "118 M"), (4.1e9, "4.10 G"), ([], "-")]
)
def test_macs(count, text):
    assert v.macs(count) == text


def test_scales_and_shapes():
    assert v.scale(0.0078125) == "0.0078125"
    assert v.scale([0.5, 0.25, None]) == "0.25 .. 0.5 (2 channels)"
    assert v.scale([0.5]) == "0.5"
    assert v.scale([]) == v.scale(None) == "-"
    assert v.ratio(0.02, 0.04) == v.ratio(0.04, 0.02) == "x2"
    assert v.ratio(0, 1) == v.ratio([1.0], 1.0) == "-"
    assert v.shape([1, 3, 8, 8]) == "1x3x8x8"
    assert v.shape([]) == "scalar"
    assert v.shape(None) == "-"
    assert v.share(1, 8) == "12.5 %"
    assert v.share(1, 0) == v.share(None, 3) == "-"


def test_clean_takes_control_of_terminals_away():
    assert v.clean("a\x1b[31mb\n\u202ec\ud800") == "a\\x1b[31mb\\x0a\\u202ec\\ud800"
    assert v.clean("卷积") == "卷积"
    assert v.clean("") == v.clean(None) == "-"


@given(st.text(), st.integers(1, 40))
def test_clip_never_exceeds_its_width(text, width):
    text = v.clean(text)
    cut = plain.clip(text, width)
    assert plain.width_of(cut) <= width
    if plain.width_of(text) <= width:
        assert cut == text


def test_clip_keeps_the_end_and_counts_wide_characters():
    assert plain.clip("/backbone/stage1/conv", 10) == "..ge1/conv"
    assert plain.width_of("卷积") == 4
    assert plain.clip("卷积层一二", 6) == "..一二"


@given(st.text(alphabet="ab 卷-", max_size=80), st.integers(8, 30))
def test_wrap_keeps_every_character_within_the_width(text, width):
    lines = plain.wrap(text, width, "  ", "x ").split("\n")
    assert all(plain.width_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "x" + "".join(text.split())


def test_table_aligns_and_fits():
    out = plain.table(["name", "us"], [["a", "1.00"], ["a/very/long/name", "22.50"]], [False, True], 20)
    assert out.splitlines() == [
        "name              us",
        "-------------  -----",
        "a               1.00",
        "..y/long/name  22.50",
    ]


def test_the_time_of_a_segment_is_its_span():
    ops = [
        {"segment": 1, "start_us": 2.0, "end_us": 7.0, "latency_us": 5.0},
        {"segment": 1, "start_us": 3.0, "end_us": 9.0, "latency_us": 6.0},
        {"segment": 2, "start_us": 9.0, "end_us": 20.0, "latency_us": 11.0},
    ]
    assert segment({"id": 1, "nodes": ["a", "b"]}, ops)["us"] == 7.0
    assert segment({"id": 3, "nodes": []}, ops)["us"] is None
