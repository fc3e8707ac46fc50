"""The calibration file: written, edited, refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bpuc.base.errors import FileError
from bpuc.calibrate import Calibration, TensorRange, load_calibration, save_calibration

MADE = Calibration(
    "a" * 64,
    "percentile",
    {"percentile": 99.99},
    12,
    "b" * 64,
    {"größe": TensorRange(-1.5, 2.0, 1.75, "percentile"), "y": TensorRange(0.0, 0.0, 1.0, "fixed", "int16")},
    {"w": ([0.5, 0.25], 0)},
)


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    save_calibration(MADE, tmp_path / "x.calib.json")
    assert load_calibration(tmp_path / "x.calib.json") == MADE
    text = (tmp_path / "x.calib.json").read_text("utf-8")
    assert '"größe": {' in text, "names are readable"
    save_calibration(MADE, tmp_path / "y.calib.json")
    assert (tmp_path / "y.calib.json").read_text("utf-8") == text


def test_keys_are_those_of_the_contract(tmp_path: Path) -> None:
    save_calibration(MADE, tmp_path / "x.calib.json")
    value = json.loads((tmp_path / "x.calib.json").read_text("utf-8"))
    assert set(value) == {
        *("schema", "model_sha256", "observer", "options", "samples", "data_sha256", "tensors", "weights"),
    }
    assert value["tensors"]["y"] == {"min": 0.0, "max": 0.0, "threshold": 1.0, "observer": "fixed", "dtype": "int16"}
    assert value["weights"]["w"] == {"threshold": [0.5, 0.25], "axis": 0}


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], str]:
    def text(value: dict[str, Any]) -> str:
        change(value)
        return json.dumps(value)

    return text


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], str], str]] = {
    "no JSON": (lambda _: "{", "no valid calibration file"),
    "a list": (lambda _: "[]", "schema 'list'"),
    "another schema": (edit(lambda v: v.update(schema="bpuc.report/1")), "schema 'bpuc.report/1'"),
    "zero": (edit(lambda v: v["tensors"]["y"].update(threshold=0)), "threshold of tensor y is 0"),
    "negative": (edit(lambda v: v["tensors"]["y"].update(threshold=-1)), "threshold of tensor y is -1"),
    "true": (edit(lambda v: v["tensors"]["y"].update(threshold=True)), "threshold of tensor y is True"),
    "text": (edit(lambda v: v["tensors"]["y"].update(threshold="big")), "threshold of tensor y is 'big'"),
    "NaN": (lambda v: json.dumps(v).replace("1.75", "NaN"), "it holds NaN"),
    "a missing key": (edit(lambda v: v["tensors"]["y"].pop("observer")), "observer"),
    "an unknown dtype": (edit(lambda v: v["tensors"]["y"].update(dtype="int4")), "dtype of tensor y is 'int4'"),
    "a dead channel": (edit(lambda v: v["weights"]["w"].update(threshold=[0.5, 0.0])), "threshold of weight w is 0.0"),
    "half a character": (edit(lambda v: v["tensors"]["y"].update(observer="\ud800")), "surrogates not allowed"),
    "beyond float32": (edit(lambda v: v["tensors"]["y"].update(max=1e39)), "max of tensor y is 1e+39"),
    "beyond any float": (edit(lambda v: v["tensors"]["y"].update(max=10**400)), "max of tensor y is inf"),
    "a number as tensor": (edit(lambda v: v["tensors"].update(y=3)), "no valid calibration file"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_a_calibration_is_refused(tmp_path: Path, name: str) -> None:
    change, message = FAULTS[name]
    path = tmp_path / "x.calib.json"
    save_calibration(MADE, path)
    path.write_text(change(json.loads(path.read_text("utf-8"))))
    with pytest.raises(FileError) as caught:
        load_calibration(path)
    assert message in str(caught.value)


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot read the calibration file"):
        load_calibration(tmp_path / "no.calib.json")
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="no valid calibration file"):
        load_calibration(tmp_path / "x")
