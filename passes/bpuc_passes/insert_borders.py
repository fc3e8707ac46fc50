"""Put Quantize and Dequantize where values pass between float CPU ops (or the model's ports) and the BPU.

The integers keep the ONNX name; the float twin is called ``<name>_float32``. One conversion a tensor and direction.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import NoAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage


@dataclass(frozen=True)
class InsertBorders(Pass):
    """Explicit conversion nodes on the CPU; from here on the dtype of a tensor is that of its stored elements."""

    name = "insert-borders"
    numerics = Numerics.EXACT
    needs = Stage.PLACED
    gives = Stage.QUANTIZED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes: list[Change] = []
        for tensor in graph.tensors():
            if tensor.quant is None or tensor.const is not None:
                continue
            producer = graph.producer(tensor)
            inside = producer is not None and producer.device == "BPU"
            cpu_users = [(op, i) for op, i in graph.uses(tensor) if op.device == "CPU"]
            bpu_users = [(op, i) for op, i in graph.uses(tensor) if op.device == "BPU"]
            is_output = tensor in graph.outputs
            if inside:
                if cpu_users or is_output:
                    twin = _float_twin(graph, tensor)
                    _move(graph, tensor, twin, cpu_users, is_output)
                    self._convert(graph, "Dequantize", tensor, twin, changes)
                tensor.dtype = tensor.quant.dtype
            elif bpu_users:
                twin = _float_twin(graph, tensor)
                if producer is not None:
                    graph.rebind(producer, producer.outputs.index(tensor), twin)
                else:
                    graph.inputs = [twin if t is tensor else t for t in graph.inputs]
                _move(graph, tensor, twin, cpu_users, is_output)
                self._convert(graph, "Quantize", twin, tensor, changes)
                tensor.dtype = tensor.quant.dtype
            else:
                tensor.quant = None
        return changes

    def _convert(self, graph: Graph, kind: str, source: Tensor, result: Tensor, changes: list[Change]) -> None:
        integers = result if kind == "Quantize" else source
        op = graph.add(kind, NoAttrs(), [source], [result], name=graph.unique(f"{integers.name}_Hz{kind}"))
        op.device = "CPU"
        op.reason = f"{kind} at a border between float and {integers.quant.dtype if integers.quant else 'int8'}"
        changes.append(Change(f"inserted {kind}", integers.name, op.reason))


def _float_twin(graph: Graph, tensor: Tensor) -> Tensor:
    twin = graph.new_tensor(tensor, f"{tensor.name}_float32")
    twin.dtype = DType.FLOAT32
    return twin


def _move(graph: Graph, old: Tensor, new: Tensor, uses: list[tuple[Op, int]], is_output: bool) -> None:
    for op, index in uses:
        graph.set_input(op, index, new)
    if is_output:
        graph.outputs = [new if t is old else t for t in graph.outputs]
