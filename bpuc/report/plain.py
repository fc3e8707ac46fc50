"""Plain text that fits a terminal: tables, wrapped paragraphs, and the width that a string takes there."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def width_of(text: str) -> int:
    """Columns that `text` takes: 2 for a wide character (Chinese, full width), 0 for a combining mark, else 1."""
    return sum(_char_width(ch) for ch in text)


def _char_width(ch: str) -> int:
    if unicodedata.combining(ch) or unicodedata.category(ch) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(ch) in "WF" else 1


def clip(text: str, width: int) -> str:
    """`text` within `width` columns; what is too long loses its front, since the end of an ONNX name tells most."""
    if width_of(text) <= width:
        return text
    return _head(text, width) if width < 5 else ".." + _head(text[::-1], width - 2)[::-1]


def _head(text: str, width: int) -> str:
    used = 0
    for i, ch in enumerate(text):
        used += _char_width(ch)
        if used > width:
            return text[:i]
    return text


def pad(text: str, width: int, right: bool = False) -> str:
    """`text` filled with blanks to `width` columns, at its left side when `right`."""
    fill = " " * max(0, width - width_of(text))
    return fill + text if right else text + fill


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int, gap: int = 2) -> str:
    """Rows under a head, `width` columns at most.

    The columns take what they need; when that is too much the first one (the name) is cut down, to 12 columns at least,
    and then the others, widest first.
    """
    lines = [head, *rows]
    need = [max(width_of(line[c]) for line in lines) for c in range(len(head))]
    room = width - gap * (len(head) - 1)
    need[0] = max(min(need[0], 12), min(need[0], room - sum(need[1:])))
    while sum(need) > room and max(need) > 1:
        need[need.index(max(need))] -= 1

    def line(cells: Sequence[str]) -> str:
        return (" " * gap).join(pad(clip(t, w), w, r) for t, w, r in zip(cells, need, right)).rstrip()

    return "\n".join([line(head), line(["-" * w for w in need]), *map(line, rows)])


def wrap_words(words: Sequence[str], width: int, indent: str = "", first: str | None = None) -> str:
    """As `wrap`, of words that stay whole: one that is longer than a line sticks out."""
    lines, start = [indent if first is None else first], True
    for word in words:
        if not start and width_of(lines[-1]) + 1 + width_of(word) > width:
            lines.append(indent)
            start = True
        lines[-1] += word if start else " " + word
        start = False
    return "\n".join(lines)


def wrap(text: str, width: int, indent: str = "", first: str | None = None) -> str:
    """Words of `text` in lines of `width` columns; `first` starts the first line, `indent` the others."""
    lines, line, blank = [], indent if first is None else first, False
    for word in text.split():
        while True:
            room = width - width_of(line) - blank
            if width_of(word) <= room:
                line, blank = line + " " * blank + word, True
                break
            if blank:
                lines.append(line)
                line, blank = indent, False
                continue
            part = _head(word, max(1, room)) or word[0]  # one word longer than a line
            lines.append(line + part)
            line, word = indent, word[len(part) :]
            if not word:
                break
    if blank or not lines:
        lines.append(line)
    return "\n".join(x.rstrip() for x in lines)
