"""``bpuc compare``: layer by layer, float against integer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from bpuc.cli import options, tools
from bpuc.cli.samples import with_progress


@click.command(
    "compare", cls=tools.Command, epilog="Example: bpuc compare model.onnx model.bpuc --data images.npz -o compared"
)
@click.argument("model", metavar="MODEL.onnx")
@click.argument("binary", metavar="X.bpuc")
@tools.tool_options
@click.option(
    "--top", type=options.COUNT, metavar="N", default=20, show_default=True, help="Tensors in the table on stdout."
)
def command(
    model: str, binary: str, output: str, samples: int | None, top: int, json_to: str | None, **given: Any
) -> None:
    """Compare the tensors of a simulated binary with those of its float model on samples.

    Writes compare.html (a curve along the layers, hints where the error jumps, channels of the worst tensors),
    compare.csv and compare.json. What is fused is compared where the fused op ends.
    """
    from bpuc.flow.compare import compare
    from bpuc.flow.floats import open_float
    from bpuc.program import load_program
    from bpuc.report.tool_text import compare_text

    program = load_program(binary)
    request = options.request(model, **given)
    floats = open_float(request, program)
    document, warnings = compare(floats, program, samples, request.threads, with_progress("comparing"))
    document["warnings"] = tools.warn_all(warnings)
    name = Path(model).name
    tools.emit_tool(
        "compare",
        document,
        name,
        compare_text(document, name, shutil.get_terminal_size().columns, top),
        output,
        json_to,
    )
