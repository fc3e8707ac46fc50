"""Gates on an estimate, and the command that applies them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from bpuc.base.errors import GateError
from bpuc.cli.perf_cmd import command
from bpuc.perf.gates import check_gates
from bpuc.program import save_program
from tests.unit.perf.perf_samples import chain


def document(*ops):
    keys = ("name", "op", "device")
    return {
        "summary": {"latency_us": 1500.0},
        "ops": [{**dict(zip(keys, o)), "reason": "because", "remedy": None} for o in ops],
    }


def test_latency_gate():
    check_gates(document(), 1.5, ())
    with pytest.raises(GateError, match=r"1\.500 ms exceeds the limit of 1\.4 ms") as e:
        check_gates(document(), 1.4, ())
    assert e.value.exit_code == 3


def test_cpu_gate_ignores_borders_and_overhead():
    border = [("q", "Quantize", "CPU"), ("d", "Dequantize", "CPU"), ("s", "Overhead", "CPU"), ("c", "Conv", "BPU")]
    check_gates(document(*border), None, ("cpu-op",))
    with pytest.raises(GateError, match="2 ops on the CPU: a, b") as e:
        check_gates(document(*border, ("a", "Selu", "CPU"), ("b", "Loop", "CPU")), None, ("cpu-op", "rescale"))
    assert e.value.where == "because"


def test_rescale_gate():
    check_gates(document(("c", "Conv", "BPU")), None, ("rescale",))
    with pytest.raises(GateError, match="4 rescales: r0, r1, r2 and 1 more"):
        check_gates(document(*[(f"r{i}", "Rescale", "BPU") for i in range(4)]), None, ("rescale",))


def test_command_writes_every_form(tmp_path):
    save_program(chain(rescales=1), tmp_path / "x.bpuc")
    out = {k: tmp_path / f"perf.{k}" for k in ("json", "csv", "trace")}
    args = [str(tmp_path / "x.bpuc"), *(a for k, p in out.items() for a in (f"--{k}", str(p)))]
    result = CliRunner().invoke(command, args, catch_exceptions=False)
    assert "estimate" in result.output
    perf = json.loads(out["json"].read_text())
    names = [o["name"] for o in perf["ops"]]
    assert {"quant", "conv1", "rescale0", "conv2", "dequant"} < set(names)
    assert len(out["csv"].read_text().splitlines()) == len(names) + 1
    events = json.loads(out["trace"].read_text())["traceEvents"]
    assert sorted(e["name"] for e in events if e["ph"] == "X") == sorted(names)
    with pytest.raises(GateError):
        CliRunner().invoke(command, [args[0], "--fail-on", "rescale"], catch_exceptions=False)


def test_json_on_stdout_replaces_the_text(tmp_path):
    save_program(chain(), tmp_path / "x.bpuc")
    result = CliRunner().invoke(command, [str(tmp_path / "x.bpuc"), "--json", "-"], catch_exceptions=False)
    assert json.loads(result.stdout)["march"] == "bayes-e"


@pytest.mark.parametrize("march", ["bayes_e", "nash-e"])
def test_a_wrong_march_is_a_fault_of_usage(tmp_path, march):
    save_program(chain(), tmp_path / "x.bpuc")
    result = CliRunner().invoke(command, [str(tmp_path / "x.bpuc"), "--march", march])
    assert result.exit_code == 2
    assert march in result.output
