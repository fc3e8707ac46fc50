"""Tensors of more axes than an operand of the simulated machine may have."""

from functools import cache

import numpy as np
import onnx
import pytest

from bpuc import backend
from bpuc.flow.compile import calibrated, compile_model, compile_prepared
from bpuc.flow.request import make_request
from bpuc.frontend.onnx_export import export_op
from bpuc.lower import lower
from bpuc.sim.run import run_program
from tests.unit.ops.onnx_cases import run, values

HEAD = '<ir_version: 8, opset_import: ["": 17]> '


@pytest.mark.parametrize("rank", [6, 7, 8])
def test_ports_and_parts_of_many_axes(rank, tmp_path):
    """Both engines, all tensors, and a constant that is broadcast: as onnxruntime."""
    shape = ",".join(["2"] * rank)
    proto = onnx.parser.parse_model(
        HEAD + f"g (float[{shape}] x) => (float[{shape}] y) {{ a = Neg(x)  y = Mul(a, c) }}"
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(values((2, *[1] * (rank - 2), 2), 1), "c"))
    x = values((2,) * rank)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "d.npz", x=x[None])
    options = {"data": str(tmp_path / "d.npz"), "observer": "min_max"}
    program = compile_model(make_request(str(tmp_path / "m.onnx"), "bayes-e", **options)).program
    expected = run(proto, {"x": x})["y"]
    for engine in ("fast", "reference"):
        found = run_program(program, {"x": x}, engine, tensors="all")
        np.testing.assert_allclose(found["y"], expected, atol=0.02 * np.abs(expected).max() if rank == 6 else 1e-6)
        assert found["y"].shape == (2,) * rank


def test_windows_of_eight_axes_run_on_the_bpu(tmp_path):
    proto = onnx.parser.parse_model(
        HEAD
        + """g (float[1, 4, 8, 8, 8] x) => (float[n, l, c] y)
        <int64[8] part = {1, 2, 2, 2, 4, 2, 4, 8}, int64[3] join = {-1, 32, 8}> {
          a = Reshape(x, part)  b = Transpose <perm = [0, 1, 3, 5, 2, 4, 6, 7]> (a)
          c = Reshape(b, join)  y = MatMul(c, w) }"""
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(values((8, 8), 1), "w"))
    x = values((1, 4, 8, 8, 8))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "d.npz", x=x[None])
    request = make_request(str(tmp_path / "m.onnx"), "nash", data=str(tmp_path / "d.npz"), observer="min_max")
    program = compile_model(request).program
    assert {n["device"] for n in program.report["nodes"] if n["op"] in ("Reshape", "Transpose", "MatMul")} == {"BPU"}
    y = run_program(program, {"x": x})["y"]
    expected = run(proto, {"x": x})["y"]
    assert np.abs(y - expected).max() < 0.03 * np.abs(expected).max()
    (y,) = backend.run_model(proto, [x])
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


def test_programs_of_one_graph_share_their_parts(tmp_path):
    """A part may hold gigabytes of constants, and -O3 lowers a graph twice."""
    proto = onnx.parser.parse_model(HEAD + "g (float[2, 2] x) => (float[2, 2] y) { y = Hardmax(x) }")
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    request = make_request(str(tmp_path / "m.onnx"), "bayes-e", random_data=True)
    prepared, source = calibrated(request)
    program = compile_prepared(request, prepared, source).program
    export = cache(export_op)
    first, second = (lower(prepared.graph, "bayes-e", export=export) for _ in range(2))
    assert first.parts[0] is second.parts[0]
    assert program.parts == first.parts
