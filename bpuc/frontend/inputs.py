"""Static shapes of the graph inputs, from the file and from what the user says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import ValueInfoProto

from bpuc.base.errors import ModelError, did_you_mean
from bpuc.frontend.checks import check_tensor
from bpuc.frontend.types import ELEMENT, FLOATS, type_name
from bpuc.ir import Tensor

Warnings = list[tuple[str, str, str]]
Dims = list[int | str]


def input_tensors(
    infos: Sequence[ValueInfoProto], shapes: Mapping[str, Sequence[int]], warnings: Warnings
) -> list[Tensor]:
    """The graph inputs with static shapes.

    Args:
        infos: of the inputs, without initializers.
        shapes: what the user fixed, by input name.
        warnings: a dynamic batch taken as 1, and other floating types read as float32, are appended.

    Raises:
        ModelError: an unknown name in `shapes`, a shape that contradicts the file, or one that is not known.
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
    return [_tensor(info, shapes.get(info.name), warnings) for info in infos]


def _tensor(info: ValueInfoProto, wanted: Sequence[int] | None, warnings: Warnings) -> Tensor:
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
    raise ModelError(
        f"the shape of input '{name}' is not static: the model declares {text}",
        where=where,
        want="positive numbers for all dimensions",
        hint=f"fix it with --input-shape {name}:{example}" + (" (numbers for N)" if "N" in example else ""),
    )


def _text(dims: Sequence[int | str]) -> str:
    return "[" + ", ".join(str(d) for d in dims) + "]"
