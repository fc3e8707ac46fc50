"""The script that compares the vendor's node tables with bpuc's."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FIT = Path(__file__).parents[3] / "targets/fit"


@pytest.fixture(scope="module")
def nodes():
    sys.path.insert(0, str(FIT))
    try:
        spec = importlib.util.spec_from_file_location("nodes_script", FIT / "nodes.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FIT))
    return module


def test_names_lose_what_differs_between_files(nodes):
    assert nodes.short("/model.2/cv1/conv/Conv") == nodes.short("/body.2/cv1/conv/Conv") == "/cv1/conv/Conv"
    cut, whole = "...3.0/one2one_cv3.0.0/one2one_cv3.0.0.0/conv/Conv", "/one2one_cv3.0/one2one_cv3.0.0.0/conv/Conv"
    assert nodes.short(cut) == nodes.short(whole)


def test_counts_and_partners(nodes):
    log = [("/model.0/conv/Conv", "HzSQuantizedConv"), ("/model.0/act/Mul", "HzLut"),
           ("/model.1/Mul", "HzSQuantizedConv"), ("/model.1/x_Requantize", "HzRequantize"),
           ("/model.9/Odd", "HzOdd")]  # fmt: skip
    rows = [{"node": n, "on": "BPU", "quantized_type": t} for n, t in log]
    ours = [("/body.0/conv/Conv", "Conv", "BPU"), ("/body.0/act/Mul", "Table", "CPU"), ("/body.1/Mul", "Affine", "BPU")]
    found = nodes.compare(rows, [{"name": n, "op": o, "device": d, "onnx_nodes": [n]} for n, o, d in ours])
    assert found["counts"]["convolution"] == (2, 1)
    assert found["counts"]["table of one input"] == (1, 1)
    assert found["counts"]["requantize (rescale)"] == (1, 0)
    assert found["cpu"] == (0, 1)
    assert (found["matched"], found["only_theirs"], found["only_ours"]) == (1, ["/Mul"], [])
    assert found["unknown"] == ["HzOdd"]
