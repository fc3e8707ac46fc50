"""perf.json as one self-contained HTML page: no network, no library, the same bytes for the same document.

Names in perf.json come from models of strangers. Three walls keep them text: Jinja escapes every expression, data for
the script is JSON in which ``<``, ``>`` and ``&`` are written as escapes, and a content security policy allows no
script but the one whose hash it names, and no request to anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bpuc.report.labels import LABELS
from bpuc.report.marchview import marches_context
from bpuc.report.tool_labels import TOOL_LABELS
from bpuc.report.toolview import tool_context
from bpuc.report.values import clean
from bpuc.report.view import context, op_data

_PARTS = (
    "tip",
    "pointer",
    "find",
    "tl_state",
    "tl_tracks",
    "tl_draw",
    "tl_input",
    "graph",
    "table",
    "roofline",
    "dock",
)
_STYLES = ("theme", "page", "summary", "canvas", "table", "floating", "narrow", "print")


def render_html(perf: Mapping[str, Any], title: str) -> str:
    """The page for a perf.json document.

    Args:
        perf: the document; values may be absent or null anywhere.
        title: shown as heading and in the browser's tab, usually the name of the model.
    """
    view = context(perf, title)
    data = {
        "ops": [op_data(o) for o in view["ops"]],
        "transfers": view["transfers"],
        "latency": view["latency"],
        "roofs": view["roofs"],
        "graph": view["graph"],
    }
    return _page("page", view, data, ("base", *_PARTS, "chrome", "main"))


def render_marches_html(document: Mapping[str, Any], title: str) -> str:
    """The page for a ``bpuc.perf-marches/1`` document: one model on every march."""
    return _page("marches", marches_context(document, title), {"ops": []}, ("base", "chrome", "marches"))


def render_tool_html(tool: str, document: Mapping[str, Any], title: str) -> str:
    """The page of an accuracy tool: "compare", "sensitivity", "badcase" or "stats"; curves need no script.

    Args:
        document: what the command writes as JSON.
    """
    view = tool_context(tool, document, title)
    return _page(tool, view, {"ops": []}, ("base", "chrome", "marches"), LABELS | TOOL_LABELS, (*_STYLES, "tool"))


def _page(
    name: str,
    view: Mapping[str, Any],
    data: dict[str, Any],
    scripts: Sequence[str],
    labels: Mapping[str, tuple[str, str]] = LABELS,
    styles: Sequence[str] = _STYLES,
) -> str:
    script = Markup("(() => {\n'use strict';\n" + "\n".join(_file(f"js/{n}.js") for n in scripts) + "})();")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    data["words"] = {"en": {k: en for k, (en, _) in labels.items()}, "zh": {k: zh for k, (_, zh) in labels.items()}}
    style = Markup("\n".join(_file(f"css/{n}.css") for n in styles))
    page = _environment().get_template(f"{name}.html.j2")
    return page.render(view, style=style, script=script, digest=digest, data=_json(data)).lstrip()


def _environment() -> Environment:
    env = Environment(
        loader=PackageLoader("bpuc.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_escaped,
    )
    env.globals["t"] = _label
    env.globals["word"] = _word
    env.globals["term"] = _term
    return env


def _escaped(value: Any) -> Any:
    """Escape as html.escape does: the same as autoescape, which still runs, but with ``&quot;`` for the quote."""
    return Markup(html.escape(value)) if type(value) is str else value


def _label(key: str) -> Markup:
    """An element with the English label, which the script may turn into Chinese."""
    return Markup('<span data-t="{}">{}</span>').format(key, _word(key))


def _term(kind: str, value: Any) -> str:
    """A word of the document from a closed set, such as what binds an op, as a label; any other as it is."""
    key = f"{kind}_{value}"
    return _label(key) if key in LABELS or key in TOOL_LABELS else clean(value)


def _word(key: str) -> str:
    return (LABELS.get(key) or TOOL_LABELS[key])[0]


def _json(data: Any) -> Markup:
    """JSON that cannot end the script element it stands in, whatever strings it holds."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _file(name: str) -> str:
    return (files("bpuc.report") / "templates" / name).read_text(encoding="utf-8")
