"""Element types and their integer ranges."""

from __future__ import annotations

from enum import Enum

import numpy as np


class DType(str, Enum):
    """Element type of a tensor; the value is the name used in every report."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOL = "bool"
    HOST = "host"  # no array of numbers: a host value, see `Tensor.host`; never in a program

    def __str__(self) -> str:
        return self.value

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy dtype, little endian."""
        return np.dtype(object if self is DType.HOST else self.value).newbyteorder("<")

    @property
    def itemsize(self) -> int:
        """Size of one element in bytes."""
        return int(self.numpy.itemsize)

    @property
    def is_float(self) -> bool:
        return self in (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)

    @property
    def is_quantized(self) -> bool:
        """Whether activations of this type carry a scale chosen by calibration."""
        return self in (DType.INT8, DType.INT16)

    @property
    def qmin(self) -> int:
        """Least integer of an activation (-128 for int8)."""
        return -(1 << (8 * self.itemsize - 1))

    @property
    def qmax(self) -> int:
        """Largest integer of an activation (127 for int8); scale = threshold / qmax."""
        return (1 << (8 * self.itemsize - 1)) - 1

    @classmethod
    def of(cls, array: np.ndarray) -> DType:
        """The DType of a numpy array.

        Raises:
            ValueError: for types that no tensor here can have (strings, complex).
        """
        return cls(array.dtype.name)


def float32_positive(value: float) -> bool:
    """Whether a number is above 0 and finite, and float32 still has it as such: what scales and thresholds must be."""
    with np.errstate(over="ignore"):
        return bool(0 < np.float32(value) < np.inf)


def integers_as_floats(name: str, want: str, given: str) -> str:
    """The warning on integers for an input of floats, which are often pixels that lack the model's preprocessing."""
    return f"input '{name}' takes {want}; the {given} given are taken as they are, without preprocessing"
