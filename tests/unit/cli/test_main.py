"""The frame of the command line: exit codes, laziness, messages."""

import subprocess
import sys

import click
import pytest

from bpuc.base.errors import FileError, GateError
from bpuc.cli import main as m


def bpuc(*args, **env):
    import os

    return subprocess.run(
        [sys.executable, "-m", "bpuc", *args],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200", **env},
    )


def raising(error):
    @click.command("targets")
    def command():
        raise error

    return command


def run(monkeypatch, error):
    monkeypatch.setattr(m.LazyGroup, "get_command", lambda self, ctx, name: raising(error))
    with pytest.raises(SystemExit) as e:
        m.main(["targets"])
    return e.value.code


@pytest.fixture(autouse=True)
def keep_signals():
    import signal

    before, hook = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)}, sys.unraisablehook
    yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (FileError("no such thing", hint="look again"), 1, "error[file]: no such thing\n  hint: look again\n"),
        (GateError("too slow"), 3, "error[gate]: too slow\n"),
        (click.UsageError("not so"), 2, "Error: not so\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (
            MemoryError(),
            1,
            "error: not enough memory; see whether the model or the data are larger than they should be\n",
        ),
    ],
)
def test_errors_become_exit_codes(monkeypatch, capsys, error, code, text):
    assert run(monkeypatch, error) == code
    said = capsys.readouterr()
    assert said.err.endswith(text)
    assert said.out == ""


def test_anything_else_is_our_bug(monkeypatch, capsys):
    monkeypatch.delenv("BPUC_DEBUG", raising=False)
    assert run(monkeypatch, ZeroDivisionError("of nothing")) == 70
    said = capsys.readouterr().err
    assert said.startswith("internal error: a bug of bpuc, please report it: ZeroDivisionError: of nothing\n")
    assert "Traceback" not in said


def test_the_traceback_on_request(monkeypatch):
    monkeypatch.setenv("BPUC_DEBUG", "1")
    monkeypatch.setattr(m.LazyGroup, "get_command", lambda self, ctx, name: raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        m.main(["targets"])


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom bpuc.cli.main import cli\ncli.main(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'onnx', 'onnxruntime', 'networkx', 'pydantic', 'yaml', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in m.COMMANDS:
        assert f"  {name}  " in done.stdout


def test_version_and_usage():
    done = bpuc("--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "bpuc,")
    done = bpuc("rum")
    assert done.returncode == 2
    assert "no command 'rum'" in done.stderr
    assert "'run'" in done.stderr
    assert bpuc().returncode == 2


def test_a_closed_pipe_is_no_drama():
    done = subprocess.run(f"{sys.executable} -m bpuc --help | true", shell=True, capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize(("more", "code"), [("", 1), ("--json -", 1), ("--json F", 0)])
def test_a_closed_stdout_loses_no_result_silently(more, code, tmp_path):
    command = f"{sys.executable} -m bpuc targets bayes-e {more} >&-"
    done = subprocess.run(command, shell=True, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert done.returncode == code
    assert ("standard output is closed" in done.stderr) == (code == 1)
    assert (tmp_path / "F").exists() == (code == 0)


@pytest.mark.parametrize("name", m.COMMANDS)
def test_every_command_has_help_with_an_example(name):
    from click.testing import CliRunner

    result = CliRunner().invoke(m.cli, [name, "--help"])
    assert result.exit_code == 0, result.exception
    assert f"Example: bpuc {name}" in result.stdout
