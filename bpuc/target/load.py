"""Reading a ``target.toml`` into `Target` objects, one a march."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from bpuc.base.errors import ConfigError
from bpuc.base.files import read_bytes
from bpuc.target.model import Accuracy, Limit, OpRule, Origin, Quantity, ScaleRule, Target
from bpuc.target.schema import AccuracyToml, LimitToml, QuantityToml, RuleToml, TargetToml

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib


def load_target_toml(path: str | Path) -> list[Target]:
    """The marches that a file describes.

    With ``like = "../other/target.toml"`` every operator and scale rule that this file does not state is taken over
    from the other file, with origin ``assumed``.

    Raises:
        ConfigError: the file is no TOML, or a rule lacks its reason or origin, has an unknown key or an impossible
            range.
        FileError: the file cannot be read.
    """
    file = Path(path)
    doc = _parse(file)
    rules = _rules(doc)
    scales = {
        op: ScaleRule(s.rule, s.reason, s.origin, s.source or doc.source, MappingProxyType(s.when))
        for s in doc.scale
        for op in s.ops
    }
    if doc.like:
        model = load_target_toml(file.parent / doc.like)[0]
        rules = {op: tuple(_assumed(r, model.march) for r in rs) for op, rs in model.rules.items()} | rules
        scales = {
            op: replace(s, origin="assumed", source=f"as {model.march}") for op, s in model.scale_rules.items()
        } | scales
    common = Target(
        march=doc.march,
        family=doc.family,
        chips=doc.chips,
        description=doc.description,
        hardware=MappingProxyType({k: _quantity(q) for k, q in doc.hardware.items()}),
        int16_activations=doc.int16.activations,
        int16_weights=doc.int16.weights,
        int32_outputs=doc.outputs.int32,
        rules=MappingProxyType(rules),
        general=tuple(_limit(lim, doc.general.origin, doc.general.source or doc.source) for lim in doc.general.limits),
        scale_rules=MappingProxyType(scales),
        notes=MappingProxyType(
            {
                "int16": f"{doc.int16.reason} ({doc.int16.origin})",
                "outputs": f"{doc.outputs.reason} ({doc.outputs.origin}: {doc.outputs.source})",
            }
        ),
        accuracy=_accuracy(doc.accuracy),
    )
    if not doc.variant:
        return [common]
    return [
        replace(
            common,
            march=march,
            chips=v.chips,
            description=v.description,
            hardware=MappingProxyType({**common.hardware, **{k: _quantity(q) for k, q in v.hardware.items()}}),
            accuracy=_accuracy(v.accuracy),
        )
        for march, v in doc.variant.items()
    ]


def _parse(file: Path) -> TargetToml:
    text = read_bytes(file, "target description")
    try:
        return TargetToml.model_validate(tomllib.loads(text.decode("utf-8")))
    except ValidationError as e:
        problems = [f"{_key(err['loc'])}: {err['msg'].removeprefix('Value error, ')}" for err in e.errors()]
        raise ConfigError(f"{file.name} does not describe a target: " + "; ".join(problems), where=str(file)) from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ConfigError(f"{file.name} is no valid TOML: {e}", where=str(file)) from e


def _key(loc: Sequence[int | str]) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".") or "file"


def _quantity(q: QuantityToml) -> Quantity:
    return Quantity(q.value, q.unit, q.origin, q.source)


def _accuracy(a: AccuracyToml | None) -> Accuracy | None:
    return None if a is None else Accuracy(**a.model_dump())


def _limit(lim: LimitToml, origin: Origin, source: str) -> Limit:
    return Limit(
        reason=lim.reason,
        origin=lim.origin or origin,
        source=lim.source or source,
        fields=(lim.field,) if lim.field else lim.product,
        range=lim.range,
        one_of=lim.one_of,
        multiple_of=lim.multiple_of,
        check=lim.check,
        args=MappingProxyType(lim.args),
    )


def _rules(doc: TargetToml) -> dict[str, tuple[OpRule, ...]]:
    rules: dict[str, tuple[OpRule, ...]] = {}
    for r in doc.op:
        for op in r.ops:
            rules[op] = (*rules.get(op, ()), _rule(op, r, doc))
    return rules


def _rule(op: str, r: RuleToml, doc: TargetToml) -> OpRule:
    source = r.source or doc.source
    return OpRule(
        op=op,
        place=r.place,
        dtypes=tuple(r.dtypes),
        rank=r.rank or doc.general.rank,
        limits=tuple(_limit(lim, r.origin, source) for lim in r.limits),
        reason=r.reason,
        origin=r.origin,
        source=source,
        like=r.like,
        parts=r.parts,
    )


def _assumed(rule: OpRule, march: str) -> OpRule:
    source = f"as {march}"
    limits = tuple(replace(lim, origin="assumed", source=source) for lim in rule.limits)
    return replace(rule, limits=limits, origin="assumed", source=source)
