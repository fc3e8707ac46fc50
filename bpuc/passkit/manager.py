"""Runs a list of passes: checks their order, verifies the graph after each, records and dumps what they did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bpuc.base.files import write_atomic
from bpuc.ir import Graph
from bpuc.ir.text import print_graph
from bpuc.passkit.base import Pass, Stage
from bpuc.passkit.context import PassContext
from bpuc.passkit.verify import verify


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
) -> list[dict[str, object]]:
    """Run the passes in order on `graph`, in place.

    Args:
        dump_dir: folder that gets ``NN-name.ir`` and ``NN-name.changes.jsonl`` after every pass.
        first: number of the first dump.

    Returns:
        the report's rows {"name", "changes"}, one a pass.
    """
    check_order(passes, start)
    stage, rows = start, []
    for number, p in enumerate(passes, first):
        changes = p.run(graph, ctx)
        stage = stage if p.gives is None else p.gives
        verify(graph, stage, after=p.name)
        rows.append({"name": p.name, "changes": len(changes)})
        if dump_dir is not None:
            dump_dir.mkdir(parents=True, exist_ok=True)
            stem = dump_dir / f"{number:02d}-{p.name}"
            write_atomic(f"{stem}.ir", print_graph(graph, stage.name.lower()))
            lines = "".join(json.dumps(asdict(c), ensure_ascii=False) + "\n" for c in changes)
            write_atomic(f"{stem}.changes.jsonl", lines)
    return rows
