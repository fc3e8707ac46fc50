"""Settings that contradict each other, cannot act, or were made for another model: told, never passed over."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.conftest import Bpuc

RNG = np.random.default_rng(11)


def write(path: Path, second: str = "conv2") -> Path:
    """Two convolutions of one input whose results are joined, one through a Relu; a third behind them."""
    shapes = {"w1": (4, 3, 1, 1), "w2": (4, 3, 1, 1), "w3": (4, 8, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="conv1"),
        helper.make_node("Conv", ["x", "w2"], ["b"], name=second),
        helper.make_node("Sigmoid", ["b"], ["s"], name="side"),
        helper.make_node("Concat", ["a", "b"], ["c"], name="join", axis=1),
        helper.make_node("Conv", ["c", "w3"], ["y"], name="conv3"),
    ]
    info = helper.make_tensor_value_info
    weights = [numpy_helper.from_array(RNG.normal(size=s).astype(np.float32), n) for n, s in shapes.items()]
    outputs = [info(n, TensorProto.FLOAT, None) for n in "ys"]
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, [1, 3, 8, 8])], outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("settings")
    write(folder / "m.onnx")
    np.savez(folder / "x.npz", x=RNG.normal(size=(4, 1, 3, 8, 8)).astype(np.float32))
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch, bpuc: Bpuc) -> Path:
    monkeypatch.chdir(made)
    if not Path("m.calib.json").exists():
        assert bpuc("calibrate", "m.onnx", "--data", "x.npz", "-o", "m.calib.json").code == 0
    return made


def command(name: str, *more: Any) -> list[Any]:
    out = {"compile": ["-o", "m.bpuc"], "sensitivity": ["-o", "sens"], "compare-scales": []}[name]
    return [name, "m.onnx", "--march", "nash-e", "--data", "x.npz", "--effort", 0, *out, *more]


ALL = ["compile", "sensitivity", "compare-scales"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ALL)
def test_observers_beside_a_calibration_are_told(bpuc: Bpuc, name: str) -> None:
    settings = ["--observer", "mse", "--observer-opt", "stride=2", "--observer-for", "Conv=kl"]
    settings += ["--quant", "conv1:observer=min_max", "--tune-thresholds"]
    done = bpuc(*command(name, "--calib", "m.calib.json", *settings))
    assert done.code == 0, done.err
    for option in ("--observer mse", "--observer-opt stride=2", "--observer-for Conv=kl", "--tune-thresholds"):
        assert f"{option} has no effect: the thresholds stand in m.calib.json" in done.err
    assert "--quant conv1:observer=min_max has no effect" in done.err
    assert "has no effect" not in bpuc(*command(name, *settings)).err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("calib", [[], ["--calib", "m.calib.json"]])
@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        (["--observer", "mee"], 2, "unknown observer 'mee'"),
        (["--observer-opt", "points=1"], 2, "has no option 'points'"),
        (["--observer-for", "Conv=mee"], 2, "there is no observer 'mee'"),
        (["--observer-for", "Conv=mse,stride=x"], 2, "stride is 'x'"),
        (["--observer-for", "Conf=mse"], 1, "--observer-for Conf: no tensor, node or op type"),
        (["--quant", "conv1:observer=mee"], 2, "there is no observer 'mee'"),
        (["--quant", "conv1:observer=percentile,percentile=x"], 2, "percentile is 'x'"),
    ],
)
def test_values_are_checked_with_and_without_a_calibration(
    bpuc: Bpuc, calib: list[str], settings: list[str], code: int, said: str
) -> None:
    for name in ALL:
        done = bpuc(*command(name, *calib, *settings))
        assert (done.code, said in done.err) == (code, True), (name, done.err)


@pytest.mark.usefixtures("folder")
def test_without_data_an_observer_cannot_act(bpuc: Bpuc) -> None:
    done = bpuc("check", "m.onnx", "--march", "bayes-e", "--observer", "mse")
    assert (done.code, "--observer mse has no effect: without data nothing is observed" in done.err) == (0, True)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ALL)
def test_shares_that_no_concat_takes_up(bpuc: Bpuc, name: str) -> None:
    done = bpuc(*command(name, "--share", "a", "--keep-scale", "b", "--keep-scale", "y", "--share", "x"))
    assert done.code == 0, done.err
    assert "--share a" not in done.err
    assert "--keep-scale b" not in done.err
    for option in ("--keep-scale y", "--share x"):
        assert (
            f"{option} has no effect: on this march no concat joins its scale with another; joined are a, b" in done.err
        )


@pytest.mark.usefixtures("folder")
def test_shares_where_nothing_is_shared(bpuc: Bpuc) -> None:
    words = ["--share-scales", "never", "--share", "a", "--keep-scale", "b"]
    done = bpuc(*command("compile", *words))
    assert done.code == 0
    assert "--share a has no effect with --share-scales never" in done.err
    assert "--keep-scale b has no effect with --share-scales never" in done.err
    # all ways are compared, among them the one that shares
    done = bpuc(*command("compare-scales", *words))
    assert (done.code, "--share a has no effect" in done.err) == (0, False)
    assert "--share-scales and --equalize have no effect" in done.err


def dtypes(bpuc: Bpuc, *more: Any) -> tuple[dict[str, str], str]:
    done = bpuc(*command("compile", "--report", "r.json", *more))
    assert done.code == 0, done.err
    tensors = json.loads(Path("r.json").read_text(encoding="utf-8"))["tensors"]
    return {t["name"]: t["dtype"] for t in tensors}, done.err


@pytest.mark.usefixtures("folder")
def test_of_two_rules_the_later_wins_key_by_key(bpuc: Bpuc) -> None:
    for words in (
        ["--quant", "side:output=int16,input=int16", "--quant", "side:output=int8"],
        ["--quant", "side:output=int16,input=int16,output=int8"],
    ):
        found, said = dtypes(bpuc, *words)
        assert (found["s"], found["b"]) == ("int8", "int16")
        assert "--quant side: output is given twice; the later counts, int8, not int16" in said
        assert said.count("given twice") == 1
    found, said = dtypes(bpuc, "--quant", "side:output=int8", "--quant", "side:output=int16")
    assert found["s"] == "int16"
    # said twice alike, or more exactly, is no contradiction
    found, said = dtypes(
        bpuc, "--quant", "side:output=int16", "--quant", "side:output=int16", "--quant", "s*:output=int8"
    )
    assert (found["s"], "given twice" in said) == ("int16", False)


@pytest.mark.usefixtures("folder")
def test_in_a_file_too_and_the_command_line_wins(bpuc: Bpuc) -> None:
    text = "bpuc: {{quantize: {{ops: {{'si*': {{output: {0}}}, '*ide': {{output: {1}}}}}}}}}\n"
    for first, second in (("int16", "int8"), ("int8", "int16")):
        Path("c.yaml").write_text(text.format(first, second), encoding="utf-8")
        assert dtypes(bpuc, "-c", "c.yaml")[0]["s"] == second
        assert dtypes(bpuc, "-c", "c.yaml", "--quant", f"sid?:output={first}")[0]["s"] == first
    Path("c.yaml").write_text("bpuc:\n  quantize:\n    ops:\n      side: {output: int8}\n      side: {output: int16}\n")
    done = bpuc(*command("compile", "-c", "c.yaml"))
    assert (done.code, "it stands in line 4 already" in done.err) == (1, True)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("option", "first", "second"),
    [
        ("--dtype", "side=int16", "side=int8"),
        ("--fixed-scale", "s=0.5", "s=0.25"),
        ("--observer-for", "side=mse", "side=kl"),
        ("--observer-opt", "percentile=99", "percentile=98"),
    ],
)
def test_options_that_name_one_thing_twice(bpuc: Bpuc, option: str, first: str, second: str) -> None:
    name = first.partition("=")[0]
    assert f"{option} {name} is given twice" in dtypes(bpuc, option, first, option, second)[1]
    assert "given twice" not in dtypes(bpuc, option, first, option, first)[1]


def test_a_table_of_another_model_or_march(bpuc: Bpuc, folder: Path) -> None:
    assert bpuc(*command("sensitivity")).code == 0
    table = "sensitive=sens/sensitivity.json"
    assert "measured" not in dtypes(bpuc, "--template", table)[1]
    Path("q.yaml").write_text("bpuc: {quantize: {templates: [{sensitive: {table: sens/sensitivity.json}}]}}\n")
    for more in (["--template", table], ["-c", "q.yaml"]):
        words = ["m.onnx", "--data", "x.npz", "--effort", 0, "-o", "n.bpuc", *more]
        done = bpuc("compile", *words, "--march", "bayes-e")
        assert (done.code, "was measured for nash-e, and this is bayes-e" in done.err) == (0, True), done.err
        # the same names with other weights, then with another name
        write(folder / "n.onnx")
        done = bpuc("compile", "n.onnx", *words[1:], "--march", "nash-e")
        assert (done.code, "measured on another model" in done.err) == (0, True), done.err
        write(folder / "n.onnx", "other")
        done = bpuc("compile", "n.onnx", *words[1:], "--march", "nash-e")
        assert done.code == 1
        assert "sensitivity.json: the model has no conv2" in done.err
        assert "measured on another model" in done.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("--max-bits-lost 1 --share-scales never", "--max-bits-lost has no effect with --share-scales never"),
        ("--max-bits-lost 1 --share-scales always", "--max-bits-lost has no effect with --share-scales always"),
        ("--effort 0 --channel-scales", "--channel-scales has no effect at effort 0, only from 1 on"),
        ("--effort 0 --bias-correction", "--bias-correction has no effect at effort 0, only from 1 on"),
        ("--effort 0 --auto-int16", "--auto-int16 has no effect at effort 0, only from 1 on"),
        ("--adaptive-rounding", "--adaptive-rounding has no effect at effort 1, only from 2 on"),
        ("--weight-clipping", "--weight-clipping has no effect at effort 1, only from 2 on"),
        ("--max-latency-loss 5 --no-auto-int16", "--max-latency-loss has no effect with --no-auto-int16"),
        ("--max-latency-loss 5 --effort 0", "--max-latency-loss has no effect at effort 0"),
        ("-O 2 --compile-mode bandwidth", "compile mode bandwidth has no effect at -O2, only at -O3"),
        ("--calib m.calib.json --workers 2", "--workers 2 has no effect: the thresholds stand in m.calib.json"),
        (
            "--calib m.calib.json --scheduler tcp://h:1",
            "--scheduler tcp://h:1 has no effect: the thresholds stand in m.calib.json",
        ),
    ],
)
def test_settings_with_nothing_to_do_are_told_and_change_nothing(bpuc: Bpuc, settings: str, said: str) -> None:
    """That the warning is true: the bytes are those of a compile without the setting that it names."""
    words = ["compile", "m.onnx", "--march", "nash-e", "--data", "x.npz"]
    given = settings.split()
    done = bpuc(*words, *given, "-o", "with.bpuc")
    assert done.code == 0, done.err
    assert done.err.count("has no effect") == 1, done.err
    assert said in done.err
    named = next(w for w in given if w in (said.split()[0], "--compile-mode"))
    at = given.index(named)
    takes_none = at + 1 == len(given) or given[at + 1].startswith("--")
    assert bpuc(*words, *given[:at], *given[at + (1 if takes_none else 2) :], "-o", "without.bpuc").code == 0
    parts = [_parts(Path(name)) for name in ("with.bpuc", "without.bpuc")]
    assert parts[0] == parts[1]


def _parts(path: Path) -> dict[str, bytes]:
    """Constants, program and schedule of a binary; its report holds the warning."""
    with zipfile.ZipFile(path) as z:
        return {name: z.read(name) for name in ("constants.bin", "program.bin", "schedule.bin")}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "settings", ["--max-bits-lost 1", "--effort 2 --adaptive-rounding", "--workers 2", "--effort 1"]
)
def test_settings_that_act_are_not_told(bpuc: Bpuc, settings: str) -> None:
    done = bpuc("compile", "m.onnx", "--march", "nash-e", "--data", "x.npz", *settings.split(), "-o", "m.bpuc")
    assert (done.code, "has no effect" in done.err) == (0, False), done.err


@pytest.mark.usefixtures("folder")
def test_settings_that_go_by_measured_error_are_told_without_data(bpuc: Bpuc) -> None:
    done = bpuc("check", "m.onnx", "--march", "nash-e", "--equalize", "--max-latency-loss", "5")
    assert done.code == 0
    for option in ("--equalize", "--max-latency-loss"):
        assert f"{option} has no effect without data" in done.err + done.out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "settings",
    [
        "--dtype conv1",
        "--dtype conv1=int9",
        "--fixed-scale a=-1",
        "--fixed-scale a=x",
        "--input-shape x",
        "--input-shape x:1x3x-1x8",
        "--input-shape n=0",
        "--input-value n",
        "--input-value n=x",
        "--input-value n=nan",
        "--template none",
        "--template sensitive=",
        "--template sensitive=t.csv,topk=x",
        "--quant conv1",
        "--quant conv1:nothing=1",
        "--observer-for Conv",
        "--observer-opt points=1",
        "--share a --keep-scale a",
    ],
)
def test_what_no_model_could_take_is_a_fault_of_usage(bpuc: Bpuc, settings: str) -> None:
    Path("t.csv").write_text("op,kind,value\nconv1,weight,1\n", encoding="utf-8")
    done = bpuc("check", "m.onnx", "--march", "nash-e", *settings.split())
    assert (done.code, done.out) == (2, "")
    assert settings.split()[-1].split("=")[0].split(":")[0].split(",")[0] in done.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "settings",
    [
        "--dtype none=int8",
        "--fixed-scale none=1",
        "--input-shape none:1x3x8x8",
        "--input-shape none=1",
        "--input-value none=1",
        "--observer-for none=mse",
        "--run-on-cpu none",
        "--share none",
        "--template sensitive=none.csv",
    ],
)
def test_what_this_model_has_not_is_no_fault_of_usage(bpuc: Bpuc, settings: str) -> None:
    done = bpuc("check", "m.onnx", "--march", "nash-e", *settings.split())
    assert (done.code, "none" in done.err) == (1, True), done.err


@pytest.mark.usefixtures("folder")
def test_the_same_faults_in_a_file_are_those_of_the_file(bpuc: Bpuc) -> None:
    Path("c.yaml").write_text("bpuc: {quantize: {templates: [none]}}\n", encoding="utf-8")
    done = bpuc("check", "m.onnx", "--march", "nash-e", "-c", "c.yaml")
    assert (done.code, "none" in done.err) == (1, True), done.err


COMPILE_ONLY = [
    "--share-scales never", "--share a", "--keep-scale a", "--max-bits-lost 1", "--equalize", "--max-latency-loss 5",
    "--no-adaptive-rounding", "--no-weight-clipping", "--no-auto-int16", "-O 2", "--compile-mode bandwidth",
    "--compile-mode balance --balance-factor 20", "--cores 2",
]  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("march", [[], ["--march", "nash-e", "--effort", "2"]])
def test_calibrate_tells_what_only_compile_reads(bpuc: Bpuc, march: list[str]) -> None:
    """That it is true: the thresholds are the same to the byte."""
    words = ["calibrate", "m.onnx", "--data", "x.npz", *march]
    done = bpuc(*words, "-o", "plain.calib.json")
    assert (done.code, "no effect" in done.err) == (0, False), done.err
    want = Path("plain.calib.json").read_bytes()
    for settings in COMPILE_ONLY:
        done = bpuc(*words, *settings.split(), "-o", "t.calib.json")
        assert done.code == 0, done.err
        option = settings.split()[-2] if settings.split()[-1][0] != "-" else settings
        assert f"{option}: no effect on thresholds; give it to `bpuc compile`" in done.err.replace(
            "--compile-mode, ", ""
        )
        assert Path("t.calib.json").read_bytes() == want, settings


@pytest.mark.usefixtures("folder")
def test_strict_scales_of_a_file_that_has_none(bpuc: Bpuc) -> None:
    said = "--qat-scales strict has no effect on a model without scales of its own (Q/DQ)"
    assert said in bpuc(*command("compile", "--qat-scales", "strict")).err
    assert "has no effect" not in bpuc(*command("compile", "--qat-scales", "fold")).err
    assert bpuc("calibrate", "m.onnx", "--data", "x.npz", "-o", "m.calib.json", "--export-qdq", "qdq.onnx").code == 0
    done = bpuc("compile", "qdq.onnx", "--march", "nash-e", "--qat-scales", "strict", "-o", "q.bpuc")
    assert (done.code, "has no effect" in done.err) == (0, False), done.err


@pytest.mark.usefixtures("folder")
def test_int16_that_cannot_be_is_told_once_by_one_name(bpuc: Bpuc) -> None:
    info, node = helper.make_tensor_value_info, helper.make_node
    nodes = [node("PRelu", ["x", "s"], ["act"], name="act"), node("PRelu", ["act", "s"], ["y"], name="last")]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [info("y", TensorProto.FLOAT, [1, 3, 8, 8])],
        [numpy_helper.from_array(np.full((3, 1, 1), 0.25, np.float32), "s")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "p.onnx")
    done = bpuc("check", "p.onnx", "--march", "bayes-e", "--dtype", "act=int16", "--dtype", "y=int16")
    lines = [x for x in done.err.splitlines() if "int16" in x]
    assert lines == [
        "warning: PRelu act: bayes-e has no int16 for this op, so it stays int8",
        "warning: y (of PRelu last): bayes-e has no int16 for this op, so it stays int8",
    ]
