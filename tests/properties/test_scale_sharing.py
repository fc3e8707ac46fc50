"""Random nets of branches and concats, compiled as users do: what holds for scales whatever the net looks like."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import NodeProto, helper

from bpuc.flow.compile import calibrated, compile_model
from bpuc.flow.request import make_request
from bpuc.program import Program
from bpuc.program.container import to_bytes
from bpuc.sim.run import run_program
from tests.unit.lower.bench import no_rules
from tests.unit.ops.onnx_cases import model

SHAPE = (1, 2, 3, 3)
KINDS = ("Sigmoid", "Relu", "Conv", "Exp", "MaxPool", "Reshape", "Split", "Add", "Concat", "Concat", "Concat")


@dataclass(frozen=True)
class Net:
    """Nodes in an order that can run, their constants, and the outputs."""

    nodes: tuple[NodeProto, ...]
    constants: dict[str, np.ndarray[Any, Any]]
    outputs: tuple[str, ...]


@st.composite
def nets(draw: st.DrawFn) -> Net:
    """Tensors [1, C, 3, 3]; everything may feed everything, concats are nested, one tensor may come twice."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    channels = {"x": 2}
    nodes: list[NodeProto] = []
    constants: dict[str, np.ndarray[Any, Any]] = {"flat": np.array([1, -1, 3, 3], np.int64)}
    read: set[str] = set()

    def emit(kind: str, inputs: list[str], outputs: dict[str, int], **attrs: Any) -> None:
        nodes.append(helper.make_node(kind, inputs, list(outputs), f"n{len(nodes)}", **attrs))
        channels.update(outputs)
        read.update(inputs)

    for i in range(draw(st.integers(5, 10))):
        kind, source, out = draw(st.sampled_from(KINDS)), draw(st.sampled_from(sorted(channels))), f"t{i}"
        c = channels[source]
        if kind == "Conv":
            gain = 2.0 ** draw(st.integers(-4, 4))
            constants[f"w{i}"] = (rng.normal(size=(2, c, 1, 1)) * gain).astype(np.float32)
            emit("Conv", [source, f"w{i}"], {out: 2})
        elif kind == "MaxPool":
            emit("MaxPool", [source], {out: c}, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        elif kind == "Reshape":
            emit("Reshape", [source, "flat"], {out: c})
        elif kind == "Split" and c > 1:
            constants[f"s{i}"] = np.array([1, c - 1], np.int64)
            emit("Split", [source, f"s{i}"], {f"{out}a": 1, f"{out}b": c - 1}, axis=1)
        elif kind == "Add":
            others = sorted(n for n, k in channels.items() if k == c)
            emit("Add", [source, draw(st.sampled_from(others))], {out: c})
        elif kind == "Concat":
            others = draw(st.lists(st.sampled_from(sorted(channels)), min_size=1, max_size=3))
            names = [source, *others]
            emit("Concat", names, {out: sum(channels[n] for n in names)}, axis=1)
        else:
            emit(kind if kind in ("Sigmoid", "Relu") else "Tanh", [source], {out: c})
    return Net(tuple(nodes), constants, tuple(sorted(set(channels) - read - {"x"})))


def written(net: Net, folder: str) -> tuple[str, str]:
    """Paths of the model and of two samples."""
    path, data = Path(folder, "net.onnx"), Path(folder, "data.npz")
    path.write_bytes(model(net.nodes, {"x": SHAPE}, list(net.outputs), net.constants).SerializeToString())
    np.savez(data, x=np.random.default_rng(0).normal(size=(2, *SHAPE)).astype(np.float32))
    return str(path), str(data)


def compiled(net: Net, **options: Any) -> Program:
    with tempfile.TemporaryDirectory() as folder, no_rules():
        path, data = written(net, folder)
        return compile_model(make_request(path, "bayes-e", data=data, threads=1, **options)).program


def scales(program: Program) -> dict[str, Any]:
    return {t["name"]: t["scale"] for t in program.report["tensors"]}


def concats(program: Program) -> list[Any]:
    return [n for n in program.report["nodes"] if n["op"] == "Concat" and n["device"] == "BPU"]


@settings(deadline=None, max_examples=20)
@given(nets(), st.sampled_from(["auto", "always", "never"]))
def test_a_concat_has_one_scale_and_both_engines_agree(net: Net, mode: str) -> None:
    program = compiled(net, share_scales=mode)
    scale = scales(program)
    for node in concats(program):
        assert {scale[name] for name in node["inputs"]} == {scale[node["outputs"][0]]}, node
    engines_agree(program)


def engines_agree(program: Program) -> None:
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    reference = run_program(program, {"x": x}, "reference", integers=True, tensors="all")
    fast = run_program(program, {"x": x}, "fast", integers=True, tensors="all")
    for name, value in reference.items():
        np.testing.assert_array_equal(fast[name], value, err_msg=name)


def test_a_copy_may_lag_behind_the_rows_that_a_window_needs() -> None:
    # the MaxPool wants rows of s ahead, so that its first place in the join is full before the copy to the second
    sigmoids = [helper.make_node("Sigmoid", ["s"], [f"t{i}"], f"n{i}") for i in range(5)]
    pool = helper.make_node("MaxPool", ["s"], ["p"], "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    join = helper.make_node("Concat", ["s", "s"], ["y"], "join", axis=1)
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"], "n"),
        *sigmoids,
        pool,
        join,
        helper.make_node("Sigmoid", ["x"], ["z"], "last"),
    ]
    outputs = (*(f"t{i}" for i in range(5)), "p", "y", "z")
    engines_agree(compiled(Net(tuple(nodes), {}, outputs)))


@settings(deadline=None, max_examples=20)
@given(nets(), st.sampled_from([0, 1]))
def test_every_rescale_that_is_left_spares_a_reader_bits(net: Net, effort: int) -> None:
    for r in compiled(net, effort=effort).report["rescales"]:
        assert r["bits_lost"] > 0, r
        assert r["readers"], r


@settings(deadline=None, max_examples=25)
@given(nets())
def test_moved_and_merged_rescales_keep_the_integers(net: Net) -> None:
    # with no bit to lose and nothing measured, all that may keep its own scale does; each pass is checked on data
    program = compiled(net, max_bits_lost=0.0, effort=0, check_numerics=True)
    found = [(r["tensor"], r["to_scale"]) for r in program.report["rescales"]]
    assert len(set(found)) == len(found)
    scale = scales(program)
    for node in concats(program):
        assert {scale[name] for name in node["inputs"]} == {scale[node["outputs"][0]]}, node


@settings(deadline=None, max_examples=15)
@given(nets())
def test_never_has_a_rescale_for_every_operand_that_differs(net: Net) -> None:
    # effort 0: above it the modes may differ in the tensors that become int16
    program = compiled(net, share_scales="never", effort=0)
    scale = scales(program)
    origin = {r["name"]: r["tensor"] for r in program.report["rescales"]}
    made = {n["outputs"][0]: origin[n["name"]] for n in program.report["nodes"] if n["op"] == "Rescale"}
    wanted = set()
    for node in concats(program):
        for name in node["inputs"]:
            tensor, result = made.get(name, name), scale[node["outputs"][0]]
            if scale[tensor] != result:
                wanted.add((tensor, result))
    assert sorted((r["tensor"], r["to_scale"]) for r in program.report["rescales"]) == sorted(wanted)
    assert program.report["avoided"] == []
    # what `always` avoids is what `never` has, counted once an operand
    always = compiled(net, share_scales="always", effort=0)
    assert always.report["rescales"] == []
    assert sorted(a["tensor"] for a in always.report["avoided"]) == sorted(tensor for tensor, _ in wanted)


@settings(deadline=None, max_examples=10)
@given(nets())
def test_all_modes_start_from_the_same_thresholds(net: Net) -> None:
    with tempfile.TemporaryDirectory() as folder, no_rules():
        path, data = written(net, folder)
        requests = [make_request(path, "bayes-e", data=data, threads=1, share_scales=m) for m in ("auto", "never")]
        auto, never = (calibrated(request)[0].ctx.ranges for request in requests)
    assert auto == never


@settings(deadline=None, max_examples=15)
@given(nets())
def test_without_concats_all_modes_give_the_same_bytes(net: Net) -> None:
    alone = tuple(n for n in net.nodes if n.op_type != "Concat")
    made = {"x", *net.constants, *(o for n in alone for o in n.output)}
    while any(not set(n.input) <= made for n in alone):
        alone = tuple(n for n in alone if set(n.input) <= made)
        made = {"x", *net.constants, *(o for n in alone for o in n.output)}
    ends = {o for n in alone for o in n.output} - {i for n in alone for i in n.input}
    assume(ends)
    net = Net(alone, {k: v for k, v in net.constants.items() if k == "flat" or k in made}, tuple(sorted(ends)))
    first, *others = (to_bytes(compiled(net, share_scales=mode)) for mode in ("auto", "always", "never"))
    assert all(other == first for other in others)


@settings(deadline=None, max_examples=15)
@given(nets(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_their_names_decide_nothing(net: Net, random: Any) -> None:
    names = sorted({n for node in net.nodes for n in node.output})
    new = dict(zip(names, random.sample([f"m{i}" for i in range(len(names))], len(names))))
    waiting, known, ordered = list(net.nodes), {"x", *net.constants}, []
    while waiting:
        ready = [n for n in waiting if set(n.input) <= known]
        chosen = random.choice(ready)
        waiting.remove(chosen)
        known |= set(chosen.output)
        twin = NodeProto()
        twin.CopyFrom(chosen)
        twin.name = new[chosen.output[0]]
        twin.input[:] = [new.get(i, i) for i in chosen.input]
        twin.output[:] = [new[o] for o in chosen.output]
        ordered.append(twin)
    other = Net(tuple(ordered), net.constants, tuple(new[o] for o in net.outputs))
    before, after = compiled(net), compiled(other)
    a, b = scales(before), scales(after)
    for name in names:
        if name in a:  # some are fused away
            assert b[new[name]] == a[name], name
    assert len(before.report["rescales"]) == len(after.report["rescales"])
