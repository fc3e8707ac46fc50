"""What all commands share: JSON, quiet, colours, progress."""

import json
import re

import click
import pytest
from click.testing import CliRunner

from bpuc.base.errors import FileError
from bpuc.cli import ui


@click.command()
@ui.json_option
def answer(json_to):
    ui.note("working")
    ui.warn("careful")
    ui.emit("the answer is 42", {"answer": 42, "名": [1.5]}, json_to)


def test_text_on_stdout_the_rest_on_stderr():
    result = CliRunner().invoke(answer, [])
    assert result.stdout == "the answer is 42\n"
    assert result.stderr == "working\nwarning: careful\n"


def test_json_replaces_the_text():
    result = CliRunner().invoke(answer, ["--json", "-"])
    assert json.loads(result.stdout) == {"answer": 42, "名": [1.5]}


def test_json_file_beside_the_text(tmp_path):
    result = CliRunner().invoke(answer, ["--json", str(tmp_path / "a.json")])
    assert result.stdout == "the answer is 42\n"
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["answer"] == 42


def test_an_impossible_file_is_refused_before_the_work(tmp_path):
    result = CliRunner().invoke(answer, ["--json", str(tmp_path)])
    assert isinstance(result.exception, FileError)
    assert "working" not in result.stderr


def test_quiet_silences_notes_but_not_warnings():
    group = click.Group("g")
    group.add_command(answer, "answer")
    result = CliRunner().invoke(group, ["answer"], obj=None)
    assert "working" in result.stderr
    with click.Context(answer) as ctx:
        ctx.meta[ui.QUIET] = True
        assert ui.quiet()
    assert not ui.quiet()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_never_holds_nan(tmp_path, value):
    with pytest.raises(ValueError, match="JSON compliant"):
        ui.emit("", {"x": value}, str(tmp_path / "a.json"))
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_colours_only_on_a_terminal(monkeypatch, terminal, no_color, coloured):
    monkeypatch.setattr(ui.sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert (ui.paint("x", fg="red") != "x") is coloured


def test_progress_on_a_terminal_tells_rate_and_time(monkeypatch, capsys):
    monkeypatch.setattr(ui.sys.stderr, "isatty", lambda: True)
    with ui.progress(iter(range(30)), "counting", 30) as items:
        for _ in items:
            ui.time.sleep(0.05)
    shown = capsys.readouterr().err
    assert re.search(r"counting.* 30/30 .*[0-9.]+/s", shown.replace("\r", "\n"))
    assert re.search(r"[0-9]+:[0-9]{2}:[0-9]{2}", shown)


def test_progress_passes_the_items_on():
    with ui.progress([1, 2, 3], "counting", 3) as items:
        assert list(items) == [1, 2, 3]
