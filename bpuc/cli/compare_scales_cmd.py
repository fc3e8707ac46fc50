"""``bpuc compare-scales``: what sharing scales costs and saves on this model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bpuc.cli import options, tools, ui
from bpuc.cli.samples import with_progress

if TYPE_CHECKING:
    from bpuc.program import Program


@click.command(
    "compare-scales",
    cls=options.Command,
    epilog="Example: bpuc compare-scales model.onnx --march bayes-e --data calib.npz",
)
@tools.measuring_options(
    "Samples: to calibrate, and to measure accuracy on.", 4, "Samples that accuracy is measured on."
)
@click.option("--test-data", metavar="PATH", help="Samples for accuracy, if not the first ones of --data.")
@options.shared
@ui.json_option
def command(model: str | None, samples: int, test_data: str | None, json_to: str | None, **given: Any) -> None:
    """Compile with scales never, auto and always shared, and with equalized branches, and print one table.

    Latencies are estimates of the simulated program; accuracy is that of its integers against the float model.
    """
    from bpuc.flow.compare_scales import as_rows, compare_scales

    request = options.request(model, **given)
    if given["share_scales"] or given["equalize"]:
        ui.warn("--share-scales and --equalize have no effect: all ways are compared")
    found: list[list[str]] = []

    def look(name: str, program: Program) -> None:
        if name != "never":  # it asks nobody who shares
            found.append([w["message"] for w in program.report["warnings"]])

    rows = compare_scales(request, samples, with_progress("calibrating"), test_data, look=look)
    # what one way alone brings about belongs to none of the others
    warnings = [w for w in dict.fromkeys(found[0]) if all(w in others for others in found)]
    for text in warnings:
        ui.warn(text)
    lines = [f"{'scales':16}{'rescales':>9}{'latency us':>12}{'cosine':>10}{'SQNR dB':>9}{'bits lost':>11}"]
    lines += [
        f"{v.name:16}{v.rescales:9d}{v.latency_us:12.1f}{v.cosine:10.6f}{v.sqnr_db:9.2f}{v.most_bits_lost:11.2f}"
        for v in rows
    ]
    lines.append("latency: estimate; bits lost: the most that a tensor gives up to its group")
    ui.emit(
        "\n".join(lines), {"schema": "bpuc.compare-scales/1", "variants": as_rows(rows), "warnings": warnings}, json_to
    )
