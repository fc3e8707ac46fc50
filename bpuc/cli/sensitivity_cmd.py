"""``bpuc sensitivity``: which op costs how much accuracy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from bpuc.cli import options, tools, ui
from bpuc.cli.samples import with_progress


@click.command(
    "sensitivity",
    cls=tools.Command,
    epilog="Example: bpuc sensitivity model.onnx --data images.npz --march bayes-e -o sensitive",
)
@tools.measuring_options(
    "Samples: to calibrate, and the first ones to measure on.", 8, "Samples that are measured on, at most."
)
@click.option(
    "--metric",
    type=click.Choice(["cosine", "sqnr", "mse", "l1"]),
    default="cosine",
    show_default=True,
    help="What ops are ranked by at the outputs.",
)
@click.option("--leave-float", is_flag=True, help="The gain of leaving one part in float where all else is rounded.")
@click.option("--at", "at", metavar="OUTPUT", help="The output that counts [the mean of all].")
@options.shared
@options.scale_out
@tools.folder_option
@click.option(
    "--top", type=options.COUNT, metavar="N", default=20, show_default=True, help="Rows in the table on stdout."
)
@ui.json_option
def command(
    model: str | None,
    samples: int,
    metric: str,
    leave_float: bool,
    at: str | None,
    output: str,
    top: int,
    json_to: str | None,
    **given: Any,
) -> None:
    """Rank ops by what rounding them alone costs at the outputs, their results and their weights apart.

    Writes sensitivity.html, sensitivity.csv and sensitivity.json, which compile reads as
    `--template sensitive=DIR/sensitivity.json,topk=5`. Values are rounded in float, with the scales that
    compile would begin with.
    """
    from bpuc.flow.sensitivity import sensitivity
    from bpuc.report.tool_text import sensitivity_text

    request = options.request(model, **given)
    bars = with_progress("calibrating"), with_progress("measuring")
    document, warnings = sensitivity(request, metric, samples, leave_float, at, *bars, tell=ui.note)
    document["warnings"] = tools.warn_all(warnings)
    name = Path(request.model).name
    text = sensitivity_text(document, name, shutil.get_terminal_size().columns, top)
    tools.emit_tool("sensitivity", document, name, text, output, json_to)
