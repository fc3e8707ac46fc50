"""Nodes with bodies of their own (Loop, Scan, ...) run in a process apart: how long and how large is known by trying.

The process, ``python -m bpuc.frontend.apart``, takes a model without inputs on stdin and gives an .npz of its results.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx

from bpuc.frontend.evaluate import evaluate
from bpuc.ops.base import Array

SECONDS = 6  # a start takes one of them
MEMORY = 1 << 30  # bytes beside those of the libraries


def run_apart(model: onnx.ModelProto) -> list[Array] | None:
    """The results of a model without inputs, or None where it fails, takes over 6 seconds or over 1 GB."""
    command = [sys.executable, "-m", "bpuc.frontend.apart"]
    try:
        done = subprocess.run(
            command, input=model.SerializeToString(), capture_output=True, timeout=SECONDS, check=True
        )
        with np.load(io.BytesIO(done.stdout), allow_pickle=False) as results:
            return [results[name] for name in results.files]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _main() -> None:
    with contextlib.suppress(ImportError):  # there are no such limits on Windows
        import resource

        # address space: what the libraries reserve already, and the allowance
        with contextlib.suppress(OSError, ValueError):
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    results = evaluate(onnx.load_from_string(sys.stdin.buffer.read()), {})
    if results is None or any(r.dtype.hasobject for r in results):
        sys.exit(1)
    file = io.BytesIO()
    np.savez(file, *results)
    sys.stdout.buffer.write(file.getvalue())


if __name__ == "__main__":
    _main()
