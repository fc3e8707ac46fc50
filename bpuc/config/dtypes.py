"""The vendor's ways of asking for dtypes and devices: node_info, set_node_data_type and optimization."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bpuc.config import values
from bpuc.config.config import NodeDtype, Subgraph

NO_EFFECT = {
    "asymmetric": "scales are symmetric",
    "lstm_batch_last": "recurrent layers keep the layout of the model",
    "run_fast": "it is internal to the vendor's tools",
}
SET_OP = re.compile(r"set_(\w+)_(input|output)_(\w+)")


@dataclass
class Wishes:
    """What was asked for."""

    dtypes: dict[str, str] = field(default_factory=dict)
    node_dtypes: list[NodeDtype] = field(default_factory=list)
    subgraphs: list[Subgraph] = field(default_factory=list)
    cpu: list[str] = field(default_factory=list)
    bpu: list[str] = field(default_factory=list)
    template: str | None = None
    bias_correction: bool | None = None
    output_dtype: str | None = None
    notes: list[str] = field(default_factory=list)


def read_node_info(value: Any, wishes: Wishes) -> None:
    """Add what node_info or set_node_data_type asks for.

    Raises:
        ValueError: the value is neither of the two forms.
    """
    if isinstance(value, Mapping):
        for node, info in value.items():
            if not isinstance(info, Mapping):
                raise ValueError(f"node {node!r}: a mapping such as {{ON: BPU, InputType: int16}} was expected")
            try:
                _read_one(str(node), info, wishes)
            except ValueError as e:
                raise ValueError(f"node {node!r}: {e}") from None
        return
    for piece in values.names(value):
        node, colon, dtype = piece.rpartition(":")
        if not colon or not node.strip():
            raise ValueError(f"name:int16 was expected, not {piece!r}")
        wishes.dtypes[node.strip()] = values.dtype(dtype)


def _read_one(node: str, info: Mapping[Any, Any], wishes: Wishes) -> None:
    for key, value in info.items():
        name = "ON" if key is True else str(key)  # YAML 1.1 reads a bare ON as true
        if name == "ON":
            device = values.one_of(("BPU", "CPU"), upper=True)(value)
            (wishes.bpu if device == "BPU" else wishes.cpu).append(node)
        elif match := re.fullmatch(r"InputType(\d*)", name):
            wishes.node_dtypes.append(
                NodeDtype(node, "input", int(match[1]) if match[1] else None, values.dtype(value))
            )
        elif name == "OutputType":
            wishes.node_dtypes.append(NodeDtype(node, "output", None, values.dtype(value)))
        else:
            raise ValueError(f"{name!r} is none of ON, InputType, InputType0.., OutputType")


def read_optimization(words: tuple[str, ...], wishes: Wishes) -> None:
    """Add what the words of `optimization` ask for.

    Raises:
        ValueError: a word is not known.
    """
    for word in words:
        match = SET_OP.fullmatch(word)
        if word == "set_all_nodes_int16":
            wishes.template = "int16"
        elif match and match[1] == "model" and match[2] == "output":
            wishes.output_dtype = values.dtype(match[3])
        elif match:
            wishes.node_dtypes.append(NodeDtype(match[1], match[2], None, values.dtype(match[3])))
        elif word == "bias_correction":
            wishes.bias_correction = True
        elif word in NO_EFFECT:
            wishes.notes.append(f"{word} has no effect here: {NO_EFFECT[word]}")
        else:
            raise ValueError(
                f"{word!r} is not known; known are set_model_output_int16, set_all_nodes_int16, "
                f"set_{{Op}}_input_int16, set_{{Op}}_output_int8 and the like"
            )
