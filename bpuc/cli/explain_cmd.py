"""``bpuc explain``: why a rescale, a device or a scale is as it is, and the remedy."""

from __future__ import annotations

import shutil

import click

from bpuc.cli import options, ui

_TOPICS = ("rescales", "placement", "scales", "refinements", "certificates")


@click.command("explain", cls=options.Command, epilog="Example: bpuc explain model.bpuc placement Softmax_12")
@click.argument("binary", metavar="X.bpuc")
@click.argument("topic", type=click.Choice(_TOPICS), default="rescales")
@click.argument("name", required=False)
@ui.json_option
def command(binary: str, topic: str, name: str | None, json_to: str | None) -> None:
    """Explain what stands in a simulated binary; it needs no other file.

    NAME is a rescale or node for `rescales`, a node for `placement` and `certificates`, a tensor for `scales`, a node
    or tensor for `refinements`.
    """
    from bpuc.program import load_program
    from bpuc.report import explain
    from bpuc.report.certificates import explain_certificates

    report = load_program(binary).report
    told = {
        "rescales": explain.explain_rescales,
        "placement": explain.explain_placement,
        "scales": explain.explain_scales,
        "certificates": explain_certificates,
        "refinements": explain.explain_refinements,
    }
    text, value = told[topic](report, name, shutil.get_terminal_size().columns), explain.records(report, topic, name)
    ui.emit(text.rstrip("\n"), value, json_to)
