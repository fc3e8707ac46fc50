"""Every file under tests/cases runs one pass on a graph in text form and compares the text that comes out.

First line: ``# run: PASS [OPTION VALUE]...`` (the options are those of `run_case`), then lines that say what is meant,
the input, ``# output``, the expected graph and, each as a line that starts with ``#``, what the pass reported.
``BPUC_UPDATE_CASES=1 pytest tests/passes`` rewrites expectations; read the diff.
"""

from __future__ import annotations

import operator
import os
import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bpuc.base.channels import ChannelStats
from bpuc.base.errors import BpucError
from bpuc.base.image import ImageInput
from bpuc.calibrate.noise import ReaderNoise
from bpuc.calibrate.twin import Twin
from bpuc.ir import Graph, Op
from bpuc.ir.text import parse_graph, print_graph
from bpuc.ir.verify import verify_wiring
from bpuc.ops.registry import all_defs
from bpuc.passkit import CompileOptions, Pass, PassContext
from bpuc.passkit.context import FileScale, Group, Range, Trial
from bpuc.passkit.layer import Visit
from bpuc.plugins import get_target, passes

CASES = sorted((Path(__file__).parents[1] / "cases").rglob("*.ir"))
ATTRS = {kind: d.attrs for kind, d in all_defs().items()}

# microseconds in a reason come from the hardware numbers, which are fitted anew now and then: here they read "#"
_ESTIMATE = re.compile(r'reason="[^"]*\(estimate\)"')


def _masked(reason: re.Match[str]) -> str:
    return re.sub(r"\d+\.\d", "#", reason[0])


def run_case(text: str) -> str:
    head, _, rest = text.partition("\n")
    name, *words = shlex.split(head.removeprefix("# run:"))
    body, _, _ = rest.partition("# output\n")
    graph = parse_graph(body, ATTRS)
    ctx, fields = _context(words)
    pass_: Pass = passes()[name](**fields)
    try:
        changes = pass_.run(graph, ctx)
    except BpucError as e:
        return f"# refused: {type(e).__name__}: {e.message}\n"
    verify_wiring(graph, name)
    lines = [f"# change: {c.what} at {c.where}" for c in changes]
    lines += [f"# warning: {w.code} at {w.where}" for w in ctx.warnings]
    lines += [f"# group: {' '.join(g.tensors)} threshold {g.threshold:g} lost {g.bits_lost}" for g in ctx.groups]
    lines += [f"# rescale: {r.name} of {r.tensor} {r.from_scale:g} -> {r.to_scale:g}" for r in ctx.rescales]
    lines += [f"# avoided: {a.tensor} at {a.node}" for a in ctx.avoided]
    lines += [f"# kept apart: operand {i} of {node}: {r.why}; {r.remedy}" for (node, i), r in ctx.cut_reasons.items()]
    lines += [
        f"# fixed by the file: {n} at {ctx.options.fixed_scales[n]:g}"
        for n in sorted(ctx.fixed_by_file & set(ctx.options.fixed_scales))
    ]
    lines += [f"# int16: {name}" for name in sorted(ctx.int16)]
    lines += [f"# better in int16: {name}" for name in sorted(ctx.prefer_int16)]
    lines += [f"# note on output {name}: {why}" for name, why in ctx.output_notes.items()]
    lines += [f"# asked for {name}: {dtype}" for name, dtype in ctx.calibrated_dtypes.items()]
    lines += [f"# segment {number}: {why}" for number, why in ctx.segment_reasons.items()]
    assert _unique_names(graph)
    return _ESTIMATE.sub(_masked, print_graph(graph)) + "".join(f"{line}\n" for line in lines)


def _context(words: list[str]) -> tuple[PassContext, dict[str, object]]:
    ctx, fields = PassContext(), {}
    options = CompileOptions(tune=True)
    for option, value in zip(words[::2], words[1::2], strict=True):
        name, _, amount = value.rpartition("=")
        match option:
            case "--march":
                ctx.target = get_target(value)
            case "--range":
                ctx.ranges[name] = Range(-float(amount), float(amount), float(amount), "min_max")
            case "--peaks":
                ctx.channels[name] = _uniform_channels([float(v) for v in amount.split(",")])
            case "--samples-seen":
                ctx.samples = int(value)
            case "--roots":
                square = np.array([float(v) for v in amount.split(",")]) ** 2
                ctx.channels[name] = replace(ctx.channels[name], square=square)
            case "--lost":
                ctx.groups.append(Group(0, [name], 1.0, "joined", {name: float(amount)}))
            case "--means":
                mean = np.array([float(v) for v in amount.split(",")])
                ctx.channels[name] = ChannelStats(1, np.abs(mean), mean, mean**2)
            case "--sensitivity":
                ctx.sensitivity[name] = float(amount)
            case "--int16-budget":
                ctx.int16_budget = float(value)
            case "--effort":
                options = replace(options, effort=int(value))
            case "--weights":
                ctx.weights[name] = np.array([float(v) for v in amount.split(",")])
            case "--int16":
                ctx.int16.add(value)
            case "--opt":
                fields[name] = {"true": True, "false": False}[amount]
            case "--share-scales":
                options = replace(options, share_scales=value)
            case "--max-bits-lost":
                options = replace(options, max_bits_lost=float(value))
            case "--fixed-scale":
                options = replace(options, fixed_scales={**options.fixed_scales, name: float(amount)})
            case "--run-on-cpu":
                options = replace(options, cpu=(*options.cpu, value))
            case "--run-on-bpu":
                options = replace(options, bpu=(*options.bpu, value))
            case "--dtype":
                options = replace(options, dtypes={**options.dtypes, name: amount})
            case "--file-scale":
                scale, low, high = map(float, amount.split(","))
                ctx.file_scales[name] = FileScale(scale, low, high)
            case "--cut-by-file":
                scale, low, high = map(float, amount.split(","))
                ctx.cut_by_file = {**ctx.cut_by_file, name: FileScale(scale, low, high)}
            case "--rounded-by-file":
                ctx.rounded_by_file |= {value}
            case "--fixed-by-file":
                ctx.fixed_by_file.add(value)
            case "--qat-scales":
                options = replace(options, qat_scales=value)
            case "--high-precision-outputs":
                options = replace(options, high_precision_outputs=value == "true")
            case "--asked":
                ctx.asked_dtypes.add(value)
            case "--image":
                kind, layout, train, mean, scale = amount.split(",")
                shape = tuple(int(d) for d in name.split(":")[1].split("x"))
                ctx.images[name.split(":")[0]] = ImageInput(
                    kind,
                    layout,
                    train,
                    "NCHW",
                    shape,
                    tuple(map(float, mean.split())),
                    tuple(map(float, scale.split())),
                )
            case "--remove-type":
                options = replace(options, remove_types=(*options.remove_types, value))
            case "--template":
                options = replace(options, template=value, explicit_default=value == "default")
            case "--share":
                options = replace(options, shared=(*options.shared, value))
            case "--keep-scale":
                options = replace(options, keep_scales=(*options.keep_scales, value))
            case "--outputs-gain":
                ctx.judge, ctx.judged = partial(_judge, float(value)), True
            case "--rescale-us":
                ctx.rescale_us = partial(operator.mul, float(value))
            case "--bpu-us":
                ctx.bpu_us = float(value)
            case "--equalize":
                options = replace(options, equalize=True)
                ctx.trial = partial(_trial, int(value))
            case "--samples":
                ctx.layers = partial(_walk, int(value))
            case "--observer":
                options = replace(options, observer=value)
            case _:
                raise ValueError(f"unknown option {option}")
    ctx.options = options
    return ctx, fields


def _judge(gain: float, graph: Graph, ctx: PassContext, by_channel: bool = False) -> np.ndarray:
    """Outputs that gain so many dB once something is int16, apart or together."""
    return np.full((2, len(graph.outputs)), 40 + gain * bool(ctx.int16 or ctx.apart or ctx.together))


def _trial(seed: int, graph: Graph, readers: list[Op]) -> Trial:
    """Errors measured on two random samples, in place of calibration data."""
    rng = np.random.default_rng(seed)
    samples = [{t.name: rng.normal(size=t.shape).astype(np.float32) for t in graph.inputs} for _ in range(2)]
    return ReaderNoise(graph, samples, readers, 1).trial


def _walk(count: int, graph: Graph, visit: Visit) -> list[tuple[np.ndarray, ...]]:
    """The graph beside itself without scales, on random samples."""
    rng = np.random.default_rng(0)
    samples = [{t.name: rng.normal(size=t.shape).astype(np.float32) for t in graph.inputs} for _ in range(count)]
    return Twin(graph.copy(), samples).walk(graph, visit)


def _uniform_channels(peaks: list[float]) -> ChannelStats:
    """Channels along axis 1 with values spread evenly over -peak..peak."""
    peak = np.array(peaks)
    return ChannelStats(1, peak, np.zeros(peak.size), peak**2 / 3)


def _unique_names(graph: Graph) -> bool:
    names = [op.name for op in graph]
    return len(set(names)) == len(names)


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_case(path: Path) -> None:
    text = path.read_text()
    got = run_case(text)
    before, _, want = text.partition("# output\n")
    if os.environ.get("BPUC_UPDATE_CASES") == "1":
        path.write_text(f"{before}# output\n{got}")
        return
    assert got == want


def test_every_pass_has_a_case() -> None:
    named = {p.parent.name for p in CASES}
    assert set(passes()) <= named, f"no case for {sorted(set(passes()) - named)}"


def test_a_case_names_the_pass_of_its_folder() -> None:
    for path in CASES:
        assert shlex.split(path.read_text().partition("\n")[0])[2] == path.parent.name, path.name
