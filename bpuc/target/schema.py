"""The layout of a ``target.toml`` as pydantic models: what may be written, and what must be.

A rule without reason and origin does not pass, and a limit whose text does not name its bound does not either: the
text is the diagnostic and the documentation, so it must not part from the number.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bpuc.target.model import Origin, Place

Text = Field(min_length=3)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class QuantityToml(_Strict):
    """A row of ``[hardware]``."""

    value: float = Field(allow_inf_nan=False)
    unit: str
    origin: Origin
    source: str = Text


class AccuracyToml(_Strict):
    """``[accuracy]``: errors of the latency estimate against published measurements, in percent."""

    mean_percent: float = Field(ge=0, allow_inf_nan=False)
    worst_percent: float = Field(ge=0, allow_inf_nan=False)
    models: int = Field(gt=0)
    source: str = Text
    held_out_percent: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class LimitToml(_Strict):
    """A row of ``limits``; origin and source default to those of its rule."""

    reason: str = Text
    field: str = ""
    product: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    one_of: tuple[Any, ...] | None = None
    multiple_of: int | None = Field(default=None, gt=0)
    check: str = ""
    args: dict[str, Any] = {}
    origin: Origin | None = None
    source: str = ""

    @model_validator(mode="after")
    def _one_form(self) -> LimitToml:
        forms = [self.range is not None, self.one_of is not None, self.multiple_of is not None, bool(self.check)]
        if sum(forms) != 1:
            raise ValueError("a limit has exactly one of range, one_of, multiple_of, check")
        if bool(self.check) == bool(self.field or self.product) or (self.field and self.product):
            raise ValueError("range, one_of and multiple_of need either field or product; check takes neither")
        if self.range is not None:
            low, high = self.range
            if not low <= high:
                raise ValueError(f"range [{low:g}, {high:g}] is empty")
            if math.isfinite(high) and f"{high:.0f}" not in self.reason:
                raise ValueError(f"the reason {self.reason!r} does not name the bound {high:.0f}")
        return self


class RuleToml(_Strict):
    """A ``[[op]]`` table: one rule for one or several operators."""

    ops: tuple[str, ...] = Field(min_length=1)
    reason: str = Text
    origin: Origin
    source: str = ""
    place: Place = "bpu"
    dtypes: tuple[Literal["int8", "int16"], ...] = ("int8",)
    rank: tuple[int, int] | None = None
    like: str = ""
    parts: tuple[str, ...] = ()
    limits: tuple[LimitToml, ...] = ()


class GeneralToml(_Strict):
    """``[general]``: what holds for the activations of every BPU operator."""

    rank: tuple[int, int]
    origin: Origin
    source: str = ""
    limits: tuple[LimitToml, ...] = ()


class Int16Toml(_Strict):
    """``[int16]``: where 16-bit integers may be used."""

    activations: bool
    weights: bool
    reason: str = Text
    origin: Origin


class OutputsToml(_Strict):
    """``[outputs]``: whether a last Conv or MatMul may give its accumulator, int32 with one scale a channel."""

    int32: bool
    reason: str = Text
    origin: Origin
    source: str = Text


class ScaleToml(_Strict):
    """A ``[[scale]]`` table."""

    ops: tuple[str, ...] = Field(min_length=1)
    rule: Literal["all-equal", "transparent"]
    reason: str = Text
    origin: Origin
    source: str = ""
    when: dict[str, tuple[Any, ...]] = {}


class VariantToml(_Strict):
    """``[variant.<march>]``: a march that differs from the file's common part in chips and numbers only."""

    chips: tuple[str, ...]
    description: str = Text
    hardware: dict[str, QuantityToml] = {}
    accuracy: AccuracyToml | None = None


class TargetToml(_Strict):
    """A whole file."""

    schema_version: Literal[1] = Field(alias="schema")
    family: str
    source: str = Text
    march: str = ""
    chips: tuple[str, ...] = ()
    description: str = ""
    like: str = ""
    hardware: dict[str, QuantityToml] = {}
    accuracy: AccuracyToml | None = None
    variant: dict[str, VariantToml] = {}
    int16: Int16Toml
    outputs: OutputsToml = OutputsToml(
        int32=True, reason="int32 results are taken to exist, as on the known marches", origin="assumed", source="none"
    )
    general: GeneralToml
    op: tuple[RuleToml, ...] = ()
    scale: tuple[ScaleToml, ...] = ()

    @model_validator(mode="after")
    def _march_or_variants(self) -> TargetToml:
        if bool(self.march) == bool(self.variant):
            raise ValueError("a file describes either one `march` or several [variant.<march>] tables")
        return self
