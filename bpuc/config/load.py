"""Reading a configuration file: YAML text to Config, with all mistakes told at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bpuc.base.errors import ConfigError, did_you_mean
from bpuc.base.files import read_bytes
from bpuc.config.config import Config
from bpuc.config.lines import Lines
from bpuc.config.report import Report
from bpuc.config.schema import Document, Section
from bpuc.config.translate import to_config
from bpuc.config.traps import check_traps
from bpuc.config.values import blank

KEPT = ("quant_config", "templates")


def load_config(
    path: str | os.PathLike[str],
    *,
    marches: Collection[str] | None = None,
    observers: Collection[str] | None = None,
    march: str | None = None,
    cores: Mapping[str, int] | None = None,
) -> Config:
    """Read a YAML configuration.

    Paths in it are relative to its folder; what is not there but in the current folder is taken from there, as the
    vendor's tools do.

    Args:
        path: the file.
        marches: known machines, to check the march with its line; None skips the check.
        observers: known observers, likewise.
        march: the machine where the file is not to say so. cores: BPU cores of each, to check core_num.

    Raises:
        FileError: it cannot be read.
        ConfigError: it is no YAML, or holds mistakes; the message lists all of them with file and line.
    """
    p = Path(path)
    raw = read_bytes(p, "configuration")
    try:
        lines = Lines(raw.decode("utf-8"))
    except UnicodeDecodeError as e:
        raise ConfigError("it is no text in UTF-8", where=f"{p}:{raw[: e.start].count(10) + 1}") from e
    report = Report(p, lines)
    document = _document(lines.data, report)
    _check_fates(document, (), report)
    check_traps(document, report, march or document.model_parameters.march, cores or {})
    config = to_config(document, report, marches, observers, march or document.model_parameters.march)
    report.raise_mistakes()
    return config


def _document(data: Any, report: Report) -> Document:
    """The checked document; keys with mistakes are reported and left out, so that the rest can be checked too."""
    if not isinstance(data, Mapping):
        if not report.mistakes:
            report.mistake((), "it holds no sections", f"known are {', '.join(Document.model_fields)}")
        return Document()
    data = _without_blanks(data, Document)
    try:
        return Document.model_validate(data)
    except ValidationError as e:
        for error in e.errors():
            loc = tuple(part for part in error["loc"] if part != "[key]")
            report.mistake(loc, *_told(loc, error))
            _drop(data, loc)
    return Document.model_validate(data)


def _told(loc: tuple[Any, ...], error: Any) -> tuple[str, str | None]:
    """What pydantic found, in words, and a hint."""
    kind, value = error["type"], error["input"]
    if kind == "extra_forbidden":
        return "there is no such key", _where_to_find(loc)
    if kind == "value_error":
        return str(error["ctx"]["error"]), None
    if kind in ("model_type", "dict_type"):
        return f"keys with values were expected below it, not {value!r}", None
    return f"{error['msg'].replace('Input should', 'it should')}, not {value!r}", None


def _where_to_find(loc: tuple[Any, ...]) -> str | None:
    """A hint for an unknown key: the near word in its section, or the section that has it."""
    *above, key = map(str, loc)
    section: type[Section] = Document
    for part in above:
        section = _sections(section).get(part, section)  # else the name of an op: its keys are those of all
    close = did_you_mean(key, list(section.model_fields))
    for name, other in _sections(Document).items():
        if key in other.model_fields and name not in above:
            return f"it belongs under {name}"
    return close or (f"known here are {', '.join(section.model_fields)}" if above else None)


def _sections(model: type[Section]) -> dict[str, type[Section]]:
    """Name -> class of the sections directly inside a section, or below names of the user's inside it."""
    out = {}
    for name, info in model.model_fields.items():
        inner = getattr(info.annotation, "__args__", ())
        for kind in (info.annotation, *inner, *(v for i in inner for v in getattr(i, "__args__", ()))):
            if isinstance(kind, type) and issubclass(kind, Section):
                out[name] = kind
    return out


def _without_blanks(data: Any, section: type[Section] | None = None) -> Any:
    """A copy with text keys, and without keys that say nothing: empty text, null, an empty mapping or list.

    Keys that `section` does not have stay, to be refused; below a mapping from the user's own names (`ops`) are the
    keys of its section. What KEPT names is left as it is: who reads it knows its keys.
    """
    if not isinstance(data, Mapping):
        return data
    inner: dict[str, type[Section]] = {} if section is None else _sections(section)
    out = {}
    for k, value in data.items():
        key = "ON" if k is True else str(k)
        if key in inner and section is not None and _of_names(section, key) and isinstance(value, Mapping):
            value = {str(name): _without_blanks(v, inner[key]) for name, v in value.items()}
            value = {name: v for name, v in value.items() if not blank(v)}
        elif section is None or key not in KEPT:
            value = _without_blanks(value, inner.get(key))
        if not blank(value) or (section is not None and key not in section.model_fields):
            out[key] = value
    return out


def _of_names(section: type[Section], key: str) -> bool:
    """Whether the key holds a mapping from names to sections, not a section itself."""
    kind = section.model_fields[key].annotation
    return not (isinstance(kind, type) and issubclass(kind, Section)) and not any(
        isinstance(k, type) and issubclass(k, Section) for k in getattr(kind, "__args__", ())
    )


def _drop(data: Any, loc: tuple[Any, ...]) -> None:
    """Remove the key at `loc`, or the innermost one around it that is there."""
    for key in loc[:-1]:
        if not isinstance(data.get(key), dict):
            break
        data = data[key]
    else:
        key = loc[-1]
    data.pop(key, None)


def _check_fates(section: Section, path: tuple[str, ...], report: Report) -> None:
    """Report refused keys and note those without effect, in a section and below."""
    for key, info in type(section).model_fields.items():
        value, extra = getattr(section, key), info.json_schema_extra
        if isinstance(value, Section):
            _check_fates(value, (*path, key), report)
        elif value is not None and isinstance(extra, dict):
            usual = extra.get("usual")
            if extra["fate"] == "refused":
                report.mistake((*path, key), f"it is not supported: {info.description}")
            elif isinstance(usual, list) and str(value) not in usual:
                report.note((*path, key), f"it has no effect here: {info.description}")
