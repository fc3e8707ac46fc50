"""The fast engine: onnxruntime's integer kernels where they are proven exact, tables and numpy elsewhere.

It must give the same integers as `bpuc.sim.reference` on every program. Shared with it are the decoder and the
executor of ONNX parts, nothing else.
"""

from bpuc.sim.fast.engine import FastEngine

__all__ = ["FastEngine"]
