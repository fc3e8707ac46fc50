"""The tables of docs/BENCHMARKS.md: each benchmark rewrites its own section."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "BENCHMARKS.md"
_HEAD = "# Benchmarks\n\nWritten by `make bench`. Times are of the machine named under each table.\n"


def write_section(title: str, text: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Replace or append the section `title`; returns the table as text."""
    table = "\n".join("| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows))
    section = f"## {title}\n\n{text}\n\n{table}\n\n{_machine()}\n"
    page = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else _HEAD
    old = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.S | re.M)
    if old.search(page):
        page = old.sub(lambda m: section + ("\n" if m.end() < len(page) else ""), page)
    else:
        page = page.rstrip("\n") + "\n\n" + section
    PAGE.write_text(page, encoding="utf-8")
    return table


def _machine() -> str:
    import numpy
    import onnxruntime

    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        found = re.search(r"^model name\s*: (.*)$", info.read_text(encoding="utf-8"), re.M)
        name = found.group(1) if found else name
    return (
        f"{name}, Python {platform.python_version()}, numpy {numpy.__version__}, onnxruntime {onnxruntime.__version__}"
    )
