"""The tables of the accuracy tools as CSV: one row a tensor, op or sample."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from bpuc.report.values import records, strings

_ROWS = {"compare": "tensors", "stats": "tensors", "sensitivity": "ops", "badcase": "rows"}
_JOINED = {"shape": "x"}


def tool_csv(tool: str, document: Mapping[str, Any]) -> str:
    """A line of headings, then a line a row, lines ending in a bare newline.

    Objects within a row become columns of their own (``float.min``); drawings and channels stay in the JSON.
    """
    rows = [dict(_flat(r)) for r in records(document, _ROWS[tool])]
    heads = list(dict.fromkeys(k for r in rows for k in r))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([["" if r.get(k) is None else r[k] for k in heads] for r in rows])
    return out.getvalue()


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if key in ("histogram", "channels"):
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, (list, tuple)):
            yield before + key, _JOINED.get(key, " ").join(strings(value))
        else:
            yield before + key, value
