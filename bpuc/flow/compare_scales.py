"""``bpuc compare-scales``: the same model compiled with scales never, auto and always shared, and equalized."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from itertools import islice

import numpy as np

from bpuc.data import DataSource, open_data
from bpuc.execute.ort import FloatExecutor
from bpuc.flow.calibrate import Progress
from bpuc.flow.compile import calibrated, compile_prepared
from bpuc.flow.judge import closeness, float_outputs
from bpuc.flow.prepare import Prepared
from bpuc.flow.request import Request
from bpuc.perf import estimate
from bpuc.plugins import get_target
from bpuc.program import Program
from bpuc.sim.fast.engine import FastEngine

VARIANTS = (("never", False), ("auto", False), ("always", False), ("auto", True))


@dataclass(frozen=True)
class Variant:
    """One way of choosing scales and what it costs.

    latency_us: estimate, one thread. cosine and sqnr_db: mean over outputs and samples, against the float model.
    most_bits_lost: of any tensor that shares a scale.
    """

    name: str
    rescales: int
    latency_us: float
    cosine: float
    sqnr_db: float
    most_bits_lost: float


def compare_scales(
    request: Request,
    samples: int = 4,
    progress: Progress | None = None,
    test_data: str | None = None,
    variants: Iterable[tuple[str, bool]] = VARIANTS,
    look: Callable[[str, Program], None] | None = None,
) -> list[Variant]:
    """Compile each variant from one calibration and run it on the first samples of the data.

    Args:
        test_data: where the samples come from that accuracy is measured on; None for those of the calibration.
        variants: (how scales are shared, whether branches are equalized).
        look: is shown each variant's name and program.

    Raises:
        ConfigError: no data were named; accuracy cannot be compared without.
    """
    request = replace(request, options=replace(request.options, share_scales="auto", equalize=False))
    prepared, source = calibrated(request, progress)
    if source is None:
        raise request.missing("no data were named", hint="use --data PATH: accuracy is measured on it")
    measured = source if test_data is None else open_data(test_data, prepared.inputs, request.config)
    feeds = list(islice(iter(measured), samples))
    wanted = float_outputs(prepared.graph)
    executor = FloatExecutor(prepared.graph, list(wanted.values()), request.threads)
    truth = [dict(executor.run(f)) for f in feeds]
    found = []
    for mode, equalize in variants:
        name = f"{mode}+equalize" if equalize else mode
        program = compile_variant(request, prepared, source, mode, equalize)
        if look is not None:
            look(name, program)
        engine = FastEngine(program, request.threads)
        errors = []
        for feed, floats in zip(feeds, truth):
            result = engine.run(feed)
            errors += [closeness(floats[t], result[n]) for n, t in wanted.items()]
        report = program.report
        lost = [b for g in report["groups"] for b in g["bits_lost"].values()]
        summary = estimate(program, get_target(program.march))["summary"]
        found.append(
            Variant(
                name,
                len(report["rescales"]),
                summary["latency_us"],
                float(np.mean([c for c, _ in errors])),
                float(np.mean([s for _, s in errors])),
                max(lost, default=0.0),
            )
        )
    return found


def compile_variant(
    request: Request, prepared: Prepared, source: DataSource | None, mode: str, equalize: bool
) -> Program:
    """The program with scales shared that way, which takes and gives what the float model does; `prepared` stays."""
    options = replace(prepared.ctx.options, share_scales=mode, equalize=equalize, remove_types=(), remove_names=())
    ctx = replace(prepared.ctx.twin(), options=options)
    twin = replace(prepared, graph=prepared.graph.copy(), ctx=ctx, passes=[])
    return compile_prepared(replace(request, options=options), twin, source).program


def as_rows(variants: list[Variant]) -> list[dict[str, float | int | str]]:
    """For JSON."""
    return [asdict(v) for v in variants]
