"""Ranges of masked scores: what a mask hides before a Softmax needs no steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from bpuc.calibrate.table import TensorRange
from bpuc.ir import Graph
from bpuc.passkit.context import MASKED
from bpuc.passkit.masked_sums import floor, masks

OBSERVER = "mask"


def without_hidden(graph: Graph, ranges: Mapping[str, TensorRange], own: Collection[str]) -> dict[str, TensorRange]:
    """The ranges, those of masked scores cut to what the Softmax tells apart; their observer is then called "mask".

    Args:
        own: tensors that were given an observer of their own, which decides alone.
    """
    found = dict(ranges)
    for mask in masks(graph):
        name, scores = mask.op.out.name, found.get(mask.scores.name)
        if name in own or name not in found or scores is None or found[name].observer == MASKED:
            continue
        threshold = floor(mask, scores.low, scores.high)
        if threshold is not None and threshold < found[name].threshold:
            low, high = max(found[name].low, -threshold), min(found[name].high, threshold)
            found[name] = replace(found[name], low=low, high=high, threshold=threshold, observer=OBSERVER)
    return found
