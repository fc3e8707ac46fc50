"""``bpuc calibrate``: observe a model on data and write its thresholds."""

from __future__ import annotations

from typing import Any

import click

from bpuc.cli import options, ui
from bpuc.cli.samples import with_progress


@click.command(
    "calibrate",
    cls=options.Command,
    epilog="Example: bpuc calibrate model.onnx --data images.npz --observer mse -o m.calib.json",
)
@click.argument("model", metavar="MODEL.onnx", required=False)
@click.option("--data", metavar="PATH", help=".npz, or a folder of samples; streamed.")
@click.option("--march", metavar="M", callback=options.march, help="Not needed: thresholds hold for every march.")
@options.shared
@click.option("-o", "--output", "output", required=True, metavar="X.calib.json", callback=options.output)
@click.option("--export-qdq", metavar="F", callback=options.output, help="Also write a Q/DQ model for other tools.")
def command(model: str | None, output: str, export_qdq: str | None, **given: Any) -> None:
    """Run the float model on samples and write a threshold for every tensor.

    The file is text: read it, diff it, edit it; an edited threshold is used as it stands.
    """
    from bpuc.base.files import write_atomic
    from bpuc.calibrate import save_calibration
    from bpuc.flow.calibrate import calibrate
    from bpuc.flow.request import make_request
    from bpuc.flow.stages import qdq_model

    request = make_request(model, **given)
    calibration, prepared = calibrate(request, with_progress("calibrating"))
    for warning in dict.fromkeys(prepared.ctx.warnings):
        ui.warn(warning.message)
    save_calibration(calibration, output)
    if export_qdq is not None:
        write_atomic(export_qdq, qdq_model(prepared, calibration))
    ui.note(
        f"{output}: {len(calibration.tensors)} tensors, {calibration.samples} samples, observer {calibration.observer}"
    )
