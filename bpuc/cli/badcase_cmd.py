"""``bpuc badcase``: the samples on which float and integer differ most."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from bpuc.cli import options, tools
from bpuc.cli.samples import with_progress


@click.command(
    "badcase", cls=tools.Command, epilog="Example: bpuc badcase model.onnx model.bpuc --data images -o worst"
)
@click.argument("model", metavar="MODEL.onnx")
@click.argument("binary", metavar="X.bpuc")
@tools.tool_options
@click.option(
    "--metric",
    type=click.Choice(["cosine", "sqnr", "mse", "l1", "max_abs", "relative"]),
    default="cosine",
    show_default=True,
    help="What samples are ranked by at the outputs.",
)
@click.option("--at", "at", metavar="OUTPUT", help="The output that counts [the mean of all].")
@click.option(
    "--top", type=click.IntRange(1, 1000), metavar="N", default=8, show_default=True, help="Worst samples kept."
)
def command(
    model: str,
    binary: str,
    output: str,
    samples: int | None,
    metric: str,
    at: str | None,
    top: int,
    json_to: str | None,
    **given: Any,
) -> None:
    """Rank samples by how far the outputs of a simulated binary are from those of its float model.

    Writes badcase.html, badcase.csv and badcase.json; of the worst samples (whole batches, where the binary has one)
    inputs.npz, which `run --inputs` and other commands as --data take, float.npz and integer.npz with both sides'
    outputs, and the images that they came from. Images that an earlier run left in the folder go.
    """
    from bpuc.base.files import read_bytes
    from bpuc.flow.badcase import badcase
    from bpuc.flow.floats import open_float
    from bpuc.program import load_program
    from bpuc.report.tool_text import badcase_text

    program = load_program(binary)
    request = options.request(model, **given)
    floats = open_float(request, program)
    found, warnings = badcase(floats, program, metric, top, at, samples, request.threads, with_progress("comparing"))
    found.document["warnings"] = tools.warn_all(warnings)
    name = Path(model).name
    files = {
        "inputs.npz": tools.npz(found.inputs),
        "float.npz": tools.npz(found.floats),
        "integer.npz": tools.npz(found.integers),
        **{copy: read_bytes(path, "the image") for copy, path in found.images.items()},
    }
    text = badcase_text(found.document, name, shutil.get_terminal_size().columns)
    earlier = _images_of(Path(output))
    tools.emit_tool("badcase", found.document, name, text, output, json_to, files)
    for image in sorted(earlier - {*files}):
        with suppress(OSError):  # it is a file too many, no fault of the results
            (Path(output) / image).unlink()


def _images_of(folder: Path) -> set[str]:
    """Images that the badcase.json in the folder says an earlier run wrote there."""
    try:
        rows = json.loads((folder / "badcase.json").read_bytes())["worst"]
        names = {str(name) for row in rows for name in row["images"]}
    except (OSError, ValueError, LookupError, TypeError):
        return set()
    return {name for name in names if re.fullmatch(r"worst_\d+_[^/\\]+", name)}
