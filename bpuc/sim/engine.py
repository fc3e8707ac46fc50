"""What the two engines have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


class Engine(Protocol):
    """Carries out a program; built as ``Engine(program, threads=None, tensors=())``.

    `tensors` names the `TensorSymbol`s whose values are wanted beside the outputs.
    """

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """One inference.

        Args:
            feeds: for every input port one sample of the port's shape and dtype, already checked.

        Returns:
            The value of every output port in its declared type, and for every name in `tensors` the stored value
            right after its instruction (integers for quantized tensors). Where an output port and a wanted tensor
            have the same name, the entry is the tensor's: the port's value follows from it by its scale. All arrays
            are copies in C order.

        Raises:
            BpucError: the program cannot be carried out; the message names the instruction or the ONNX node.
        """
        ...
