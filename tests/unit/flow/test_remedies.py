"""What a Rescale names as its remedy removes it: compiled again with those options, it is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request

RNG = np.random.default_rng(11)
# options of make_request for those of the command line
WORDS = {"--share": "share", "--fixed-scale": "fixed_scale", "--dtype": "dtype"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Branches of ranges 16 times apart, joined; a Tanh reads the smaller one, an AveragePool the result."""
    folder = tmp_path_factory.mktemp("model")
    weights = {"wa": RNG.normal(0, 0.1, (4, 3, 1, 1)), "wb": RNG.normal(0, 1.6, (4, 3, 1, 1))}
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "wa"], ["a"], name="conv_a"),
        node("Conv", ["x", "wb"], ["b"], name="conv_b"),
        node("Concat", ["a", "b"], ["c"], name="cat", axis=1),
        node("Tanh", ["a"], ["t"], name="tanh"),
        node("AveragePool", ["c"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [info(n, TensorProto.FLOAT, None) for n in ("t", "p")],
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(folder / "m.onnx"))
    np.savez(folder / "d.npz", x=RNG.normal(0, 1, (8, 1, 3, 8, 8)).astype(np.float32))
    return str(folder / "m.onnx"), str(folder / "d.npz")


def rescales(files: tuple[str, str], options: dict[str, Any]) -> list[dict[str, Any]]:
    request = make_request(files[0], "bayes-e", data=files[1], observer="min_max", threads=1, **options)
    found: list[dict[str, Any]] = compile_model(request).program.report["rescales"]
    return found


def treated(options: dict[str, Any], remedy: str) -> dict[str, Any]:
    """The options with a remedy applied."""
    new = {k: list(v) if isinstance(v, list) else v for k, v in options.items()}
    remedy, _, dropped = remedy.partition(" instead of --keep-scale ")
    if dropped:
        new["keep_scale"].remove(dropped)
    words = remedy.split()
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "--share-scales":
            new["share_scales"] = value
        else:
            new.setdefault(WORDS[option], []).append(value)
    return new


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "tanh would read a"),
        ({"share_scales": "never"}, "never"),
        ({"max_bits_lost": 9, "keep_scale": ["a"]}, "--keep-scale a"),
        ({"fixed_scale": ["a=0.004", "c=0.07"]}, "fixed scale"),
        ({"share_scales": "always", "fixed_scale": ["c=0.0005"]}, "would clip a"),
        ({"share_scales": "always", "dtype": ["c=int16"]}, "reads int8"),
    ],
    ids=["bits", "never", "kept", "fixed", "clip", "int16"],
)
def test_the_remedy_removes_the_rescale(files: tuple[str, str], options: dict[str, Any], why: str) -> None:
    found = rescales(files, options)
    assert found
    assert any(why in r["reason"] for r in found), [r["reason"] for r in found]
    for r in found:
        after = rescales(files, treated(options, r["remedy"]))
        assert r["name"] not in [other["name"] for other in after], r["remedy"]


def test_a_refusal_names_readers_and_bits(files: tuple[str, str]) -> None:
    (found,) = rescales(files, {})
    assert found["tensor"] == "a"
    assert found["readers"] == ["tanh"]
    # what the ratio of the scales says
    assert found["bits_lost"] == pytest.approx(np.log2(found["to_scale"] / found["from_scale"]), abs=1e-3)
    assert found["yaml"] == 'bpuc:\n  share: ["a"]'


def test_yaml_lines_do_as_the_option(files: tuple[str, str], tmp_path: Path) -> None:
    (found,) = rescales(files, {})
    config = tmp_path / "c.yaml"
    config.write_text(found["yaml"], encoding="utf-8")
    assert rescales(files, {"config": str(config)}) == []
