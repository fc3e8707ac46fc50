"""Which folder may import which library; import-linter has the rules between the project's own parts."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "networkx": {"ir"},
    "onnx": {"frontend", "execute", "sim", "backend.py"},
    "onnxruntime": {"frontend", "execute", "sim"},
    "click": {"cli"},
    "jinja2": {"report"},
    "pydantic": {"config", "target"},
    "yaml": {"config"},
    "PIL": {"data"},
}


def imported(source: str) -> set[str]:
    """Top-level packages that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def users(library: str) -> set[str]:
    """Folders of the kernel (or packages beside it) with a module that imports the library."""
    found = set()
    for top in ("bpuc", "passes/bpuc_passes", "targets/bpuc_targets"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if library in imported(path.read_text(encoding="utf-8")):
                found.add(path.relative_to(ROOT / "bpuc").parts[0] if top == "bpuc" else top)
    return found


def test_imports_are_found_in_every_form():
    source = "import a.b as c\nfrom d.e import f\nfrom . import g\ndef h():\n    import i, j\n"
    assert imported(source) == {"a", "d", "i", "j"}


@pytest.mark.parametrize("library", ALLOWED)
def test_library_stays_where_it_belongs(library):
    assert users(library) <= ALLOWED[library]


def test_the_search_sees_what_is_there():
    assert users("networkx") == {"ir"}
    assert users("jinja2") == {"report"}
