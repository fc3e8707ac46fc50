"""``bpuc compile``: quantize and compile a model to a simulated binary."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from bpuc.cli import options, ui
from bpuc.cli.samples import with_progress


@click.command(
    "compile",
    cls=options.Command,
    epilog="Example: bpuc compile model.onnx --march bayes-e --data calib.npz -o model.bpuc",
)
@click.argument("model", metavar="MODEL.onnx", required=False)
@click.option(
    "--march", metavar="M", callback=options.march, help="bernoulli2, bayes, bayes-e, nash-e, nash-m, nash-p."
)
@click.option("--calib", metavar="X.calib.json", help="Thresholds from `bpuc calibrate`.")
@click.option("--data", metavar="PATH", help="Calibration data: .npz, or a folder of samples; streamed.")
@click.option("--random-data", is_flag=True, help="Calibrate on random data: for latency and placement only.")
@options.shared
@options.scale_out
@click.option("-o", "--output", "output", metavar="X.bpuc", callback=options.output, help="The simulated binary.")
@click.option("--report", metavar="F", callback=options.output, help="Write report.json.")
@click.option("--max-latency-ms", type=options.AtLeastZero(), metavar="N", help="Exit 3 when the estimate is above.")
@click.option("--fail-on", multiple=True, type=click.Choice(["cpu-op", "rescale"]), help="Exit 3 when there is one.")
def command(
    model: str | None,
    output: str | None,
    report: str | None,
    max_latency_ms: float | None,
    fail_on: tuple[str, ...],
    **given: Any,
) -> None:
    """Choose scales, share them across concats, place every op, and write a simulated binary.

    The binary runs bit-exactly in `bpuc run`; it does not run on a chip.
    """
    from bpuc.base.files import check_writable, new_folder, write_together
    from bpuc.flow.compile import compile_model
    from bpuc.perf import estimate
    from bpuc.perf.gates import check_gates
    from bpuc.program.container import to_bytes

    request = options.request(model, **given)
    to = output or (str(request.config.output) if request.config and request.config.output else None)
    if to is None:
        raise request.missing(
            "no output was named", hint="give -o X.bpuc, or output_model_file_prefix in the YAML file"
        )
    # working_dir, which the vendor's tools make too
    with new_folder(Path(to).parent) if output is None else nullcontext():
        check_writable(to)
        options.distinct(
            [("-o", to), *((("--report", report),) if report else ())],
            [request.model, *(request.config.data if request.config else ())],
        )
        compiled = compile_model(request, with_progress("calibrating"), assume=False)
        program, ctx = compiled.program, compiled.prepared.ctx
        for warning in program.report["warnings"]:
            ui.warn(warning["message"])
        perf = estimate(program, ctx.need_target())
        files: dict[str, bytes | str] = {to: to_bytes(program)}
        if report:
            files[report] = ui.to_json(
                {**program.report, "source": {"path": str(request.model), **program.report["source"]}}
            )
        write_together(files)
    ui.note(_summary(to, program.report, perf))
    check_gates(perf, max_latency_ms, fail_on)


def _summary(to: str, report: dict[str, Any], perf: dict[str, Any]) -> str:
    from bpuc.report.cpucount import cpu_count
    from bpuc.report.plain import wrap
    from bpuc.report.values import several

    bpu = sum(n["device"] == "BPU" for n in report["nodes"])
    latency = perf["summary"]["latency_us"] / 1000
    share = report.get("int16_mac_share", 0.0)
    wide = f", int16 for {100 * share:.1f} % of the multiplications" if share else ""
    avoided = f", {len(report['avoided'])} avoided by shared scales" if report["avoided"] else ""
    text = (
        f"{several(bpu, 'BPU op')}, {cpu_count(report['nodes'])}, "
        f"{several(len(report['rescales']), 'rescale')}{avoided}{wide}; estimate {latency:.3f} ms"
    )
    return f"{to}: simulated binary for {report['march']}\n" + wrap(
        text, shutil.get_terminal_size().columns, "  ", "  "
    )
