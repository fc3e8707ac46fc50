"""The key quant_config of the tools for S100: dtypes and the observer, for the model, op types and nodes.

It is a mapping, or the path of a JSON file that holds one. Of its dtypes bpuc has int8 and int16; for others a note
says so, and the node keeps the default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bpuc.base.errors import FileError, did_you_mean
from bpuc.base.files import read_bytes
from bpuc.config import values
from bpuc.config.config import NodeDtype, Subgraph
from bpuc.config.dtypes import Wishes
from bpuc.config.report import Report

Key = tuple[Any, ...]
QTYPE = re.compile(r"(int4|int16-ec|dual-int16|(b?float|int|mxint|mxfp|nvfp)\d+\w*)")
NO_EFFECT = {
    "asymmetric": "scales are symmetric",
    "num_sample": "biases are corrected by all that calibration saw",
    "metric": "candidates are judged by cosine similarity, biases by the mean error",
}
BINS = {"num_bin": "bins", "max_num_bin": "max_bins"}


class QuantConfig:
    """Reads one quant_config into wishes.

    Attributes:
        calibration_type, max_percentile, per_channel: as the keys of calibration_parameters, None where not given.
        options: of the observer.
    """

    def __init__(self, key: Key, wishes: Wishes, report: Report):
        self.calibration_type: str | None = None
        self.max_percentile: float | None = None
        self.per_channel: bool | None = None
        self.options: dict[str, float] = {}
        self._key, self._wishes, self._report = key, wishes, report

    def read(self, value: Any, folder: Path) -> None:
        """Take what the mapping or the file says; mistakes go to the report."""
        if isinstance(value, str):
            path = folder / value
            try:
                value = json.loads(read_bytes(path, "quant_config"))
            except FileError as e:
                return self._report.mistake(self._key, e.message)
            except ValueError as e:
                return self._report.mistake(self._key, f"{path} is no JSON: {e}")
        sections = {
            "model_config": self._model,
            "op_config": self._ops,
            "node_config": self._nodes,
            "subgraph_config": self._subgraphs,
        }
        for name, part in self._items(value, self._key):
            if name in sections:
                sections[name](part, (*self._key, name))
            else:
                self._other((*self._key, name), list(sections))
        return None

    def _model(self, value: Any, key: Key) -> None:
        for name, part in self._items(value, key):
            if name == "all_node_type":
                if self._dtype(part, (*key, name)) == "int16":
                    self._wishes.template = "int16"
            elif name == "model_output_type":
                self._wishes.output_dtype = self._dtype(part, (*key, name)) or self._wishes.output_dtype
            elif name == "activation":
                self._activation(part, (*key, name))
            elif name == "weight":
                self._weight(part, (*key, name))
            elif name == "modelwise_search":
                self._search(part, (*key, name))
            else:
                known = ["all_node_type", "model_output_type", "activation", "weight", "modelwise_search"]
                self._other((*key, name), known)

    def _weight(self, value: Any, key: Key) -> None:
        for name, part in self._items(value, key):
            if name != "bias_correction":
                self._other((*key, name), ["bias_correction"])
                continue
            self._wishes.bias_correction = True
            for inner, _ in self._items(part, (*key, name)):
                self._other((*key, name, inner), ["num_sample", "metric"])

    def _search(self, value: Any, key: Key) -> None:
        for name, part in self._items(value, key):
            if name == "similarity":
                try:
                    self.options["similarity"] = values.fraction(part)
                    self.calibration_type = self.calibration_type or "default"
                except ValueError as e:
                    self._report.mistake((*key, name), str(e))
            elif name != "metric" or not str(part).startswith("cosine"):
                self._other((*key, name), ["similarity", "metric"])

    def _activation(self, value: Any, key: Key) -> None:
        for name, part in self._items(value, key):
            try:
                if values.blank(part):
                    continue
                if name == "calibration_type":
                    kinds = [values.one_of(("max", "kl", "mix", "default"))(k) for k in values.split(part, ";,")]
                    self.calibration_type = kinds[0] if len(kinds) == 1 else "default"
                    if len(kinds) > 1:
                        text = "of several types the search of `default` takes the best, among max, percentile and kl"
                        self._report.note((*key, name), text)
                elif name in BINS:
                    self.options[BINS[name]] = self._bins(part, (*key, name))
                elif name == "per_channel":
                    self.per_channel = values.flag(part)
                elif name == "max_percentile":
                    many = part if isinstance(part, list) else [part]
                    self.max_percentile = values.fraction(many[0])
                    if len(many) > 1:
                        self._report.note((*key, name), f"no search is made; {many[0]} is taken")
                else:
                    self._other((*key, name), ["calibration_type", "max_percentile", "per_channel", *BINS])
            except ValueError as e:
                self._report.mistake((*key, name), str(e))

    def _bins(self, value: Any, key: Key) -> int:
        """A power of two that the histogram can have: the number or the next one above; of several the first."""
        least = 129 if key[-1] == "num_bin" else 258
        many = value if isinstance(value, list) else [value]
        number = values.number(many[0])
        if number != int(number) or number < least:
            raise ValueError(f"a whole number from {least} on was expected, not {many[0]}")
        bins = min(max(1 << (int(number) - 1).bit_length(), 512), 65536)
        if bins != number or len(many) > 1:
            self._report.note(key, f"{bins} is taken: histograms have a power of two of bins, from 512 to 65536")
        return bins

    def _ops(self, value: Any, key: Key) -> None:
        for op, part in self._items(value, key):
            self._node(op, part, (*key, op))

    _nodes = _ops

    def _subgraphs(self, value: Any, key: Key) -> None:
        for name, part in self._items(value, key):
            given: dict[str, Any] = {}
            for word, inner in self._items(part, (*key, name)):
                try:
                    if word in ("inputs", "outputs"):
                        given[word] = values.names(inner)
                    elif word == "qtype":
                        given[word] = self._dtype(inner, (*key, name, word))
                    else:
                        self._other((*key, name, word), ["inputs", "outputs", "qtype"])
                except ValueError as e:
                    self._report.mistake((*key, name, word), str(e))
            if not given.get("inputs") or not given.get("outputs"):
                self._report.mistake((*key, name), "it needs inputs and outputs")
            elif given.get("qtype"):
                self._wishes.subgraphs.append(Subgraph(name, given["inputs"], given["outputs"], given["qtype"]))

    def _node(self, node: str, value: Any, key: Key) -> None:
        for name, part in self._items(value, key):
            port = re.fullmatch(r"(input|output)(\d*)", name)
            if name == "ON" and values.blank(part):
                continue
            if name == "ON":
                try:
                    device = values.one_of(("BPU", "CPU"), upper=True)(part)
                    (self._wishes.bpu if device == "BPU" else self._wishes.cpu).append(node)
                except ValueError as e:
                    self._report.mistake((*key, name), str(e))
            elif name == "qtype":
                if dtype := self._dtype(part, (*key, name)):
                    self._wishes.dtypes[node] = dtype
            elif port:
                if dtype := self._dtype(part, (*key, name)):
                    index = int(port[2]) if port[2] and port[1] == "input" else None
                    self._wishes.node_dtypes.append(NodeDtype(node, port[1], index, dtype))
            else:
                self._other((*key, name), ["qtype", "input0", "output", "ON"])

    def _dtype(self, value: Any, key: Key) -> str | None:
        """int8 or int16; None for a blank, and, with a note, for another dtype of the vendor's."""
        if values.blank(value):
            return None
        word = str(value)
        if word in values.DTYPES:
            return word
        if QTYPE.fullmatch(word):
            self._report.note(key, f"{word} is not there, the default is kept; there are int8 and int16")
        else:
            self._report.mistake(key, f"{word!r} is none of {', '.join(values.DTYPES)}")
        return None

    def _items(self, value: Any, key: Key) -> list[tuple[str, Any]]:
        if values.blank(value):
            return []
        if isinstance(value, Mapping):
            return [("ON" if k is True else str(k), v) for k, v in value.items()]
        self._report.mistake(key, f"keys with values were expected below it, not {value!r}")
        return []

    def _other(self, key: Key, known: list[str]) -> None:
        if key[-1] in NO_EFFECT:
            self._report.note(key, f"it has no effect here: {NO_EFFECT[key[-1]]}")
        else:
            self._report.mistake(key, "there is no such key", did_you_mean(key[-1], known))
