"""Compiles small ONNX models with chosen scales and runs them on given integers, in both engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bpuc_passes import choose_dtypes, place_ops
from onnx import NodeProto, helper

from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.isa import Device
from bpuc.program import Program
from bpuc.sim.run import run_program
from bpuc.support.check import Verdict
from tests.unit.ops.onnx_cases import model

Array = np.ndarray[Any, np.dtype[Any]]
node = helper.make_node


class Net:
    """A compiled model. scales: of its tensors by name, as the test fixed them."""

    def __init__(self, program: Program, scales: Mapping[str, float]):
        self.program, self.scales = program, scales

    def run(self, **integers: Any) -> dict[str, Array]:
        """Integers of the outputs for integers of the inputs; both engines must agree."""
        feeds = {n: (np.asarray(q) * self.scales[n]).astype(np.float32) for n, q in integers.items()}
        reference = run_program(self.program, feeds, "reference", integers=True)
        fast = run_program(self.program, feeds, "fast", integers=True)
        for name, value in reference.items():
            np.testing.assert_array_equal(fast[name], value, err_msg=f"engines differ in {name}")
        return {name: value.astype(np.int64) for name, value in reference.items()}

    def instructions(self, kind: type) -> list[Any]:
        return [i for i in self.program.instructions if isinstance(i, kind)]

    def constant(self, ref: Any) -> Array:
        return np.frombuffer(self.program.constants, ref.dtype.numpy, ref.elements, ref.address).reshape(ref.shape)

    def bpu(self) -> list[Any]:
        """All instructions of the BPU."""
        return [i for i in self.program.instructions if i.device is Device.BPU]


def build(
    folder: Path,
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int]],
    output: str = "y",
    constants: Mapping[str, Any] | None = None,
    *,
    scales: Mapping[str, float],
    march: str = "bayes-e",
    opset: int = 17,
    cpu: Sequence[str] = (),
    anywhere: bool = False,
    **options: Any,
) -> Net:
    """Compile without data: a tensor without a scale of its own has threshold 1.

    Every node must run on the BPU but those of `cpu`; with `anywhere` no rule of a march is asked.
    """
    path = folder / "net.onnx"
    names = [output] if isinstance(output, str) else output
    path.write_bytes(model(nodes, inputs, names, constants, opset).SerializeToString())
    fixed = [f"{name}={scale!r}" for name, scale in scales.items()]
    with no_rules() if anywhere else nullcontext():
        program = compile_model(make_request(str(path), march, fixed_scale=fixed, **options)).program
    elsewhere = [n["name"] for n in program.report["nodes"] if n["device"] == "CPU" and n["onnx_nodes"]]
    assert elsewhere == list(cpu), [n["reason"] for n in program.report["nodes"]]
    return Net(program, scales)


@contextmanager
def no_rules() -> Iterator[None]:
    """Inside, every op that has instructions runs on the BPU, whatever the march says."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (place_ops, choose_dtypes):
            patch.setattr(module, "supports", lambda *_: Verdict(True, "", "test", True, False))
        patch.setattr(place_ops, "divide", lambda *_: None)
        yield


def rounded(real: Any, step: float, lo: int = -128, hi: int = 127) -> Array:
    """Real values in steps: ties toward plus infinity, then clamped. Exact where `step` is a power of two."""
    return np.clip(np.floor(np.asarray(real, np.float64) / step + 0.5), lo, hi).astype(np.int64)


def int8s(shape: Sequence[int], seed: int = 0) -> Array:
    """Integers -128..127, both ends among them."""
    q = np.random.default_rng(seed).integers(-128, 128, tuple(shape))
    q.flat[0], q.flat[-1] = -128, 127
    return q


def exact_weights(shape: Sequence[int], steps: Sequence[float], seed: int = 1) -> Array:
    """Weights [O, ...] that are -127..127 times the step of their channel, 127 among them: no rounding error."""
    q = np.random.default_rng(seed).integers(-127, 128, tuple(shape))
    q.reshape(shape[0], -1)[:, 0] = 127
    return (q * np.asarray(steps).reshape(-1, *[1] * (len(shape) - 1))).astype(np.float32)
