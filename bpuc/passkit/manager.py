"""Runs a list of passes: checks their order, verifies the graph after each, records and dumps what they did."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bpuc.base.files import make_folder, write_atomic
from bpuc.ir import Graph
from bpuc.ir.text import print_graph
from bpuc.ir.verify import VerifyError
from bpuc.passkit.base import Numerics, Pass, Stage
from bpuc.passkit.context import PassContext, Refinement
from bpuc.passkit.verify import verify

Probe = Callable[[Graph, Stage], "dict[str, np.ndarray]"]
# stages at which a graph can run: in float, or as integers
_RUNNABLE = (Stage.IMPORTED, Stage.LEGAL)


def check_same(before: dict[str, np.ndarray], after_: dict[str, np.ndarray], *, exact: bool, after: str) -> None:
    """Compare results before and after an EXACT pass: integers to the bit, floats to 1e-4 of their range.

    Raises:
        VerifyError: naming the pass and the output that it changed.
    """
    for name, old in before.items():
        new = after_[name]
        if exact:
            same = np.array_equal(old, new)
        else:
            same = bool(np.abs(new - old).max(initial=0.0) <= 1e-4 * max(float(np.abs(old).max(initial=0.0)), 1e-6))
        if not same:
            raise VerifyError(f"pass {after} says that it keeps results, but output {name} changed")


def check_order(passes: Sequence[Pass], start: Stage) -> None:
    """Each pass finds the stage that it needs.

    Raises:
        ValueError: naming the pass that comes too early.
    """
    stage = start
    for p in passes:
        if p.needs > stage:
            raise ValueError(f"pass {p.name} needs a graph that is {p.needs.name}, it would find {stage.name}")
        stage = stage if p.gives is None else p.gives


def run_pipeline(
    graph: Graph,
    passes: Sequence[Pass],
    ctx: PassContext,
    *,
    start: Stage = Stage.IMPORTED,
    dump_dir: Path | None = None,
    first: int = 0,
    probe: Probe | None = None,
) -> list[dict[str, object]]:
    """Run the passes in order on `graph`, in place.

    Args:
        probe: results of a graph on one sample; an EXACT pass whose graph can run before and after must keep them.
        dump_dir: folder that gets ``NN-name.ir`` and ``NN-name.changes.jsonl`` after every pass.
        first: number of the first dump.

    Returns:
        the report's rows {"name", "changes"}, one a pass.
    """
    check_order(passes, start)
    stage, rows = start, []
    for number, p in enumerate(passes, first):
        runs = probe is not None and p.numerics is Numerics.EXACT and p.gives is None and stage in _RUNNABLE
        before = probe(graph, stage) if probe is not None and runs else {}
        changes = p.run(graph, ctx)
        stage = stage if p.gives is None else p.gives
        verify(graph, stage, after=p.name)
        if probe is not None and runs and changes:
            check_same(before, probe(graph, stage), exact=stage is Stage.LEGAL, after=p.name)
        rows.append({"name": p.name, "changes": len(changes)})
        if p.refines:
            ctx.refinements += [Refinement(p.name, c.what, c.where, c.why) for c in changes]
        if dump_dir is not None:
            stem = make_folder(dump_dir) / f"{number:02d}-{p.name}"
            write_atomic(f"{stem}.ir", print_graph(graph, stage.name.lower()))
            lines = "".join(json.dumps(asdict(c), ensure_ascii=False) + "\n" for c in changes)
            write_atomic(f"{stem}.changes.jsonl", lines)
    return rows
