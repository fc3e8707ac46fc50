"""The question of this package: may this operator run on the BPU of that march, and if not, why not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bpuc.base.errors import ConfigError, did_you_mean
from bpuc.support.facts import OpFacts
from bpuc.support.fields import FIELDS
from bpuc.support.parts import chain_parts, part_facts
from bpuc.support.predicates import PREDICATES
from bpuc.target.model import Limit, OpRule, Target


@dataclass(frozen=True)
class Verdict:
    """The answer.

    Attributes:
        ok: it may run on the BPU.
        reason: why it may not, one sentence with the operator type, what was found and what the march takes; "" if it
            may.
        origin: origin of the rule that decided.
        int16: it may compute in int16.
        manual: it runs on the BPU only when the user asks for it.
    """

    ok: bool
    reason: str
    origin: str
    int16: bool
    manual: bool


def supports(facts: OpFacts, target: Target, dtype: str = "int8") -> Verdict:
    """Judge one operator by the rules of one march, with activations of type `dtype` (``int8`` or ``int16``)."""
    try:
        outcomes = [_judge(rule, facts, target, dtype) for rule in target.rules.get(facts.op_type, ())]
    except (IndexError, ValueError, ZeroDivisionError):
        # Shape inference lets some malformed nodes pass; the CPU's kernel is the one to complain.
        where = f"{facts.op_type} '{facts.name}' is not supported on the BPU of {target.march}"
        return Verdict(False, f"{where}: its shapes and attributes do not fit together", "derived", False, False)
    if not outcomes:
        reason = (
            f"{facts.op_type} is not supported on the BPU of {target.march}: no BPU row in the public operator list"
        )
        return Verdict(False, reason, "known", False, False)
    # Any alternative will do; where none does, the one that got furthest says best what is wrong.
    best = next((o for o in outcomes if not o.reason), None) or max(outcomes, key=lambda o: o.passed)
    return Verdict(not best.reason, best.reason, best.rule.origin, best.int16, best.rule.place == "manual")


@dataclass(frozen=True)
class _Outcome:
    """What one rule says: why not ("" if it may), how many of its clauses held before, whether int16 is possible."""

    rule: OpRule
    reason: str
    passed: int
    int16: bool


def _judge(rule: OpRule, facts: OpFacts, target: Target, dtype: str) -> _Outcome:
    op, march = _label(facts), target.march
    int16 = "int16" in rule.dtypes and target.int16_activations

    def outcome(reason: str, passed: int = 0) -> _Outcome:
        return _Outcome(rule, reason, passed, int16)

    if rule.place == "cpu":
        return outcome(f"{op} is not supported on the BPU of {march}: {rule.reason} ({rule.source})")
    if not _rank_ok(rule, facts):
        low, high = rule.rank
        return outcome(f"{op} on rank {_rank(facts)}: {march} takes rank {low}..{high} ({rule.source})")
    for i, limit in enumerate((*target.general, *rule.limits), start=1):
        found = _broken(limit, facts, dtype)
        if found:
            return outcome(f"{op} {found}: {march} takes {limit.reason} ({limit.source})", i)
    passed = 1 + len(target.general) + len(rule.limits)
    if rule.like:
        # The rank has been judged above; rules for rank 5 and more alone are another operator's business.
        others = [replace(r, rank=rule.rank) for r in target.rules[rule.like] if r.rank[0] <= 4]
        outcomes = [_judge(r, facts, target, dtype) for r in others]
        best = next((o for o in outcomes if not o.reason), None) or max(outcomes, key=lambda o: o.passed)
        return replace(best, rule=rule, passed=passed + best.passed)
    if dtype == "int16" and not target.int16_activations:
        return outcome(f"{op} in int16: {march} has no int16 activations ({target.notes.get('int16', '')})", passed)
    if dtype not in rule.dtypes:
        return outcome(f"{op} in {dtype}: {march} takes {' or '.join(rule.dtypes)} ({rule.source})", passed)
    for part in chain_parts(rule, facts) if facts.op_type == "Table" else part_facts(rule, facts):
        verdict = supports(part, target, dtype)
        int16 = int16 and verdict.int16
        if not verdict.ok:
            return outcome(f"{op} needs {part.op_type}, and {verdict.reason}", passed)
    return outcome("", passed)


def _label(facts: OpFacts) -> str:
    """The operator as a diagnostic names it; of a fused table also what it is made of."""
    parts = dict.fromkeys(map(str, facts.attrs.get("parts", ()))) if facts.op_type == "Table" else ()
    return f"{facts.op_type} ({', '.join(parts)})" if parts else facts.op_type


def _rank_ok(rule: OpRule, facts: OpFacts) -> bool:
    low, high = rule.rank
    # A lower rank is viewed as rank 4 by leading 1s, so a least rank counts only where it is above 4.
    return _rank(facts) <= high and (low <= 4 or _rank(facts) >= low)


def _rank(facts: OpFacts) -> int:
    return max((len(t.shape) for t in (*facts.activations, *facts.outputs)), default=0)


def _broken(limit: Limit, facts: OpFacts, dtype: str) -> str | None:
    """What breaks the limit, or None."""
    if limit.check:
        return PREDICATES[limit.check](facts, dtype, limit.args)
    columns = [FIELDS[name](facts, dtype) for name in limit.fields]
    if len(columns) > 1:
        if not all(columns):
            return None
        value = math.prod(c[0][1] for c in columns)
        what = ", ".join(dict.fromkeys(c[0][0] for c in columns))
        pairs = [(f"{what} (product {value})", value)]
    else:
        pairs = columns[0]
    return next((what for what, value in pairs if not _holds(limit, value)), None)


def _holds(limit: Limit, value: object) -> bool:
    if limit.range is not None:
        return isinstance(value, int | float) and limit.range[0] <= value <= limit.range[1]
    if limit.multiple_of is not None:
        return isinstance(value, int) and value % limit.multiple_of == 0
    return limit.one_of is not None and value in limit.one_of


def validate(target: Target) -> None:
    """Refuse a target whose rules name a field, a predicate or an operator that does not exist.

    Raises:
        ConfigError: with the name and the closest known ones.
    """
    rules = [r for rs in target.rules.values() for r in rs]
    for limit in (*target.general, *(lim for r in rules for lim in r.limits)):
        for name in limit.fields:
            if name not in FIELDS:
                _unknown(target, "field", name, list(FIELDS))
        if limit.check and limit.check not in PREDICATES:
            _unknown(target, "check", limit.check, list(PREDICATES))
    for rule in rules:
        if rule.like and (rule.like not in target.rules or rule.like == rule.op):
            _unknown(target, "operator to be like", rule.like, list(target.rules))


def _unknown(target: Target, what: str, name: str, known: list[str]) -> None:
    raise ConfigError(f"target {target.march} names an unknown {what} {name!r}", hint=did_you_mean(name, known))
