"""The `Builder` that op files talk to: adds ops for the ONNX node at hand, under names that are unique."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from onnx import NodeProto

from bpuc.base.dtypes import DType
from bpuc.frontend.order import captures
from bpuc.ir import Attrs, Graph, Op, Tensor
from bpuc.ops import registry
from bpuc.ops.base import Array, Shape


class GraphBuilder:
    """Adds to `graph`; `values` holds the tensor behind each ONNX name in scope."""

    def __init__(self, graph: Graph, nodes: Sequence[NodeProto]):
        self.graph = graph
        self.values: dict[str, Tensor] = {}
        self.name = self._op_type = ""
        self._origin: tuple[str, ...] = ()
        self._outputs: dict[Tensor, str] = {}
        self._uses = Counter(name for node in nodes for name in (*node.input, *captures(node)))
        self._reused: set[str] = set()
        self.inner: set[Tensor] = set()  # constants of inlined branches, whose names may be those of others

    def reserve(self, names: Iterable[str]) -> None:
        """Keep these names for the tensors that have them in the file."""
        for name in names:
            self.graph.unique(name)

    def begin(
        self, node: NodeProto, name: str, outputs: Sequence[Tensor], origin: tuple[str, ...] | None = None
    ) -> None:
        """What follows carries out `node`, called `name`; `origin`: nodes of the file, where that is none of them."""
        self.name, self._op_type = name, node.op_type
        self._origin = (node.name or name,) if origin is None else origin
        self._outputs = dict(zip(outputs, node.output))
        self.values |= {onnx_name: tensor for tensor, onnx_name in self._outputs.items()}

    def op(
        self, kind: str, attrs: Attrs, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], onnx_type: str = ""
    ) -> Op:
        """Add an op; the one that gives the node's own outputs has the node's name.

        Raises:
            ValueError: the operands do not fit each other or the outputs.
        """
        own = any(t in self._outputs for t in outputs)
        name = self.name if own else self.graph.unique(f"{self.name}_{kind}")
        operands = list(inputs)
        while operands and operands[-1] is None:
            operands.pop()
        for tensor in operands:
            if tensor is not None and tensor in self.inner:
                tensor.name = self.graph.unique(tensor.name)
                self.inner.remove(tensor)
        onnx_type = onnx_type or self._op_type
        op = self.graph.add(kind, attrs, operands, outputs, name=name, origin=self._origin, onnx_type=onnx_type)
        found, wanted = registry.get(kind).infer(op), [t.shape for t in outputs]
        if found != wanted:
            raise ValueError(f"its operands give shapes {found}, where the model has {wanted}")
        return op

    def const(self, array: Array | float, name: str) -> Tensor:
        """A constant under its ONNX name where only one node reads that, else under a unique one."""
        value: Array = np.array(array, np.float32) if isinstance(array, float) else array
        if self._uses[name] == 1 and name not in self._reused:
            self._reused.add(name)
        else:
            name = self.graph.unique(name)
        return Tensor(name, value.shape, DType.of(value), value)

    def temp(self, shape: Shape, dtype: DType, name: str) -> Tensor:
        """An intermediate tensor under a unique name."""
        return Tensor(self.graph.unique(name), tuple(int(d) for d in shape), dtype)

    def alias(self, output: Tensor, source: Tensor) -> None:
        """Let readers of the node's output read `source`."""
        self.values[self._outputs[output]] = source
