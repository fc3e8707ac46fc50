"""What an observer is.

An observer sees the values of one tensor, array by array, and answers with a threshold: the largest magnitude that
stays representable. The scale is threshold / qmax (127 for int8). Observers know no graph; each has a file here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import DataError
from bpuc.base.tail import Tail

Self = TypeVar("Self", bound="Observer")
Ends = tuple[float, float]  # least and largest value of an array, NaN where one is

# Below this a tensor counts as all zero: its scale could not be divided by safely in float32.
LEAST_THRESHOLD = 2.0**-100
# The answer where nothing but zeros was seen. Any positive number represents zero exactly; 1 keeps every later ratio
# of scales in range. `range()` is (0, 0) then, by which a scale group can leave such a member out.
ZERO_THRESHOLD = 1.0


@dataclass(frozen=True)
class NoOptions:
    """Options of an observer that has none."""


class Observer(ABC):
    """Base of all observers.

    Subclasses set `name` (as on the command line) and `Options` (a frozen dataclass whose fields are the options), and
    implement the methods below. `Options.__post_init__` raises ConfigError for a value out of range.
    """

    name: ClassVar[str]
    Options: ClassVar[type[Any]] = NoOptions

    def __init__(self, options: Any = None):
        self.options = self.Options() if options is None else options

    @property
    def order_free(self) -> bool:
        """Whether no order of updates changes the answer; if not, samples must come one after another."""
        return True

    @property
    def joins(self) -> bool:
        """Whether `merge` is the same as seeing the other's values, be they of one tensor or of two."""
        return self.order_free

    @abstractmethod
    def update(self, array: npt.NDArray[Any], ends: Ends | None = None) -> None:
        """See the values of an array of any shape and real dtype; an empty one changes nothing.

        Args:
            ends: of the array as float32, where they are known.

        Raises:
            DataError: the array holds NaN or infinity; the caller adds the tensor's name.
        """

    @abstractmethod
    def merge(self: Self, other: Self) -> None:
        """Take over what `other`, an observer of the same kind and options, has seen after this one."""

    @abstractmethod
    def range(self) -> tuple[float, float]:
        """Least and largest value seen, (0, 0) before the first."""

    @abstractmethod
    def _threshold(self, qmax: int) -> float:
        """The threshold where a non-zero value has been seen."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """What was seen, as JSON types."""

    @abstractmethod
    def _load(self, state: Mapping[str, Any]) -> None:
        """The inverse of `_state`."""

    def tail(self, near: float) -> Tail | None:  # noqa: ARG002
        """How many values lie beyond any magnitude, bin by bin near that one, where the observer has counted them."""
        return None

    def threshold(self, qmax: int = 127) -> float:
        """The threshold for integers up to `qmax`; always finite and above zero."""
        lo, hi = self.range()
        if max(-lo, hi) < LEAST_THRESHOLD:
            return ZERO_THRESHOLD
        return max(float(self._threshold(qmax)), LEAST_THRESHOLD)

    def state(self) -> dict[str, Any]:
        """Name, options and all that was seen, in JSON types; `from_state` gives an equal observer."""
        return {"observer": self.name, "options": asdict(self.options), **self._state()}

    @classmethod
    def from_state(cls: type[Self], state: Mapping[str, Any]) -> Self:
        """An observer that goes on from a `state()`."""
        observer = cls(cls.Options(**state["options"]))
        observer._load(state)
        return observer


def as_float32(array: npt.NDArray[Any], ends: Ends | None = None) -> tuple[npt.NDArray[np.float32], float, float]:
    """The values as one flat float32 array, with the least and the largest (0, 0 when there are none).

    Args:
        ends: the least and the largest, where they are known.

    Raises:
        DataError: a value is NaN, infinite or beyond float32.
    """
    with np.errstate(over="ignore"):
        flat = np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
    if flat.size == 0:
        return flat, 0.0, 0.0
    lo, hi = ends or (float(flat.min()), float(flat.max()))  # both carry a NaN on, so no second pass is needed
    if not (np.isfinite(lo) and np.isfinite(hi)):
        raise DataError("a value is NaN or infinite", want="finite values", hint="look at the data and at the model")
    return flat, lo, hi
