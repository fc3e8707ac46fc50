"""Rules of the qconfig as texts of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bpuc.base.errors import UsageError, did_you_mean
from bpuc.config import values
from bpuc.config.qconfig import QuantRule


def read_rules(text: str) -> list[QuantRule]:
    """`NAME:KEY=VALUE[,KEY=VALUE...]`, with the keys of `bpuc: quantize: ops`; other keys are options of the observer.

    One rule; where a key comes again, one more with what is said until there, so that the later wins as always.

    Raises:
        UsageError: it cannot be read, a value is none of its key, or an option comes without an observer.
    """
    found = re.fullmatch(r"(.+):(\w+=.*)", text)
    if found is None:
        raise UsageError(
            f"--quant {text}: cannot be read", want="NAME:KEY=VALUE[,KEY=VALUE...]", hint="as in conv1:output=int16"
        )
    given: dict[str, Any] = {}
    options: dict[str, str | float] = {}
    rules: list[QuantRule] = []
    for pair in found[2].split(","):
        key, _, value = pair.partition("=")
        if key in given or key in options:
            rules.append(QuantRule(found[1], **given, observer_options=dict(options), source=f"--quant {found[1]}"))
        try:
            if key in _READERS:
                given[key] = _READERS[key](value)
            else:
                options[key] = value
        except ValueError as e:
            raise UsageError(f"--quant {text}: {key}: {e}") from None
    if options and "observer" not in given:
        key = min(options)
        raise UsageError(
            f"--quant {text}: there is no key {key!r}",
            want=f"one of {', '.join(_READERS)}; options of an observer come with observer=NAME",
            hint=did_you_mean(key, list(_READERS)),
        )
    return [*rules, QuantRule(found[1], **given, observer_options=options, source=f"--quant {found[1]}")]


_READERS: dict[str, Callable[[Any], Any]] = {
    "input": values.dtype,
    "weight": values.dtype,
    "output": values.dtype,
    "observer": values.text,
    "fixed_scale": values.scale,
    "high_precision": values.flag,
    "share_observer_with": values.text,
    "device": values.one_of(("BPU", "CPU"), upper=True),
}
