"""The section `bpuc: quantize:`: templates, and rules for ops and tensors by name, pattern or op type."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from bpuc.base.errors import BpucError, did_you_mean
from bpuc.config import values
from bpuc.config.qconfig import QuantRule, Table, Templates, read_table, read_templates, sensitive_rules, table_rows
from bpuc.config.report import Report
from bpuc.config.schema import QuantizeOp, QuantizeSection

KEY = ("bpuc", "quantize")


def read_quantize(
    section: QuantizeSection | None, report: Report, observers: Collection[str] | None
) -> tuple[Templates | None, tuple[QuantRule, ...]]:
    """Templates (None: not said) and rules; mistakes go to the report."""
    if section is None:
        return None, ()
    rules = []
    for name, op in (section.ops or {}).items():
        key = (*KEY, "ops", name)
        if op.observer is not None and observers is not None and op.observer not in observers:
            hint = did_you_mean(op.observer, list(observers))
            report.mistake((*key, "observer"), f"there is no observer {op.observer!r}", hint)
        rules.append(_rule(name, op))
    return None if section.templates is None else _templates(section.templates, report), tuple(rules)


def _rule(name: str, op: QuantizeOp) -> QuantRule:
    return QuantRule(
        name,
        input=op.input,
        weight=op.weight,
        output=op.output,
        observer=op.observer,
        observer_options=op.observer_opt or {},
        fixed_scale=op.fixed_scale,
        high_precision=op.high_precision,
        share_observer_with=op.share_observer_with,
        device=op.device,
        source="bpuc: quantize",
    )


def _templates(value: Any, report: Report) -> Templates | None:
    """Names, and mappings `{sensitive: {table: PATH or list, topk: N or ratio: R}}`, the first with priority."""
    key = (*KEY, "templates")
    entries = value if isinstance(value, list) else [value]
    rules: list[QuantRule] = []
    tables: list[Table] = []
    for index, entry in enumerate(entries):
        try:
            if isinstance(entry, dict):
                ((word, settings),) = entry.items()
                if word != "sensitive" or not isinstance(settings, dict):
                    raise ValueError(f"{{sensitive: {{table: ...}}}} was expected, not {entry!r}")
                unknown = [k for k in settings if k not in ("table", "topk", "ratio")]
                if unknown or values.blank(settings.get("table")):
                    raise ValueError(
                        f"sensitive has the keys table, topk and ratio, not {', '.join(map(str, settings))}"
                    )
                settings = {k: v for k, v in settings.items() if not values.blank(v)}
                table = settings["table"]
                if isinstance(table, str):
                    tables.append(read_table(report.path.parent / table))
                rows, source = (
                    (tables[-1].rows, tables[-1].source)
                    if isinstance(table, str)
                    else (table_rows(table), "template sensitive")
                )
                rules += sensitive_rules(rows, settings.get("topk"), settings.get("ratio"), source)
                continue
            found = read_templates([values.text(entry)], Path(report.path.parent))
        except (BpucError, ValueError) as e:
            text = (
                f"{e.message}; {e.want} was expected"
                if isinstance(e, BpucError) and e.want
                else str(getattr(e, "message", e))
            )
            report.mistake(key, text, getattr(e, "hint", None))
            return None
        rules += found.rules
        tables += found.tables
        if not found.rules:
            unused = tuple(map(str, entries[index + 1 :]))
            return Templates(found.whole, found.explicit, tuple(rules), unused, tuple(tables))
    return Templates(rules=tuple(rules), tables=tuple(tables))
