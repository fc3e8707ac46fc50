"""Static shapes of the graph inputs, from the file and from what the user says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import TypeProto, ValueInfoProto

from bpuc.base.errors import ModelError, did_you_mean
from bpuc.frontend.checks import check_tensor, constant
from bpuc.frontend.types import ELEMENT, FLOATS, host_value, in_float32_type, type_name
from bpuc.ir import Tensor

Warnings = list[tuple[str, str, str]]
Dims = list[int | str]


def input_tensors(
    infos: Sequence[ValueInfoProto],
    shapes: Mapping[str, Sequence[int]],
    warnings: Warnings,
    symbols: Mapping[str, int] | None = None,
    host_values: bool = False,
) -> list[Tensor]:
    """The graph inputs with static shapes.

    Args:
        infos: of the inputs, without initializers.
        shapes: what the user fixed, by input name.
        warnings: a dynamic batch taken as 1, and other floating types read as float32, are appended.
        symbols: sizes of named dimensions; those that follow from `shapes` are known as well.

        host_values: take also what is no tensor of static shape.

    Raises:
        ModelError: an unknown name in `shapes` or `symbols`, a shape that contradicts the file or is not known.
    """
    known = [info.name for info in infos]
    for name in known:
        if known.count(name) > 1:
            raise ModelError(f"input '{name}' is there twice", where=f"input '{name}'", want="every input name once")
    for name in shapes:
        if name not in known:
            raise ModelError(
                f"there is no input '{name}' to give a shape to; the inputs are {', '.join(map(repr, known))}",
                where="--input-shape",
                hint=did_you_mean(name, known),
            )
    known_sizes = _sizes(infos, shapes, symbols or {})
    return [
        (_host(info, shapes.get(info.name)) if host_values else None)
        or _tensor(info, shapes.get(info.name), known_sizes, warnings)
        for info in infos
    ]


def fixed_inputs(infos: Sequence[ValueInfoProto], values: Mapping[str, float]) -> dict[str, Tensor]:
    """Constants in the place of inputs of one element.

    Args:
        infos: of the inputs, without initializers.
        values: by input name.

    Raises:
        ModelError: there is no such input, it has more elements, or its type does not have the value.
    """
    known = {info.name: info for info in infos}
    found = {}
    for name, value in values.items():
        where = f"input '{name}'"
        if name not in known:
            raise ModelError(
                f"there is no input '{name}' to give a value to; the inputs are {', '.join(map(repr, known))}",
                where="--input-value",
                hint=did_you_mean(name, list(known)),
            )
        dims, element = _declared(known[name]), known[name].type.tensor_type.elem_type
        if element not in ELEMENT or dims is None or any(d != 1 for d in dims):
            text = "of unknown shape" if dims is None else f"of shape {_text(dims)}"
            raise ModelError(
                f"input '{name}', {text}, cannot be given as one value", where=where, want="an input of one number"
            )
        dtype = ELEMENT[element].numpy
        with np.errstate(all="ignore"):
            array = np.full([1] * len(dims), value).astype(dtype)
        if not np.isclose(float(array.reshape(-1)[0]), value, rtol=1e-6, atol=0):
            raise ModelError(
                f"input '{name}' cannot be {value:g}: its type is {np.dtype(dtype).name}",
                where=where,
                want="a value of that type",
            )
        found[name] = constant(name, array)
    return found


def _host(info: ValueInfoProto, wanted: Sequence[int] | None) -> Tensor | None:
    """The input as a host value, where it is no tensor of numbers whose shape is known and holds elements."""
    if info.type.HasField("tensor_type") and info.type.tensor_type.elem_type in ELEMENT:
        shape = _declared(info) if wanted is None else wanted
        if shape is not None and all(isinstance(d, int) and d > 0 for d in shape):
            return None
    own = TypeProto()
    own.CopyFrom(info.type)
    in_float32_type(own)
    return host_value(info.name, own)


def _sizes(
    infos: Sequence[ValueInfoProto], shapes: Mapping[str, Sequence[int]], symbols: Mapping[str, int]
) -> dict[str, int]:
    """Sizes of named dimensions: what the user says of them, else what the shapes that the user gives say."""
    declared = {info.name: _declared(info) or [] for info in infos if info.type.HasField("tensor_type")}
    names = {d for dims in declared.values() for d in dims if isinstance(d, str) and d != "?"}
    for symbol, size in symbols.items():
        if symbol not in names:
            there = f"they are {', '.join(map(repr, sorted(names)))}" if names else "there are none"
            raise ModelError(
                f"no input has a dimension named '{symbol}'; {there}",
                where="--input-shape",
                hint=did_you_mean(symbol, sorted(names)),
            )
        if size < 1:
            raise ModelError(
                f"dimension '{symbol}' is given as {size}", where="--input-shape", want="a positive number"
            )
    found = dict(symbols)
    for name, shape in shapes.items():
        if len(shape) == len(declared.get(name, [])):
            for dim, size in zip(declared[name], shape):
                if isinstance(dim, str) and dim != "?":
                    found.setdefault(dim, int(size))
    return found


def _tensor(info: ValueInfoProto, wanted: Sequence[int] | None, sizes: Mapping[str, int], warnings: Warnings) -> Tensor:
    name = info.name
    if not info.type.HasField("tensor_type"):
        raise ModelError(f"input '{name}' is no tensor", where=f"input '{name}'", want="inputs that are tensors")
    element = info.type.tensor_type.elem_type
    if element not in ELEMENT:
        raise ModelError(
            f"input '{name}' has element type {type_name(element)}, which is not supported", where=f"input '{name}'"
        )
    if element in FLOATS:
        message = f"input '{name}' is {type_name(element)}; the model is read in FLOAT (float32), and so is this input"
        warnings.append(("float-type", message, name))
    declared = _declared(info)
    if declared is not None and wanted is None:
        declared = [sizes.get(d, d) if isinstance(d, str) else d for d in declared]
    shape = _chosen(name, declared, wanted, warnings)
    tensor = Tensor(name, shape, ELEMENT[element])
    check_tensor(tensor, f"input '{name}'")
    return tensor


def _declared(info: ValueInfoProto) -> Dims | None:
    """Declared dimensions: numbers, or a symbol; None without a shape."""
    tensor_type = info.type.tensor_type
    if not tensor_type.HasField("shape"):
        return None
    dims: Dims = []
    for dim in tensor_type.shape.dim:
        if dim.HasField("dim_value"):
            dims.append(int(dim.dim_value) if dim.dim_value >= 0 else "?")
        else:
            dims.append(dim.dim_param or "?")
    return dims


def _chosen(name: str, declared: Dims | None, wanted: Sequence[int] | None, warnings: Warnings) -> tuple[int, ...]:
    where, text = f"input '{name}'", "unknown" if declared is None else _text(declared)
    if wanted is not None:
        shape = tuple(int(d) for d in wanted)
        fits = declared is None or (
            len(declared) == len(shape) and all(isinstance(a, str) or a in (0, b) for a, b in zip(declared, shape))
        )
        declared_empty = {i for i, d in enumerate(declared or ()) if d == 0}
        if any(d < 1 and (d or i not in declared_empty) for i, d in enumerate(shape)):
            raise ModelError(
                f"the shape {_text(shape)} given for input '{name}' has a dimension below 1",
                where=where,
                want=f"positive dimensions; the model declares {text}",
            )
        if not fits:
            raise ModelError(
                f"the shape {_text(shape)} given for input '{name}' contradicts the model's {text}",
                where=where,
                want=f"a shape that fits {text}",
            )
        return shape
    if declared is not None and all(isinstance(d, int) and d > 0 for d in declared):
        return tuple(d for d in declared if isinstance(d, int))
    if declared and isinstance(declared[0], str) and all(isinstance(d, int) and d > 0 for d in declared[1:]):
        shape = (1, *(d for d in declared[1:] if isinstance(d, int)))
        message = f"input '{name}' has a dynamic batch in its shape {text}; it is taken as 1"
        warnings.append(("dynamic-batch", message, name))
        return shape
    sizes = [1, 3, 224, 224] if declared is None else [d if isinstance(d, int) and d else "N" for d in declared]
    example = "x".join(str(d) for d in sizes)
    symbol = next((d for d in reversed(declared or []) if isinstance(d, str) and d != "?"), None)
    named = f", or for every input that has it with --input-shape {symbol}=N" if symbol else ""
    raise ModelError(
        f"the shape of input '{name}' is not static: the model declares {text}",
        where=where,
        want="positive numbers for all dimensions",
        hint=f"fix it with --input-shape {name}:{example}" + (" (numbers for N)" if "N" in example else "") + named,
    )


def _text(dims: Sequence[int | str]) -> str:
    return "[" + ", ".join(str(d) for d in dims) + "]"
