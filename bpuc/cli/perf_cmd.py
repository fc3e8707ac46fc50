"""``bpuc perf``: the latency estimate of a binary or a model as text, JSON, CSV, trace and HTML page."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from bpuc.base.files import read_bytes, write_atomic
from bpuc.cli import options, ui
from bpuc.perf.gates import CONDITIONS, check_gates
from bpuc.program import load_program

_ZIP = b"PK\x03\x04"


@click.command(
    "perf", cls=options.Command, epilog="Example: bpuc perf model.bpuc --html report.html --max-latency-ms 10"
)
@click.argument("source", metavar="X.bpuc|MODEL.onnx", required=False)
@click.option("--march", metavar="M", callback=options.march, help="Target of a MODEL.onnx; a binary has its own.")
@options.shared
@click.option("--html", "html_to", metavar="FILE", callback=options.output, help="Write one self-contained page.")
@click.option("--csv", "csv_to", metavar="FILE", callback=options.output, help="Write one row an op.")
@click.option("--trace", "trace_to", metavar="FILE", callback=options.output, help="Write a Chrome/Perfetto trace.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Slowest ops listed in the text.")
@click.option("--max-latency-ms", type=options.AtLeastZero(), metavar="N", help="Exit 3 when the estimate is above.")
@click.option("--fail-on", multiple=True, type=click.Choice(CONDITIONS), help="Exit 3 when there is one.")
@ui.json_option
def command(
    source: str | None,
    html_to: str | None,
    csv_to: str | None,
    trace_to: str | None,
    json_to: str | None,
    top: int,
    max_latency_ms: float | None,
    fail_on: tuple[str, ...],
    **given: Any,
) -> None:
    """Estimate the latency of a compiled binary, or of a model with no data at all, op by op.

    Nothing is measured: the estimate comes from the instructions and the hardware numbers of the target, which
    `bpuc targets M` lists with their origins.
    """
    perf = estimate_source(source, **given)
    from bpuc.report.text import render_text

    ui.emit(render_text(perf, shutil.get_terminal_size().columns, top).rstrip("\n"), perf, json_to)
    if html_to:
        from bpuc.report.html import render_html

        write_atomic(html_to, render_html(perf, Path(source or perf["march"]).name))
    if csv_to:
        from bpuc.report.csvfile import render_csv

        write_atomic(csv_to, render_csv(perf))
    if trace_to:
        from bpuc.report.trace import render_trace

        write_atomic(trace_to, render_trace(perf))
    check_gates(perf, max_latency_ms, fail_on)


def estimate_source(source: str | None, march: str | None, **given: Any) -> dict[str, Any]:
    """perf.json of a binary, or of a model compiled with no data for the sake of its latency.

    Raises:
        click.UsageError: a binary for another march than the one asked for.
        BpucError: the file, the model or the configuration is at fault.
    """
    from bpuc.perf import estimate
    from bpuc.plugins import get_target

    if source is not None and is_binary(source):
        program = load_program(source)
        if march is not None and get_target(march).march != program.march:
            raise click.UsageError(f"{source} is compiled for {program.march}, not for {march}")
    else:
        from bpuc.flow.compile import compile_for_perf

        program = compile_for_perf(source, march, given)
    return estimate(program, get_target(program.march))


def is_binary(path: str) -> bool:
    """Whether a file is meant as a binary: by its content, or by its name where it is unreadable or damaged."""
    return Path(path).suffix == ".bpuc" or read_bytes(path, "the binary or model")[:4] == _ZIP
