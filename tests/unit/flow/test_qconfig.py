"""The qconfig: templates and rules from YAML, the command line and Python, on compiled models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from bpuc.base.errors import ConfigError, FileError
from bpuc.config.qconfig import QuantRule, read_table, read_templates, sensitive_rules
from bpuc.config.rule import read_rules
from bpuc.flow.calibrate import calibrate
from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.isa import Conv
from bpuc.program import Program
from bpuc.sim.run import run_program
from tests.unit.lower.bench import exact_weights
from tests.unit.lower.test_accumulate import conv2d
from tests.unit.lower.test_int16 import int16s
from tests.unit.ops.onnx_cases import model

node = helper.make_node
RNG = np.random.default_rng(3)
W1, W2 = (RNG.normal(size=s).astype(np.float32) for s in ((4, 3, 1, 1), (4, 4, 1, 1)))
NODES = [
    node("Conv", ["x", "w1"], ["a"], "body/conv1"),
    node("Sigmoid", ["a"], ["s"], "body/sig"),
    node("Conv", ["s", "w2"], ["b"], "body/conv2"),
    node("Relu", ["b"], ["r"], "body/relu"),
    node("Conv", ["r", "w2"], ["y"], "head"),
]


def write(folder: Path, quantize: str = "") -> str:
    m = model(NODES, {"x": (1, 3, 4, 5)}, ["y"], {"w1": W1, "w2": W2})
    (folder / "m.onnx").write_bytes(m.SerializeToString())
    x = np.random.default_rng(1).normal(size=(4, 1, 3, 4, 5))
    np.savez(folder / "d.npz", x=x.astype(np.float32))
    (folder / "c.yaml").write_text(f"model_parameters: {{onnx_model: m.onnx}}\nbpuc:\n  data: d.npz\n{quantize}")
    return str(folder / "c.yaml")


def build(folder: Path, quantize: str = "", march: str = "bayes-e", **options: Any) -> Program:
    return compile_model(make_request(None, march, write(folder, quantize), effort=0, threads=1, **options)).program


def types(program: Program) -> dict[str, str]:
    return {t["name"]: t["dtype"] for t in program.report["tensors"]}


def warnings(program: Program, code: str) -> list[str]:
    return [w["message"] for w in program.report["warnings"] if w["code"] == code]


def ops(text: str) -> str:
    return f"  quantize:\n    ops:\n      {text}\n"


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        ("body/conv1: {output: int16}", {"a": "int16", "s": "int8", "r": "int8"}),
        ("a: {output: int16}", {"a": "int16", "s": "int8", "r": "int8"}),
        ("body/conv2: {input: int16}", {"a": "int8", "s": "int16", "r": "int8"}),
        ("'body/*': {output: int16}", {"x": "int8", "a": "int16", "s": "int16", "r": "int16", "y": "int32"}),
        ("Sigmoid: {output: int16}", {"a": "int8", "s": "int16", "r": "int8"}),
        ("Relu: {output: int16}", {"a": "int8", "s": "int8", "r": "int16"}),
        ("x: {output: int16}", {"x": "int16", "a": "int8"}),
    ],
)
def test_types_by_name_pattern_and_op_type(tmp_path: Path, rule: str, want: dict[str, str]) -> None:
    found = types(build(tmp_path, ops(rule)))
    assert {n: found[n] for n in want} == want


def test_the_more_exact_name_wins(tmp_path: Path) -> None:
    text = ops("'body/*': {output: int16}\n      body/sig: {output: int8}\n      Sigmoid: {output: int16}")
    found = types(build(tmp_path, text))
    assert (found["a"], found["s"], found["r"]) == ("int16", "int8", "int16")


def test_the_same_from_python_and_dtype_wins(tmp_path: Path) -> None:
    rules = [QuantRule("body/conv1", output="int16"), QuantRule("s", output="int16")]
    found = types(build(tmp_path, rules=rules, dtype=["s=int8"]))
    assert (found["a"], found["s"]) == ("int16", "int8")


def test_observer_scale_and_device(tmp_path: Path) -> None:
    text = ops(
        "body/conv1: {observer: percentile, observer_opt: {percentile: 50}}\n      s: {fixed_scale: 0.25}\n"
        "      body/relu: {device: CPU}"
    )
    program = build(tmp_path, text, observer="min_max")
    rows = {t["name"]: t for t in program.report["tensors"]}
    values = np.abs(conv2d(np.load(tmp_path / "d.npz")["x"][:, 0].astype(np.float64), W1))
    assert rows["a"]["observer"] == "percentile"
    assert rows["a"]["threshold"] == pytest.approx(np.median(values), rel=0.05)
    assert (rows["s"]["scale"], rows["s"]["observer"], rows["x"]["observer"]) == (0.25, "fixed", "min_max")
    assert [n["name"] for n in program.report["nodes"] if n["device"] == "CPU" and n["onnx_nodes"]] == ["body/relu"]


def test_thresholds_of_int16_are_chosen_for_int16(tmp_path: Path) -> None:
    """mse clips less where there are 32767 steps: nothing at all here, since no value is far out."""
    for asked, kind in (
        ({"dtype": ["Sigmoid=int16"]}, "int16"),
        ({"rules": [QuantRule("body/sig", output="int16")]}, "int16"),
    ):
        request = make_request(None, None, write(tmp_path), observer="mse", threads=1, **asked)
        table = calibrate(request)[0].tensors
        assert table["s"].dtype == kind
        assert table["s"].threshold == pytest.approx(max(-table["s"].low, table["s"].high), rel=1e-2)
        assert table["a"].dtype == "int8"


def test_shared_observers_give_one_scale(tmp_path: Path) -> None:
    before = {t["name"]: t["scale"] for t in build(tmp_path, observer="min_max").report["tensors"]}
    text = ops("body/conv1: {share_observer_with: body/relu}")
    after = {t["name"]: t["scale"] for t in build(tmp_path, text, observer="min_max").report["tensors"]}
    assert before["a"] != before["r"]
    assert after["a"] == after["r"] == max(before["a"], before["r"])


def test_high_precision_by_rule(tmp_path: Path) -> None:
    assert types(build(tmp_path))["y"] == "int32"
    program = build(tmp_path, ops("head: {high_precision: false}"))
    assert types(program)["y"] == "int8"
    program = build(tmp_path, ops("body/conv2: {high_precision: true}"))
    (text,) = warnings(program, "output-precision")
    assert "body/conv2 is not of high precision: it is no last Conv" in text
    assert types(build(tmp_path, ops("head: {high_precision: true}"), high_precision_outputs=False))["y"] == "int32"


def test_weights_of_16_bits_on_nash(tmp_path: Path) -> None:
    program = build(tmp_path, ops("body/conv1: {weight: int16, fixed_scale: 0.001, output: int16}"), "nash-e")
    first = next(i for i in program.instructions if isinstance(i, Conv))
    assert first.w.dtype.value == "int16"
    rows = {t["name"]: t for t in program.report["tensors"]}
    np.testing.assert_allclose(rows["w1"]["scale"], np.abs(W1.reshape(4, -1)).max(1) / 32767)
    assert rows["w1"]["qmax"] == 32767
    x = np.load(tmp_path / "d.npz")["x"][0]
    found = [run_program(program, {"x": x}, engine, tensors=["a", "x"]) for engine in ("fast", "reference")]
    for name in ("a", "y"):
        np.testing.assert_array_equal(found[0][name], found[1][name])
    want = conv2d(found[0]["x"].astype(np.float64), W1)
    # half a step of the result, and 16-bit weights that are off by at most 2**-16 of the largest
    assert np.abs(found[0]["a"] - want).max() < 0.0005 + 3 * 2**-16 * np.abs(W1).max() * 4


@pytest.mark.parametrize(
    ("march", "why"), [("bayes-e", "bayes-e has 8-bit weights only"), ("bernoulli2", "8-bit weights")]
)
def test_what_the_march_has_not_falls_back(tmp_path: Path, march: str, why: str) -> None:
    program = build(tmp_path, ops("body/conv1: {weight: int16, output: int16}"), march)
    (text,) = warnings(program, "int16-weights")
    assert "Conv body/conv1 stay int8" in text
    assert why in text
    assert types(program)["w1"] == "int8"
    assert types(program)["a"] == ("int16" if march == "bayes-e" else "int8")
    assert bool(warnings(program, "int16")) == (march == "bernoulli2")


@pytest.mark.parametrize(
    ("rule", "words", "hint"),
    [
        ("body/conv9: {output: int16}", "body/conv9 is no tensor, node", "body/conv"),
        ("'tail/*': {output: int16}", "is no tensor, node, pattern", None),
        ("Sigmoyd: {device: CPU}", "Sigmoyd is no tensor", "Sigmoid"),
        ("a: {share_observer_with: bb}", "share the observer of bb", None),
    ],
)
def test_a_rule_that_names_nothing(tmp_path: Path, rule: str, words: str, hint: str | None) -> None:
    with pytest.raises(ConfigError, match=words.replace("*", r"\*")) as e:
        build(tmp_path, ops(rule))
    assert hint is None or hint in str(e.value.hint)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (ops("a: {output: int12}"), 6, "'int12'"),
        (ops("a: {outptu: int8}"), 6, "no such key"),
        (ops("a: {observer: mze}"), 6, "no observer 'mze'"),
        ("  quantize: {templates: sensitiv}\n", 4, "no such template"),
        ("  quantize: {templates: {sensitive: {topk: 3}}}\n", 4, "table, topk and ratio"),
        ("  quantize: {templates: {sensitive: {table: none.json}}}\n", 4, "cannot read the table"),
        ("  quantize: {templates: {sensitive: {table: [[a, both, 1]], ratio: 2}}}\n", 4, "ratio, 0 to 1"),
        ("  quantize: {templates: {sensitive: {table: [[a]]}}}\n", 4, "a row of the table"),
    ],
)
def test_mistakes_have_their_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as e:
        build(tmp_path, text)
    assert words in str(e.value)
    assert e.value.where == f"{tmp_path / 'c.yaml'}:{line}"


TABLE = [
    {"op_name": "body/sig", "sensitive_type": "activation", "op_type": "Sigmoid", "L1": 0.1},
    {"op_name": "body/conv2", "sensitive_type": "both", "op_type": "Conv", "L1": 0.9},
    {"op_name": "body/conv1", "sensitive_type": "weight", "op_type": "Conv", "L1": 0.4},
]


def test_tables_in_all_forms(tmp_path: Path) -> None:
    want = [("body/sig", "activation", 0.1), ("body/conv2", "both", 0.9), ("body/conv1", "weight", 0.4)]
    heads = list(TABLE[0])
    files = {
        "a.json": json.dumps(TABLE),
        "b.json": json.dumps([list(r.values()) for r in TABLE]),
        "c.yaml": "\n".join("- " + json.dumps(r) for r in TABLE),
        "d.csv": "\n".join(",".join(map(str, r)) for r in [heads, *(t.values() for t in TABLE)]),
        "e.txt": "\n".join("  ".join(map(str, r)) for r in [heads, ["-------"] * 4, *(t.values() for t in TABLE)]),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        assert read_table(tmp_path / name).rows == want, name
    with pytest.raises(FileError):
        read_table(tmp_path / "none.json")
    (tmp_path / "f.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_table(tmp_path / "f.json")


def test_the_most_sensitive_first() -> None:
    rows = [(r["op_name"], r["sensitive_type"], r["L1"]) for r in TABLE]
    assert [r.match for r in sensitive_rules(rows, topk=1)] == ["body/conv2"]
    assert [(r.match, r.output, r.weight) for r in sensitive_rules(rows, ratio=0.5)] == [
        ("body/conv2", "int16", "int16"),
        ("body/conv1", None, "int16"),
    ]
    assert sensitive_rules(rows, ratio=0) == []
    assert len(sensitive_rules(rows)) == 3


def test_templates_with_priority(tmp_path: Path) -> None:
    table = tmp_path / "t.json"
    table.write_text(json.dumps(TABLE))
    want = {"x": "int8", "a": "int8", "s": "int16", "r": "int16", "y": "int32"}
    found = types(build(tmp_path, template=[f"sensitive={table},topk=1", "default"]))
    assert {n: found[n] for n in ("x", "a", "s", "r", "y")} == want
    found = types(build(tmp_path, template=["int16"]))
    assert {found[n] for n in ("x", "a", "s", "r")} == {"int16"}
    program = build(tmp_path, template=["default", "int16"])
    assert types(program)["a"] == "int8"
    assert warnings(program, "template") == ["template int16 has no effect: one before it says something of every op"]
    text = f"  quantize: {{templates: [{{sensitive: {{table: {table}, ratio: 0.3}}}}, int16]}}\n"
    assert types(build(tmp_path, text))["a"] == "int16"
    text = text.replace(", int16]", "]")
    assert (types(build(tmp_path, text))["a"], types(build(tmp_path, text))["s"]) == ("int8", "int16")
    with pytest.raises(ConfigError, match="no table was named"):
        read_templates(["sensitive"])
    with pytest.raises(ConfigError, match="'top' is no option"):
        read_templates(["sensitive=t,top=3"])


def test_the_default_template_says_where_an_output_falls_short(tmp_path: Path) -> None:
    m = model(NODES[:2], {"x": (1, 3, 4, 5)}, ["s"], {"w1": W1})
    write(tmp_path)
    (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
    for template, count in (((), 0), (("default",), 1)):
        request = make_request(None, "bayes-e", str(tmp_path / "c.yaml"), effort=0, template=template)
        program = compile_model(request).program
        assert program.report["outputs"][0]["note"] == "Sigmoid body/sig has no accumulator to leave as it is"
        assert len(warnings(program, "output-precision")) == count


def test_grids_are_int16_back_to_where_they_are_computed(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv"),
        node("Tanh", ["c"], ["t"], "tanh"),
        node("Transpose", ["t"], ["g"], "last", perm=[0, 2, 3, 1]),
        node("Relu", ["x"], ["v"], "relu"),
        node("GridSample", ["v", "g"], ["y"], "sample"),
    ]
    path = tmp_path / "grid.onnx"
    w = RNG.normal(size=(2, 3, 1, 1)).astype(np.float32)
    path.write_bytes(model(nodes, {"x": (1, 3, 4, 5)}, ["y"], {"w": w}, opset=16).SerializeToString())
    program = compile_model(make_request(str(path), "bayes-e")).program
    found = types(program)
    assert {n: found[n] for n in ("x", "c", "t", "g")} == {"x": "int8", "c": "int16", "t": "int16", "g": "int16"}
    assert types(compile_model(make_request(str(path), "bernoulli2")).program)["t"] == "int8"


def test_int16_operands_keep_their_sums(tmp_path: Path) -> None:
    """A rule on the input of the last op: its accumulator is still what leaves."""
    w = exact_weights((2, 3, 1, 1), [2**-7] * 2)
    m = model([node("Conv", ["x", "w"], ["y"], "head")], {"x": (1, 3, 4, 5)}, ["y"], {"w": w})
    (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
    rules = [QuantRule("head", input="int16"), QuantRule("x", fixed_scale=2**-12)]
    program = compile_model(make_request(str(tmp_path / "m.onnx"), "bayes-e", rules=rules)).program
    assert (types(program)["x"], types(program)["y"]) == ("int16", "int32")
    x = int16s((1, 3, 4, 5)) * 2**-12
    got = run_program(program, {"x": x.astype(np.float32)})["y"]
    np.testing.assert_array_equal(got, conv2d(x, w).astype(np.float32))


RULES = {
    "body/conv1": {"observer": "percentile", "observer_options": {"percentile": 90.0}, "output": "int16"},
    "Sigmoid": {"fixed_scale": 0.0078125},
    "body/conv2": {"input": "int16", "device": "BPU"},
    "body/relu": {"share_observer_with": "body/conv1"},
    "h*": {"high_precision": False, "weight": "int16"},
}


def as_yaml(rule: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{k.replace('_options', '_opt')}: {v}" for k, v in rule.items()) + "}"


def as_text(rule: dict[str, Any]) -> str:
    pairs = {k: v for k, v in rule.items() if k != "observer_options"} | rule.get("observer_options", {})
    return ",".join(f"{k}={v}" for k, v in pairs.items())


@pytest.mark.parametrize("march", ["bernoulli2", "bayes", "bayes-e", "nash-e", "nash-m", "nash-p"])
def test_yaml_command_line_and_python_say_the_same(tmp_path: Path, march: str) -> None:
    text = ops("\n      ".join(f"'{n}': {as_yaml(r)}" for n, r in RULES.items()))
    by_file = build(tmp_path, text, march)
    by_text = build(tmp_path, "", march, quant=[f"{n}:{as_text(r)}" for n, r in RULES.items()])
    by_python = build(tmp_path, "", march, rules=[QuantRule(n, **r) for n, r in RULES.items()])
    for other in (by_text, by_python):
        assert other.constants == by_file.constants
        assert other.instructions == by_file.instructions
        assert types(other) == types(by_file)
    # what is fixed or shared holds on every march, types where it has them, and a warning names the op where not
    rows = {t["name"]: t for t in by_file.report["tensors"]}
    assert rows["s"]["scale"] == 0.0078125 or march != "bernoulli2"
    wide = march != "bernoulli2"
    assert (rows["a"]["dtype"], rows["y"]["dtype"]) == ("int16" if wide else "int8", "int8")
    told = " ".join(w["message"] for w in by_file.report["warnings"])
    assert ("body/conv1" in told) or wide
    assert ("weights of Conv head stay int8" in told) == (not march.startswith("nash"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("head", "cannot be read"),
        ("head:output=int4", "none of int8, int16"),
        ("head:outputs=int8", "there is no key 'outputs'"),
        ("head:percentile=99", "there is no key 'percentile'"),
        ("head:fixed_scale=-1", "above 0"),
        ("hea:output=int8", "hea is no tensor, node"),
        ("head:observer=percentil", "there is no observer 'percentil'"),
        ("head:observer=percentile,bins=3", "bins"),
    ],
)
def test_faulty_rules_of_the_command_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as e:
        build(tmp_path, quant=[text])
    assert words in str(e.value)


def test_names_with_colons(tmp_path: Path) -> None:
    assert read_rules("scope/x:0:output=int16") == [QuantRule("scope/x:0", output="int16", source="--quant scope/x:0")]


SUBGRAPH = (
    "calibration_parameters: {{quant_config: {{subgraph_config: {{part: {{inputs: [{0}], outputs: [{1}], "
    "qtype: int16}}}}, node_config: {{body/sig: {{qtype: int8}}}}}}}}\n"
)


@pytest.mark.parametrize(
    ("ends", "want"),
    [
        (("body/sig", "body/relu"), {"a": "int16", "s": "int8", "r": "int16"}),
        (("s", "b"), {"a": "int8", "s": "int8", "r": "int16"}),
        (("x", "a"), {"x": "int16", "a": "int16", "s": "int8", "r": "int8"}),
    ],
)
def test_the_nodes_between(tmp_path: Path, ends: tuple[str, str], want: dict[str, str]) -> None:
    config = Path(write(tmp_path))
    config.write_text(config.read_text() + SUBGRAPH.format(*ends))
    found = types(compile_model(make_request(None, "bayes-e", str(config), effort=0, threads=1)).program)
    assert {n: found[n] for n in want} == want


def test_faulty_subgraphs(tmp_path: Path) -> None:
    config = Path(write(tmp_path))
    text = config.read_text()
    for ends, words in ((("xx", "a"), "xx is no tensor and no node"), (("head", "body/sig"), "no way leads from")):
        config.write_text(text + SUBGRAPH.format(*ends))
        with pytest.raises(ConfigError, match=words):
            compile_model(make_request(None, "bayes-e", str(config)))
    config.write_text(text + SUBGRAPH.format("a", "b").replace("outputs: [b], ", ""))
    with pytest.raises(ConfigError, match="it needs inputs and outputs"):
        make_request(None, "bayes-e", str(config))
