"""Every file under tests/cases runs one pass on a graph in text form and compares the text that comes out.

First line: ``# run: PASS [--march M] [--opt K=V]...``, then the input, ``# output``, the expected graph.
``BPUC_UPDATE_CASES=1 pytest`` rewrites expectations; read the diff.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from bpuc.ir.text import parse_graph, print_graph
from bpuc.ir.verify import verify_wiring
from bpuc.ops.registry import all_defs
from bpuc.passkit import CompileOptions, Pass, PassContext
from bpuc.passkit.context import Range
from bpuc.plugins import get_target, passes

CASES = sorted((Path(__file__).parents[1] / "cases").rglob("*.ir"))


def run_case(text: str) -> str:
    head, _, rest = text.partition("\n")
    words = shlex.split(head.removeprefix("# run:"))
    body, _, _ = rest.partition("# output\n")
    graph = parse_graph(body, {kind: d.attrs for kind, d in all_defs().items()})
    graph.input_names = [t.name for t in graph.inputs]
    ctx = PassContext()
    pass_: Pass = passes()[words[0]]()
    for option, value in zip(words[1::2], words[2::2], strict=True):
        if option == "--march":
            ctx.target = get_target(value)
        elif option == "--range":
            name, threshold = value.rsplit("=", 1)
            ctx.ranges[name] = Range(-float(threshold), float(threshold), float(threshold), "min_max")
        elif option == "--share-scales":
            ctx.options = replace(ctx.options, share_scales=value)
        elif option == "--fixed-scale":
            name, scale = value.rsplit("=", 1)
            ctx.options = replace(ctx.options, fixed_scales={**ctx.options.fixed_scales, name: float(scale)})
        elif option == "--run-on-cpu":
            ctx.options = replace(ctx.options, cpu=(*ctx.options.cpu, value))
        elif option == "--dtype":
            name, dtype = value.rsplit("=", 1)
            ctx.options = replace(ctx.options, dtypes={**ctx.options.dtypes, name: dtype})
        else:
            raise ValueError(f"unknown option {option}")
    assert isinstance(ctx.options, CompileOptions)
    pass_.run(graph, ctx)
    verify_wiring(graph, words[0])
    return print_graph(graph)


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
