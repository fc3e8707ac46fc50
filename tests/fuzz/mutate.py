"""Damage done to files: to their bytes, and to what an ONNX graph says."""

from __future__ import annotations

import random

import onnx

HUGE = (-1, 0, 1, 2, 7, 255, 2**15, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63))
OPS = (
    "Conv",
    "MatMul",
    "Concat",
    "Expand",
    "Resize",
    "Pad",
    "Tile",
    "Slice",
    "Gather",
    "ConstantOfShape",
    "Range",
    "Loop",
)


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """One to four changes: flipped bits, other bytes, a part left out, doubled or moved."""
    data = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        if not data:
            return bytes(data)
        at = rng.randrange(len(data))
        end = min(len(data), at + rng.choice((1, 2, 8, 64)))
        match rng.randrange(6):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at:end] = rng.randbytes(end - at)
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end]
            case 4:
                del data[at:]
            case 5:
                data[at:end] = rng.choice((b"\0", b"\xff", b"-1", b"1e999", b"NaN", b"[", b"{", b"\n- ")) * (end - at)
    return bytes(data)


def damaged_model(raw: bytes, rng: random.Random) -> bytes:
    """One to three changes of a model's graph: cycles, absurd attributes and sizes, other operators, missing parts."""
    model = onnx.ModelProto.FromString(raw)
    for _ in range(rng.randint(1, 3)):
        _change(model, rng)
    return model.SerializeToString()


def _change(model: onnx.ModelProto, rng: random.Random) -> None:
    graph = model.graph
    node = rng.choice(graph.node) if graph.node else onnx.NodeProto()
    names = [n for other in graph.node for n in other.output] + [t.name for t in (*graph.input, *graph.initializer)]
    infos = [i for i in (*graph.input, *graph.output) if i.type.tensor_type.shape.dim]
    match rng.randrange(11):
        case 0 if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(names)
        case 1 if node.input:
            node.input.pop()
        case 2:
            node.op_type = rng.choice(OPS)
        case 3 if node.attribute:
            _absurd(rng.choice(node.attribute), rng)
        case 4 if infos:
            rng.choice(rng.choice(infos).type.tensor_type.shape.dim).dim_value = rng.choice(HUGE)
        case 5 if graph.initializer:
            tensor = rng.choice(graph.initializer)
            tensor.dims[:] = [rng.choice(HUGE) for _ in tensor.dims] or [rng.choice(HUGE)]
        case 6 if graph.initializer:
            rng.choice(graph.initializer).data_type = rng.randrange(30)
        case 7 if infos:
            rng.choice(infos).type.tensor_type.elem_type = rng.randrange(30)
        case 8 if model.opset_import:
            model.opset_import[0].version = rng.choice((*HUGE, 6, 10, 13, 17, 21))
        case 9 if graph.initializer:
            _elsewhere(rng.choice(graph.initializer), rng)
        case 10:
            size = onnx.helper.make_tensor(f"fuzz{len(graph.node)}", 7, [3], [rng.choice(HUGE) for _ in range(3)])
            graph.initializer.append(size)
            made = rng.choice(("Expand", "Tile", "Reshape", "ConstantOfShape"))
            operands = [size.name] if made == "ConstantOfShape" else [rng.choice(names), size.name]
            graph.node.append(onnx.helper.make_node(made, operands, [f"fuzz_out{len(graph.node)}"]))
            graph.output.append(onnx.helper.make_empty_tensor_value_info(graph.node[-1].output[0]))


def _elsewhere(tensor: onnx.TensorProto, rng: random.Random) -> None:
    """Let an initializer's data be in another file."""
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    places = (
        "",
        ".",
        "..",
        "../x",
        "/etc/passwd",
        "/dev/zero",
        "fuzz.onnx",
        "./fuzz.onnx",
        "a\0b",
        "x" * 5000,
        "no.data",
    )
    values = {"location": places, "offset": (*HUGE, "x", ""), "length": (*HUGE, "x", "")}
    for key, choices in values.items():
        if key == "location" or rng.random() < 0.5:
            tensor.external_data.add(key=key, value=str(rng.choice(choices)))


def _absurd(attribute: onnx.AttributeProto, rng: random.Random) -> None:
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = rng.choice(HUGE)
    elif attribute.type == onnx.AttributeProto.INTS:
        attribute.ints[:] = [rng.choice(HUGE) for _ in range(rng.randint(0, 5))]
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = rng.choice((float("nan"), float("inf"), -1e38, 0.0))
    else:
        attribute.type = rng.randrange(12)
