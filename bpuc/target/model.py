"""The immutable description of one march, as read from a ``target.toml``.

Every number and every rule carries an *origin*: ``known`` (stated in public), ``fitted`` (estimated from published
measurements), ``derived`` (follows from known facts by a stated argument) or ``assumed`` (a guess that nothing public
contradicts). This module only holds data; `bpuc.support` applies the rules to operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from bpuc.base.errors import ConfigError, UsageError, did_you_mean
from bpuc.target.hardware import wanted

Origin = Literal["known", "fitted", "assumed", "derived"]
Place = Literal["bpu", "manual", "cpu"]
SANE = 1000  # a number that a user sets is at most this factor away from the target's own
GIVEN: Literal["given"] = "given"  # the origin of a hardware number that the user set


@dataclass(frozen=True)
class Quantity:
    """A hardware number: its value, unit and where it comes from."""

    value: float
    unit: str
    origin: Origin | Literal["given"]
    source: str


@dataclass(frozen=True)
class Accuracy:
    """How far the estimate was from measurements: relative errors of the busy time of one BPU core, in percent.

    Attributes:
        mean_percent, worst_percent: over the `models` that the estimate was held against.
        held_out_percent: mean over families of models that the fit had not seen; None where that was not done.
    """

    mean_percent: float
    worst_percent: float
    models: int
    source: str
    held_out_percent: float | None = None


@dataclass(frozen=True)
class Limit:
    """One clause of a rule.

    Exactly one of `range` (closed), `one_of`, `multiple_of` applies to `fields` (several fields: their product), or
    `check` names a predicate of `bpuc.support.predicates`, which gets `args`. `reason` is the clause in words: the
    diagnostic and the documentation print this text.
    """

    reason: str
    origin: Origin
    source: str
    fields: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    one_of: tuple[Any, ...] | None = None
    multiple_of: int | None = None
    check: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OpRule:
    """What one march takes of one operator.

    Attributes:
        op: ONNX operator type, or ``Table`` for a fused chain of element-wise operators.
        place: ``bpu``; ``manual`` (BPU only when the user asks); ``cpu`` (never on the BPU).
        dtypes: activation types it computes in.
        rank: least and greatest rank of its activations; lower ranks are viewed as rank 4 by leading 1s.
        limits: all of them must hold.
        like: another operator type whose rules decide, with this operator's shapes.
        parts: operators that this one is made of; each must be supported with the shapes that it would get. For
            ``Table``: operators that a chain of two or more may hold whatever their own rules say.
        reason: the rule in words.
    """

    op: str
    place: Place
    dtypes: tuple[str, ...]
    rank: tuple[int, int]
    limits: tuple[Limit, ...]
    reason: str
    origin: Origin
    source: str
    like: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScaleRule:
    """How the scales of an operator's tensors are tied.

    `rule` is ``all-equal`` (all inputs and the output share one scale) or ``transparent`` (the output carries the
    scale of the first input). It holds only where every attribute in `when` has one of the listed values.
    """

    rule: Literal["all-equal", "transparent"]
    reason: str
    origin: Origin
    source: str
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """One march.

    `hardware` may hold keys beyond those the kernel reads; their names end in a unit where they have one.
    """

    march: str
    family: str
    chips: tuple[str, ...]
    description: str
    hardware: Mapping[str, Quantity]
    int16_activations: bool
    int16_weights: bool
    rules: Mapping[str, tuple[OpRule, ...]]
    general: tuple[Limit, ...]
    scale_rules: Mapping[str, ScaleRule]
    notes: Mapping[str, str] = field(default_factory=dict)
    accuracy: Accuracy | None = None
    # whether a last Conv or MatMul may give its accumulator
    int32_outputs: bool = True

    def hw(self, name: str) -> float:
        """The value of a hardware number.

        Raises:
            ConfigError: the target has no such number.
        """
        try:
            return self.hardware[name].value
        except KeyError:
            raise ConfigError(
                f"target {self.march} has no hardware number {name!r}",
                hint=did_you_mean(name, list(self.hardware)) or f"`bpuc targets {self.march}` lists them",
            ) from None

    def with_given(self, overrides: Mapping[str, float]) -> Target:
        """As `with_hardware`, for numbers of the user's.

        Raises:
            ConfigError: an unknown name, or a number more than a factor of SANE away from the target's own.
            UsageError: a number that cannot be, of any target.
        """
        for name, value in overrides.items():
            own, want = self.hw(name), wanted(name, value)
            if want:
                raise UsageError(f"--hw {name}={value:g} cannot be", want=want)
            if value > 0 and not own / SANE <= value <= own * SANE:
                raise ConfigError(
                    f"--hw {name}={value:g} is too far from the {own:g} of {self.march}",
                    want=f"{own / SANE:g} to {own * SANE:g}",
                    hint=f"`bpuc targets {self.march}` lists the numbers with their units",
                )
        return self.with_hardware(overrides)

    def with_hardware(self, overrides: Mapping[str, float]) -> Target:
        """The same target with other hardware numbers, whose origin becomes ``given``; its accuracy is then unknown.

        Raises:
            ConfigError: a name that this target does not have.
        """
        changed = dict(self.hardware)
        for name, value in overrides.items():
            self.hw(name)
            changed[name] = replace(changed[name], value=float(value), origin=GIVEN, source="set by the user")
        return replace(self, hardware=MappingProxyType(changed), accuracy=None) if overrides else self
