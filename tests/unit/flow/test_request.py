"""Options of the command line and of the YAML file become one request; the command line wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from bpuc.base.errors import ConfigError
from bpuc.flow.request import make_request

YAML = """\
model_parameters:
  onnx_model: from_file.onnx
  march: bayes-e
  output_model_file_prefix: out
  working_dir: build
calibration_parameters:
  calibration_type: max
compiler_parameters: {}
bpuc:
  share_scales: never
  fixed_scale: {a: 0.5, b: 0.25}
  dtype: {Conv: int16}
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(YAML)
    return str(path)


def test_defaults() -> None:
    request = make_request("m.onnx", "bayes-e")
    o = request.options
    assert (o.observer, o.share_scales, o.template, o.max_bits_lost) == (
        "percentile",
        "auto",
        "default",
        None,
    )
    assert (request.data, request.calib, request.random_data, request.dump_dir) == (None, None, False, None)
    assert request.model == Path("m.onnx")


def test_a_model_is_needed() -> None:
    with pytest.raises(ConfigError, match="no model was named"):
        make_request(None, "bayes-e")


def test_pairs_are_split_at_the_last_equals_sign() -> None:
    request = make_request("m.onnx", dtype=["a=b=int16"], fixed_scale=["t=x=0.5"])
    assert request.options.dtypes == {"a=b": "int16"}
    assert request.options.fixed_scales == {"t=x": 0.5}


@pytest.mark.parametrize("text", ["int16", "=int16", "conv="])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="NAME=VALUE"):
        make_request("m.onnx", dtype=[text])


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "half"])
def test_what_is_no_scale_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="this is no scale"):
        make_request("m.onnx", fixed_scale=[f"t={value}"])


def test_shapes_may_be_written_with_x_or_commas() -> None:
    request = make_request("m.onnx", input_shape=["a:1x3x8x8", "b:1,2", "c:d:4"])
    assert request.input_shapes == {"a": (1, 3, 8, 8), "b": (1, 2), "c:d": (4,)}


@pytest.mark.parametrize("text", ["1x3", "a:", ":1x3", "a:1xx3", "a:1x3.5", "a:wide"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="NAME:1x3x224x224"):
        make_request("m.onnx", input_shape=[text])


def test_unknown_observers_and_options_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="no observer 'minmax'"):
        make_request("m.onnx", observer="minmax")
    with pytest.raises(ConfigError, match="no option 'percent'"):
        make_request("m.onnx", observer_opt=["percent=99"])


def test_the_file_fills_in(config: str) -> None:
    request = make_request(None, None, config)
    assert request.model.name == "from_file.onnx"
    assert (request.march, request.options.share_scales) == ("bayes-e", "never")
    assert request.options.fixed_scales == {"a": 0.5, "b": 0.25}
    assert request.options.dtypes == {"Conv": "int16"}


def test_the_command_line_wins(config: str) -> None:
    request = make_request(
        "mine.onnx",
        "nash-e",
        config,
        share_scales="auto",
        fixed_scale=["b=0.125"],
        dtype=["Conv=int8"],
        observer="kl",
        data="mine.npz",
    )
    assert (request.model, request.march, request.data) == (Path("mine.onnx"), "nash-e", Path("mine.npz"))
    assert request.options.share_scales == "auto"
    assert request.options.fixed_scales == {"a": 0.5, "b": 0.125}
    assert request.options.dtypes == {"Conv": "int8"}
    assert request.options.observer == "kl"


def test_named_dimensions_are_told_from_shapes() -> None:
    found = make_request("m.onnx", input_shape=["batch=2", "a=b:1x3"])
    assert found.symbols == {"batch": 2}
    assert found.input_shapes == {"a=b": (1, 3)}
