"""Configuration files: what the keys mean, and how mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from bpuc.base.errors import ConfigError, FileError
from bpuc.config import InputConfig, NodeDtype, load_config
from bpuc.observe.registry import make_observer

MARCHES = ["bayes-e", "bernoulli2", "nash-e"]
OBSERVERS = ["kl", "min_max", "mix", "percentile"]


@pytest.fixture
def load(tmp_path):
    def load(text, **known):
        path = tmp_path / "c.yaml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, **known)

    return load


@pytest.fixture
def mistakes(load):
    """The message for a faulty text, after checking that all the words are in it."""

    def mistakes(text, *words, **known):
        with pytest.raises(ConfigError) as e:
            load(text, **known)
        message = str(e.value)
        assert [w for w in words if w not in message] == []
        return message

    return mistakes


def test_a_file_for_x5(load, tmp_path):
    """As the model zoo for X5 has them: a detector with a softmax in int16."""
    c = load(
        """
model_parameters:
  onnx_model: './yolo.onnx'
  march: "bayes-e"
  layer_out_dump: False
  working_dir: 'results'
  output_model_file_prefix: 'yolo_nv12'
  node_info: {"/model.10/m/m.0/attn/Softmax": {'ON': 'BPU', 'InputType': 'int16', 'OutputType': 'int16'}}
input_parameters:
  input_name: ""
  input_type_rt: 'nv12'
  input_type_train: 'rgb'
  input_layout_train: 'NCHW'
  norm_type: 'data_scale'
  scale_value: 0.003921568627451
calibration_parameters:
  cal_data_dir: './calibration_f32'
  cal_data_type: 'float32'
  calibration_type: 'default'
  optimization: set_Softmax_input_int8,set_Softmax_output_int8
compiler_parameters:
  jobs: 16
  compile_mode: 'latency'
  debug: True
  optimize_level: 'O3'
""",
        marches=MARCHES,
    )
    assert (c.model, c.march, c.output) == (tmp_path / "yolo.onnx", "bayes-e", tmp_path / "results" / "yolo_nv12.bpuc")
    assert c.inputs == (InputConfig(None, None, "rgb", "NCHW", "nv12", None, (), (0.003921568627451,)),)
    assert c.of_inputs(["images"]) == {"images": c.inputs[0]}
    assert (c.data, c.raw_arrays, c.data_dtype) == ((tmp_path / "calibration_f32",), True, ("float32",))
    assert (c.observer, c.observer_options, c.searches, c.random_data) == ("default", {}, True, False)
    assert c.dtypes == {}
    assert c.node_dtypes == (
        NodeDtype("/model.10/m/m.0/attn/Softmax", "input", None, "int16"),
        NodeDtype("/model.10/m/m.0/attn/Softmax", "output", None, "int16"),
        NodeDtype("Softmax", "input", None, "int8"),
        NodeDtype("Softmax", "output", None, "int8"),
    )
    assert (c.run_on_bpu, c.run_on_cpu) == (("/model.10/m/m.0/attn/Softmax",), ())
    assert (c.compile_mode, c.optimize_level, c.core_num) == ("latency", "O3", None)
    assert [n.split(": ")[1] for n in c.notes] == ["compiler_parameters.jobs"]


def test_a_file_for_x3_with_two_inputs(load, tmp_path):
    c = load(
        """
model_parameters: {onnx_model: m.onnx, march: bernoulli2}
input_parameters:
  input_name: left;right
  input_shape: 1x3x32x48;1x4
  input_type_train: bgr;featuremap
  input_type_rt: nv12;featuremap
  input_layout_train: nchw;NCHW
  input_layout_rt: NHWC;NCHW
  norm_type: data_mean_and_scale;no_preprocess
  mean_value: 103.94 116.78 123.68;None
  scale_value: 0.017;None
calibration_parameters:
  cal_data_dir: a;b
  cal_data_type: uint8;float32
  calibration_type: max
  max_percentile: 0.9999
  run_on_cpu: conv_1;pool
compiler_parameters: {compile_mode: bandwidth, core_num: 2, optimize_level: O2, max_time_per_fc: 1000}
"""
    )
    assert c.inputs == (
        InputConfig("left", (1, 3, 32, 48), "bgr", "NCHW", "nv12", "NHWC", (103.94, 116.78, 123.68), (0.017,)),
        InputConfig("right", (1, 4), "featuremap", "NCHW", "featuremap", "NCHW"),
    )
    assert c.input_shapes(["right", "left"]) == {"left": (1, 3, 32, 48), "right": (1, 4)}
    assert c.data == (tmp_path / "a", tmp_path / "b")
    assert c.data_dtype == ("uint8", "float32")
    assert (c.observer, c.observer_options) == ("percentile", {"percentile": 99.99})
    assert (c.run_on_cpu, c.core_num, c.output) == (("conv_1", "pool"), 2, None)
    assert "max_time_per_fc" in c.notes[0]


def test_a_file_for_s100(load):
    c = load(
        """
model_parameters:
  onnx_model: m.onnx
  march: nash-e
  remove_node_type: Dequantize
  node_info: "a:int16; b:int8"
  enable_vpu: true
input_parameters:
  input_type_train: rgb
  input_layout_train: NHWC
  mean_value: 123.675,116.28,103.53
  std_value: "58.395 57.12 57.375"
calibration_parameters: {calibration_type: skip, optimization: "set_all_nodes_int16,set_model_output_int16, run_fast"}
compiler_parameters: {cache_mode: disable, input_source: {x: pyramid}, jobs: 0, extra_params: {}}
"""
    )
    (image,) = c.inputs
    assert image.mean == (123.675, 116.28, 103.53)
    assert image.scale == pytest.approx((0.017125, 0.017507, 0.017429), abs=1e-6)
    assert (c.random_data, c.observer, c.templates.whole, c.output_dtype) == (True, "min_max", "int16", "int16")
    assert c.dtypes == {"a": "int16", "b": "int8"}
    assert c.remove_types == ("Dequantize",)
    assert [n.split(": ")[1].split(".")[1] for n in c.notes] == [
        "optimization",
        "jobs",
    ]


QUANT_CONFIG = """
{
  "model_config": {
    "all_node_type": "int16",
    "model_output_type": "int8",
    "activation": {"calibration_type": ["max", "kl"], "max_percentile": 0.999, "num_bin": 1024},
    "modelwise_search": {"similarity": 0.995}
  },
  "op_config": {"Conv": {"qtype": "int8"}, "Softmax": {"qtype": "float16"}},
  "node_config": {"n": {"ON": "BPU", "input0": "int16"}, "m": {"qtype": "int8"}}
}
"""


@pytest.mark.parametrize("in_file", [False, True])
def test_quant_config(load, tmp_path, in_file):
    (tmp_path / "q.json").write_text(QUANT_CONFIG)
    value = "q.json" if in_file else QUANT_CONFIG.replace("\n", "\n   ")
    c = load(f"calibration_parameters:\n calibration_type: kl\n quant_config: {value}\nbpuc: {{dtype: {{m: int16}}}}")
    assert (c.templates.whole, c.output_dtype) == ("int16", "int8")
    assert (c.observer, c.observer_options) == ("default", {"similarity": 0.995})
    assert c.dtypes == {"Conv": "int8", "m": "int16"}
    assert c.node_dtypes == (NodeDtype("n", "input", 0, "int16"),)
    assert c.run_on_bpu == ("n",)
    assert sorted(n.split(": ")[1].split(".")[-1] for n in c.notes) == [
        "calibration_type",
        "max_percentile",
        "qtype",
        "quant_config",
    ]


ACTIVATION = "calibration_parameters: {quant_config: {model_config: {activation: {%s}}}}"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("calibration_type: kl, num_bin: 1024, max_num_bin: 16384", {"bins": 1024, "max_bins": 16384}),
        ("calibration_type: kl, num_bin: 1000", {"bins": 1024}),
        ("calibration_type: kl, max_num_bin: 600", {"bins": 1024, "max_bins": 1024}),
        ("calibration_type: kl, num_bin: [129, 4096]", {"bins": 512}),
        ("calibration_type: max, max_percentile: 0.99", {"percentile": 99.0}),
        ("calibration_type: max, num_bin: 1024", {}),
    ],
)
def test_bins_of_quant_config(load, text, want):
    c = load(ACTIVATION % text)
    assert c.observer_options == want
    # what is not taken as written is said
    plain = "1024, max_num_bin: 16384" in text or "num_bin" not in text
    assert (c.notes == ()) == plain
    make_observer(c.observer, c.observer_options)


def test_faulty_bins(mistakes):
    mistakes(ACTIVATION % "num_bin: 128", "num_bin", "from 129 on")
    mistakes(ACTIVATION % "max_num_bin: 1.5e3x", "max_num_bin", "a number")


def test_the_rest_of_quant_config(load):
    c = load(
        "calibration_parameters:\n quant_config: {model_config: {activation: {per_channel: true}, weight: "
        "{bias_correction: {num_sample: 4, metric: mse}}, modelwise_search: {similarity: 0.999, "
        "metric: cosine-similarity}}}"
    )
    assert (c.channel_scales, c.bias_correction, c.searches) == (True, True, True)
    assert (c.observer, c.observer_options) == ("default", {"similarity": 0.999})
    assert sorted(n.split(": ")[1].split(".")[-1] for n in c.notes) == ["metric", "num_sample"]
    assert load("calibration_parameters: {optimization: bias_correction}").bias_correction is True
    off = load("calibration_parameters: {per_channel: True}\nbpuc: {channel_scales: false}")
    assert off.channel_scales is False


def test_nash_without_data_compiles_on_random_data(load):
    file = "model_parameters: {march: %s}\ncalibration_parameters: {%s}"
    assert load(file % ("nash-e", "calibration_type: max")).random_data
    assert not load(file % ("nash-e", "cal_data_dir: d")).random_data
    assert not load(file % ("nash-e", "calibration_type: load")).random_data
    assert not load(file % ("bayes-e", "calibration_type: max")).random_data
    assert not load("bpuc: {effort: 2}", march="nash-e").random_data


def test_options_of_accuracy(load):
    c = load(
        "bpuc: {effort: 2, tune_thresholds: false, bias_correction: false, adaptive_rounding: true, auto_int16: false, "
        "weight_clipping: false, max_latency_loss: 5}"
    )
    found = (c.effort, c.tune_thresholds, c.bias_correction, c.adaptive_rounding, c.auto_int16, c.max_latency_loss)
    assert found == (2, False, False, True, False, 5.0)
    assert c.weight_clipping is False


def test_our_own_keys(load, tmp_path):
    c = load(
        """
model_parameters: {node_info: {a: {ON: CPU, OutputType: int16}, c: {InputType1: int16}}}
calibration_parameters: {calibration_type: kl, run_on_bpu: a;s}
bpuc:
  data: d.npz
  output: out/m.bpuc
  observer: percentile
  observer_opt: {percentile: 99.9, bins: "4096"}
  dtype: {a: int8, Softmax: int16}
  fixed_scale: {x: 1e-2, y: 0.5}
  share_scales: never
  template: int16
  run_on_cpu: [s2, s3]
  input_shape: {x: 1x3x8x8, y: [1, 4]}
  dump_dir: dump
  keep_stages: stages
  preprocess: {resize: letterbox, interpolation: bicubic, pad_value: 0}
"""
    )
    assert (c.data, c.raw_arrays, c.output) == ((tmp_path / "d.npz",), False, tmp_path / "out/m.bpuc")
    assert (c.observer, c.observer_options) == ("percentile", {"percentile": 99.9, "bins": 4096})
    assert c.dtypes == {"a": "int8", "Softmax": "int16"}
    assert c.node_dtypes == (NodeDtype("c", "input", 1, "int16"),)  # that of a is overruled
    assert c.fixed_scales == {"x": 0.01, "y": 0.5}
    assert (c.share_scales, c.templates.whole) == ("never", "int16")
    assert (c.run_on_cpu, c.run_on_bpu) == (("a", "s2", "s3"), ("s",))  # node_info wins over run_on_bpu
    assert c.input_shapes(["y", "x"]) == {"x": (1, 3, 8, 8), "y": (1, 4)}
    assert (c.dump_dir, c.keep_stages) == (tmp_path / "dump", tmp_path / "stages")
    assert (c.preprocess.resize, c.preprocess.interpolation, c.preprocess.pad_value) == ("letterbox", "bicubic", 0)
    assert c.notes == ()


def test_our_shape_joins_the_input_without_a_name(load):
    c = load("input_parameters: {input_type_train: rgb}\nbpuc: {input_shape: {images: 1x3x8x8}}")
    assert c.inputs == (InputConfig("images", (1, 3, 8, 8), "rgb"),)


@pytest.mark.parametrize(
    ("kind", "observer"),
    [("max", "min_max"), ("kl", "kl"), ("mix", "mix"), ("skip", "min_max"), ("default", "default")],
)
def test_calibration_types(load, kind, observer):
    c = load(f"calibration_parameters: {{calibration_type: {kind}}}")
    assert (c.observer, c.observer_options) == (observer, {})
    assert load(f"calibration_parameters: {{calibration_type: {kind}}}\nbpuc: {{observer: mse}}").observer == "mse"


def test_max_percentile_of_one_is_the_maximum(load):
    text = "calibration_parameters: {calibration_type: %s, max_percentile: %s}"
    assert load(text % ("max", "1.0")).observer == "min_max"
    c = load(text % ("max", "0.99995"))
    assert c.observer_options == {"percentile": 99.995}
    assert "no effect" in load(text % ("kl", "0.9999")).notes[0]


def test_paths_are_those_beside_the_file_before_those_of_the_current_folder(load, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "m.onnx").touch()
    monkeypatch.chdir(elsewhere)
    text = "model_parameters: {onnx_model: m.onnx}"
    assert load(text).model == Path("m.onnx")
    (tmp_path / "m.onnx").touch()
    assert load(text).model == tmp_path / "m.onnx"
    assert load("model_parameters: {onnx_model: ./~m.onnx}").model == tmp_path / "~m.onnx"
    assert load("model_parameters: {onnx_model: none.onnx}").model == tmp_path / "none.onnx"
    assert load(f"model_parameters: {{onnx_model: {elsewhere / 'm.onnx'}}}").model == elsewhere / "m.onnx"


def test_all_mistakes_are_told_at_once_with_their_lines(mistakes, tmp_path):
    message = mistakes(
        """model_parameters:
  marsh: bayes-e
  march: bayes-x
input_parameters:
  input_type_train: rgbb
compiler_parameters:
  core_num: 9
  compile_mode: fast
calibration_parameters:
  jobs: 4
bpuc:
  observer: entropy2
  fixed_scale: {x: 0}
  dtype: {h: int4}
""",
        marches=MARCHES,
        observers=OBSERVERS,
    )
    where = tmp_path / "c.yaml"
    lines = message.splitlines()
    assert lines[0] == f"error[config]: 9 mistakes in {where}"
    for line, *words in (
        (2, "model_parameters.marsh", "no such key", "did you mean 'march'?"),
        (3, "model_parameters.march", "'bayes-x'", "bayes-e, bernoulli2, nash-e"),
        (5, "input_parameters.input_type_train", "'rgbb'", "did you mean 'rgb'"),
        (7, "compiler_parameters.core_num", "4", "9"),
        (8, "compiler_parameters.compile_mode", "'latency'", "'fast'"),
        (10, "calibration_parameters.jobs", "belongs under compiler_parameters"),
        (12, "bpuc.observer", "'entropy2'", "kl, min_max, mix, percentile"),
        (13, "bpuc.fixed_scale.x", "above 0"),
        (14, "bpuc.dtype.h", "'int4'", "int8, int16"),
    ):
        (found,) = [text for text in lines if text.startswith(f"  {where}:{line}: ")]
        assert [w for w in words if w not in found] == []


def test_one_mistake_has_its_place_and_hint_apart(load, tmp_path):
    with pytest.raises(ConfigError) as e:
        load("# a comment\n\nmodel_paramters:\n  march: bayes\n")
    assert e.value.where == f"{tmp_path / 'c.yaml'}:3"
    assert e.value.hint.startswith("did you mean 'model_parameters'")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["no sections", "model_parameters"]),
        ("- a\n- b", ["no sections"]),
        ("model_parameters: bayes", ["model_parameters", "keys with values", "'bayes'"]),
        ("model_parameters:\n  march: [bayes", ["no YAML", ":2"]),
        ("model_parameters:\n\tmarch: bayes", ["no YAML", ":2"]),
        ("model_parameters: *nothing", ["no YAML", "undefined alias"]),
        ("model_parameters: {march: !!timestamp x}", ["no YAML"]),
        ("model_parameters: {march: 2020-99-99}", ["no YAML"]),
        ("model_parameters: {march: 'a\0b'}", ["no YAML"]),
        ("model_parameters: " + "[" * 5000, ["no YAML"]),
        ("model_parameters: {march: !!python/object/apply:os.getcwd []}", ["no YAML"]),
        ("model_parameters:\n  march: a\n  march: b", ["march", "line 2 already", ":3"]),
        ("model_parameters: {march: [a]}", ["march", "a list"]),
        ("model_parameters: {march: true}", ["march", "true or false"]),
        ("model_parameters: {caffe_model: m.caffemodel}", ["caffe_model", "ONNX"]),
        ("custom_op: {custom_op_method: register}", ["custom_op", "not supported"]),
        ("calibration_parameters: {quant_config: q.json}", ["quant_config", "q.json", "No such file"]),
        ("calibration_parameters: {quant_config: c.yaml}", ["quant_config", "no JSON"]),
        ("calibration_parameters: {quant_config: {op_confg: {}, a: b}}", ["quant_config.a", "no such key"]),
        ("calibration_parameters: {quant_config: {op_config: {Conv: int8}}}", ["op_config.Conv", "'int8'"]),
        ("calibration_parameters: {quant_config: {op_config: {Conv: {qtyp: int8}}}}", ["Conv.qtyp", "'qtype'"]),
        ("calibration_parameters: {quant_config: {node_config: {a: {qtype: in8}}}}", ["a.qtype", "'in8'"]),
        ("calibration_parameters: {quant_config: {node_config: {a: {ON: GPU}}}}", ["a.ON", "'GPU'"]),
        (
            "calibration_parameters: {quant_config: {model_config: {activation: {max_percentile: 99}}}}",
            ["activation.max_percentile", "percent"],
        ),
        ("calibration_parameters: {calibration_type: max, max_percentile: 99.99}", ["max_percentile", "99.99"]),
        ("calibration_parameters: {max_percentile: .nan}", ["max_percentile", "finite"]),
        ("calibration_parameters: {optimization: set_everything}", ["optimization", "set_everything"]),
        ("calibration_parameters: {optimization: set_Softmax_input_int4}", ["int4"]),
        ("calibration_parameters: {run_on_cpu: a;b, run_on_bpu: b}", ["run_on_cpu", "'b'", "run_on_bpu"]),
        ("model_parameters: {node_info: 'a:int12'}", ["node_info", "'int12'"]),
        ("model_parameters: {node_info: abc}", ["node_info", "'abc'"]),
        ("model_parameters: {node_info: {a: int16}}", ["node_info", "'a'", "mapping"]),
        ("model_parameters: {node_info: {a: {ON: GPU}}}", ["'a'", "'GPU'"]),
        ("model_parameters: {node_info: {a: {InputTyp: int16}}}", ["'a'", "'InputTyp'"]),
        (
            "model_parameters: {node_info: {a: {ON: CPU}}}\n"
            "calibration_parameters: {quant_config: {node_config: {a: {ON: BPU}}}}",
            ["'a'", "BPU", "CPU"],
        ),
        ("input_parameters: {input_name: a;a}", ["input_name", "twice"]),
        ("input_parameters: {input_type_train: rgb;rgb}", ["input_name", "missing"]),
        ("input_parameters: {input_name: a;b, input_type_train: rgb}", ["input_type_train", "1 values", "has 2"]),
        ("input_parameters: {input_type_train: gray, input_type_rt: nv12}", ["input_type_rt", "nv12", "gray"]),
        ("input_parameters: {input_type_train: rgb, mean_value: 1 2}", ["mean_value", "2 numbers", "3 channels"]),
        ("input_parameters: {input_type_train: featuremap, mean_value: 1}", ["mean_value", "featuremap"]),
        ("input_parameters: {mean_value: 1 two 3}", ["mean_value", "'two'"]),
        ("input_parameters: {scale_value: 1, std_value: 1}", ["std_value", "not both"]),
        ("input_parameters: {std_value: 0}", ["std_value", "0"]),
        ("input_parameters: {norm_type: data_mean}", ["norm_type", "mean_value"]),
        ("input_parameters: {norm_type: data_men}", ["norm_type", "did you mean"]),
        ("input_parameters: {input_shape: 1x3xHxW}", ["input_shape", "1x3xHxW"]),
        ("input_parameters: {input_shape: 1x0x4}", ["input_shape"]),
        ("bpuc: {observer_opt: {percentile: high}}", ["bpuc.observer_opt.percentile", "'high'"]),
        ("bpuc: {fixed_scale: {x: .inf}}", ["bpuc.fixed_scale.x", "finite"]),
        ("bpuc: {fixed_scale: 0.1}", ["bpuc.fixed_scale", "keys with values"]),
        ("bpuc: {preprocess: {resiz: crop}}", ["bpuc.preprocess.resiz", "did you mean 'resize'"]),
    ],
)
def test_refusals(mistakes, text, words):
    mistakes(text, *words)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match=r"nothing\.yaml"):
        load_config(tmp_path / "nothing.yaml")
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"# one\n# \xe9t\xe9\n")
    with pytest.raises(ConfigError) as e:
        load_config(path)
    assert e.value.where == f"{path}:2"


def test_aliases_and_merges(load):
    c = load("bpuc: &b {observer: kl, fixed_scale: &f {x: 0.5}}\nmodel_parameters: {march: bayes}")
    assert (c.observer, c.fixed_scales) == ("kl", {"x": 0.5})


def test_aliases_without_end(mistakes):
    mistakes("model_parameters: &a\n  node_info: *a\n", "alias", ":1")
    levels = "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}, *a{i - 1}]\n" for i in range(1, 30))
    mistakes("a0: &a0 [x]\n" + levels, "aliases")


def test_inputs_that_the_model_lacks(load):
    c = load("input_parameters: {input_name: image, input_type_train: rgb}")
    with pytest.raises(ConfigError, match="did you mean 'images'"):
        c.of_inputs(["images"])
    c = load("input_parameters: {input_type_train: rgb}")
    with pytest.raises(ConfigError, match="left;right"):
        c.of_inputs(["left", "right"])


def test_scales_of_the_model_file_are_no_observer(load):
    c = load("calibration_parameters: {calibration_type: load}\nbpuc: {qat_scales: strict}")
    assert (c.observer, c.qat_scales, c.random_data) == (None, "strict", False)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("bpuc: {quantise: {}}", "bpuc.quantise"),
        ("extra:", "extra"),
        ("input_parameters: {input_nam: ''}", "input_parameters.input_nam"),
        ("bpuc: {quantize: {ops: {Conv: {outputt: []}}}}", "bpuc.quantize.ops.Conv.outputt"),
        ("calibration_parameters: {quant_config: {model_config: {al_node_type: }}}", "model_config.al_node_type"),
        ("bpuc: {quantize: {templates: [{sensitive: {table: [], top: }}]}}", "bpuc.quantize.templates"),
    ],
)
def test_unknown_keys_are_mistakes_with_no_value_too(mistakes, text, key):
    mistakes(text, f"{key}: ")


def test_known_keys_may_be_blank(load):
    text = (
        "bpuc: {quantize: , dtype: {}}\ncalibration_parameters: {quant_config: {op_config: {Conv: {qtype: , ON: ''}}}}"
    )
    assert load(text).dtypes == {}


@pytest.mark.parametrize(
    "text",
    [
        "compiler_parameters: {compile_mode: balance, balance_factor: 101}",
        "input_parameters: {norm_type: data_mean, mean_value: 128 abc}",
        "input_parameters: {norm_type: data_scale, std_value: 1 0 1}",
        "input_parameters: {input_type_rt: nv13, input_space_and_range: bt601_video}",
        "{model_parameters: {march: nash-x}, compiler_parameters: {optimize_level: O3}}",
    ],
)
def test_one_fault_is_told_once(mistakes, text):
    assert "mistakes" not in mistakes(text, marches=MARCHES, cores={"nash-e": 1})
