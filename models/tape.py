"""A tiny trainer in numpy: layers that run forward on a batch and remember how to go back.

Activations are float32 ``[channels, batch, height, width]``: with the channel first, a convolution over a whole batch
is one matrix product and a concat joins the first axis. There is no general automatic differentiation here, only the
layers that the project's models use. `models.exporter` has the same methods and writes ONNX nodes instead, so that a
net is described once.
"""

# ruff: noqa: ARG002  the exporter takes the same arguments, and needs the names
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

Array = np.ndarray
BN_EPSILON = 1e-5
BN_MOMENTUM = 0.1


class Value:
    """An activation and, after `Tape.backward`, the gradient of the loss by it."""

    def __init__(self, data: Array):
        self.data = data
        self.grad = np.zeros_like(data)


class Tape:
    """One forward run. Parameters are made on first use, in the order of the net, from one seeded generator.

    Args:
        params: name -> float32 array, shared by all runs; filled by the first.
        rng: generator of the initial weights.
        training: batch statistics for BatchNorm (and running ones updated), or the running ones.
    """

    def __init__(self, params: dict[str, Array], rng: np.random.Generator, *, training: bool):
        self.params, self.rng, self.training = params, rng, training
        self.grads: dict[str, Array] = {}
        self._back: list[Callable[[], None]] = []

    def backward(self) -> None:
        """Run every remembered step in reverse; `grads` then holds one gradient a trained parameter."""
        for step in reversed(self._back):
            step()

    def conv(self, x: Value, name: str, out: int, kernel: int, *, relu: bool = True) -> Value:
        """Convolution with stride 1 and equal padding, BatchNorm, and Relu unless `relu` is false."""
        channels = x.data.shape[0]
        fan_in = channels * kernel * kernel
        w = self._param(f"{name}.weight", (out, channels, kernel, kernel), float(np.sqrt(2 / fan_in)))
        columns = _columns(x.data, kernel)
        y = Value((w.reshape(out, -1) @ columns).reshape(out, *x.data.shape[1:]))

        def back() -> None:
            g = y.grad.reshape(out, -1)
            self.grads[f"{name}.weight"] = (g @ columns.T).reshape(w.shape)
            x.grad += _uncolumns(w.reshape(out, -1).T @ g, x.data.shape, kernel)

        self._back.append(back)
        normed = self._batch_norm(y, f"{name}.bn")
        return self._relu(normed) if relu else normed

    def max_pool(self, x: Value, name: str, kernel: int, stride: int) -> Value:
        """Max-pooling; with stride 1 the map keeps its size (padding of half the kernel)."""
        pad = kernel // 2 if stride == 1 else 0
        h, w = x.data.shape[2:]
        padded = np.pad(x.data, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-np.inf)
        taps = np.stack([s for _, s in _shifts(padded, kernel, stride)])
        winner = taps.argmax(0)
        y = Value(taps.max(0))

        def back() -> None:
            g = np.zeros_like(padded)
            for i, (_, view) in enumerate(_shifts(g, kernel, stride)):
                view += y.grad * (winner == i)
            x.grad += g[:, :, pad : pad + h, pad : pad + w]

        self._back.append(back)
        return y

    def concat(self, xs: list[Value], name: str) -> Value:
        """Join along channels."""
        y = Value(np.concatenate([x.data for x in xs]))
        ends = np.cumsum([x.data.shape[0] for x in xs])

        def back() -> None:
            for x, end in zip(xs, ends):
                x.grad += y.grad[end - x.data.shape[0] : end]

        self._back.append(back)
        return y

    def add_relu(self, a: Value, b: Value, name: str) -> Value:
        """Residual addition, then Relu."""
        y = Value(a.data + b.data)

        def back() -> None:
            a.grad += y.grad
            b.grad += y.grad

        self._back.append(back)
        return self._relu(y)

    def upsample(self, x: Value, name: str, factor: int) -> Value:
        """Nearest-neighbour enlargement."""
        c, n, h, w = x.data.shape
        y = Value(x.data.repeat(factor, 2).repeat(factor, 3))

        def back() -> None:
            x.grad += y.grad.reshape(c, n, h, factor, w, factor).sum((3, 5))

        self._back.append(back)
        return y

    def classify(self, x: Value, name: str, classes: int) -> Value:
        """Global average pooling and a linear layer; the result is ``[classes, batch, 1, 1]``."""
        c, _, h, w = x.data.shape
        weight = self._param(f"{name}.weight", (classes, c), float(np.sqrt(1 / c)))
        bias = self._param(f"{name}.bias", (classes,), 0.0)
        mean = x.data.mean((2, 3))
        y = Value((weight @ mean + bias[:, None])[:, :, None, None])

        def back() -> None:
            g = y.grad[:, :, 0, 0]
            self.grads[f"{name}.weight"] = g @ mean.T
            self.grads[f"{name}.bias"] = g.sum(1)
            x.grad += (weight.T @ g / (h * w))[:, :, None, None]

        self._back.append(back)
        return y

    def cross_entropy(self, logits: Value, labels: Array, smoothing: float) -> float:
        """Mean softmax cross-entropy with label smoothing; starts the gradient at `logits`."""
        z = logits.data[:, :, 0, 0]
        p = np.exp(z - z.max(0))
        p /= p.sum(0)
        classes, n = z.shape
        target = np.full_like(p, smoothing / classes)
        target[labels, np.arange(n)] += 1 - smoothing
        logits.grad[:, :, 0, 0] = (p - target) / n
        return float(-(target * np.log(p + 1e-12)).sum() / n)

    def _batch_norm(self, x: Value, name: str) -> Value:
        c = x.data.shape[0]
        gamma = self._param(f"{name}.gamma", (c,), 0.0, fill=1.0)
        beta = self._param(f"{name}.beta", (c,), 0.0)
        mean = self._param(f"{name}.mean", (c,), 0.0)
        var = self._param(f"{name}.var", (c,), 0.0, fill=1.0)
        if self.training:
            m, v = x.data.mean((1, 2, 3)), x.data.var((1, 2, 3))
            mean += BN_MOMENTUM * (m - mean)
            var += BN_MOMENTUM * (v - var)
        else:
            m, v = mean, var
        inv = 1 / np.sqrt(v + BN_EPSILON)
        unit = (x.data - m[:, None, None, None]) * inv[:, None, None, None]
        y = Value(gamma[:, None, None, None] * unit + beta[:, None, None, None])

        def back() -> None:
            g_beta = y.grad.sum((1, 2, 3))
            g_gamma = (y.grad * unit).sum((1, 2, 3))
            self.grads[f"{name}.gamma"], self.grads[f"{name}.beta"] = g_gamma, g_beta
            count = x.data[0].size
            centred = y.grad - (g_beta / count)[:, None, None, None] - unit * (g_gamma / count)[:, None, None, None]
            x.grad += (gamma * inv)[:, None, None, None] * centred

        self._back.append(back)
        return y

    def _relu(self, x: Value) -> Value:
        y = Value(np.maximum(x.data, 0))

        def back() -> None:
            x.grad += y.grad * (x.data > 0)

        self._back.append(back)
        return y

    def _param(self, name: str, shape: tuple[int, ...], sigma: float, fill: float = 0.0) -> Array:
        if name not in self.params:
            start = self.rng.normal(0, sigma, shape) if sigma else np.full(shape, fill)
            self.params[name] = start.astype(np.float32)
        return self.params[name]


class Adam:
    """Adam with decoupled weight decay on weights (Loshchilov and Hutter, 2019, algorithm 2)."""

    def __init__(self, decay: float):
        self.decay, self.steps = decay, 0
        self._m: dict[str, Array] = {}
        self._v: dict[str, Array] = {}

    def step(self, params: dict[str, Array], grads: dict[str, Array], rate: float) -> None:
        """Move every parameter that has a gradient, in place."""
        self.steps += 1
        for name, g in grads.items():
            m = self._m[name] = 0.9 * self._m.get(name, np.zeros_like(g)) + 0.1 * g
            v = self._v[name] = 0.999 * self._v.get(name, np.zeros_like(g)) + 0.001 * g * g
            move = (m / (1 - 0.9**self.steps)) / (np.sqrt(v / (1 - 0.999**self.steps)) + 1e-8)
            if name.endswith(".weight"):
                move = move + self.decay * params[name]
            params[name] -= (rate * move).astype(np.float32)


def _shifts(x: Array, kernel: int, stride: int) -> Iterator[tuple[tuple[int, int], Array]]:
    """The views of `x` that each tap of a window sees, row by row."""
    h = (x.shape[2] - kernel) // stride + 1
    w = (x.shape[3] - kernel) // stride + 1
    for i in range(kernel):
        for j in range(kernel):
            yield (i, j), x[:, :, i : i + h * stride : stride, j : j + w * stride : stride]


def _columns(x: Array, kernel: int) -> Array:
    """``[channels * kernel^2, batch * height * width]``, what a convolution multiplies its weights with."""
    if kernel == 1:
        return x.reshape(x.shape[0], -1)
    pad = kernel // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    taps = np.stack([s for _, s in _shifts(padded, kernel, 1)], axis=1)
    return taps.reshape(x.shape[0] * kernel * kernel, -1)


def _uncolumns(g: Array, shape: tuple[int, ...], kernel: int) -> Array:
    """The adjoint of `_columns`: adds each tap's gradient back where the tap had read."""
    if kernel == 1:
        return g.reshape(shape)
    pad = kernel // 2
    c, n, h, w = shape
    padded = np.zeros((c, n, h + 2 * pad, w + 2 * pad), g.dtype)
    taps = g.reshape(c, kernel * kernel, n, h, w)
    for i, (_, view) in enumerate(_shifts(padded, kernel, 1)):
        view += taps[:, i]
    return padded[:, :, pad : pad + h, pad : pad + w]
