"""The ONNX files of quantized stages: onnxruntime runs them, close to the integers of the compiled program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bpuc.flow.calibrate import calibrate
from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.flow.stages import qdq_model
from bpuc.sim.run import run_program
from tests.unit.ops.onnx_cases import run, values

NET = """
<ir_version: 8, opset_import: ["": 17]> g (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y, float[1, 8, 6, 6] c)
{
  a = Conv <group = 2> (x, w, b)   r = Relu(a)
  d = ConvTranspose <group = 4, strides = [2, 2], pads = [1, 1, 1, 1]> (r, t)
  m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d)
  s = Sigmoid(m)   y = Add(s, x)   c = Concat <axis = 1> (r, s)
}"""


ISLAND = {"run_on_cpu": ["MaxPool"], "run_on_bpu": ["Sigmoid", "Add", "Concat"]}


@pytest.fixture
def net(tmp_path: Path) -> Path:
    proto = onnx.parser.parse_model(NET)
    for i, (name, shape) in enumerate({"w": (4, 2, 1, 1), "t": (4, 1, 4, 4), "b": (4,)}.items()):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(values(shape, i, -0.5, 0.5), name))
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "d.npz", x=values((6, 1, 4, 6, 6), 9))
    return tmp_path / "net.onnx"


def request(net: Path, march: str = "bayes-e", **options: Any) -> Any:
    given = {"data": str(net.with_name("d.npz")), "observer": "min_max", "threads": 1, "effort": 0, **options}
    return make_request(str(net), march, **given)


def steps_off(found: dict[str, Any], expected: dict[str, Any], program: Any) -> float:
    scale = {t["name"]: np.max(t["scale"]) for t in program.report["outputs"]}
    return max(float(np.abs(found[n] - expected[n]).max() / scale[n]) for n in expected)


MARCHES = [{"march": m} for m in ("bernoulli2", "bayes", "nash-e", "nash-m", "nash-p")]


@pytest.mark.parametrize("options", [{}, {"share_scales": "never"}, {"template": "int16"}, ISLAND, *MARCHES])
def test_stages_run_in_onnxruntime_close_to_the_program(net: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    stages = tmp_path / "stages"
    program = compile_model(request(net, keep_stages=str(stages), **options)).program
    x = np.load(net.with_name("d.npz"))["x"][2]
    expected = run_program(program, {"x": x})
    names = ["original_float", "optimized_float", "calibrated", "ptq", "quantized"]
    assert sorted(p.name for p in stages.iterdir()) == sorted(f"net_{n}_model.onnx" for n in names)
    for name in names:
        proto = onnx.load(stages / f"net_{name}_model.onnx")
        onnx.checker.check_model(proto, full_check=True)
        kinds = {n.op_type for n in proto.graph.node}
        assert ("QuantizeLinear" in kinds) == (names.index(name) > 1)
        off = steps_off(run(proto, {"x": x}), expected, program)
        if name in ("ptq", "quantized"):
            # rounding of ties, and of a sigmoid's table, which in 16 bits has lines between its entries
            assert off <= (64 if "template" in options else 1.01)
    stored = [t for t in proto.graph.initializer if t.name == "w_quantized"]
    assert [t.data_type for t in stored] == [onnx.TensorProto.INT8]


def test_qdq_model_of_a_calibration(net: Path) -> None:
    """Its scales are the thresholds of the calibration, and it differs from the float model by rounding alone."""
    calibration, prepared = calibrate(request(net))
    proto = onnx.load_from_string(qdq_model(prepared, calibration))
    onnx.checker.check_model(proto, full_check=True)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    assert constants["x_scale"] == np.float32(calibration.tensors["x"].threshold / 127)
    weights, scale = constants["w_quantized"], constants["w_scale"]
    original = onnx.numpy_helper.to_array(onnx.load(net).graph.initializer[0])
    assert np.abs(weights * scale.reshape(-1, 1, 1, 1) - original).max() <= scale.max() / 2 + 1e-7
    x = np.load(net.with_name("d.npz"))["x"][0]
    found, expected = run(proto, {"x": x}), run(onnx.load(net), {"x": x})
    for name in expected:
        assert 0 < np.abs(found[name] - expected[name]).max() < 0.05
