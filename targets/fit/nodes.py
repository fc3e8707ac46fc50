"""What the vendor's compiler makes of a model beside what bpuc makes of it: devices, fusions, counts by type.

    python targets/fit/nodes.py FOLDER [--march bayes-e]

FOLDER holds `published_nodes.csv` (a row a node of a conversion log: `log_model`, `node`, `on`, `quantized_type`) and
`graphs/MODEL.onnx`. The files behind the logs have other names in front (``/model.3/``) and another order of parallel
branches, so layers with MACs are matched by the rest of their names, all else by counts of types. Prints Markdown.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import Counter
from pathlib import Path
from typing import Any

from pairs import compile_graph

# what is counted together -> types of the vendor, types of bpuc
GROUPS: dict[str, tuple[set[str], set[str]]] = {
    "convolution": ({"HzSQuantizedConv", "HzSQuantizedConvTranspose"}, {"Conv", "ConvTranspose"}),
    "product of activations": ({"HzSQuantizedMatmul"}, {"MatMul"}),
    "table of one input": ({"HzLut", "HzLut2Layer"}, {"Table", "Exp", "Reciprocal"}),
    "add, sub, mul": (
        {"HzSElementwiseAdd", "HzSElementwiseSub", "HzSElementwiseMul"},
        {"Add", "Sub", "Mul", "Affine"},
    ),
    "pool": ({"HzQuantizedMaxPool"}, {"MaxPool"}),
    "reduce": ({"HzQuantizedReduceMax", "HzSQuantizedReduceSum"}, {"ReduceMax", "ReduceSum"}),
    "resize": ({"HzQuantizedResizeUpsample"}, {"Resize"}),
    "concat": ({"Concat"}, {"Concat"}),
    "split, slice": ({"Split"}, {"Split", "Slice"}),
    "reshape": ({"Reshape"}, {"Reshape"}),
    "transpose": ({"Transpose"}, {"Transpose"}),
    "requantize (rescale)": ({"HzRequantize"}, {"Rescale"}),
    "input, output": ({"HzSQuantizedPreprocess"}, {"Quantize", "Dequantize"}),
}
_MACS = GROUPS["convolution"][0] | GROUPS["product of activations"][0]


def short(name: str) -> str:
    """A node's name without the stage in front of it; of the double head only the last part, as the log cuts it."""
    if "/one2one" in name:
        return name[name.rfind("/one2one") :]
    return re.sub(r"^/(model|body)\.\d+", "", name)


def compare(rows: list[dict[str, str]], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by group of both sides, and the MAC layers that only one side has.

    Args:
        rows: the log's rows of one model. nodes: the nodes of its report.json.
    """
    unknown = {r["quantized_type"] for r in rows} - set().union(*(v for v, _ in GROUPS.values()))
    unknown |= {n["op"] for n in nodes} - set().union(*(o for _, o in GROUPS.values()))
    theirs = Counter(short(r["node"]) for r in rows if r["quantized_type"] in _MACS)
    ours = Counter(short(n["name"]) for n in nodes if n["op"] in ("Conv", "ConvTranspose", "MatMul"))
    return {
        "counts": {
            group: (sum(r["quantized_type"] in v for r in rows), sum(n["op"] in o for n in nodes))
            for group, (v, o) in GROUPS.items()
        },
        "unknown": sorted(unknown),
        "cpu": (
            sum(r["on"] == "CPU" for r in rows),
            sum(n["device"] == "CPU" and n["op"] not in ("Quantize", "Dequantize") for n in nodes),
        ),
        "matched": (theirs & ours).total(),
        "only_theirs": sorted((theirs - ours).elements()),
        "only_ours": sorted((ours - theirs).elements()),
        "folded_adds": sum(n["op"] == "Conv" and any(x.endswith("/Add") for x in n["onnx_nodes"]) for n in nodes),
    }


def main() -> None:
    """Print a table of counts, vendor / bpuc, and the MAC layers that do not match."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--march", default="bayes-e")
    args = parser.parse_args()
    models: dict[str, list[dict[str, str]]] = {}
    with (args.folder / "published_nodes.csv").open(encoding="utf-8") as f:
        for row in csv.DictReader(f):
            models.setdefault(row["log_model"], []).append(row)
    found = {}
    for name, rows in models.items():
        program = compile_graph(args.folder / "graphs" / f"{name.replace('_', '-')}.onnx", args.march)
        found[name] = compare(rows, program.report["nodes"])
    print("| vendor / bpuc | " + " | ".join(found) + " |\n|---|" + "---|" * len(found))
    for group in GROUPS:
        cells = ["{} / {}".format(*f["counts"][group]) for f in found.values()]
        print(f"| {group} | " + " | ".join(cells) + " |")
    print("| on the CPU | " + " | ".join("{} / {}".format(*f["cpu"]) for f in found.values()) + " |")
    print("| MAC layers matched by name | " + " | ".join(str(f["matched"]) for f in found.values()) + " |")
    print("| additions inside a convolution | " + " | ".join(f"- / {f['folded_adds']}" for f in found.values()) + " |")
    for name, f in found.items():
        print(f"\n{name}: only the vendor's {f['only_theirs']}, only bpuc's {f['only_ours']}, unknown {f['unknown']}")


if __name__ == "__main__":
    main()
