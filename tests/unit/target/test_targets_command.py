"""bpuc targets: texts, JSON, exit codes."""

import json

import pytest
from click.testing import CliRunner

from bpuc.cli.main import cli


def run(*args):
    return CliRunner().invoke(cli, ["targets", *args])


def test_list_of_marches():
    result = run()
    assert result.exit_code == 0
    for march in ("bernoulli2", "bayes", "bayes-e", "nash-e", "nash-m", "nash-p"):
        assert march in result.output
    assert "estimate" in result.output


def test_one_march_gives_limits_with_origin():
    text = " ".join(run("bayes-e").output.split())
    assert "kernel height 1..31" in text
    assert "known: public operator list of the X5" in text
    assert "clock_mhz 1000 MHz known [2]" in text
    assert "[1] model zoo of the RDK X5" in text
    assert "error of the estimate: BPU time" in text
    assert "cpu_dequantize_ns_per_elem" in text


def test_json_replaces_the_text(tmp_path):
    value = json.loads(run("nash", "--json", "-").output)
    assert value["march"] == "nash-e"
    conv = next(o for o in value["operators"] if o["op"] == "Conv")
    assert any(limit["reason"] == "kernel height 1..31" for limit in conv["limits"])
    assert {h["origin"] for h in value["hardware"]} <= {"known", "fitted", "derived", "assumed"}
    assert run("--json", str(tmp_path / "all.json")).exit_code == 0
    assert len(json.loads((tmp_path / "all.json").read_text())["targets"]) == 6


def test_unknown_march_is_a_usage_error():
    result = run("bayes-f")
    assert result.exit_code == 2
    assert "bayes-e" in result.output


@pytest.mark.parametrize("march", ["bernoulli2", "bayes", "bayes-e", "nash-m", "nash-p"])
def test_every_march_prints(march, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = run(march)
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80


def test_help_has_an_example():
    assert "Example: bpuc targets" in run("--help").output
