"""Documents point at files that exist, and both READMEs tell the same commands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIP = {".venv", "build", "dist", "node_modules", ".git"}
DOCUMENTS = [p for p in sorted(ROOT.rglob("*.md")) if not SKIP & set(p.relative_to(ROOT).parts)]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(path):
    links = [link for link in LINK.findall(path.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_links_are_found():
    assert LINK.findall("see [a](b/c.md), [d](e.md#part) and [f](https://g.h/i)") == ["b/c.md", "e.md", "https://g.h/i"]
    assert ROOT / "README.md" in DOCUMENTS


def commands(name: str) -> list[str]:
    """The shell lines of a README, comments cut off."""
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line.split("#")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def test_both_readmes_show_the_same_commands():
    assert len(commands("README.md")) > 5
    assert commands("README.md") == commands("README.zh-CN.md")


def test_every_command_is_in_the_readme():
    from bpuc.cli.main import COMMANDS

    for name in ("README.md", "README.zh-CN.md"):
        table = re.findall(r"^\| `([\w-]+)` \|", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert sorted(table) == sorted(COMMANDS)
