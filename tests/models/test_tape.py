"""The numpy trainer: its gradients against finite differences, its layers against onnxruntime."""

import numpy as np
import onnxruntime as ort
import pytest

from models import digits_inception as digits
from models.exporter import Exporter, Ref
from models.onnxfile import OnnxFile, model_bytes
from models.tape import Adam, Tape, Value


def small_net(f, x):
    """Every layer of the trainer once, odd sizes."""
    x = f.conv(x, "one", 4, 1)
    y = f.concat([f.conv(x, "three", 3, 3), f.max_pool(x, "pool1", 3, 1)], "cat")
    y = f.conv(y, "five", 4, 5, relu=False)
    y = f.add_relu(y, x, "add")
    y = f.concat([y, f.upsample(f.max_pool(y, "pool2", 2, 2), "up", 2)], "cat2")
    return f.classify(y, "out", 3)


def test_gradients_agree_with_finite_differences():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 5, 6, 6))
    labels = np.array([0, 2, 1, 1, 0])
    params: dict[str, np.ndarray] = {}
    small_net(Tape(params, rng, training=True), Value(x))
    params = {name: value.astype(np.float64) for name, value in params.items()}

    def run():
        tape = Tape({name: value.copy() for name, value in params.items()}, rng, training=True)
        logits = small_net(tape, Value(x))
        # .copy() above keeps the running statistics of BatchNorm out of the difference.
        return tape.cross_entropy(logits, labels, smoothing=0.1), tape

    _, tape = run()
    tape.backward()
    assert set(tape.grads) == {name for name in params if not name.endswith((".mean", ".var"))}
    for name, grad in tape.grads.items():
        at = tuple(rng.integers(0, size) for size in grad.shape)
        keep, step = params[name][at], 1e-6
        params[name][at] = keep + step
        above = run()[0]
        params[name][at] = keep - step
        below = run()[0]
        params[name][at] = keep
        assert grad[at] == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-7), name


def test_exported_layers_agree_with_onnxruntime():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(1, 2, 6, 6)).astype(np.float32)
    params: dict[str, np.ndarray] = {}
    small_net(Tape(params, rng, training=True), Value(rng.normal(size=(2, 9, 6, 6)).astype(np.float32)))
    file = OnnxFile("small")
    file.input("x", 1, 2, 6, 6)
    small_net(Exporter(file, params), Ref("x", 2))
    file.output("out", 1, 3)
    session = ort.InferenceSession(model_bytes(file.model()), providers=["CPUExecutionProvider"])
    got = session.run(None, {"x": x})[0]
    tape = Tape(params, rng, training=False)
    want = small_net(tape, Value(x.transpose(1, 0, 2, 3))).data[:, :, 0, 0].T
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_first_adam_step_has_the_size_of_the_rate_whatever_the_gradient():
    params = {"a.bias": np.array([1.0, 1.0], np.float32)}
    Adam(decay=0.0).step(params, {"a.bias": np.array([1e-3, -50.0], np.float32)}, 0.01)
    np.testing.assert_allclose(params["a.bias"], [0.99, 1.01], rtol=1e-6)


def test_training_lowers_the_loss():
    x, labels = digits.data()
    pick = np.flatnonzero(labels < 2)[:128]
    log: list[str] = []
    digits.train(x[pick], labels[pick], epochs=4, log=log.append)
    losses = [float(line.split()[-1]) for line in log]
    assert len(losses) == 4
    assert losses[-1] < 0.8 * losses[0]
