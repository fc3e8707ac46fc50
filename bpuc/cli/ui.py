"""What all commands share in talking to a person or a program: warnings, notes, progress, JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from bpuc.base.errors import FileError
from bpuc.base.files import check_writable, write_together

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
QUIET = "bpuc.quiet"
QUIET_HELP = "No progress and no notes; warnings and errors stay."


def quiet() -> bool:
    """Whether ``--quiet`` was given."""
    ctx = click.get_current_context(silent=True)
    return bool(ctx and ctx.meta.get(QUIET))


def _obeys() -> bool:
    """Whether stderr is a terminal that knows control sequences."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, **style: Any) -> str:
    """Colour for stderr: only on a terminal, never with NO_COLOR."""
    return click.style(text, **style) if _obeys() and not os.environ.get("NO_COLOR") else text


def harmless(text: str) -> str:
    """The text with control characters written out, as names of a model may hold what a terminal obeys."""
    return "".join(c if c in "\n\t" or c.isprintable() else repr(c)[1:-1] for c in text)


def error(text: str) -> None:
    """A message of failure on stderr."""
    _say(text, fg="red")


def usage_error(e: click.ClickException) -> None:
    """What click found wrong, on stderr, in the form that click gives it."""
    ctx = e.ctx if isinstance(e, click.UsageError) else None
    if ctx is not None:
        click.echo(ctx.get_usage(), err=True)
        click.echo(f"Try '{ctx.command_path} {ctx.help_option_names[-1]}' for help.\n", err=True)
    _say(f"Error: {e.format_message()}", fg="red")


def warn(text: str) -> None:
    """Something the user should look at although the command goes on; not silenced by ``--quiet``."""
    _say(f"warning: {text}", fg="yellow")


def note(text: str) -> None:
    """Progress and remarks on stderr."""
    if not quiet():
        click.echo(fit(harmless(text)), err=True)


def _say(text: str, fg: str) -> None:
    head, colon, rest = fit(harmless(text)).partition(":")
    click.echo(paint(head + colon, fg=fg, bold=True) + rest, err=True)


def fit(text: str) -> str:
    """The text in lines of a terminal on stderr; as it is where there is none, since a program may look for words.

    Lines break at blanks alone, and not in quotes, so that names, paths and commands can be copied.
    """
    if not sys.stderr.isatty():
        return text
    from bpuc.report.plain import wrap_words

    width = _columns()
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(wrap_words(_WORDS.findall(line), width, indent + "  ", indent))
    return "\n".join(lines)


# what stands in quotes or backticks is one word, with all that touches it
_WORDS = re.compile(r"""(?:(?<!\S)\W?(?:`[^`]*`|'[^']*')(?!\w))\S*|\S+""")


def _columns() -> int:
    """Width of the terminal on stderr; stdout, which shutil asks, may go elsewhere."""
    try:
        found = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        found = 0
    return shutil.get_terminal_size().columns if "COLUMNS" in os.environ or not found else found


@contextmanager
def progress(items: Iterable[T], label: str, length: int | None = None) -> Iterator[Iterable[T]]:
    """A progress bar with rate and time left on a terminal; elsewhere, and with ``--quiet``, the items alone."""
    if quiet() or not _obeys():
        yield items
        return
    start = time.monotonic()

    def rate(_: T | None) -> str:
        return f"{bar.pos / max(time.monotonic() - start, 1e-3):.1f}/s"

    bar = click.progressbar(
        items, length=length, label=label, file=sys.stderr, show_eta=True, show_pos=True, item_show_func=rate
    )
    with bar:
        yield bar


def _check_json(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    if value is not None and value != "-":
        check_writable(value)
    return value


def json_option(f: F) -> F:
    """The option ``--json FILE|-``, passed as `json_to`; an impossible FILE is refused before any work."""
    return click.option(
        "--json", "json_to", metavar="FILE", callback=_check_json, help="Write the result as JSON; '-' is stdout."
    )(f)


def emit(text: str, value: Any, json_to: str | None, files: Mapping[str, bytes | str] | None = None) -> None:
    """The result of a command: `text` on stdout, `value` as JSON where asked; ``-`` replaces the text.

    files: what else to write, by path; with the JSON file all are written or none.

    Raises:
        FileError: the result cannot be written; stdout is closed and no file was named.
    """
    if sys.stdout is None and json_to in (None, "-"):
        raise FileError("standard output is closed, and the result goes there", hint="--json FILE keeps it")
    raw = "" if json_to is None else to_json(value)
    written: dict[str, bytes | str] = dict(files or {})
    if json_to not in (None, "-"):
        written[json_to] = raw
    write_together(written)
    click.echo(raw if json_to == "-" else text, nl=json_to != "-")


def to_json(value: Any) -> str:
    """JSON as all files and stdout have it. NaN and infinity are a bug and raise ValueError."""
    return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
