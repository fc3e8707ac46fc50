"""What fuzzing found, as cases of their own."""

import contextlib
import json
import struct
import zlib

import numpy as np
import onnx
import pytest
from PIL import Image

from bpuc.base.errors import BpucError, DataError, FileError, ModelError
from bpuc.base.files import new_folder
from bpuc.calibrate import load_calibration
from bpuc.config import load_config
from bpuc.data import InputSpec, open_data, random_data
from bpuc.program.container import from_bytes, to_bytes
from bpuc.sim.run import run_program
from tests.fuzz import commands
from tests.fuzz.targets import TARGETS
from tests.unit.ops.onnx_cases import imported


def test_a_result_without_elements_and_with_a_huge_dimension(tmp_path):
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1, 1] x) => (float[a, b] y) <int64[2] s = {0, 0}> '
        "{ y = Expand(x, s) }"
    )
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([0, 2**62]), "s"))
    with pytest.raises(ModelError, match="shape"):
        imported(proto, tmp_path)


def test_an_axis_of_a_calibration_that_is_infinite(tmp_path):
    value = json.loads(TARGETS["calibration"].healthy())
    next(iter(value["weights"].values()))["axis"] = "AXIS"
    (tmp_path / "c.calib.json").write_text(json.dumps(value).replace('"AXIS"', "1e400"))
    with pytest.raises(FileError, match="calibration"):
        load_calibration(tmp_path / "c.calib.json")


def test_a_path_in_yaml_that_no_file_has(tmp_path):
    (tmp_path / "c.yaml").write_text(f"model_parameters: {{onnx_model: {'m' * 5000}}}")
    config = load_config(tmp_path / "c.yaml")
    assert config.model.name == "m" * 5000


def test_an_image_that_asks_for_more_memory_than_there_is(tmp_path, monkeypatch):
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "c.yaml").write_text(
        "input_parameters: {input_name: x, input_type_train: rgb, input_layout_train: NCHW}"
    )

    def full(*_):
        raise MemoryError

    monkeypatch.setattr("PIL.ImageOps.exif_transpose", full)
    (tmp_path / "images").mkdir()
    (tmp_path / "a.png").rename(tmp_path / "images" / "a.png")
    with pytest.raises(DataError, match=r"a\.png is damaged"):
        list(open_data(tmp_path / "images", [InputSpec("x", (1, 3, 8, 8))], load_config(tmp_path / "c.yaml")))


def test_a_chunk_of_a_png_that_claims_two_gigabytes(tmp_path):
    """The file says so itself; whatever Pillow makes of it, the answer is an error of ours or an image."""
    head = b"\x89PNG\r\n\x1a\n"
    body = b"IHDR" + struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    raw = head + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body)) + b"\x7f\xff\xff\xffIDAT1234"
    (tmp_path / "fuzz.png").write_bytes(raw)
    with pytest.raises(DataError):
        TARGETS["image"].use(tmp_path / "fuzz.png")


def test_scales_without_their_data(tmp_path):
    """Two operands of one Concat in integers, whose scales are compared."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1, 1] x) => (float[1, 2] y) <float s = {1}, int8 z = {0}> '
        "{ a = QuantizeLinear(x, s, z) b = Concat <axis = 1> (a, a) y = DequantizeLinear(b, s, z) }"
    )
    proto.graph.initializer[0].ClearField("float_data")
    with pytest.raises(ModelError, match="'s' is damaged"):
        imported(proto, tmp_path)


IF = """<ir_version: 8, opset_import: ["": 17]> g (float[1] x) => (float[1] y) <bool yes = {1}> {
  y = If(yes) <then_branch = t () => (float[1] u) { u = Relu(x) },
               else_branch = e () => (float[1] v) { v = Neg(x) }> }"""


@pytest.mark.parametrize("damage", ["type", "name", "missing"])
def test_a_branch_that_is_none(damage, tmp_path):
    proto = onnx.parser.parse_model(IF)
    branch = next(a for a in proto.graph.node[0].attribute if a.name == "then_branch")
    if damage == "type":
        branch.type = onnx.AttributeProto.GRAPHS
    elif damage == "name":
        branch.name = "than_branch"
    else:
        proto.graph.node[0].attribute.remove(branch)
    with pytest.raises(ModelError, match=r"attribute 'th[ae]n_branch'"):
        imported(proto, tmp_path)


def test_weights_of_an_integer_convolution_that_are_no_constant(tmp_path):
    """With one scale a channel, for which their rank is asked."""
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (int8[1, 2, 4, 4] x, int8[2, 2, 1, 1] w) => (int8[1, 2, 4, 4] y)
        <float s = {1}, int8 z = {0}, float[2] sw = {1, 2}, int8[2] zw = {0, 0}>
        { y = QLinearConv(x, s, z, w, sw, zw, s, z) }"""
    )
    assert [op.kind for op in imported(proto, tmp_path).graph]


@pytest.mark.parametrize("place", ["a\0b", "x" * 5000, "x" * 300 + "/y", "\x7f" * 4096])
def test_external_data_at_a_place_that_no_file_has(place, tmp_path):
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1] x) => (float[1] y) <float[1] w = {1}> { y = Add(x, w) }'
    )
    tensor = proto.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    with pytest.raises(ModelError, match="external data file"):
        imported(proto, tmp_path)


@pytest.mark.parametrize("place", ["x" * 300, "a\0b", "\udcff.npz", "", "/dev/zero", "/dev/full"])
def test_paths_that_no_file_has_are_answered(place, tmp_path):
    program = commands.folder() / "m.bpuc"
    out = str(tmp_path / "out")
    lines = (
        ["run", str(program), "--inputs", place, "-o", out],
        ["run", place, "--inputs", str(program), "-o", out],
        ["info", place],
        ["check", place, "--march", "bayes-e"],
        ["compile", str(commands.MODEL), "--march", "bayes-e", "--data", place, "-o", out],
        ["compile", str(commands.MODEL), "--march", "bayes-e", "--calib", place, "-o", out],
        ["compile", "-c", place, "-o", out],
        ["perf", str(program), "--html", f"no-such-folder/{place}"],
    )
    for line in lines:
        with contextlib.suppress(BpucError):  # anything else fails the test
            assert commands.call(line, quick=False) == 2, line


def test_large_inputs_get_fewer_random_samples():
    assert random_data([InputSpec("x", (1, 3, 640, 640))]).samples == 8
    assert random_data([InputSpec("x", (4096, 3, 64, 64))]).samples == 1


def test_an_output_without_elements_and_with_long_axes_compiles(tmp_path):
    """Its strides would have more than 31 bits, if it had any elements."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y, float[a, b, c] z) '
        "<int64[3] s = {0, 2, 2147483647}> { y = Relu(x)  z = ConstantOfShape(s) }"
    )
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    program = from_bytes(to_bytes(TARGETS["onnx-graph"].use(tmp_path / "m.onnx")), "m")
    assert run_program(program, {"x": np.ones(4, np.float32)})["z"].shape == (0, 2, 2147483647)


@pytest.mark.parametrize("words", [["compare-scales", "--samples", "9" * 30], ["stats", "--samples", "9" * 30]])
def test_counts_that_no_machine_counts_to_are_a_fault_of_usage(words):
    data = str(commands.folder() / "m.npz")
    assert commands.call([*words, str(commands.MODEL), "--march", "bayes-e", "--data", data], quick=False) == 2


def test_a_folder_that_cannot_be_is_not_cleaned_up():
    with pytest.raises(FileError, match="cannot write to the folder"), new_folder("a\0b"):
        pass


def test_a_result_without_elements_whose_other_sizes_no_array_has(tmp_path):
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1, 1, 1, 1] x) => (float[a, b, c, d] y) '
        "<int64[4] s = {0, 2000000000, 2000000000, 2000000000}> { y = Expand(x, s) }"
    )
    with pytest.raises(ModelError, match="shape"):
        imported(proto, tmp_path)
