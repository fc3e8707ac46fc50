"""``bpuc check``: what of a model runs on the BPU, what does not, and why."""

from __future__ import annotations

import shutil
from typing import Any

import click

from bpuc.cli import options, ui


@click.command("check", cls=options.Command, epilog="Example: bpuc check model.onnx --march bayes-e")
@click.argument("model", metavar="MODEL.onnx", required=False)
@click.option("--march", metavar="M", callback=options.march, help="The target; `bpuc targets` lists them.")
@options.shared
@ui.json_option
def command(model: str | None, json_to: str | None, **given: Any) -> None:
    """Print every node with its device and reason, and a latency estimate; needs no data."""
    from bpuc.flow.compile import compile_model
    from bpuc.perf import estimate
    from bpuc.report.checktable import render_check

    compiled = compile_model(options.request(model, **given), runs=False)
    report = compiled.program.report
    for warning in report["warnings"]:
        if warning["code"] != "no-data":
            ui.warn(warning["message"])
    perf = estimate(compiled.program, compiled.prepared.ctx.need_target())
    ui.emit(render_check(report, shutil.get_terminal_size().columns, perf).rstrip(), report, json_to)
