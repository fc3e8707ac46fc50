"""Reading the values that users write: names, numbers, shapes and dtypes, from text or from YAML's own types.

The functions raise ValueError with a sentence about the value; the caller knows the key or option and the line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from bpuc.base.dtypes import float32_positive
from bpuc.base.errors import did_you_mean

DTYPES = ("int8", "int16")


def text(value: Any) -> str:
    """One word or path; numbers are taken as they are written, as a name may be one."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"a text was expected, not {_kind(value)}")
    return str(value).strip()


def split(value: Any, separators: str = ";") -> tuple[str, ...]:
    """A list of texts: a YAML list, or one text cut at the separators. Empty pieces at the end are dropped."""
    if isinstance(value, (list, tuple)):
        return tuple(text(v) for v in value)
    pieces = [p.strip() for p in re.split(f"[{separators}]", text(value))]
    while pieces and not pieces[-1]:
        pieces.pop()
    return tuple(pieces)


def names(value: Any) -> tuple[str, ...]:
    """Names cut at `;`, without empty ones."""
    return tuple(n for n in split(value) if n)


def words(value: Any) -> tuple[str, ...]:
    """Words cut at commas, `;` and spaces."""
    return tuple(w for w in split(value, ",;\\s") if w)


def blank(value: Any) -> bool:
    """Whether it says nothing: null, empty text, an empty mapping or list."""
    return value is None or value in ("", {}, [])


def number(value: Any) -> float:
    """A finite number; text as Python reads it, so that 1e-3 is one (YAML 1.1 takes it for text)."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"a number was expected, not {_kind(value)}")
    try:
        out = float(value)
    except ValueError:
        raise ValueError(f"a number was expected, not {value!r}") from None
    if not math.isfinite(out):
        raise ValueError(f"a finite number was expected, not {value!r}")
    return out


def no_flag(value: Any) -> Any:
    """The value as it stands, but for true and false (yes, no, on, off in YAML), which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError(f"a number was expected, not {_kind(value)}")
    return value


def flag(value: Any) -> bool:
    """True or false, also as the words that YAML does not take for them."""
    word = value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).strip().lower())
    if not isinstance(word, bool):
        raise ValueError(f"true or false was expected, not {value!r}")
    return word


def batch(value: Any) -> int:
    """A number of samples, 1 to 4096."""
    out = number(value)
    if out != int(out) or not 1 <= out <= 4096:
        raise ValueError(f"a whole number from 1 to 4096 was expected, not {value}")
    return int(out)


def scale(value: Any) -> float:
    """A scale: finite and above zero."""
    out = number(value)
    if not float32_positive(out):
        raise ValueError(f"a scale is above 0 and within float32, not {value}")
    return out


def fraction(value: Any) -> float:
    """The share of values that are not clipped, as the vendor's max_percentile: 0.5 to 1."""
    out = number(value)
    if not 0.5 <= out <= 1:
        raise ValueError(f"a number from 0.5 to 1 was expected, not {value}; bpuc: observer_opt takes percent")
    return out


def numbers(value: Any) -> tuple[float, ...]:
    """Numbers cut at spaces or commas, or a list of numbers."""
    if isinstance(value, (list, tuple)):
        return tuple(number(v) for v in value)
    return tuple(number(w) for w in words(value))


def numbers_per_input(value: Any) -> tuple[tuple[float, ...], ...]:
    """Numbers of each input, inputs cut at `;`; the word None stands for an input without."""
    if isinstance(value, (list, tuple)):
        return (numbers(value),)
    return tuple(() if part in ("", "None") else numbers(part) for part in split(value))


def shape(value: Any) -> tuple[int, ...]:
    """A shape such as 1x3x224x224, or a list of whole numbers; every size at least 1."""
    parts = list(value) if isinstance(value, (list, tuple)) else re.split(r"\s*[xX,]\s*", text(value))
    try:
        out = tuple(int(str(p)) for p in parts)
    except ValueError:
        out = ()
    if not out or min(out) < 1:
        raise ValueError(f"a shape such as 1x3x224x224 was expected, not {value!r}")
    return out


def shape_per_input(value: Any) -> tuple[tuple[int, ...], ...]:
    """Shapes of each input, cut at `;`."""
    return (shape(value),) if isinstance(value, (list, tuple)) else tuple(shape(part) for part in split(value))


def dtype(value: Any) -> str:
    """An element type that can be asked for."""
    return one_of(DTYPES)(value)


def one_of(known: Iterable[str], *, upper: bool = False) -> Callable[[Any], str]:
    """A reader of one word out of `known`."""
    words = list(known)

    def read(value: Any) -> str:
        word = text(value)
        word = word.upper() if upper else word
        if word not in words:
            hint = did_you_mean(word, words)
            raise ValueError(f"{word!r} is none of {', '.join(words)}" + (f"; {hint}" if hint else ""))
        return word

    return read


def each(read: Callable[[Any], str]) -> Callable[[Any], tuple[str, ...]]:
    """A reader of one word an input, cut at `;`."""
    return lambda value: tuple(read(v) for v in split(value))


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", dict: "a mapping", list: "a list", type(None): "nothing"}
    return kinds.get(type(value), f"{value!r}")
