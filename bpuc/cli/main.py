"""The command group and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click

from bpuc import __version__
from bpuc.base.errors import BpucError, FileError
from bpuc.cli import ui

_signals: list[int] = []  # by which this process was told to end

# name -> (module:attribute, what it does); the texts stand here so that --help imports no command
COMMANDS = {
    "check": ("bpuc.cli.check_cmd:command", "Say what of a model runs on the BPU, what does not, and why."),
    "calibrate": ("bpuc.cli.calibrate_cmd:command", "Observe a model on data and write its thresholds."),
    "compile": ("bpuc.cli.compile_cmd:command", "Quantize and compile a model to a simulated binary."),
    "run": ("bpuc.cli.run_cmd:command", "Run a simulated binary on inputs, to the integer."),
    "perf": ("bpuc.cli.perf_cmd:command", "Estimate the latency of a binary or a model, op by op."),
    "info": ("bpuc.cli.info_cmd:command", "Show what is in a binary, and verify its checksums."),
    "explain": ("bpuc.cli.explain_cmd:command", "Say why a rescale, a device or a scale is as it is."),
    "compare": ("bpuc.cli.compare_cmd:command", "Compare a binary with its float model, layer by layer."),
    "badcase": ("bpuc.cli.badcase_cmd:command", "Find the samples on which binary and model differ most."),
    "sensitivity": ("bpuc.cli.sensitivity_cmd:command", "Rank ops by the accuracy that they cost."),
    "stats": ("bpuc.cli.stats_cmd:command", "Describe the values of every tensor of a model."),
    "compare-scales": (
        "bpuc.cli.compare_scales_cmd:command",
        "Compare shared, separate and equalized scales on a model.",
    ),
    "targets": ("bpuc.cli.targets_cmd:command", "List marches, their operators, limits and numbers."),
}

# what a machine may do to any program: a full or failing disk, too many files
_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        found: click.Command = getattr(importlib.import_module(module), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from bpuc.base.errors import did_you_mean

            hint = did_you_mean(args[0], list(COMMANDS)) or f"commands: {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command '{args[0]}'; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: bpuc compile model.onnx --march bayes-e --data calib.npz -o model.bpuc",
)
@click.option("--quiet", is_flag=True, help=ui.QUIET_HELP)
@click.version_option(__version__, prog_name="bpuc")
@click.pass_context
def cli(ctx: click.Context, quiet: bool) -> None:
    """Compile ONNX models for D-Robotics/Horizon BPUs, simulate and profile them.

    What it writes is a simulated binary and every latency is an estimate: no chip runs it.
    """
    ctx.meta[ui.QUIET] = quiet


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Entry point: runs a command and exits as the contract says (0, 1, 2, 3, 70; 130 when interrupted)."""
    # a polite kill unwinds, so that temporary files go
    signal.signal(signal.SIGTERM, _ended)
    signal.signal(signal.SIGINT, _ended)
    sys.unraisablehook = _swallowed
    _no_gaps()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code = _run(args)
    if _signals:
        # all is unwound; libraries that were stopped halfway may fall over in the interpreter's own clean-up
        os._exit(128 + _signals[0])
    sys.exit(code)


def _no_gaps() -> None:
    """Where the shell closed a standard stream, its number goes to the null device and not to the next file opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - lives as long as the process


def _ended(signum: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    _signals.append(signum)
    raise KeyboardInterrupt


def _swallowed(unraisable: sys.UnraisableHookArgs) -> None:
    """An interrupt that came while Python was in a finalizer, which can pass nothing on, comes again a moment later."""
    if not _signals or not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    again = threading.Timer(0.01, os.kill, (os.getpid(), _signals[0]))
    again.daemon = True
    again.start()


def _run(args: Sequence[str] | None) -> int:
    try:
        code = cli.main(args, prog_name="bpuc", standalone_mode=False)
        if sys.stdout is not None:  # None where the shell closed it
            sys.stdout.flush()
    except BpucError as e:
        ui.error(e.render())
        return e.exit_code
    except click.ClickException as e:
        ui.usage_error(e)
        return e.exit_code
    except (KeyboardInterrupt, click.Abort):
        ui.error("interrupted")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # the reader is gone: nothing more to say, and nothing to complain about at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as e:
        if e.errno not in _MACHINE:
            return _bug(e)
        ui.error(FileError(f"{e.filename or 'standard output'}: {e.strerror or e}").render())
        return 1
    except MemoryError:
        ui.error("error: not enough memory; see whether the model or the data are larger than they should be")
        return 1
    except Exception as e:
        if _signals:  # a library made another error of it
            ui.error("interrupted")
            return 128 + _signals[0]
        return _bug(e)
    return code if isinstance(code, int) else 0


def _bug(e: Exception) -> int:
    if os.environ.get("BPUC_DEBUG") == "1":
        raise e
    ui.error(
        f"internal error: a bug of bpuc, please report it: {type(e).__name__}: {e}\n"
        "  hint: BPUC_DEBUG=1 shows where it happened"
    )
    return 70
