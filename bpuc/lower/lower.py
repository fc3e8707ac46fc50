"""Lower every op in the order of its segment, then plan memory and collect symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bpuc.base.dtypes import DType
from bpuc.base.image import ImageInput
from bpuc.base.rounding import MultiplierError
from bpuc.frontend.onnx_export import export_op
from bpuc.ir import Graph, Op, Tensor
from bpuc.isa import Device, Space
from bpuc.lower.accumulate import lower_affine, lower_conv, lower_matmul
from bpuc.lower.border import lower_dequantize, lower_onnx, lower_quantize
from bpuc.lower.builder import Builder, refuse
from bpuc.lower.elementwise import lower_eltwise, lower_prelu, lower_rescale, lower_unary
from bpuc.lower.image import lower_image
from bpuc.lower.movement import (
    lower_concat,
    lower_depth_to_space,
    lower_expand,
    lower_gather,
    lower_pad,
    lower_reshape,
    lower_resize,
    lower_slice,
    lower_space_to_depth,
    lower_split,
    lower_tile,
    lower_transpose,
)
from bpuc.lower.normalize import lower_norm, lower_softmax
from bpuc.lower.order import ordered
from bpuc.lower.schedule import Draft, Scheduling, schedule
from bpuc.lower.views import share_buffers
from bpuc.lower.windows import lower_arg, lower_pool, lower_reduce
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.program import OpSymbol, Port, Program, Segment, TensorSymbol

_LOWER: dict[str, Callable[[Op, Builder], None]] = {
    "Conv": lower_conv,
    "ConvTranspose": lower_conv,
    "Affine": lower_affine,
    "MatMul": lower_matmul,
    **dict.fromkeys(("Add", "Sub", "Mul", "Max", "Min"), lower_eltwise),
    "PRelu": lower_prelu,
    "Rescale": lower_rescale,
    **dict.fromkeys(("MaxPool", "AveragePool"), lower_pool),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), lower_reduce),
    **dict.fromkeys(("ArgMax", "ArgMin"), lower_arg),
    "Softmax": lower_softmax,
    **dict.fromkeys(("LayerNormalization", "InstanceNormalization"), lower_norm),
    "Concat": lower_concat,
    "Split": lower_split,
    "Slice": lower_slice,
    "Reshape": lower_reshape,
    "Transpose": lower_transpose,
    "Expand": lower_expand,
    "Tile": lower_tile,
    "Pad": lower_pad,
    "Resize": lower_resize,
    "DepthToSpace": lower_depth_to_space,
    "SpaceToDepth": lower_space_to_depth,
    "Gather": lower_gather,
    "Image": lower_image,
}


def has_lowering(op: Op) -> bool:
    """Whether instructions exist for this kind of op."""
    return op.kind in _LOWER or get(op.kind).behaviour is Behaviour.MAPS


def lower(
    graph: Graph,
    march: str,
    declared: Mapping[str, DType | None] | None = None,
    images: Mapping[str, ImageInput] | None = None,
    how: Scheduling | None = None,
    export: Callable[[Op], bytes] = export_op,
) -> Program:
    """The program of a legal graph whose ops have segments.

    Args:
        declared: element types that the model file gives its inputs, where they differ from the graph's.
        images: formats of the inputs that take pixels.
        how: memory and level of the schedule; None for a program without one.
        export: gives an op of the CPU as a serialized ONNX model; a cached one serves other programs of the same graph.

    Raises:
        ModelError: an op whose numbers no instruction can express (a scale out of range, an accumulator beyond int32).
    """
    b = Builder(export)
    ops = ordered(graph, narrow=how is not None and how.narrow)
    if how is not None and how.level >= 2:
        share_buffers(graph, ops, b, how.reach)
    inputs = [b.ref(t) for t in graph.inputs]
    symbols, segments = [], list[Segment]()
    for index, op in enumerate(ops):
        b.op = index
        start = len(b.instructions)
        try:
            _lower_op(op, b)
        except MultiplierError as e:
            raise refuse(op, f"the scale of its result {_scales(op.outputs)} is too small: {e}") from e
        for tensor in op.outputs:
            b.written[tensor] = len(b.instructions) - 1
        symbols.append(OpSymbol(op.name, report_op(op), op.segment, op.origin))
        if segments and segments[-1].id == op.segment:
            segments[-1] = Segment(op.segment, Device(op.device), segments[-1].start, len(b.instructions))
        else:
            segments.append(Segment(op.segment, Device(op.device), start, len(b.instructions)))
    outputs = [b.ref(t) for t in graph.outputs]
    in_arena = [r for r in outputs if r.space is Space.ARENA]
    draft = Draft(b.instructions, b.memory, inputs, in_arena, segments)
    scheduled = None if how is None else schedule(draft, how)
    arena = b.memory.plan(b.instructions, inputs, in_arena, scheduled.together if scheduled else ())
    instructions = [b.memory.relocate(i) for i in b.instructions]
    return Program(
        march=march,
        instructions=instructions,
        arena_bytes=arena,
        constants=bytes(b.constants),
        parts=b.parts,
        inputs=[
            Port(
                name,
                t.shape,
                b.memory.real(r),
                _integers(graph, t, name),
                None if t.quant is not None else (declared or {}).get(name),
                (images or {}).get(name),
            )
            for name, t, r in zip(graph.input_names, graph.inputs, inputs)
        ],
        outputs=[
            Port(name, t.shape, b.memory.real(r), _source(graph, t))
            for name, t, r in zip(graph.output_names, graph.outputs, outputs)
        ],
        tensors=_tensor_symbols(graph, b),
        ops=symbols,
        segments=segments,
        certificates=[c.as_json() for c in b.certificates],
        schedule=scheduled.real(b.memory, instructions) if scheduled else None,
    )


def _scales(tensors: Sequence[Tensor]) -> str:
    steps = [f"{t.name} ({max(t.quant.scale):.3g})" for t in tensors if t.quant is not None]
    return ", ".join(steps)


def report_op(op: Op) -> str:
    """The op's name in reports: its kind, or the ONNX type where that says more."""
    return op.onnx_type if op.kind == "Onnx" or op.onnx_type == "HzPreprocess" else op.kind


def _lower_op(op: Op, b: Builder) -> None:
    if op.kind == "Quantize":
        lower_quantize(op, b)
    elif op.kind == "Dequantize":
        lower_dequantize(op, b)
    elif op.device == "CPU":
        lower_onnx(op, b)
    elif op.kind in _LOWER:
        _LOWER[op.kind](op, b)
    elif get(op.kind).behaviour is Behaviour.MAPS:
        lower_unary(op, b)
    else:
        raise refuse(op, "no instruction carries it out")


def _integers(graph: Graph, tensor: Tensor, name: str) -> str:
    """Name of the tensor that holds the integers of an input port."""
    for op in graph.consumers(tensor):
        if op.kind == "Quantize":
            return op.out.name
    return name


def _source(graph: Graph, tensor: Tensor) -> str:
    """Name of the tensor that holds the integers of an output port."""
    producer = graph.producer(tensor)
    return producer.input(0).name if producer is not None and producer.kind == "Dequantize" else tensor.name


def _tensor_symbols(graph: Graph, b: Builder) -> list[TensorSymbol]:
    found = []
    for tensor in graph.tensors():
        if tensor.const is not None or tensor not in b.refs:
            continue
        scale, axis = tensor.onnx_scale or (None, None)
        axis = None if scale is None or len(scale) == 1 else axis
        at = b.written.get(tensor, -1)
        found.append(TensorSymbol(tensor.name, b.memory.real(b.refs[tensor]), at, scale, axis))
    return found
