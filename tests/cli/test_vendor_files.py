"""Whole configuration files as users of the vendor's tools have them, for every machine: each compiles as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from tests.unit.ops.onnx_cases import model

node = helper.make_node
RNG = np.random.default_rng(8)
W = {n: RNG.normal(size=s).astype(np.float32) / 4 for n, s in {
    "w1": (6, 3, 3, 3), "g1": (6, 1, 3, 3), "w2": (5, 6, 1, 1), "v": (6, 2, 1, 1)}.items()}  # fmt: skip


def tail(x: str) -> list[Any]:
    return [
        node("Relu", [x], ["b"], "relu"),
        node("Conv", ["b", "w2"], ["c"], "second"),
        node("Softmax", ["c"], ["p"], "soft", axis=1),
        node("Transpose", ["p"], ["out"], "tail", perm=[0, 2, 3, 1]),
    ]


def write_models() -> None:
    conv = [node("Conv", ["x", "w1"], ["a"], "first", pads=[1] * 4)]
    gray = [node("Conv", ["x", "g1"], ["a"], "first", pads=[1] * 4)]
    last = [node("Transpose", ["x"], ["t"], "head", perm=[0, 3, 1, 2]), node("Conv", ["t", "w1"], ["a"], "first")]
    two = [*conv, node("Conv", ["z", "v"], ["d"], "side"), node("Add", ["a", "d"], ["e"], "add")]
    qdq = [
        node("QuantizeLinear", ["x", "s", "zero"], ["xq"], "q"),
        node("DequantizeLinear", ["xq", "s", "zero"], ["xd"], "dq"),
        node("Conv", ["xd", "w1"], ["a0"], "first"),
        node("QuantizeLinear", ["a0", "s", "zero"], ["aq"], "q2"),
        node("DequantizeLinear", ["aq", "s", "zero"], ["out"], "dq2"),
    ]
    image: dict[str, Any] = {"x": (1, 3, 16, 16)}
    twice = [node("Div", ["x", "k"], ["xs"], "norm"), node("Conv", ["xs", "w1"], ["a"], "first")]
    scales = {"s": np.float32(0.5), "zero": np.int8(0), "k": np.float32(255)}
    for name, nodes, inputs in (
        ("image", [*conv, *tail("a")], image),
        ("gray", [*gray, *tail("a")], {"x": (1, 1, 16, 16)}),
        ("last", [*last, *tail("a")], {"x": (1, 16, 16, 3)}),
        ("two", [*two, *tail("e")], {"x": (1, 3, 16, 16), "z": (1, 2, 16, 16)}),
        ("open", [*conv, *tail("a")], {"x": ("n", 3, 16, 16)}),
        ("qat", qdq, image),
        ("twice", [*twice, *tail("a")], image),
    ):
        used = {i for n in nodes for i in n.input}
        constants = {n: a for n, a in {**W, **scales}.items() if n in used}
        Path(f"{name}.onnx").write_bytes(model(nodes, inputs, ["out"], constants).SerializeToString())


def write_data() -> None:
    for name in ("raw", "raw_f32", "npy", "npy_z", "jpg", "grey", "hwc"):
        Path(name).mkdir()
    rng = np.random.default_rng(9)
    for i in range(3):
        pixels = rng.integers(0, 256, (3, 16, 16)).astype(np.uint8)
        pixels.tofile(f"raw/{i}.rgb")
        pixels.astype(np.float32).tofile(f"raw_f32/{i}.rgb")
        np.save(f"npy/{i}.npy", pixels[None].astype(np.float32))
        np.save(f"npy_z/{i}.npy", rng.normal(size=(1, 2, 16, 16)).astype(np.float32))
        np.save(f"hwc/{i}.npy", pixels.transpose(1, 2, 0)[None].astype(np.float32))
        Image.fromarray(rng.integers(0, 256, (20, 24, 3)).astype(np.uint8)).save(f"jpg/{i}.jpg")
        Image.fromarray(rng.integers(0, 256, (20, 24)).astype(np.uint8)).save(f"grey/{i}.png")
    Path("quant.json").write_text(
        json.dumps({
            "model_config": {
                "all_node_type": "int8", "model_output_type": "int16",
                "activation": {"calibration_type": ["max", "kl"], "num_bin": 1024, "max_num_bin": 16384,
                               "per_channel": False, "asymmetric": False},
                "weight": {"bias_correction": {"num_sample": 2, "metric": "cosine-similarity"}},
                "modelwise_search": {"similarity": 0.99, "metric": "cosine-similarity"},
            },
            "op_config": {"Softmax": {"qtype": "int16"}},
            "node_config": {"second": {"qtype": "int16", "input0": "int16", "ON": "BPU"}},
        })
    )  # fmt: skip


FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "x3 nv12, raw uint8": (
        """
model_parameters:
  onnx_model: 'image.onnx'
  march: "bernoulli2"
  layer_out_dump: False
  working_dir: 'out'
  output_model_file_prefix: 'm'
  remove_node_type: "Dequantize"
input_parameters:
  input_name: "x"
  input_type_rt: 'nv12'
  input_type_train: 'bgr'
  input_layout_train: 'NCHW'
  input_shape: '1x3x16x16'
  norm_type: 'data_mean_and_scale'
  mean_value: 103.9 116.8 123.7
  scale_value: 0.017
calibration_parameters:
  cal_data_dir: './raw'
  preprocess_on: False
  calibration_type: 'max'
  max_percentile: 0.9999
  run_on_cpu: "soft"
compiler_parameters:
  compile_mode: 'bandwidth'
  debug: False
  core_num: 2
  optimize_level: 'O3'
  max_time_per_fc: 2000
  input_source: {"x": "pyramid"}
""",
        {"shapes": [[24, 16]], "cpu": {"soft"}, "observer": "percentile"},
    ),
    "x3 gray, images": (
        """
model_parameters: {onnx_model: gray.onnx, march: bernoulli2, working_dir: out, output_model_file_prefix: m}
input_parameters:
  input_type_rt: gray
  input_type_train: gray
  input_layout_train: NCHW
  input_layout_rt: NHWC
  norm_type: data_scale
  scale_value: 0.0078125
calibration_parameters: {cal_data_dir: grey, preprocess_on: True, calibration_type: kl}
compiler_parameters: {compile_mode: latency, debug: True, optimize_level: O1}
""",
        {"shapes": [[1, 16, 16, 1]], "observer": "kl", "cpu": {"soft"}},
    ),
    "x5 nv12, int16 softmax": (
        """
model_parameters:
  onnx_model: './image.onnx'
  march: "bayes-e"
  working_dir: 'out'
  output_model_file_prefix: 'm'
  node_info: {"soft": {'ON': 'BPU', 'InputType': 'int16', 'OutputType': 'int16'}}
input_parameters:
  input_name: ""
  input_type_rt: 'nv12'
  input_type_train: 'rgb'
  input_layout_train: 'NCHW'
  input_layout_rt: ''
  norm_type: 'data_scale'
  scale_value: 0.0039
calibration_parameters:
  cal_data_dir: './raw_f32'
  cal_data_type: 'float32'
  calibration_type: 'default'
  optimization: set_model_output_int16
compiler_parameters: {jobs: 8, compile_mode: latency, debug: True, core_num: 1, optimize_level: O3}
""",
        {"shapes": [[24, 16]], "int16": {"c", "p"}},
    ),
    "x5 two inputs": (
        """
model_parameters: {onnx_model: two.onnx, march: bayes-e, working_dir: out, output_model_file_prefix: m}
input_parameters:
  input_name: "x;z"
  input_type_rt: "rgb;featuremap"
  input_type_train: "rgb;featuremap"
  input_layout_train: "NCHW;NCHW"
  input_layout_rt: "NHWC;NCHW"
  input_shape: "1x3x16x16;1x2x16x16"
  norm_type: "data_mean_and_scale;no_preprocess"
  mean_value: "127.5;None"
  scale_value: "0.0078;None"
calibration_parameters: {cal_data_dir: "npy;npy_z", calibration_type: max}
compiler_parameters: {compile_mode: balance, balance_factor: 40, optimize_level: O2, advice: 10}
""",
        {"shapes": [[1, 16, 16, 3], [1, 2, 16, 16]]},
    ),
    "x5 yuv444": (
        """
model_parameters: {onnx_model: image.onnx, march: bayes-e, working_dir: out, output_model_file_prefix: m}
input_parameters:
  input_type_rt: yuv444
  input_type_train: rgb
  input_layout_train: NCHW
  input_layout_rt: NHWC
  norm_type: data_mean
  mean_value: 120, 121, 122
calibration_parameters: {cal_data_dir: jpg, calibration_type: mix, per_channel: True}
compiler_parameters: {optimize_level: O3}
""",
        {"shapes": [[1, 16, 16, 3]], "observer": "mix"},
    ),
    "x5 debug keys": (
        """
model_parameters:
  onnx_model: image.onnx
  march: bayes-e
  working_dir: out
  output_model_file_prefix: m
  layer_out_dump: True
  debug_mode: dump_calibration_data
  log_level: debug
  output_nodes: second
input_parameters: {input_type_rt: nv12, input_space_and_range: bt601_video, input_type_train: rgb,
  norm_type: no_preprocess, input_layout_train: NCHW}
calibration_parameters: {cal_data_dir: raw, cal_data_type: uint8, calibration_type: max, run_on_bpu: soft}
compiler_parameters: {optimize_level: O0, debug: True}
""",
        {"shapes": [[24, 16]], "outputs": ["c"]},
    ),
    "j5 load": (
        """
model_parameters: {onnx_model: qat.onnx, march: bayes, working_dir: out, output_model_file_prefix: m}
input_parameters: {input_type_rt: bgr, input_type_train: rgb, input_layout_train: NCHW, input_layout_rt: NCHW,
  norm_type: data_scale, scale_value: 0.1}
calibration_parameters: {calibration_type: load}
compiler_parameters: {optimize_level: O3}
""",
        {"shapes": [[1, 3, 16, 16]], "observer": "qdq"},
    ),
    "j5 skip, int16, batch": (
        """
model_parameters: {onnx_model: open.onnx, march: bayes, working_dir: out, output_model_file_prefix: m,
  set_node_data_type: "second:int16"}
input_parameters: {input_type_rt: featuremap, input_type_train: featuremap, input_layout_train: NCHW,
  norm_type: no_preprocess, input_shape: 1x3x16x16, input_batch: 4}
calibration_parameters: {calibration_type: skip, optimization: set_all_nodes_int16}
compiler_parameters: {optimize_level: O3, jobs: 4}
""",
        {"shapes": [[4, 3, 16, 16]], "int16": {"x", "b", "c"}, "random": True},
    ),
    "s100 quant_config": (
        """
model_parameters: {onnx_model: image.onnx, march: nash-e, working_dir: out, output_model_file_prefix: m,
  enable_vpu: True, enable_spu: True}
input_parameters: {input_name: x, input_type_rt: nv12, input_type_train: rgb, input_layout_train: NCHW,
  mean_value: "123.675, 116.28, 103.53", std_value: "58.395, 57.12, 57.375"}
calibration_parameters: {cal_data_dir: npy, quant_config: ./quant.json}
compiler_parameters: {compile_mode: latency, optimize_level: O2, core_num: 1, jobs: 16, cache_mode: enable,
  cache_path: c, max_l2m_size: 0, input_source: {x: pyramid}, debug: True, advice: 0.0}
""",
        {"shapes": [[24, 16]], "int16": {"b", "p"}},
    ),
    "s100 without data": (
        """
model_parameters: {onnx_model: image.onnx, march: nash-e, working_dir: ./out, output_model_file_prefix: m}
input_parameters: {input_type_rt: rgb, input_type_train: bgr, input_layout_train: NCHW, scale_value: 0.0039}
compiler_parameters: {optimize_level: O2}
""",
        {"shapes": [[1, 3, 16, 16]], "random": True},
    ),
    "s100p two inputs, separate": (
        """
model_parameters: {onnx_model: two.onnx, march: nash-m, working_dir: out, output_model_file_prefix: m,
  node_info: "first:int16;side:int16", remove_node_name: tail}
input_parameters: {input_name: "x;z", input_type_rt: "nv12;featuremap", input_type_train: "rgb;featuremap",
  input_layout_train: "NCHW;NCHW", input_batch: 2, separate_name: x}
calibration_parameters: {cal_data_dir: "npy;npy_z", calibration_type: kl, run_on_cpu: soft}
compiler_parameters: {optimize_level: O1, extra_params: {a: 1}}
""",
        {"shapes": [[24, 16], [24, 16], [2, 2, 16, 16]], "cpu": {"soft"}, "observer": "kl"},
    ),
    "s600 cores, NHWC": (
        """
model_parameters: {onnx_model: last.onnx, march: nash-p, working_dir: out, output_model_file_prefix: m, log_level: info}
input_parameters: {input_type_rt: yuv444, input_type_train: rgb, input_layout_train: NHWC, input_layout_rt: NHWC,
  mean_value: 128, scale_value: 0.0078}
calibration_parameters: {cal_data_dir: hwc, calibration_type: max, max_percentile: 0.9995}
compiler_parameters: {compile_mode: balance, balance_factor: 70, core_num: 4, optimize_level: O2, max_time_per_fc: 1000}
""",
        {"shapes": [[1, 16, 16, 3]], "observer": "percentile"},
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_models()
    write_data()
    return tmp_path


def compile_file(bpuc: Any, text: str) -> dict[str, Any]:
    Path("c.yaml").write_text(text)
    done = bpuc("compile", "-c", "c.yaml", "--report", "r.json")
    assert done.code == 0, done.err
    report: dict[str, Any] = json.loads(Path("r.json").read_text())
    return report


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", FILES)
def test_compiles_as_it_is(bpuc: Any, name: str) -> None:
    text, want = FILES[name]
    report = compile_file(bpuc, text)
    assert [i["shape"] for i in report["inputs"]] == want["shapes"]
    dtypes = {t["name"]: t["dtype"] for t in report["tensors"]}
    assert {t: dtypes[t] for t in want.get("int16", ())} == dict.fromkeys(want.get("int16", ()), "int16")
    cpu = {n["name"] for n in report["nodes"] if n["device"] == "CPU" and n["op"] not in ("Quantize", "Dequantize")}
    assert cpu & {"first", "second", "soft", "side"} == want.get("cpu", set())
    if "observer" in want:
        assert want["observer"] in {t["observer"] for t in report["tensors"]}
    if "outputs" in want:
        assert [o["name"] for o in report["outputs"]] == want["outputs"]
    assert ("random-data" in {w["code"] for w in report["warnings"]}) == want.get("random", False)
    assert Path("out/m.bpuc").is_file()
    shapes = {i["name"]: i for i in report["inputs"]}
    feeds = {n: np.full(i["shape"], 3, np.uint8 if "image" in i else np.float32) for n, i in shapes.items()}
    np.savez("in.npz", **feeds)
    assert bpuc("run", "out/m.bpuc", "--inputs", "in.npz", "-o", "o.npz").code == 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("s100 without data", "optimize_level: O2", "optimize_level: O3", "nash-e has O0 to O2"),
        ("x5 nv12, int16 softmax", "core_num: 1", "core_num: 2", "bayes-e has 1 BPU core"),
        ("s600 cores, NHWC", "core_num: 4", "core_num: 5", "core_num"),
        ("x5 two inputs", "balance_factor: 40, ", "", "balance needs balance_factor"),
        ("x3 gray, images", "input_type_rt: gray", "input_type_rt: nv12", "nv12 cannot be made into gray"),
        ("x5 debug keys", "input_type_rt: nv12", "input_type_rt: rgb", "bt601_video goes with input_type_rt nv12"),
        ("x5 two inputs", '"x;z"', '""', "it is missing; there are values for 2 inputs"),
        ("x5 yuv444", "mean_value: 120, 121, 122", "mean_value: 120 121", "it has 2 numbers; rgb has 3 channels"),
        ("s100 quant_config", "./quant.json", "./quand.json", "quand.json"),
        ("x5 nv12, int16 softmax", '"soft":', '"softt":', "softt"),
        ("x3 nv12, raw uint8", "onnx_model: 'image.onnx'", "caffe_model: a.caffemodel", "convert the Caffe model"),
    ],
)
def test_mistakes_are_told_with_their_line(bpuc: Any, name: str, old: str, new: str, words: str) -> None:
    text = FILES[name][0]
    assert old in text
    Path("c.yaml").write_text(text.replace(old, new))
    done = bpuc("compile", "-c", "c.yaml")
    assert done.code == 1
    assert words in " ".join(done.err.split())
    assert not Path("out/m.bpuc").exists()


@pytest.mark.usefixtures("folder")
def test_bayes_without_data_says_what_is_missing(bpuc: Any) -> None:
    Path("c.yaml").write_text(FILES["s100 without data"][0].replace("nash-e", "bayes-e"))
    done = bpuc("compile", "-c", "c.yaml")
    assert done.code == 1
    assert "cal_data_dir" in done.err
    assert "calibration_type: skip" in done.err


@pytest.mark.usefixtures("folder")
def test_normalization_done_twice_is_told(bpuc: Any) -> None:
    text = FILES["x5 nv12, int16 softmax"][0]
    report = compile_file(bpuc, text.replace("image.onnx", "twice.onnx"))
    assert "input x is normalized by Div norm of the model" in next(
        w["message"] for w in report["warnings"] if w["code"] == "normalized-twice"
    )
    for i in range(3):
        (np.fromfile(f"raw_f32/{i}.rgb", np.float32) / 255).tofile(f"raw_f32/{i}.rgb")
    report = compile_file(bpuc, text)
    assert "normalized-twice" in {w["code"] for w in report["warnings"]}
