"""ONNX parts on the host."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from bpuc.base.errors import ModelError
from bpuc.sim.cpu import PartRunner


def part(nodes, ins, outs, types=TensorProto.FLOAT, opset=17):
    graph = helper.make_graph(
        nodes,
        "part",
        [helper.make_tensor_value_info(n, types, s) for n, s in ins.items()],
        [helper.make_tensor_value_info(n, types, s) for n, s in outs.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


SUB = part([helper.make_node("Sub", ["b", "a"], ["y"], name="minus")], {"a": [2], "b": [2]}, {"y": [2]})


def test_inputs_and_outputs_in_the_parts_own_order():
    two = part(
        [helper.make_node("Sub", ["b", "a"], ["y"]), helper.make_node("Neg", ["a"], ["z"])],
        {"a": [2], "b": [2]},
        {"z": [2], "y": [2]},
    )
    z, y = PartRunner([SUB, two]).run(1, [np.float32([1, 2]), np.float32([10, 20])])
    assert (z.tolist(), y.tolist()) == ([-1, -2], [9, 18])


def test_results_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(300, 300)).astype(np.float32)
    model = part([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [64, 300], "w": [300, 300]}, {"y": [64, 300]})
    feeds = [rng.normal(size=(64, 300)).astype(np.float32), w]
    one, two = (PartRunner([model], threads).run(0, feeds)[0] for threads in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_an_op_without_a_kernel_goes_to_the_reference_evaluator():
    # onnxruntime has no Mean of float64
    model = part([helper.make_node("Mean", ["a", "b"], ["y"])], {"a": [2], "b": [2]}, {"y": [2]}, TensorProto.DOUBLE)
    with pytest.raises(Exception, match="Could not find an implementation"):
        ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    (y,) = PartRunner([model]).run(0, [np.float64([1, -3]), np.float64([2, 4])])
    assert y.tolist() == [1.5, 0.5]


def test_a_failing_part_names_its_nodes():
    with pytest.raises(ModelError) as e:
        PartRunner([SUB]).run(0, [np.zeros(3, np.float32), np.zeros(2, np.float32)])
    assert e.value.where == "Sub 'minus'"


def test_a_part_that_cannot_be_loaded_is_refused():
    unknown = part([helper.make_node("Frobnicate", ["x"], ["y"], name="odd", domain="nowhere")], {"x": [1]}, {"y": [1]})
    model = onnx.load_from_string(unknown)
    model.opset_import.append(helper.make_opsetid("nowhere", 1))
    with pytest.raises(ModelError, match="cannot be run") as e:
        PartRunner([model.SerializeToString()]).run(0, [np.zeros(1, np.float32)])
    assert e.value.where == "Frobnicate 'odd'"
    with pytest.raises(ModelError):
        PartRunner([b"nonsense"]).run(0, [])
