"""The model in float as the file has it, with its samples: what the commands that look into accuracy start from.

Nothing is fused here, so that every tensor of the file can be looked at under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bpuc.base.errors import BpucError, FileError
from bpuc.data import DataSource, InputSpec, open_data
from bpuc.flow.request import Request
from bpuc.frontend.onnx_import import ImportedModel, import_model
from bpuc.program import Program
from bpuc.sim.batch import batch_of

DIGITS = 7  # of a number in a document: float32 precision


@dataclass
class FloatModel:
    """An imported model, its inputs and its samples; warnings as text."""

    model: ImportedModel
    inputs: list[InputSpec]
    source: DataSource
    warnings: list[str] = field(default_factory=list)


def open_float(request: Request, program: Program | None = None) -> FloatModel:
    """Read the model and open its data.

    Args:
        program: of this model; its inputs fix what the file leaves open, and another model is refused.

    Raises:
        FileError: the program was compiled from another model. DataError: the data do not fit.
        ConfigError: no data were named.
        ModelError: the model cannot be read.
    """
    model = _import(request, {} if program is None else shapes_of(program))
    if program is not None:
        _check_same(request, model, program)
    size, batch = (1, {}) if program is None else batch_of(program)
    inputs = [InputSpec(t.name, t.shape, t.dtype.value, size if t.name in batch else 1) for t in model.graph.inputs]
    if request.data is None and not (request.config and request.config.data):
        raise request.missing("no data were named", hint="use --data PATH, or cal_data_dir in the YAML file")
    source = open_data(request.data, inputs, request.config)
    return FloatModel(model, inputs, source, [*(m for _, m, _ in model.warnings), *source.warnings])


def _import(request: Request, known: Mapping[str, tuple[int, ...]]) -> ImportedModel:
    more = request.config.input_shapes if request.config else None
    if known and not request.input_shapes and not request.symbols:
        try:
            return import_model(request.model, known, more, input_values=request.input_values)
        except BpucError:
            pass  # ops at the inputs may have been removed, and the shapes with them
    return import_model(
        request.model, dict(request.input_shapes), more, request.symbols, input_values=request.input_values
    )


def shapes_of(program: Program) -> dict[str, tuple[int, ...]]:
    """The model's inputs with the shapes that it was compiled for, without a batch that the compiler put there."""
    batch = batch_of(program)[1]
    parts = {part for found in batch.values() for part in found}
    found = {}
    for port in program.inputs:
        shape = port.shape if port.image is None else port.image.shape
        if port.name not in parts:
            found[port.name] = shape
        elif port.name in batch:
            found[port.name] = (1, *shape[1:])
    return found


def _check_same(request: Request, model: ImportedModel, program: Program) -> None:
    sha = (program.report.get("source") or {}).get("sha256")
    if sha is None:
        raise FileError(
            "the binary does not say which model it was compiled from", want="a binary with its report", hint="compile"
        )
    if sha != model.sha256:
        raise FileError(
            f"the binary was compiled from another model than {request.model} (sha256 {sha[:12]}...)",
            want=f"a binary of {request.model} (sha256 {model.sha256[:12]}...)",
            hint="compile this model, or name the model that the binary comes from",
        )


def short(value: float) -> float:
    """A number with the digits that a document keeps."""
    return float(f"{value:.{DIGITS}g}")
