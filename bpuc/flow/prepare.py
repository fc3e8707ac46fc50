"""Import and optimize a model: the float graph that calibration runs and compile quantizes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bpuc.base.errors import ConfigError, name_hint
from bpuc.base.files import make_folder, write_atomic
from bpuc.data import InputSpec, random_data
from bpuc.flow.file_scales import cut_by_file, rounded_by_file
from bpuc.flow.own_observers import Own, own_observers
from bpuc.flow.probe import results
from bpuc.flow.request import Request
from bpuc.flow.subgraphs import rules_of_subgraphs
from bpuc.flow.tables import check_tables
from bpuc.flow.twice import tell_twice_in_model
from bpuc.flow.unused import tell_unused
from bpuc.frontend.onnx_export import export_float
from bpuc.frontend.onnx_import import ImportedModel, import_model
from bpuc.ir import Graph, Tensor
from bpuc.passkit import CompileOptions, PassContext, run_pipeline
from bpuc.passkit.manager import Probe
from bpuc.passkit.qconfig import find_matches, of_result
from bpuc.plugins import get_target, pipeline, targets


@dataclass
class Prepared:
    """The optimized float graph, and what was found on the way. observers: tensor -> one of its own."""

    model: ImportedModel
    graph: Graph
    ctx: PassContext
    inputs: list[InputSpec]
    passes: list[dict[str, Any]] = field(default_factory=list)
    probe: Probe | None = None
    observers: dict[str, Own] = field(default_factory=dict)


def prepare(request: Request, host_values: bool = False, batch: int = 1, rounding: bool = False) -> Prepared:
    """Import the model, check that the options' names exist, and run the passes that hold for every march.

    Args:
        host_values: take what has no static shape or is no tensor; only to run the graph in float, not to compile it.
        batch: first size of the inputs, where the request's shapes say so in place of the model's 1.
        rounding: keep the roundings of a quantized file, likewise.

    Raises:
        ModelError: the model is at fault. ConfigError: an option names what the model does not have.
    """
    shapes = dict(request.input_shapes)
    more_shapes = request.config.input_shapes if request.config else None
    model = import_model(
        request.model, shapes, more_shapes, request.symbols, host_values, batch, rounding, request.input_values
    )
    if model.quantized and not rounding and request.keep_stages is not None:
        # writes the stages in float, which round too
        prepare(replace(request, dump_dir=None), host_values, batch, rounding=True)
        request = replace(request, keep_stages=None)
    graph = model.graph
    graph.input_names = [t.name for t in graph.inputs]
    names = _names(graph)
    _cut_at(graph, request.options.output_nodes)
    options, gone = _without(request.options, names - _names(graph))
    inputs = [InputSpec(t.name, t.shape, t.dtype.value) for t in graph.inputs]
    ctx = PassContext(options=options, rounded_by_file=rounded_by_file(model), cut_by_file=cut_by_file(model))
    ctx.target = get_target(request.march).with_given(request.hardware) if request.march else None
    ctx.marches = targets()
    for code, message, where in model.warnings:
        ctx.warn(code, message, where)
    for text in request.config.notes if request.config else ():
        ctx.warn("config", text)
    for name in gone:
        ctx.warn("output-nodes", f"{name} leads to none of output_nodes and is not there", name)
    for text in request.overruled:
        ctx.warn("given-twice", text)
    tell_unused(replace(request, options=options), ctx, bool(model.quantized))
    check_tables(request, graph, model.sha256, ctx)
    ctx.matches = find_matches(graph, (*rules_of_subgraphs(graph, request.config), *options.rules))
    ctx.known_types = {n for op in graph for n in (op.kind, op.onnx_type)}
    ctx.options = replace(ctx.options, fixed_scales={**_rule_scales(graph, ctx), **ctx.options.fixed_scales})
    tell_twice_in_model(graph, request.config, ctx)
    for word in request.unused_templates:
        ctx.warn("template", f"template {word} has no effect: one before it says something of every op")
    keep_stage(request, "original_float_model", graph)
    names = {t.name for t in graph.tensors()}
    _check_tensors(graph, request, names)
    sample = next(iter(random_data(inputs, 1))) if request.check_numerics else None
    probe = None if sample is None else partial(results, sample=sample)
    passes = run_pipeline(graph, pipeline("optimize"), ctx, dump_dir=request.dump_dir, probe=probe)
    ctx.fused = names - {t.name for t in graph.tensors()}
    for name in ctx.options.fixed_scales:
        if name in ctx.fused:
            ctx.warn("fixed-scale", f"--fixed-scale {name}: {name} was fused away and keeps no scale of its own", name)
    keep_stage(request, "optimized_float_model", graph)
    observers = own_observers(graph, options.observers, ctx.fused)
    return Prepared(model, graph, ctx, inputs, passes, probe, observers)


def _names(graph: Graph) -> set[str]:
    """Names of tensors and nodes, and op types."""
    return {t.name for t in graph.tensors()} | {n for op in graph for n in (op.name, op.onnx_type, *op.origin)}


def _without(options: CompileOptions, gone: Collection[str]) -> tuple[CompileOptions, list[str]]:
    """The options without those for names that output_nodes has cut off, and these names."""
    kept = replace(
        options,
        cpu=tuple(n for n in options.cpu if n not in gone),
        bpu=tuple(n for n in options.bpu if n not in gone),
        dtypes={n: d for n, d in options.dtypes.items() if n not in gone},
        node_dtypes=tuple(d for d in options.node_dtypes if d.node not in gone),
        rules=tuple(r for r in options.rules if r.match not in gone),
    )
    asked = [*options.cpu, *options.bpu, *options.dtypes, *(d.node for d in options.node_dtypes)]
    return kept, sorted({*asked, *(r.match for r in options.rules)} & {*gone})


def _rule_scales(graph: Graph, ctx: PassContext) -> dict[str, float]:
    """Tensor -> scale that a rule of the qconfig fixes."""
    found = {}
    for t in graph.tensors():
        rule = of_result(ctx.matches, graph, t, "fixed_scale") if t.const is None else None
        if rule is not None and rule.fixed_scale is not None:
            found[t.name] = rule.fixed_scale
    return found


def _cut_at(graph: Graph, names: Sequence[str]) -> None:
    """Let the results of these nodes (or these tensors) be the outputs, and drop what only others needed."""
    if not names:
        return
    tensors = {t.name: t for t in graph.tensors() if t.const is None}
    found: dict[Tensor, None] = {}
    for name in names:
        results = [t for op in graph if name in (op.name, *op.origin) for t in op.outputs if not graph.uses(t)]
        results = results or [t for op in graph if name in (op.name, *op.origin) for t in op.outputs]
        results = results or ([tensors[name]] if name in tensors else [])
        if not results:
            known = sorted({*tensors, *(op.name for op in graph)})
            raise ConfigError(
                f"output_nodes {name}: the model has no node and no tensor of that name", hint=name_hint(name, known)
            )
        found |= dict.fromkeys(results)
    graph.outputs, graph.output_names = list(found), [t.name for t in found]
    graph.prune()


def keep_stage(request: Request, stage: str, graph: Graph) -> None:
    """Write one stage for ``--keep-stages`` as the vendor names it."""
    if request.keep_stages is not None:
        write_stage(request, stage, export_float(graph).SerializeToString(deterministic=True))


def write_stage(request: Request, stage: str, model: bytes) -> None:
    """Write one file into the folder of ``--keep-stages``, which is named."""
    assert request.keep_stages is not None, "no stages are kept"
    path = make_folder(request.keep_stages) / f"{request.model.stem}_{stage}.onnx"
    write_atomic(path, model)


def _check_tensors(graph: Graph, request: Request, names: set[str]) -> None:
    options = request.options
    asked = {"--fixed-scale": options.fixed_scales, "--share": options.shared, "--keep-scale": options.keep_scales}
    for option, named in asked.items():
        for name in named:
            if name not in names:
                raise ConfigError(
                    f"{option} {name}: the model {graph.name} has no tensor of that name",
                    hint=name_hint(name, sorted(names)),
                )
