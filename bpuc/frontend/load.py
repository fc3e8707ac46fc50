"""Reading an ONNX file: the protobuf, its versions, its external data and its local functions; builds no graph."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import onnx.shape_inference
import onnx.version_converter
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from bpuc.base.errors import FileError, ModelError, did_you_mean
from bpuc.base.files import is_file, read_bytes, real_path
from bpuc.frontend.types import ELEMENT
from bpuc.ops.base import Array

OLDEST_OPSET = 7
LARGE = 16 << 20  # bytes of an external tensor that is mapped in place of read
COMPILED = "a .bpuc is compiled already: bpuc run, perf, info and explain take it"
HELP = "pass an ONNX model file, as torch.onnx.export or onnx.save write it"


@dataclass(frozen=True)
class Source:
    """A model file that was read: every tensor carries its data, functions are inlined.

    sha256: of the file, then of the external files in the order of their first use. large: by name, initializers of the
    graph that stay in their external file and are read as they are needed; the model holds no data of them.
    """

    path: Path
    model: ModelProto
    opset: int
    sha256: str
    large: Mapping[str, Array] = field(default_factory=dict)


def load(path: str | Path) -> Source:
    """Read a model file.

    Raises:
        FileError: the file cannot be read.
        ModelError: it is no ONNX model, of an unknown version, or its external data are missing, short or elsewhere.
    """
    path = Path(path)
    data = read_bytes(path, "model")
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as e:  # protobuf's DecodeError, whose module has no types
        hint = _hint(data, path)
        raise ModelError(f"{path} is no ONNX model, or a damaged one: {e}", where=str(path), hint=hint) from e
    if not data or not model.HasField("graph") or not model.graph.output:
        what = "the file is empty" if not data else "it holds no graph with outputs"
        raise ModelError(f"{path} is no ONNX model: {what}", where=str(path), hint=HELP)
    if model.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"{path} has ir_version {model.ir_version}, newer than the installed onnx {onnx.__version__} knows",
            where=str(path),
            want=f"ir_version up to {onnx.IR_VERSION}",
            hint="upgrade onnx, or export the model for an older version",
        )
    _check_text(path, model.graph)
    opset = _opset(path, model)
    digest = hashlib.sha256(data)
    # the converter and the inliner want models that are complete
    large = _load_external(path, model, digest, in_place=opset < OLDEST_OPSET or bool(model.functions))
    if opset < OLDEST_OPSET:
        model, opset = _upgrade(path, model, opset)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    return Source(path, model, opset, digest.hexdigest(), large)


def _hint(data: bytes, path: Path) -> str:
    """What to do about a file that is no ONNX model, by what it is instead."""
    if data.startswith(b"version https://git-lfs"):
        return "this is the pointer that Git LFS leaves in place of a large file: git lfs pull fetches the model"
    if data[:200].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "this is a web page, as a download that went wrong leaves it: fetch the model again"
    return COMPILED if data[:2] == b"PK" and path.suffix != ".npz" else HELP


def _check_text(path: Path, graph: GraphProto) -> None:
    """Refuse names that are not UTF-8, which protobuf hands out as bytes or not at all."""
    try:
        words = [graph.name]
        for node in graph.node:
            words += [*node.input, *node.output, node.name, node.op_type, node.domain]
        words += [a.name for node in graph.node for a in node.attribute]
        words += [t.name for t in (*graph.initializer, *graph.input, *graph.output, *graph.value_info)]
        bad = next((word for word in words if not isinstance(word, str)), None)
    except UnicodeDecodeError as e:
        bad = e.object
    if bad is not None:
        raise ModelError(f"{path} is a damaged ONNX model: the name {bad!r} is not UTF-8", where=str(path), hint=HELP)


def _opset(path: Path, model: ModelProto) -> int:
    versions = {entry.domain or "ai.onnx": int(entry.version) for entry in model.opset_import}
    newest = int(onnx.defs.onnx_opset_version())
    opset = versions.get("ai.onnx")
    if opset is None:
        raise ModelError(f"{path} names no ONNX opset", where=str(path), want="an opset_import of the domain ai.onnx")
    if not 1 <= opset <= newest:
        raise ModelError(
            f"{path} uses opset {opset}, which the installed onnx {onnx.__version__} does not know",
            where=str(path),
            want=f"opset {OLDEST_OPSET} to {newest}",
            hint="upgrade onnx, or export the model for an older opset",
        )
    return opset


def _upgrade(path: Path, model: ModelProto, opset: int) -> tuple[ModelProto, int]:
    """The model in a newer opset, by ONNX's own converter."""
    target = 13
    try:
        if opset < 7:
            _broadcast_slopes(model)
        return onnx.version_converter.convert_version(model, target), target
    except Exception as e:  # the converter raises whatever its C++ code throws
        raise ModelError(
            f"{path} uses opset {opset}, and converting it to {target} fails: {e}",
            where=str(path),
            want=f"opset {OLDEST_OPSET} or newer",
            hint="export the model again for opset 13",
        ) from e


def _broadcast_slopes(model: ModelProto) -> None:
    """Before opset 7 a PRelu's slopes, in one dimension, were those of channels; the converter does not know that."""
    if not any(node.op_type == "PRelu" for node in model.graph.node):
        return
    graph = onnx.shape_inference.infer_shapes(model).graph
    infos = (*graph.input, *graph.value_info, *graph.output)
    ranks = {i.name: len(i.type.tensor_type.shape.dim) for i in infos if i.type.tensor_type.HasField("shape")}
    ranks |= {t.name: len(t.dims) for t in graph.initializer}
    nodes = []
    for node in model.graph.node:
        rank = ranks.get(node.input[0], 0) if node.op_type == "PRelu" and len(node.input) > 1 else 0
        if rank > 2 and ranks.get(node.input[1]) == 1:
            slopes = f"{node.output[0]}_slopes"
            axes = list(range(1, rank - 1))
            nodes.append(onnx.helper.make_node("Unsqueeze", [node.input[1]], [slopes], name=slopes, axes=axes))
            node.input[1] = slopes
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def tensors_of(graph: GraphProto) -> Iterator[TensorProto]:
    """Every constant tensor of a graph and its subgraphs."""
    yield from graph.initializer
    for node in graph.node:
        yield from tensors_of_node(node)


def tensors_of_node(node: NodeProto) -> Iterator[TensorProto]:
    """Every constant tensor in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            yield attribute.t
        elif attribute.type == AttributeProto.TENSORS:
            yield from attribute.tensors
        elif attribute.type == AttributeProto.GRAPH:
            yield from tensors_of(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            for graph in attribute.graphs:
                yield from tensors_of(graph)


def _load_external(path: Path, model: ModelProto, digest: hashlib._Hash, in_place: bool) -> dict[str, Array]:
    """Read external tensors into the model, or map large ones; only files below the model's folder are read."""
    files: dict[str, Path] = {}
    large: dict[str, Array] = {}
    kept = list(model.graph.initializer)  # protobuf makes an object anew, with another id, where nobody holds it
    initializers = {id(t) for t in kept}
    for tensor in tensors_of(model.graph):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if location not in files:
            files[location] = _external_file(path, tensor.name, location)
            _hash(files[location], digest)
        size = files[location].stat().st_size
        try:
            offset = int(entries.get("offset", 0))
            length = int(entries.get("length", size - offset))
        except ValueError as e:
            raise _external_error(path, tensor.name, location, f"its offset or length is no number ({e})") from e
        if offset < 0 or length < 0 or offset + length > size:
            reason = f"it ends at byte {size}, needed are bytes {offset} to {offset + length}"
            raise _external_error(path, tensor.name, location, reason)
        mapped = (
            None if in_place or id(tensor) not in initializers else _mapped(tensor, files[location], offset, length)
        )
        if mapped is None:
            with files[location].open("rb") as f:
                f.seek(offset)
                tensor.raw_data = f.read(length)
        else:
            large[tensor.name] = mapped
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]
    return large


def _mapped(tensor: TensorProto, file: Path, offset: int, length: int) -> Array | None:
    """A large tensor's array in its file; None for small ones, and for what an array cannot show as it is stored."""
    if length < LARGE or tensor.data_type not in ELEMENT or sys.byteorder != "little":
        return None
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    shape = tuple(tensor.dims)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != length:
        return None  # damaged: reading it says so
    return np.memmap(file, dtype, "r", offset, shape)


def _hash(file: Path, digest: hashlib._Hash) -> None:
    try:
        with file.open("rb") as f:
            while block := f.read(1 << 22):
                digest.update(block)
    except OSError as e:
        raise FileError(f"cannot read external data {file}: {e.strerror or e}") from e


def _external_file(path: Path, name: str, location: str) -> Path:
    folder = path.parent.resolve()
    target = Path(real_path(folder / location))
    if not location or not target.is_relative_to(folder) or target == folder:
        raise _external_error(path, name, location, "it lies outside of the model's folder")
    if not is_file(target):
        near = did_you_mean(Path(location).name, sorted(p.name for p in folder.iterdir() if p.suffix != path.suffix))
        raise _external_error(path, name, location, "there is no such file", near)
    return target


def _external_error(path: Path, name: str, location: str, reason: str, hint: str | None = None) -> ModelError:
    return ModelError(
        f"the external data file '{location}' of {path} cannot be used: {reason}",
        where=f"initializer '{name}'",
        want="external data in a file below the model's folder, as long as the tensors need",
        hint=hint or "keep the .onnx file and its data files together",
    )
