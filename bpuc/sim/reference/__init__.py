"""The reference engine: plain numpy, one file an instruction family, written to be read beside `bpuc/isa`."""

from bpuc.sim.reference.engine import ReferenceEngine

__all__ = ["ReferenceEngine"]
