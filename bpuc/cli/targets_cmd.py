"""``bpuc targets``: the marches, and for one of them its hardware numbers, operators and limits."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

import click

from bpuc.cli import options, ui
from bpuc.plugins import get_target, targets
from bpuc.report.plain import table
from bpuc.support import describe
from bpuc.target.model import Target


@click.command("targets", cls=options.Command, epilog="Example: bpuc targets bayes-e --json bayes-e.json")
@click.argument("march", metavar="[M]", required=False, callback=options.march)
@ui.json_option
def command(march: str | None, json_to: str | None) -> None:
    """List the marches; with M, its hardware numbers and operators, each with where it comes from.

    A number is known (public), fitted (to published measurements), derived (from known facts) or assumed.
    """
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 140))
    if march is None:
        known = targets()
        value: Any = {"schema": "bpuc.targets/1", "targets": [describe.summary(t) for t in known.values()]}
        ui.emit(_overview(list(known.values()), width), value, json_to)
        return
    target = get_target(march)
    ui.emit(_one(target, width), describe.as_json(target), json_to)


def _overview(known: Sequence[Target], width: int) -> str:
    rows = []
    for s in map(describe.summary, known):
        advertised = f"{s['advertised_tops']:g}" if s["advertised_tops"] else "-"
        numbers = [str(s["cores"]), f"{s['clock_mhz']:g}", s["int16"], f"{s['peak_tops']:.3g}", advertised]
        rows.append([s["march"], ", ".join(s["chips"]), *numbers])
    head = ["march", "chips", "cores", "MHz", "int16", "model TOPS", "advertised"]
    grid = table(head, rows, [False, False, True, True, False, True, True], width)
    note = "model TOPS: most that the latency model allows on all cores, int8, an estimate. `bpuc targets M` says more."
    return "\n".join([grid, "", *textwrap.wrap(note, width)])


def _one(target: Target, width: int) -> str:
    parts = [
        *_hang("", f"{target.march} ({', '.join(target.chips)}): {target.description}", width),
        *_hang("", f"int16: {describe.int16_words(target)}; {target.notes.get('int16', '')}", width),
        *_hang("", f"outputs: {describe.output_words(target)}; {target.notes.get('outputs', '')}", width),
        *_hang("", f"error of the estimate: {describe.accuracy_words(target)}", width),
        "",
        *_hang("", "Hardware numbers of the estimate; `bpuc perf --hw NAME=NUMBER` tries others", width),
        *_hardware(target, width),
    ]
    general = "; ".join(limit.reason for limit in target.general)
    parts += ["\nOperators", *_hang("  ", f"Every BPU operator takes {general}.", width)]
    for ops, line in describe.grouped(describe.lines(target)):
        where = f"{line.where} {line.dtypes}".strip()
        parts += _hang("  ", f"{', '.join(ops)}: {where}. {line.text} ({line.origin})", width)
    parts.append("\nScales")
    for ops, rule in describe.scale_groups(target):
        parts += _hang("  ", f"{', '.join(ops)}: {rule.rule}. {rule.reason} ({rule.origin}: {rule.source})", width)
    return "\n".join(parts)


def _hardware(target: Target, width: int) -> list[str]:
    """A line for each number, with its origin and the mark of its source; the sources follow."""
    marks: dict[str, int] = {}
    rows = [
        [f"  {name}", _number(q.value), q.unit, f"{q.origin} [{marks.setdefault(q.source, len(marks) + 1)}]"]
        for name, q in target.hardware.items()
    ]
    lines = table(["  name", "value", "unit", "origin"], rows, [False, True, False, False], width).splitlines()
    for source, mark in marks.items():
        lines += _hang(f"  [{mark}] ", source, width)
    return lines


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:g}"


def _hang(lead: str, text: str, width: int) -> list[str]:
    """`text` behind `lead`, wrapped, later lines indented: under the text where half of the width is left for it."""
    later = " " * (len(lead) if lead.strip() and len(lead) <= width // 2 else 6)
    return textwrap.wrap(text, width, initial_indent=lead, subsequent_indent=later, break_on_hyphens=False)
