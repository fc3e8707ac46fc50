"""``bpuc perf``: the latency estimate of a binary or a model as text, JSON, CSV, trace and HTML page."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from bpuc.cli import options, ui
from bpuc.perf.gates import CONDITIONS, check_gates

ALL = "all"


def _march(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return value if value == ALL else options.march(ctx, param, value)


@click.command(
    "perf", cls=options.Command, epilog="Example: bpuc perf model.bpuc --html report.html --max-latency-ms 10"
)
@click.argument("source", metavar="X.bpuc|MODEL.onnx", required=False)
@click.option("--march", metavar="M|all", callback=_march, help="Target of a MODEL.onnx; all: a table over marches.")
@options.shared
@click.option("--hw", multiple=True, metavar="NAME=NUMBER", help="Another hardware number: clock_mhz=1200.")
@click.option("--against", metavar="B", help="Compare with another X.bpuc or MODEL.onnx, op by op.")
@click.option("--html", "html_to", metavar="FILE", callback=options.output, help="Write one self-contained page.")
@click.option("--csv", "csv_to", metavar="FILE", callback=options.output, help="Write one row an op.")
@click.option("--trace", "trace_to", metavar="FILE", callback=options.output, help="Write a Chrome/Perfetto trace.")
@click.option(
    "--top", type=options.COUNT, metavar="N", default=20, show_default=True, help="Slowest ops listed in the text."
)
@click.option("--max-latency-ms", type=options.AtLeastZero(), metavar="N", help="Exit 3 when the estimate is above.")
@click.option("--fail-on", multiple=True, type=click.Choice(CONDITIONS), help="Exit 3 when there is one.")
@ui.json_option
def command(
    source: str | None,
    march: str | None,
    hw: tuple[str, ...],
    against: str | None,
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
    from bpuc.flow.estimate import hardware_pairs

    hardware = hardware_pairs(hw)
    _unused(given, source, against)
    if march == ALL:
        if against or csv_to or trace_to:
            raise click.UsageError("--march all makes one table; --against, --csv and --trace take one march")
        _all_marches(source, hardware, given, html_to, json_to, max_latency_ms, fail_on)
        return
    perf = _estimate(source, march, hardware, given)
    name = Path(source or perf["march"]).name
    width = shutil.get_terminal_size().columns
    if against is None:
        from bpuc.report.text import render_text

        text = render_text(perf, width, top)
    else:
        from bpuc.report.against import compare
        from bpuc.report.against_text import render_against

        other = _estimate(against, march or perf["march"], hardware, given, free=True)
        perf["against"] = compare(perf, other, Path(against).name)
        text = render_against(perf, name, width, top)
    files = {}
    if html_to:
        from bpuc.report.html import render_html

        files[html_to] = render_html(perf, name)
    if csv_to:
        from bpuc.report.csvfile import render_csv

        files[csv_to] = render_csv(perf)
    if trace_to:
        from bpuc.report.trace import render_trace

        files[trace_to] = render_trace(perf)
    ui.emit(text.rstrip("\n"), perf, json_to, files)
    check_gates(perf, max_latency_ms, fail_on)


def _unused(model_options: Collection[str], *sources: str | None) -> None:
    """Warn of options of a model where every source is a binary, for which they come too late."""
    from bpuc.flow.estimate import is_binary

    if not sources[0] or not all(is_binary(s) for s in sources if s):
        return
    given = options.named_among(model_options)
    if given:
        ui.warn(f"{sources[0]} is compiled already: {', '.join(given)} has no effect; give it to `bpuc compile`")


def _estimate(
    source: str | None, march: str | None, hardware: dict[str, float], given: dict[str, Any], free: bool = False
) -> dict[str, Any]:
    """perf.json of one source; `free`: a binary may be for another march than the one named."""
    from bpuc.flow.estimate import estimate_source, is_binary
    from bpuc.plugins import get_target

    perf = estimate_source(source, march, hardware, given, options.apart_from_inputs)
    if march and not free and source and is_binary(source) and get_target(march).march != perf["march"]:
        raise click.UsageError(f"{source} is compiled for {perf['march']}, not for {march}")
    return perf


def _all_marches(
    source: str | None,
    hardware: dict[str, float],
    given: dict[str, Any],
    html_to: str | None,
    json_to: str | None,
    max_latency_ms: float | None,
    fail_on: tuple[str, ...],
) -> None:
    from bpuc.flow.estimate import estimate_marches, is_binary
    from bpuc.report.marches_text import render_marches

    if source and is_binary(source):
        raise click.UsageError(f"{source} is compiled for one march; --march all takes a MODEL.onnx")
    document = estimate_marches(source, hardware, given, options.apart_from_inputs)
    name = Path(source or "model").name
    files = {}
    if html_to:
        from bpuc.report.html import render_marches_html

        files[html_to] = render_marches_html(document, name)
    text = render_marches(document, name, shutil.get_terminal_size().columns)
    ui.emit(text.rstrip("\n"), document, json_to, files)
    for m in document["marches"]:
        if m["summary"] is not None:
            rescales = [{**r, "op": "Rescale", "device": "BPU"} for r in m["rescales"]]
            perf = {"summary": m["summary"], "ops": [*m["cpu_ops"], *rescales]}
            check_gates(perf, max_latency_ms, fail_on, f"{m['march']}: ")
