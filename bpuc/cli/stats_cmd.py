"""``bpuc stats``: what values the tensors of a model take."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from bpuc.cli import options, tools
from bpuc.cli.samples import with_progress


@click.command("stats", cls=tools.Command, epilog="Example: bpuc stats model.onnx --data images.npz -o statistics")
@click.argument("model", metavar="MODEL.onnx", required=False)
@tools.tool_options
@click.option(
    "--top", type=options.COUNT, metavar="N", default=20, show_default=True, help="Tensors in the table on stdout."
)
def command(model: str | None, output: str, samples: int | None, top: int, json_to: str | None, **given: Any) -> None:
    """Run the float model on samples and describe the values of every tensor.

    Writes stats.html with a small histogram of each tensor, stats.csv and stats.json: least, largest and mean value,
    standard deviation, percentiles, share of zeros, kurtosis, and the range of every channel; weights included.
    """
    from bpuc.flow.floats import open_float
    from bpuc.flow.stats import stats
    from bpuc.report.tool_text import stats_text

    request = options.request(model, **given)
    document, warnings = stats(open_float(request), samples, request.threads, with_progress("observing"))
    document["warnings"] = tools.warn_all(warnings)
    name = Path(request.model).name
    tools.emit_tool(
        "stats", document, name, stats_text(document, name, shutil.get_terminal_size().columns, top), output, json_to
    )
