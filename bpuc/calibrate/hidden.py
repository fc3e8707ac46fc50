"""Ranges of masked scores: what a mask hides before a Softmax needs no steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from bpuc.calibrate.table import TensorRange
from bpuc.ir import Graph
from bpuc.passkit.context import MASKED
from bpuc.passkit.masked_sums import floor, masks, renamed

OBSERVER = "mask"


def without_hidden(graph: Graph, ranges: Mapping[str, TensorRange], own: Collection[str]) -> dict[str, TensorRange]:
    """The ranges, those of masked scores cut to what the Softmax tells apart; their observer is then called "mask".

    Args:
        own: tensors that were given an observer of their own, which decides alone.
    """
    found = dict(ranges)
    for mask in masks(graph):
        scores = found.get(mask.scores.name)
        threshold = None if scores is None else floor(mask, scores.low, scores.high)
        for name in (t.name for t in renamed(graph, mask.op.out)):
            r = found.get(name)
            if r is None or threshold is None or name in own or r.observer == MASKED or threshold >= r.threshold:
                continue
            low, high = max(r.low, -threshold), min(r.high, threshold)
            found[name] = replace(r, low=low, high=high, threshold=threshold, observer=OBSERVER)
    return found
