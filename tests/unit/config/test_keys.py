"""Every key of the vendor's files, hb_mapper's and hb_compile's: taken, noted or refused; and the traps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bpuc.base.errors import ConfigError
from bpuc.config import Config, load_config
from bpuc.config.qconfig import Templates
from bpuc.config.schema import Document

M, N, C, K = "model_parameters", "input_parameters", "calibration_parameters", "compiler_parameters"
IMAGE = "input_type_train: rgb, input_type_rt: nv12, input_layout_train: NCHW, "
# section, text, and what it changes in the Config: field -> value
TAKEN: list[tuple[str, str, dict[str, Any]]] = [
    (M, "onnx_model: m.onnx", {"model": Path("m.onnx")}),
    (M, "march: bayes-e", {"march": "bayes-e"}),
    (M, "working_dir: d", {"output": Path("d/model.bpuc")}),
    (M, "output_model_file_prefix: p", {"output": Path("model_output/p.bpuc")}),
    (M, "node_info: {n: {ON: BPU}}", {"run_on_bpu": ("n",)}),
    (M, "set_node_data_type: 'n:int16;m:int8'", {"dtypes": {"n": "int16", "m": "int8"}}),
    (M, "output_nodes: a;b", {"output_nodes": ("a", "b")}),
    (M, "remove_node_type: Quantize;Dequantize", {"remove_types": ("Quantize", "Dequantize")}),
    (M, "remove_node_name: n", {"remove_names": ("n",)}),
    (N, "input_name: x, input_type_train: gray", {"inputs.name": "x"}),
    (N, "input_type_train: gray", {"inputs.type_train": "gray"}),
    (N, "input_layout_train: NHWC", {"inputs.layout_train": "NHWC"}),
    (N, IMAGE, {"inputs.type_rt": "nv12"}),
    (N, "input_layout_rt: NHWC", {"inputs.layout_rt": "NHWC"}),
    (N, IMAGE + "input_space_and_range: bt601_video", {"inputs.video": True}),
    (N, "input_batch: '4'", {"batch": 4}),
    (N, "separate_batch: 'True'", {"separate": ("*",)}),
    (N, "separate_name: x", {"separate": ("x",)}),
    (N, "input_shape: 1x3x4x4", {"inputs.shape": (1, 3, 4, 4)}),
    (N, IMAGE + "norm_type: data_scale, scale_value: 0.5, mean_value: 3", {"inputs.mean": (), "inputs.scale": (0.5,)}),
    (N, IMAGE + "mean_value: 1 2 3", {"inputs.mean": (1, 2, 3)}),
    (N, IMAGE + "scale_value: 0.5", {"inputs.scale": (0.5,)}),
    (N, IMAGE + "std_value: 2", {"inputs.scale": (0.5,)}),
    (C, "cal_data_dir: d", {"data": (Path("d"),), "raw_arrays": True}),
    (C, "cal_data_type: uint8", {"data_dtype": ("uint8",)}),
    (C, "calibration_type: kl", {"observer": "kl"}),
    (C, "calibration_type: max, max_percentile: 0.999", {"observer_options": {"percentile": 99.9}}),
    (C, "run_on_cpu: a;b", {"run_on_cpu": ("a", "b")}),
    (C, "run_on_bpu: a", {"run_on_bpu": ("a",)}),
    (C, "per_channel: True", {"channel_scales": True}),
    (C, "optimization: set_model_output_int16", {"output_dtype": "int16"}),
    (C, "optimization: 'set_all_nodes_int16,run_fast'", {"templates": Templates("int16")}),
    (C, "quant_config: {op_config: {Conv: {qtype: int16}}}", {"dtypes": {"Conv": "int16"}}),
    (K, "compile_mode: bandwidth", {"compile_mode": "bandwidth"}),
    (K, "compile_mode: balance, balance_factor: 30", {"balance_factor": 30.0}),
    (K, "optimize_level: O2", {"optimize_level": "O2"}),
    (K, "core_num: 1", {"core_num": 1}),
    (K, "input_source: {x: ddr}}\ninput_parameters: {input_name: x", {"inputs.source": "ddr"}),
]
NOTED = [
    (M, "layer_out_dump: True", "--tensors all"),
    (M, "debug_mode: dump_calibration_data", "not dumped"),
    (M, "log_level: debug", "--quiet"),
    (M, "enable_vpu: false", "target's description"),
    (M, "enable_spu: false", "target's description"),
    (C, "preprocess_on: True", "always"),
    (K, "debug: maybe", "what the reports need"),
    (K, "max_time_per_fc: 1000", "pre-empted"),
    (K, "jobs: 16", "one process"),
    (K, "advice: 5", "perf"),
    (K, "cache_mode: enable", "cached"),
    (K, "cache_path: c", "cached"),
    (K, "max_l2m_size: 1024", "target's description"),
    (K, "ability_entry: e", "vendor's compiler"),
    (K, "extra_params: {a: b}", "vendor's compiler"),
    (K, "hbdk3_compatible_mode: True", "vendor's compiler"),
]
REFUSED = [
    (M, "caffe_model: m.caffemodel", "convert the Caffe model"),
    (M, "prototxt: m.prototxt", "convert the Caffe model"),
    ("custom_op", "custom_op_method: register, op_register_files: a.py, custom_op_dir: d", "not supported"),
]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def load(section: str, text: str, **known: Any) -> Config:
        (tmp_path / "c.yaml").write_text(f"# the first line\n{section}: {{{text}}}\n")
        return load_config("c.yaml", **known)

    return load


@pytest.mark.parametrize(("section", "text", "want"), TAKEN)
def test_taken(load: Any, section: str, text: str, want: dict[str, Any]) -> None:
    c = load(section, text)
    for name, value in want.items():
        of = c.inputs[0] if name.startswith("inputs.") else c
        assert getattr(of, name.removeprefix("inputs.")) == value


@pytest.mark.parametrize(("section", "text", "word"), NOTED)
def test_noted(load: Any, section: str, text: str, word: str) -> None:
    (note,) = load(section, text).notes
    assert note.startswith("c.yaml:2: ")
    assert word in note


@pytest.mark.parametrize(("section", "text", "word"), REFUSED)
def test_refused(load: Any, section: str, text: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word) as e:
        load(section, text)
    assert e.value.where == "c.yaml:2"


def test_every_key_has_a_row() -> None:
    rows: dict[str, str] = {}
    for section, text, _ in (*TAKEN, *NOTED, *REFUSED):
        rows[section] = rows.get(section, "") + ", " + text
    for name, info in Document.model_fields.items():
        keys = getattr(info.annotation, "model_fields", {})
        if name != "bpuc":
            assert [k for k in keys if f", {k}: " not in rows[name]] == []


CORES = {"bayes-e": 1, "bernoulli2": 2, "nash-e": 1}


@pytest.mark.parametrize(
    ("march", "text", "words"),
    [
        ("nash-e", "optimize_level: O3", "nash-e has O0 to O2"),
        ("bayes-e", "core_num: 2", "bayes-e has 1 BPU core"),
        ("bernoulli2", "core_num: 3", "bernoulli2 has 2 BPU cores"),
        ("bayes-e", "compile_mode: balance", "balance needs balance_factor"),
        ("bayes-e", "compile_mod: latency", "no such key"),
        ("bayes-e", "input_source: {x: pyramide}", "'pyramide' is none of"),
    ],
)
def test_traps(load: Any, march: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as e:
        load(K, text, march=march, cores=CORES)
    assert e.value.where == "c.yaml:2"


def test_batches_that_no_machine_takes(load: Any) -> None:
    for march, text, words in (
        ("bernoulli2", "input_batch: 129", "at most 128"),
        ("bayes-e", "input_batch: 4097", "from 1 to 4096"),
        ("nash-e", "input_batch: 0", "from 1 to 4096"),
        ("nash-e", "input_batch: 1;2", "a number was expected"),
        ("nash-e", "separate_batch: maybe", "true or false"),
    ):
        with pytest.raises(ConfigError, match=words):
            load(N, text, march=march)
    assert load(N, "input_batch: 129", march="bayes-e").batch == 129


def test_what_is_right_on_another_march_passes(load: Any) -> None:
    assert load(K, "optimize_level: O3, core_num: 2", march="bernoulli2", cores=CORES).core_num == 2
    with pytest.raises(ConfigError, match="not both"):
        load(N, "separate_batch: true, separate_name: x")
    with pytest.raises(ConfigError, match="goes with input_type_rt nv12"):
        load(N, "input_type_train: rgb, input_type_rt: rgb, input_space_and_range: bt601_video")


@pytest.mark.parametrize("word", ["yes", "true", "off"])
@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("compiler_parameters", "core_num"),
        ("compiler_parameters", "balance_factor"),
        ("bpuc", "effort"),
        ("bpuc", "max_bits_lost"),
        ("bpuc", "max_latency_loss"),
    ],
)
def test_true_and_false_are_no_numbers(load: Any, section: str, key: str, word: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: a number was expected, not true or false"):
        load(section, f"{key}: {word}")
