"""Every file of the project says what it is, and is short enough to be read at one sitting."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 500
SOURCES = sorted(p for top in ("bpuc", "passes", "targets") for p in (ROOT / top).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_docstring_and_length(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LIMIT
    assert (ast.get_docstring(ast.parse(text)) or "").strip(), "no docstring"


def test_files_are_found():
    assert len(SOURCES) > 150
    assert ROOT / "passes/bpuc_passes/fold_pad.py" in SOURCES


@pytest.mark.parametrize("path", sorted((ROOT / "passes/bpuc_passes").glob("*.py")), ids=lambda p: p.stem)
def test_a_pass_has_a_file_of_its_own(path):
    classes = [n.name for n in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(n, ast.ClassDef)]
    passes = [n for n in classes if n.lower() == path.stem.replace("_", "")]
    assert len(passes) == (path.stem not in ("__init__", "pipelines"))
