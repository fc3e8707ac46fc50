"""Nodes with bodies of their own (Loop, Scan, ...) run in a process apart: how long and how large is known by trying.

The process, ``python -m bpuc.frontend.apart``, takes models without inputs on stdin and gives their results on stdout,
both as .npz.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from bpuc.frontend.evaluate import evaluate
from bpuc.ops.base import Array

SECONDS = 6  # a start takes one of them
MEMORY = 1 << 30  # bytes beside those of the libraries


def run_apart(models: Sequence[onnx.ModelProto]) -> list[list[Array]] | None:
    """The results of models without inputs, or None where one fails, or all take over 6 seconds or over 1 GB."""
    command = [sys.executable, "-m", "bpuc.frontend.apart"]
    # the package need not be installed, nor be found from where the process starts
    path = [str(Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    file = io.BytesIO()
    np.savez(file, *[np.frombuffer(model.SerializeToString(), np.uint8) for model in models])
    try:
        done = subprocess.run(command, input=file.getvalue(), capture_output=True, timeout=SECONDS, check=True, env=env)
        with np.load(io.BytesIO(done.stdout), allow_pickle=False) as results:
            found: list[list[Array]] = [[] for _ in models]
            for name in results.files:  # "<model>_<output>", in order
                found[int(name.partition("_")[0])].append(results[name])
            return found
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _main() -> None:
    with contextlib.suppress(ImportError):  # there are no such limits on Windows
        import resource

        # address space: what the libraries reserve already, and the allowance
        with contextlib.suppress(OSError, ValueError):
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    results: dict[str, Array] = {}
    with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as models:
        for i, name in enumerate(models.files):
            found = evaluate(onnx.load_from_string(models[name].tobytes()), {})
            if found is None or any(array.dtype.hasobject for array in found):
                sys.exit(1)
            results |= {f"{i}_{j}": array for j, array in enumerate(found)}
    file = io.BytesIO()
    np.savez(file, **results)  # type: ignore[arg-type]
    sys.stdout.buffer.write(file.getvalue())


if __name__ == "__main__":
    _main()
