"""A report.json made up for the tests."""

from __future__ import annotations

from typing import Any


def build_report() -> dict[str, Any]:
    """A report.json with one CPU node, one rescale, one group and tensors of two types."""
    tensors = [
        {
            "name": "image",
            "shape": [1, 3, 8, 8],
            "dtype": "int8",
            "scale": 0.0078125,
            "axis": None,
            "qmax": 127,
            "threshold": 0.9921875,
            "observer": "fixed",
            "group": None,
            "constant": False,
        },
        {
            "name": "a_out",
            "shape": [1, 4, 8, 8],
            "dtype": "int8",
            "scale": 0.02,
            "axis": None,
            "qmax": 127,
            "threshold": 2.54,
            "observer": "percentile",
            "group": "g0",
            "constant": False,
        },
        {
            "name": "b_out",
            "shape": [1, 4, 8, 8],
            "dtype": "int8",
            "scale": 0.02,
            "axis": None,
            "qmax": 127,
            "threshold": 2.54,
            "observer": "percentile",
            "group": "g0",
            "constant": False,
        },
        {
            "name": "a_w",
            "shape": [4, 3, 3, 3],
            "dtype": "int8",
            "scale": [0.01, 0.02, 0.03, 0.04],
            "axis": 0,
            "qmax": 127,
            "threshold": [1.27, 2.54, 3.81, 5.08],
            "observer": "max",
            "group": None,
            "constant": True,
        },
        {
            "name": "y",
            "shape": [1, 8, 8, 8],
            "dtype": "float32",
            "scale": None,
            "axis": None,
            "qmax": None,
            "threshold": None,
            "observer": None,
            "group": None,
            "constant": False,
        },
    ]
    nodes = [
        {
            "name": "conv_a",
            "op": "Conv",
            "device": "BPU",
            "segment": 0,
            "inputs": ["image"],
            "outputs": ["a_out"],
            "onnx_nodes": ["conv_a_raw", "relu_a"],
            "dtype": "int8",
            "reason": "",
        },
        {
            "name": "_hz_cat_rescale_1",
            "op": "Rescale",
            "device": "BPU",
            "segment": 0,
            "inputs": ["b_out"],
            "outputs": ["b_out_r"],
            "onnx_nodes": ["cat"],
            "dtype": "int8",
            "reason": "b_out is an input with a fixed scale",
        },
        {
            "name": "nms",
            "op": "NonMaxSuppression",
            "device": "CPU",
            "segment": 1,
            "inputs": ["a_out"],
            "outputs": ["y"],
            "onnx_nodes": ["nms"],
            "dtype": "float32",
            "reason": "bayes-e has no BPU form of NonMaxSuppression",
        },
        {
            "name": "tail",
            "op": "Conv",
            "device": "BPU",
            "segment": 2,
            "inputs": ["a_out"],
            "outputs": ["z"],
            "onnx_nodes": ["tail"],
            "dtype": "int16",
            "reason": "",
        },
    ]
    return {
        "schema": "bpuc.report/1",
        "bpuc": "0.1.0",
        "march": "bayes-e",
        "source": {"sha256": "0" * 64, "opset": 13},
        "inputs": [],
        "outputs": [],
        "tensors": tensors,
        "nodes": nodes,
        "groups": [
            {
                "id": "g0",
                "tensors": ["a_out", "b_out"],
                "threshold": 2.54,
                "reason": "inputs of Concat cat",
                "bits_lost": {"a_out": 0.0, "b_out": 0.415},
            }
        ],
        "segments": [
            {"id": 0, "device": "BPU", "nodes": ["conv_a", "_hz_cat_rescale_1"]},
            {"id": 1, "device": "CPU", "nodes": ["nms"]},
            {"id": 2, "device": "BPU", "nodes": ["tail"]},
        ],
        "rescales": [
            {
                "name": "_hz_cat_rescale_1",
                "node": "cat",
                "input_index": 1,
                "tensor": "b_out",
                "from_scale": 0.04,
                "to_scale": 0.02,
                "latency_us": 12.5,
                "reason": "the scale of b_out is fixed by the user",
                "remedy": "drop --fixed-scale b_out",
            }
        ],
        "warnings": [{"code": "range", "message": "tensor z never leaves 0", "where": "tail"}],
        "avoided": [
            {"node": "cat2", "tensor": "a_out", "latency_us": 10.0},
            {"node": "cat2", "tensor": "z", "latency_us": 5.5},
        ],
        "passes": [],
    }
