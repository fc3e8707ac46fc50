"""Runs a program in both engines and compares every tensor."""

from __future__ import annotations

import numpy as np

from bpuc.program import Program
from bpuc.sim.fast import FastEngine
from bpuc.sim.reference import ReferenceEngine


def feeds_of(program: Program, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random values of each input's type over its whole range, extremes included."""
    out = {}
    for p in program.inputs:
        if p.ref.dtype.is_float:
            out[p.name] = rng.standard_normal(p.shape).astype(p.ref.dtype.numpy)
            continue
        x = rng.integers(p.ref.dtype.qmin, p.ref.dtype.qmax + 1, p.shape)
        x[rng.random(p.shape) < 0.1] = p.ref.dtype.qmin
        x[rng.random(p.shape) < 0.1] = p.ref.dtype.qmax
        out[p.name] = x.astype(p.ref.dtype.numpy)
    return out


def same(program: Program, seed: int = 0, samples: int = 2, threads: tuple[int, ...] = (1, 2)) -> None:
    """Outputs alone, and with every tensor tapped, on several samples and thread counts."""
    rng = np.random.default_rng(seed)
    names = [t.name for t in program.tensors]
    reference = ReferenceEngine(program, 1, names)
    engines = [
        (f"{n} threads, {len(taps)} taps", FastEngine(program, n, taps)) for n in threads for taps in ((), names)
    ]
    for _ in range(samples):
        feeds = feeds_of(program, rng)
        want = reference.run(feeds)
        for label, engine in engines:
            got = engine.run(feeds)
            for name, value in got.items():
                assert value.dtype == want[name].dtype, (label, name)
                np.testing.assert_array_equal(value, want[name], err_msg=f"{label}: {name}")
        assert set(engines[1][1].run(feeds)) == set(want)
