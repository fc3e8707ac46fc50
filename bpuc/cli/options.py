"""Options that several commands share, and their way into a Request."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from bpuc.base.errors import FileError, did_you_mean
from bpuc.base.files import check_writable, exists, is_folder, real_path
from bpuc.cli import ui

if TYPE_CHECKING:
    from bpuc.flow.request import Request

F = TypeVar("F", bound=Callable[..., Any])


def march(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    """Callback: an unknown march on the command line is a fault of usage (exit 2)."""
    from bpuc.plugins import ALIASES, targets

    known = [*targets(), *ALIASES]
    if value is not None and value not in known:
        chip = next(
            (n for n, t in targets().items() if value.upper().removeprefix("RDK").strip(" -_") in t.chips), None
        )
        hint = f"did you mean '{chip}'?" if chip else did_you_mean(value, known)
        listed = ", ".join([*(f"{n} ({', '.join(t.chips)})" for n, t in targets().items()), *ALIASES])
        raise click.BadParameter(f"unknown march {value!r}; {f'{hint} ' if hint else ''}known: {listed}")
    return value


def observer(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    """Callback: an unknown observer on the command line is a fault of usage (exit 2)."""
    from bpuc.observe.registry import observer_names

    known = observer_names()
    if value is not None and value not in known:
        hint = did_you_mean(value, known)
        raise click.BadParameter(f"unknown observer {value!r}; {f'{hint} ' if hint else ''}known: {', '.join(known)}")
    return value


def output(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    """Callback: an impossible output path is refused before any work."""
    if value is not None:
        check_writable(value)
    return value


class AtLeastZero(click.FloatRange):
    """A number from 0 up, or up to `most`; click's own range lets NaN pass."""

    def __init__(self, most: float | None = None) -> None:
        super().__init__(min=0, max=most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", param, ctx)
        return number


class Count(click.IntRange):
    """A number of samples or rows, from 1; that it has an end too, help need not say."""

    name = "count"

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = super().convert(value, param, ctx)
        if number >= 1 << 31:
            self.fail(f"{value} is more than 2147483647.", param, ctx)
        return number


HELP = {"help_option_names": ["-h", "--help"]}
THREADS = click.IntRange(1, 256)
COUNT = Count()


class Command(click.Command):
    """A command with --quiet that refuses, before any work, to write over what it reads or two results to one file."""

    def __init__(self, *args: Any, **settings: Any):
        super().__init__(*args, **{"context_settings": HELP, **settings})
        self.params.append(
            click.Option(["--quiet"], is_flag=True, expose_value=False, callback=_quiet, help=ui.QUIET_HELP)
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options under headings; those that have none here come first."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], **{title: [] for title in _SECTIONS}}
        title_of = {name: title for title, names in _SECTIONS.items() for name in names.split()}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections[title_of.get(param.name or "", "Options")].append(record)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        for name, option in _WRITTEN.items():
            if ctx.params.get(name) == "-" and name != "json_to":
                raise click.UsageError(f"{option} -: only --json goes to stdout; give a path (./- is a file named -)")
        distinct(self.written(ctx), [ctx.params.get(name) for name in _READ])
        return super().invoke(ctx)

    def written(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Option and path of every file that this call is to write, or folder for its files."""
        given = ((option, ctx.params.get(name)) for name, option in _WRITTEN.items())
        return [(option, path) for option, path in given if path and path != "-"]


def _quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001
    """Callback: the option stands before or behind the name of the command."""
    if value:
        ctx.meta[ui.QUIET] = True


# headings of --help, and the parameters below each
_SECTIONS = {
    "Ops and tensors by name; each may come several times": "dtype fixed_scale run_on_cpu run_on_bpu input_shape "
    "input_value observer_for quant template",
    "Scales at concats": "share_scales share keep_scale max_bits_lost qat_scales equalize",
    "Accuracy": "effort tune_thresholds channel_scales bias_correction adaptive_rounding weight_clipping auto_int16 "
    "max_latency_loss high_precision_outputs",
    "Schedule": "optimize compile_mode balance cores",
    "Gates": "max_latency_ms fail_on",
    "Looking inside": "dump_dir keep_stages check_numerics",
    "Running": "threads workers scheduler resume quiet",
}

_WRITTEN = {"output": "-o", "report": "--report", "json_to": "--json", "html_to": "--html"}
_WRITTEN |= {"csv_to": "--csv", "trace_to": "--trace", "export_qdq": "--export-qdq"}
_READ = ("model", "source", "against", "binary", "inputs", "data", "test_data", "calib", "config")


def distinct(written: Iterable[tuple[str, str | Path]], read: Iterable[str | Path | None]) -> None:
    """Outputs that are neither inputs, samples in a folder of inputs, nor each other.

    Args:
        written: option and path. read: paths of files and folders.

    Raises:
        FileError: naming the option and the file.
    """
    want = "a file of its own for every output"
    inputs = [real_path(path) for path in read if path]
    taken = dict.fromkeys(inputs, "read by this command")
    for option, path in written:
        real = real_path(path)
        if real in taken:
            raise FileError(f"{option} {path}: this file is {taken[real]}", want=want)
        folder = next((f for f in inputs if is_folder(f) and Path(real).is_relative_to(f)), None)
        if folder is not None and exists(path) and not is_folder(path):
            from bpuc.data.files import kind_of

            if kind_of(Path(real)):
                raise FileError(f"{option} {path}: this file is one of the samples in {folder}", want=want)
        taken[real] = f"written by {option} already"


def request(model: str | None, **given: Any) -> Request:
    """The request of a command; none of its outputs is what the configuration or a template names as input.

    Raises:
        BpucError: as `make_request`. FileError: an output is an input.
    """
    from bpuc.flow.request import make_request

    made = make_request(model, **given)
    apart_from_inputs(made)
    return made


def apart_from_inputs(made: Request) -> None:
    """Refuse outputs of the present command that the request reads."""
    ctx = click.get_current_context()
    if isinstance(ctx.command, Command):
        tables = [table.path for table in made.tables]
        distinct(ctx.command.written(ctx), [made.model, *tables, *(made.config.data if made.config else ())])


def named_among(names: Collection[str]) -> list[str]:
    """Those of these options of the present command that its command line names."""
    ctx = click.get_current_context()
    named = [
        p
        for p in ctx.command.params
        if p.name in names and ctx.get_parameter_source(p.name) is ParameterSource.COMMANDLINE
    ]
    return [(p.secondary_opts if ctx.params[str(p.name)] is False else p.opts)[-1] for p in named]


_SHARED = (
    click.option("-c", "--config", metavar="CONFIG", help="YAML file; options of the command line win."),
    click.option(
        "--observer",
        metavar="NAME",
        callback=observer,
        help="How thresholds are found: percentile, min_max, mse, kl, mix, default, lsq, clip, clip_std or fixed "
        "[percentile].",
    ),
    click.option("--observer-opt", multiple=True, metavar="K=V", help="Option of the observer, as in percentile=99.9."),
    click.option(
        "--observer-for",
        multiple=True,
        metavar="NAME=OBSERVER[,K=V]",
        help="Observer of a tensor, else node, else op type: Conv=percentile,percentile=99.9.",
    ),
    click.option(
        "--dtype", multiple=True, metavar="NAME=int8|int16", help="Type of a tensor, else node, else op type."
    ),
    click.option(
        "--quant",
        multiple=True,
        metavar="NAME:KEY=VALUE[,...]",
        help="A rule as in YAML's quantize: ops: 'head*:output=int16,observer=mse'.",
    ),
    click.option("--fixed-scale", multiple=True, metavar="TENSOR=S", help="Fix the scale of a tensor."),
    click.option("--run-on-cpu", multiple=True, metavar="NODE_OR_OPTYPE", help="Keep on the CPU."),
    click.option(
        "--run-on-bpu", multiple=True, metavar="NODE_OR_OPTYPE", help="Put on the BPU where its limits allow."
    ),
    click.option(
        "--input-shape",
        multiple=True,
        metavar="NAME:DIMS",
        help="Fix a dynamic input: images:1x3x64x64, or a named dimension: batch=1.",
    ),
    click.option(
        "--input-value",
        multiple=True,
        metavar="NAME=NUMBER",
        help="Make a constant of an input of one number, as in sr=16000; Ifs on it are resolved.",
    ),
    click.option(
        "--share-scales", type=click.Choice(["auto", "always", "never"]), help="Scales across concats [auto]."
    ),
    click.option("--share", multiple=True, metavar="TENSOR", help="It takes its concat's scale, whatever it loses."),
    click.option("--keep-scale", multiple=True, metavar="TENSOR", help="It keeps its own scale at concats."),
    click.option(
        "--max-bits-lost",
        type=AtLeastZero(),
        metavar="N",
        help="Bits that other readers may lose at most [1.5, more where the measured error allows].",
    ),
    click.option(
        "--qat-scales",
        type=click.Choice(["fold", "strict"]),
        help="Scales in the model file: strict keeps every one, fold lets producers write at a concat's scale [fold].",
    ),
    click.option("--equalize", is_flag=True, help="Move range ratios of concat branches into weights, where it helps."),
    click.option(
        "--template",
        multiple=True,
        metavar="default|int16|sensitive=TABLE,topk=N",
        help="Types of ops [default]; several: the first has priority.",
    ),
    click.option(
        "-O", "optimize", type=click.Choice(["0", "1", "2", "3"]), help="Effort of the scheduler: -O0 to -O3 [3]."
    ),
    click.option(
        "--compile-mode",
        type=click.Choice(["latency", "bandwidth", "balance"]),
        help="What -O3 chooses the schedule by [latency].",
    ),
    click.option(
        "--balance-factor",
        "balance",
        type=AtLeastZero(100),
        metavar="N",
        help="With balance: 0 is bandwidth, 100 latency [50].",
    ),
    click.option("--cores", type=click.IntRange(1, 4), metavar="N", help="BPU cores that share a frame [1]."),
    click.option(
        "--effort", type=click.IntRange(0, 3), metavar="N", help="Work spent on accuracy beyond thresholds [1]."
    ),
    click.option(
        "--tune-thresholds/--no-tune-thresholds",
        default=None,
        help="Thresholds by the error at their readers [from effort 1, unless an observer is named].",
    ),
    click.option(
        "--channel-scales/--no-channel-scales",
        default=None,
        help="Scales a channel where free [from effort 1].",
    ),
    click.option(
        "--bias-correction/--no-bias-correction", default=None, help="Mean rounding error into biases [from effort 1]."
    ),
    click.option(
        "--max-latency-loss",
        type=AtLeastZero(),
        metavar="PERCENT",
        help="What automatic int16 may cost.",
    ),
    click.option(
        "--adaptive-rounding/--no-adaptive-rounding",
        default=None,
        help="Weights rounded by the error of the result [from effort 2].",
    ),
    click.option(
        "--weight-clipping/--no-weight-clipping",
        default=None,
        help="Scales of weights by the error of the result [from effort 2].",
    ),
    click.option("--auto-int16/--no-auto-int16", default=None, help="int16 where 8 bits cost most [from effort 1]."),
    click.option(
        "--high-precision-outputs/--no-high-precision-outputs",
        default=None,
        help="A last Conv or MatMul leaves its int32 accumulator [on].",
    ),
    click.option("--dump-dir", metavar="DIR", help="The graph as text after every pass."),
    click.option("--keep-stages", metavar="DIR", help="The ONNX file after each stage, as the vendor names them."),
    click.option("--check-numerics", is_flag=True, help="After every exact pass, check that results stay (slow)."),
    click.option("--threads", type=THREADS, metavar="N", help="Threads of the float run."),
)


def scale_out(f: F) -> F:
    """Where the float model runs on the samples: the options --workers and --scheduler."""
    f = click.option("--scheduler", metavar="ADDRESS", help="Run samples on a Dask cluster (extra bpuc[dask]).")(f)
    return click.option(
        "--workers", type=click.IntRange(1, 256), metavar="N", help="Run samples in N processes; the same result."
    )(f)


def shared(f: F) -> F:
    """The options of calibrate, compile, check and perf MODEL.onnx; passed under `make_request`'s names."""
    for option in reversed(_SHARED):
        f = option(f)
    return f
