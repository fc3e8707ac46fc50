"""The quantized graph beside the float one, op by op, on a few samples.

Values of both run through the graph together, so that every op with weights can be looked at, and corrected, with the
operand that it will really have: roundings and corrections of all ops before it included. What is stored as an integer
is rounded to its scale here too; sums are float32, so the last bit of an accumulator may differ from the program's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bpuc.calibrate.sensitivity import rounded
from bpuc.execute.ort import Sessions, run_op
from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import PReluAttrs
from bpuc.ops.base import Array, Behaviour
from bpuc.ops.registry import get
from bpuc.ops.table import function_of
from bpuc.passkit.channels import written_axis
from bpuc.passkit.layer import Function, Layer, Visit
from bpuc.passkit.weights import rounded_weights, with_weights

# bytes that values of all samples may take together; large maps are seen on fewer samples
MEMORY = 128 << 20
# and how many samples there are at most, by effort
MOST_SAMPLES = {1: 8, 2: 16, 3: 32}
_OPERAND = "operand 0"


def spread_samples(source: Iterable[Mapping[str, Array]], whole: int, count: int) -> list[dict[str, Array]]:
    """`count` samples at even distances of the `whole` that the source has."""
    chosen = {int(i) for i in np.linspace(0, whole - 1, min(count, whole)).round()}
    found = []
    for number, sample in enumerate(source):
        if number in chosen:
            found.append(dict(sample))
        if number >= max(chosen):
            break
    return found


def sample_count(graph: Graph, effort: int) -> int:
    """How many samples the two runs may take, by the largest set of tensors that are alive together."""
    last = _last_uses(graph)
    alive = most = sum(t.elements for t in graph.inputs)
    for position, op in enumerate(graph):
        alive += sum(t.elements for t in op.outputs)
        most = max(most, alive + sum(t.elements for t in op.outputs))
        alive -= sum(t.elements for t, p in last.items() if p == position)
    return int(np.clip(MEMORY // (8 * max(most, 1)), 2, MOST_SAMPLES[effort]))


def _last_uses(graph: Graph) -> dict[Tensor, int]:
    last = {t: p for p, op in enumerate(graph) for t in (*op.inputs, *op.outputs) if t is not None and t.const is None}
    return {t: p for t, p in last.items() if t not in graph.outputs}


@dataclass
class Error:
    """Sums of squares over the samples, in the units of the model.

    power: of the float values. noise: of the difference to them. own: of what rounding to the tensor's scale adds.
    """

    power: float = 0.0
    noise: float = 0.0
    own: float = 0.0


class Twin:
    """Runs both graphs.

    Args:
        plain: the graph in float, before scales moved into weights. samples: input name -> array.

    Attributes:
        errors: what `walk` saw of each result, by name, in the order of the ops.
    """

    def __init__(self, plain: Graph, samples: Sequence[Mapping[str, Array]]):
        self._plain = {op.name: op for op in plain}
        self._samples = samples
        self._sessions: Sessions = {}
        self.errors: dict[str, Error] = {}

    def walk(self, graph: Graph, visit: Visit | None = None) -> list[tuple[Array, ...]]:
        """Run the placed and scaled `graph`; `visit` sees every op with weights before its result is used.

        Args:
            visit: may give the op other weights (with their scales) and another bias.

        Returns:
            For each sample the outputs of the float graph, then those of the quantized one.
        """
        want: dict[str, list[Array]] = {}
        got: dict[Tensor, list[Array]] = {}
        for t in graph.inputs:
            want[t.name] = [np.asarray(s[t.name]).astype(t.dtype.numpy, copy=False) for s in self._samples]
            got[t] = want[t.name]
        free: dict[int, list[Tensor]] = {}
        for t, p in _last_uses(graph).items():
            free.setdefault(p, []).append(t)
        for position, op in enumerate(graph):
            if op.device == "BPU" and with_weights(op):
                self._weighted(graph, op, want, got, visit)
            else:
                self._plainly(op, want, got)
            for t in free.get(position, ()):
                want.pop(t.name, None)
                got.pop(t, None)
        rows = range(len(self._samples))
        outs = [t for t in graph.outputs if t.const is None]
        return [(*(want[t.name][i] for t in outs), *(_stored(graph, t, got[t][i]) for t in outs)) for i in rows]

    def _plainly(self, op: Op, want: dict[str, list[Array]], got: dict[Tensor, list[Array]]) -> None:
        original = self._plain[op.name]
        operands = list(dict.fromkeys(t for t in op.inputs if t is not None and t.const is None))
        inside = op.device == "BPU"
        rounded_op = _with_rounded_data(op) if inside else op
        for t in op.outputs:
            want[t.name], got[t] = [], []
        for i in range(len(self._samples)):
            plain = run_op(original, {t.name: want[t.name][i] for t in operands}, self._sessions)
            feeds = {t.name: rounded(got[t][i], t.quant) if inside and t.quant else got[t][i] for t in operands}
            quantized = run_op(rounded_op, feeds, self._sessions)
            for t, a, b in zip(op.outputs, plain, quantized):
                want[t.name].append(a)
                got[t].append(rounded(b, t.quant) if inside and t.quant is not None else b)
                self._see(t, a, b, got[t][-1])
        self._sessions.clear()

    def _weighted(
        self,
        graph: Graph,
        op: Op,
        want: dict[str, list[Array]],
        got: dict[Tensor, list[Array]],
        visit: Visit | None,
    ) -> None:
        original = self._plain[op.name]
        x, residual = op.input(0), op.maybe(3)
        assert x.quant is not None
        plain_op = _unclamped(original)
        gain = _gain(op.out)
        sums = []
        for i in range(len(self._samples)):
            feeds = {t.name: want[t.name][i] for t in (x, residual) if t is not None and t.const is None}
            sums.append(run_op(plain_op, feeds, self._sessions)[0])
        want[op.out.name] = [_clamped(original, v) for v in sums]
        # a reader has the ratio between its operand's channels in its weights
        ratio = _along(np.asarray(x.quant.unit / np.asarray(x.quant.scale)), x.quant.axis, x.rank)
        data = [np.asarray(rounded(v, x.quant) * ratio, np.float32) for v in got.get(x, [])]
        if x.const is not None:
            data = [np.asarray(rounded(x.const, x.quant), np.float32)] * len(self._samples)
        rest = [rounded(v, residual.quant) if residual.quant else v for v in got[residual]] if residual in got else []

        def run() -> list[Array]:
            self._sessions.clear()
            other = _quantized(op)
            found = []
            for i in range(len(self._samples)):
                feeds = {} if x.const is not None else {_OPERAND: data[i]}
                if residual is not None and residual.const is None:
                    feeds[residual.name] = rest[i]
                found.append(run_op(other, feeds, self._sessions)[0])
            return found

        results = run()
        if visit is not None:
            layer = Layer(
                op,
                data,
                [np.asarray(v * gain, np.float32) for v in sums],
                results,
                run,
                _behind(graph, op),
                written_axis(op),
            )
            visit(layer)
            results = layer.got
        self._sessions.clear()
        clamped = [_clamped(op, v) for v in results]
        got[op.out] = [rounded(v, op.out.quant) for v in clamped] if op.out.quant is not None else clamped
        for a, b, c in zip(want[op.out.name], clamped, got[op.out]):
            self._see(op.out, a, b, c)

    def _see(self, t: Tensor, want: Array, before: Array, got: Array) -> None:
        """Add a sample's errors of `t`: `before` is what the op gives, `got` that on the tensor's scale."""
        if not t.dtype.is_float:
            return
        error = self.errors.setdefault(t.name, Error())
        gain = _gain(t) if set(t.gain) != {1.0} else None
        error.power += _energy(want)
        with np.errstate(invalid="ignore"):  # -Inf of a mask less -Inf is no error
            error.noise += _energy((got if gain is None else got / gain) - want)
            error.own += 0.0 if got is before else _energy(got - before if gain is None else (got - before) / gain)


def _energy(x: Array) -> float:
    """Sum of squares, also of values that float32 cannot square, or that are not finite."""
    flat = x.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(np.dot(flat, flat))
        if np.isfinite(found):
            return found
        return float(np.square(np.nan_to_num(flat.astype(np.float64), posinf=1e18, neginf=-1e18)).sum())


def _stored(graph: Graph, t: Tensor, value: Array) -> Array:
    producer = graph.producer(t)
    inside = producer is not None and producer.device == "BPU"
    return rounded(value, t.quant) if inside and t.quant is not None else value


def _along(values: Array, axis: int | None, rank: int) -> Array:
    return values if axis is None or values.size == 1 else values.reshape([-1 if a == axis else 1 for a in range(rank)])


def _gain(t: Tensor) -> Array:
    return np.asarray(_along(np.asarray(t.gain, np.float32), t.gain_axis, t.rank))


def _unclamped(op: Op) -> Op:
    return replace(op, attrs=replace(op.attrs, low=None, high=None)) if hasattr(op.attrs, "low") else op  # type: ignore[call-arg]


def _clamped(op: Op, value: Array) -> Array:
    low, high = getattr(op.attrs, "low", None), getattr(op.attrs, "high", None)
    return value if low is None and high is None else np.clip(value, low, high)


def _quantized(op: Op) -> Op:
    """The op without its clamp, with the values that its integer weights stand for."""
    weights = replace(op.input(1), const=np.asarray(rounded_weights(op), np.float32))
    # a name of its own: as a residual the same tensor has other values, since no weights undo its scales there
    x = op.input(0) if op.input(0).const is not None else replace(op.input(0), name=_OPERAND)
    return _unclamped(_with_rounded_data(replace(op, _inputs=[x, weights, *op.inputs[2:]])))


def _with_rounded_data(op: Op) -> Op:
    """Constants that are read as data, with the values that their integers stand for."""
    weights = 1 if with_weights(op) else -1
    changed = [
        replace(t, const=rounded(t.const, t.quant))
        if t is not None and t.const is not None and t.quant is not None and i != weights
        else t
        for i, t in enumerate(op.inputs)
    ]
    return replace(op, _inputs=changed)


def _behind(graph: Graph, op: Op) -> Function | None:
    """The op's clamp, then the table that alone reads the result, or what it only moves on into."""
    t = op.out
    bounds = getattr(op.attrs, "low", None), getattr(op.attrs, "high", None)
    table = None
    while t not in graph.outputs and len(graph.uses(t)) == 1:
        ((reader, index),) = graph.uses(t)
        behaviour = get(reader.kind).behaves(reader)
        if behaviour is Behaviour.MAPS and index == 0 and not isinstance(reader.attrs, PReluAttrs):
            table = function_of(reader)
        if behaviour is not Behaviour.MOVES or len(reader.outputs) != 1:
            break
        t = reader.out
    if bounds == (None, None):
        return table

    def function(v: Array) -> Array:
        clamped = np.clip(v, *bounds)
        return clamped if table is None else table(clamped)

    return function
