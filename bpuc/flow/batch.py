"""input_batch and separate_batch: one run for several samples, on one input or on an input for each sample.

Scales are those of single samples: calibration runs the model as it is. What is compiled is the model read again with
the larger batch, under the same names. Whether that is the same function sample by sample is tried out in float, as a
model may well mix what lies along the first axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from bpuc.base.errors import BpucError, ConfigError, name_hint
from bpuc.data import DataSource, InputSpec, random_data
from bpuc.data.batch import BatchedSource, SeparateSource
from bpuc.execute.ort import FloatExecutor
from bpuc.flow.prepare import Prepared, prepare
from bpuc.flow.request import Request
from bpuc.ir import FIRST, Graph
from bpuc.ops.attrs import AxisAttrs
from bpuc.ops.base import Array

# float32 sums in another order differ in the last digits, results of argmax where two are alike
_CLOSE, _OTHER_INTEGERS = 1e-3, 0.01


def in_batches(request: Request, prepared: Prepared, source: DataSource | None) -> tuple[Prepared, DataSource | None]:
    """The calibrated model with the batch and the inputs that the configuration asks for, and data to match.

    Raises:
        ConfigError: the model has no batch of 1, or does something else with a larger one.
    """
    config = request.config
    if config is None or (config.batch == 1 and not config.separate):
        return prepared, source
    where = str(config.path)
    if config.batch > 1:
        prepared, source = _larger(request, prepared, source, config.batch, where)
    if config.separate:
        prepared, source = _separate(prepared, source, config.separate, where)
    return prepared, source


def _larger(
    request: Request, prepared: Prepared, source: DataSource | None, size: int, where: str
) -> tuple[Prepared, DataSource | None]:
    ctx = prepared.ctx
    for spec in prepared.inputs:
        if spec.shape[:1] != (1,):
            raise ConfigError(
                f"input_batch {size}: input {spec.name!r} has the shape {list(spec.shape)}",
                where=where,
                want="a first size of 1, which becomes the batch",
                hint="leave out input_batch; input_shape fixes a dynamic batch",
            )
    shapes = {s.name: (size, *s.shape[1:]) for s in prepared.inputs}
    try:
        other = prepare(replace(request, input_shapes=shapes, dump_dir=None, keep_stages=None), batch=size)
    except BpucError as e:
        raise _unfit(size, f"the model cannot be read with a batch of {size}: {e.message}", where) from e
    observed = [{t.name for t in p.graph.tensors() if t.observer} for p in (prepared, other)]
    if observed[0] != observed[1]:
        raise _unfit(size, "the model becomes another one with a larger batch", where)
    _check_same(prepared, other, source, size, where)
    ctx.images = {n: replace(i, shape=shapes[n]) for n, i in ctx.images.items()}
    ctx.batch = {n: (n,) for n in shapes}
    ctx.batch_size = size
    found = replace(prepared, graph=other.graph, inputs=other.inputs, model=other.model, probe=other.probe)
    return found, None if source is None else BatchedSource(source, other.inputs, size)


def _check_same(prepared: Prepared, other: Prepared, source: DataSource | None, size: int, where: str) -> None:
    """Refuse a model whose outputs for a batch are not those for each sample, one behind the other."""
    for name, one, many in zip(prepared.graph.output_names, prepared.graph.outputs, other.graph.outputs):
        if one.shape[:1] != (1,) or many.shape != (size, *one.shape[1:]):
            text = f"output {name!r} has the shape {list(one.shape)}, with that batch {list(many.shape)}"
            raise _unfit(size, text, where)
    samples = list(islice(iter(source or random_data(prepared.inputs, size)), size))
    samples = [samples[i % len(samples)] for i in range(size)]
    joined = {s.name: np.concatenate([f[s.name] for f in samples]) for s in prepared.inputs}
    try:
        singles = [_outputs(prepared.graph, f) for f in samples]
        got = _outputs(other.graph, joined)
    except BpucError:
        if source is not None:
            raise
        return  # made-up integers may be no indices
    for name, array in got.items():
        if not _close(np.concatenate([s[name] for s in singles]), array):
            text = f"output {name!r} of a sample hangs on the others of a batch: the model mixes its first axis"
            raise _unfit(size, text, where)


def _outputs(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    names = {t.name: n for t, n in zip(graph.outputs, graph.output_names) if t.const is None}
    return {names[t]: a for t, a in FloatExecutor(graph, list(names), 1).run(feeds)}


def _close(want: Array, got: Array) -> bool:
    if want.dtype.kind != "f":
        return bool((want != got).mean() <= _OTHER_INTEGERS)
    return bool(np.abs(want - got).max(initial=0) <= _CLOSE * np.abs(want).max(initial=1e-30))


def _unfit(size: int, text: str, where: str) -> ConfigError:
    return ConfigError(
        f"input_batch {size}: {text}",
        where=where,
        want="a model that treats the samples of a batch one by one",
        hint=f"export the model with a batch of {size}, or leave out input_batch",
    )


def _separate(
    prepared: Prepared, source: DataSource | None, names: Sequence[str], where: str
) -> tuple[Prepared, DataSource | None]:
    """One input a sample, `NAME_0` and so on, joined where the model's input was."""
    ctx, graph = prepared.ctx, prepared.graph
    known = [s.name for s in prepared.inputs]
    for name in names:
        if name not in (*known, "*"):
            raise ConfigError(
                f"separate_name: the model has no input {name!r}", where=where, hint=name_hint(name, known)
            )
    wanted = known if "*" in names else names
    parts: dict[str, list[str]] = {}
    for spec in prepared.inputs:
        if spec.name not in wanted:
            continue
        if not spec.shape or spec.shape[0] < 2:
            ctx.warn("batch", f"input {spec.name} has no batch to separate: its shape is {list(spec.shape)}", spec.name)
            continue
        parts[spec.name] = _split_input(prepared, spec)
    if not parts:
        return prepared, source
    ctx.batch_size = max(len(p) for p in parts.values())
    whole = {s.name: (s.name,) for s in prepared.inputs if s.shape[:1] == (ctx.batch_size,)}
    ctx.batch = {**whole, **{n: tuple(p) for n, p in parts.items()}}
    inputs = [InputSpec(t.name, t.shape, t.dtype.value) for t in graph.inputs]
    types = dict(prepared.model.input_types)
    types |= {p: types.get(n) for n, found in parts.items() for p in found}
    found = replace(prepared, inputs=inputs, model=replace(prepared.model, input_types=types), probe=None)
    return found, None if source is None else SeparateSource(source, inputs, parts)


def _split_input(prepared: Prepared, spec: InputSpec) -> list[str]:
    """Put inputs of batch 1 and a Concat in the place of an input; returns their names."""
    ctx, graph = prepared.ctx, prepared.graph
    index = graph.input_names.index(spec.name)
    x = graph.inputs[index]
    frames = []
    for number in range(spec.shape[0]):
        frame = graph.new_tensor(x, f"{x.name}_{number}")
        frame.shape, frame.observer = (1, *x.shape[1:]), x.observer
        frames.append(frame)
        for found in (ctx.ranges, ctx.channels, ctx.tails, ctx.calibrated_dtypes, ctx.file_scales):
            if x.name in found:
                found[frame.name] = found[x.name]  # type: ignore[assignment]
    graph.inputs[index : index + 1] = frames
    graph.input_names[index : index + 1] = [f.name for f in frames]
    graph.add("Concat", AxisAttrs(0), frames, [x], name=graph.unique(f"{x.name}_join"), serial=FIRST)
    image = ctx.images.pop(spec.name, None)
    if image is not None:
        ctx.images |= {f.name: replace(image, shape=f.shape) for f in frames}
    return [f.name for f in frames]
