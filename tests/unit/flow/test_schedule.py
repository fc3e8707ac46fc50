"""Which schedule a user gets: levels, modes and cores, from the command line and from YAML."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from bpuc.base.errors import ConfigError
from bpuc.flow.compile import compile_for_perf
from bpuc.lower.order import ordered
from bpuc.perf.model import estimate
from bpuc.plugins import get_target
from bpuc.program import Program
from tests.unit.lower.bench import exact_weights, node
from tests.unit.ops.onnx_cases import model

Y = "model_parameters: {{onnx_model: net.onnx, march: bayes-e}}\ncompiler_parameters: {{{0}}}\n"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """Two branches of two convolutions, layer by layer; the first of each makes much, the second little."""
    nodes, w = [], {}
    for depth, (cin, cout) in enumerate([(3, 64), (64, 4)], 1):
        for branch in "ab":
            x = "x" if depth == 1 else f"{branch}1"
            w[f"w{branch}{depth}"] = exact_weights((cout, cin, 3, 3), [2**-9] * cout)
            nodes.append(node("Conv", [x, f"w{branch}{depth}"], [f"{branch}{depth}"], f"{branch}{depth}", pads=[1] * 4))
    nodes.append(node("Add", ["a2", "b2"], ["y"], "add"))
    path = tmp_path / "net.onnx"
    onnx.save(onnx.load_from_string(model(nodes, {"x": (1, 3, 64, 64)}, ["y"], w, 17).SerializeToString()), path)
    return path


def summary(program: Program) -> dict[str, float]:
    return dict(estimate(program, get_target(program.march))["summary"])


def level(program: Program) -> tuple[int, int]:
    assert program.schedule is not None
    return program.schedule.level, program.schedule.cores


def test_the_default_is_o3_on_one_core(net):
    assert level(compile_for_perf(str(net), "bayes-e", {})) == (3, 1)


@pytest.mark.parametrize("n", range(4))
def test_levels(net, n):
    assert level(compile_for_perf(str(net), "bayes-e", {"optimize": str(n)})) == (n, 1)


def test_levels_cost_less_and_less(net):
    moved = []
    for n in "0123":
        s = summary(compile_for_perf(str(net), "bayes-e", {"optimize": n}))
        moved.append(s["ddr_read_bytes"] + s["ddr_write_bytes"])
    assert moved[0] > moved[1] >= moved[2] >= moved[3]


def test_yaml(net):
    path = net.parent / "c.yaml"
    path.write_text(Y.format("optimize_level: O1, compile_mode: balance, balance_factor: 20, core_num: 1"))
    assert level(compile_for_perf(None, None, {"config": str(path)})) == (1, 1)
    assert level(compile_for_perf(None, None, {"config": str(path), "optimize": "2"})) == (2, 1)


def test_a_second_core_that_the_march_lacks(net):
    path = net.parent / "c.yaml"
    path.write_text(Y.format("core_num: 2"))
    with pytest.raises(ConfigError, match="bayes-e has 1 BPU core"):
        compile_for_perf(None, None, {"config": str(path)})
    with pytest.raises(ConfigError, match="2 BPU cores asked for; bayes-e has 1"):
        compile_for_perf(str(net), "bayes-e", {"cores": 2})


def test_two_cores_share_a_frame(net):
    one, two = (summary(compile_for_perf(str(net), "bernoulli2", {"cores": n})) for n in (1, 2))
    assert one["bpu_us"] / 2 < two["bpu_us"] < one["bpu_us"]
    assert two["throughput_fps"] == pytest.approx(1e6 / two["bpu_us"])
    assert one["throughput_fps"] == pytest.approx(2e6 / one["bpu_us"])
    assert one["macs"] == two["macs"]


def test_a_narrow_order_finishes_a_branch_before_the_next(net):
    from bpuc.flow.prepare import prepare
    from bpuc.flow.request import make_request

    graph = prepare(make_request(str(net), "bayes-e")).graph
    for op in graph:
        op.device, op.segment = "BPU", 0
    names = [op.name for op in ordered(graph, narrow=True)]
    assert names[:4] in (["a1", "a2", "b1", "b2"], ["b1", "b2", "a1", "a2"])
    assert [op.name for op in ordered(graph)][:2] == ["a1", "b1"]


@pytest.mark.parametrize(
    ("mode", "balance", "best"),
    [("latency", 0, "quick"), ("bandwidth", 100, "frugal"), ("balance", 90, "quick"), ("balance", 50, "frugal")],
)
def test_the_mode_chooses_among_candidates(net, monkeypatch, mode, balance, best):
    """Two made-up candidates, one quick and one frugal."""
    from bpuc.flow import schedule

    made = {"quick": (100.0, 9000), "frugal": (300.0, 1000)}
    names = iter(["quick", "frugal"])

    def figures(program, _):
        time, moved = made[program]
        return {"summary": {"latency_us": time, "ddr_read_bytes": moved, "ddr_write_bytes": 0}}

    monkeypatch.setattr(schedule, "estimate", figures)
    from bpuc.flow.request import make_request

    request = make_request(str(net), "bayes-e", compile_mode=mode, balance=balance)
    got = schedule.best_program(request, get_target("bayes-e"), lambda _: next(names))
    assert got == best
