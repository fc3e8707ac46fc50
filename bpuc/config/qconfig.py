"""How single ops and tensors are quantized: rules by name, pattern or op type, and templates that make rules.

A rule's name is a tensor, a node, a pattern with `*`, `?` or `[...]` over both, or an op type; the more exact name
wins, and of equally exact ones, key by key, the later: templates come first, then the file, then the command line. Of
several templates the first that says something of an op counts.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from bpuc.base.errors import ConfigError, FileError, did_you_mean
from bpuc.base.files import read_bytes

TEMPLATES = ("default", "int16", "sensitive")
_NAME = ("op_name", "name", "op", "mod_name", "node")
_KIND = ("sensitive_type", "kind", "type")
_VALUE = ("sensitivity", "metric", "value")
_KINDS = ("activation", "weight", "both")
# what `bpuc sensitivity` writes
SENSITIVITY_SCHEMA = "bpuc.sensitivity/1"


@dataclass(frozen=True)
class QuantRule:
    """What is asked for the ops or the tensor of a name; None: nothing.

    Attributes:
        match: see the module's docstring.
        input, weight, output: int8 or int16, of operands, constant weights and results.
        observer, observer_options: of the results. fixed_scale: of the result.
        high_precision: whether the accumulator is left as the result, where it can be.
        share_observer_with: another tensor or node, with whose result the result shares its range.
        device: CPU or BPU.
        source: where the rule comes from, for messages.
    """

    match: str
    input: str | None = None
    weight: str | None = None
    output: str | None = None
    observer: str | None = None
    observer_options: Mapping[str, str | float] = field(default_factory=dict)
    fixed_scale: float | None = None
    high_precision: bool | None = None
    share_observer_with: str | None = None
    device: str | None = None
    source: str = "qconfig"


@dataclass(frozen=True)
class Table:
    """Sensitive ops: (op, kind, sensitivity) a row; model and march that they were measured for, if it says so."""

    rows: list[tuple[str, str, float]]
    path: Path
    model_sha256: str | None = None
    march: str | None = None

    @property
    def source(self) -> str:
        """Of the rules that come from it."""
        return f"template sensitive={self.path}"


@dataclass(frozen=True)
class Templates:
    """What templates come to: the one for all ops that the rules before it do not name, and those rules.

    explicit: whether the default template was asked for by name, so that it tells where it falls short. tables: the
    files that rules come from.
    """

    whole: str = "default"
    explicit: bool = False
    rules: tuple[QuantRule, ...] = ()
    unused: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


def overruled(rules: Sequence[QuantRule]) -> list[str]:
    """A sentence for each key that two rules from one place give two values for one name."""
    keys = [f.name for f in fields(QuantRule) if f.name not in ("match", "observer_options", "source")]
    seen: dict[tuple[str, str, str], Any] = {}
    found = []
    for rule in rules:
        for key in keys:
            value: Any = getattr(rule, key)
            if value is None:
                continue
            value = (value, dict(rule.observer_options)) if key == "observer" else value
            before = seen.setdefault((rule.source, rule.match, key), value)
            if before != value:
                place = rule.source if rule.match in rule.source else f"{rule.source}: {rule.match}"
                found.append(f"{place}: {key} is given twice; the later counts, {_said(value)}, not {_said(before)}")
                seen[rule.source, rule.match, key] = value
    return found


def _said(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    name, options = value
    return ",".join([name, *(f"{k}={v}" for k, v in options.items())])


def read_templates(names: Sequence[str], folder: Path = Path(), fault: type[ConfigError] = ConfigError) -> Templates:
    """Templates in their order: `default`, `int16`, `sensitive=TABLE[,topk=N|,ratio=R]`.

    Raises:
        fault: an unknown template, or settings of one that cannot be read. ConfigError, FileError: the table is wrong.
    """
    rules: list[QuantRule] = []
    tables: list[Table] = []
    for index, text in enumerate(names):
        word, _, rest = text.partition("=")
        if word in ("default", "int16") and not rest:
            return Templates(word, word == "default", tuple(rules), tuple(names[index + 1 :]), tuple(tables))
        if word != "sensitive":
            raise fault(
                f"template {text}: there is no such template",
                want="default, int16 or sensitive=TABLE,topk=N",
                hint=did_you_mean(word, list(TEMPLATES)),
            )
        path, *options = rest.split(",")
        if not path:
            raise fault("template sensitive: no table was named", want="sensitive=TABLE,topk=N or ,ratio=R")
        settings = dict(o.partition("=")[::2] for o in options)
        unknown = set(settings) - {"topk", "ratio"}
        if unknown:
            raise fault(f"template {text}: {min(unknown)!r} is no option of it", want="topk=N or ratio=R")
        tables.append(read_table(folder / path))
        most = settings.get("topk"), settings.get("ratio")
        rules += sensitive_rules(tables[-1].rows, *most, tables[-1].source, fault)
    return Templates(rules=tuple(rules), tables=tuple(tables))


def read_table(path: Path) -> Table:
    """A table in JSON, YAML, CSV or text with a line of headings.

    Raises:
        FileError: it cannot be read. ConfigError: it is no such table.
    """
    try:
        text = read_bytes(path, "the table of sensitive ops").decode("utf-8")
    except UnicodeDecodeError as e:
        raise FileError(f"cannot read the table of sensitive ops {path}: {e}") from e
    try:
        if path.suffix.lower() == ".json":
            return _ranking(json.loads(text), path)
        if path.suffix.lower() in (".yaml", ".yml"):
            import yaml

            return Table(table_rows(yaml.safe_load(text)), path)
    except ConfigError as e:
        raise ConfigError(f"{path}: {e.message}", want=e.want) from None
    except Exception as e:  # of either parser
        raise ConfigError(f"{path} cannot be read: {e}", want="a list of ops with kind and sensitivity") from e
    lines = [line for line in text.splitlines() if line.strip() and set(line.strip()) - set("-=+| ")]
    comma = any("," in line for line in lines[:1])
    cells = (
        list(csv.reader(io.StringIO("\n".join(lines)))) if comma else [line.replace("|", " ").split() for line in lines]
    )
    if len(cells) < 2:
        raise ConfigError(f"{path} holds no table", want="a line of headings, then one line an op")
    heads = [c.strip().lower() for c in cells[0]]
    try:
        return Table(table_rows([dict(zip(heads, (c.strip() for c in row))) for row in cells[1:]]), path)
    except ConfigError as e:
        raise ConfigError(f"{path}: {e.message}", want=e.want) from None


def _ranking(value: Any, path: Path) -> Table:
    """The table of a document, unless it says that it is another one of bpuc's."""
    if isinstance(value, Mapping) and value.get("schema", SENSITIVITY_SCHEMA) != SENSITIVITY_SCHEMA:
        raise ConfigError(
            f"no table of sensitive ops: schema {value['schema']!r}",
            want=f"schema {SENSITIVITY_SCHEMA!r}, as bpuc sensitivity writes it, or a table of your own",
        )
    made_for = value if isinstance(value, Mapping) and "schema" in value else {}
    sha, march = (v if isinstance(v := made_for.get(k), str) else None for k in ("model_sha256", "march"))
    return Table(table_rows(value), path, sha, march)


def table_rows(value: Any) -> list[tuple[str, str, float]]:
    """The rows of a table given as data: mappings with a name, a kind and a sensitivity, or lists in that order.

    Raises:
        ConfigError: a row is neither.
    """
    if isinstance(value, Mapping):
        value = next(
            (v for v in value.values() if isinstance(v, list)), [{"op": k, "value": v} for k, v in value.items()]
        )
    if not isinstance(value, list) or not value:
        raise ConfigError(
            "the table of sensitive ops is empty or no list", want="a list of ops with kind and sensitivity"
        )
    rows = []
    for row in value:
        try:
            rows.append(_row(row))
        except (ValueError, TypeError, LookupError, StopIteration):
            raise ConfigError(
                f"a row of the table of sensitive ops cannot be read: {row!r}",
                want="op_name, sensitive_type (activation, weight or both) and one number, or one named sensitivity",
            ) from None
    return rows


def _row(row: Any) -> tuple[str, str, float]:
    if isinstance(row, Mapping):
        low = {str(k).lower(): v for k, v in row.items()}
        name = str(next(low[k] for k in _NAME if k in low))
        kind = str(next((low[k] for k in _KIND if str(low.get(k)) in _KINDS), "both"))
        named = [low[k] for k in _VALUE if k in low]
        numbers = named or [v for k, v in low.items() if k not in (*_NAME, *_KIND) and _is_number(v)]
        if len(numbers) > 1 and not named:
            raise ValueError  # which of them is meant?
        value = float(numbers[0])
    else:
        name, kind = str(row[0]), next((str(c) for c in row[1:] if str(c) in _KINDS), "both")
        value = float(next(c for c in reversed(row[1:]) if _is_number(c)))
    if not name or not math.isfinite(value):
        raise ValueError
    return name, kind, value


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def sensitive_rules(
    rows: Sequence[tuple[str, str, float]],
    topk: str | float | None = None,
    ratio: str | float | None = None,
    source: str = "template sensitive",
    fault: type[ConfigError] = ConfigError,
) -> list[QuantRule]:
    """int16 for the most sensitive rows: the `topk` first, or this part of all; all rows without either.

    The largest sensitivity is the worst, as with L1, MSE and KL.

    Raises:
        fault: `topk` or `ratio` is out of range, or both are given.
    """
    count = len(rows)
    try:
        if topk is not None and ratio is not None:
            raise ValueError
        if topk is not None:
            count = int(topk)
        if ratio is not None:
            count = math.ceil(float(ratio) * len(rows) - 1e-9) if 0 <= float(ratio) <= 1 else -1
        if count < 0:
            raise ValueError
    except ValueError:
        raise fault(
            "template sensitive: topk and ratio cannot be read", want="topk, 0 or more, or ratio, 0 to 1, not both"
        ) from None
    chosen: dict[str, set[str]] = {}
    for name, kind, _ in sorted(rows, key=lambda r: -r[2])[:count]:
        chosen.setdefault(name, set()).update(("activation", "weight") if kind == "both" else (kind,))
    return [
        QuantRule(
            name,
            input="int16" if "activation" in kinds else None,
            output="int16" if "activation" in kinds else None,
            weight="int16" if "weight" in kinds else None,
            source=source,
        )
        for name, kinds in chosen.items()
    ]
