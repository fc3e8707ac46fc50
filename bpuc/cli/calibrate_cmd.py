"""``bpuc calibrate``: observe a model on data and write its thresholds."""

from __future__ import annotations

from typing import Any

import click

from bpuc.cli import options, ui
from bpuc.cli.samples import with_progress

# options that say how thresholds are used, not what they are
_COMPILE_ONLY = (
    "share_scales", "share", "keep_scale", "max_bits_lost", "equalize", "max_latency_loss", "adaptive_rounding",
    "weight_clipping", "auto_int16", "optimize", "compile_mode", "balance", "cores",
)  # fmt: skip


@click.command(
    "calibrate",
    cls=options.Command,
    epilog="Example: bpuc calibrate model.onnx --data images.npz --observer mse -o m.calib.json",
)
@click.argument("model", metavar="MODEL.onnx", required=False)
@click.option("--data", metavar="PATH", help=".npz, or a folder of samples; streamed.")
@click.option("--march", metavar="M", callback=options.march, help="Not needed: thresholds hold for every march.")
@options.shared
@options.scale_out
@click.option("--resume", is_flag=True, help="Keep what was seen in X.calib.json.part, and go on from there.")
@click.option(
    "-o", "--output", "output", required=True, metavar="X.calib.json", callback=options.output, help="The thresholds."
)
@click.option("--export-qdq", metavar="F", callback=options.output, help="Also write a Q/DQ model for other tools.")
def command(model: str | None, output: str, export_qdq: str | None, resume: bool, **given: Any) -> None:
    """Run the float model on samples and write a threshold for every tensor.

    The file is text: read it, diff it, edit it; an edited threshold is used as it stands. With --resume, a run that was
    interrupted goes on where it was, given the same model, data and options.
    """
    from pathlib import Path

    from bpuc.base.files import write_together
    from bpuc.calibrate.table import calibration_text
    from bpuc.flow.calibrate import calibrate
    from bpuc.flow.stages import qdq_model
    from bpuc.report.values import several

    unused = options.named_among(_COMPILE_ONLY)
    if unused:
        ui.warn(f"{', '.join(unused)}: no effect on thresholds; give it to `bpuc compile`")
    request = options.request(model, **given)
    part = Path(f"{output}.part") if resume else None
    calibration, prepared = calibrate(request, with_progress("calibrating"), part)
    for warning in dict.fromkeys(prepared.ctx.warnings):
        ui.warn(warning.message)
    files: dict[str, bytes | str] = {output: calibration_text(calibration)}
    if export_qdq is not None:
        files[export_qdq] = qdq_model(prepared, calibration)
    write_together(files)
    if part is not None:
        part.unlink(missing_ok=True)
    counts = f"{several(len(calibration.tensors), 'tensor')}, {several(calibration.samples, 'sample')}"
    ui.note(f"{output}: {counts}, observer {calibration.observer}")
