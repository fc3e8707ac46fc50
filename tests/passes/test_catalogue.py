"""The catalogue in passes/README.md is what the passes say today."""

from __future__ import annotations

from bpuc.plugins import pipeline
from bpuc.report import passes_doc


def test_the_readme_is_fresh() -> None:
    text = passes_doc.FILE.read_text(encoding="utf-8")
    assert passes_doc.page(text) == text, "run python -m bpuc.report.passes_doc"


def test_rows_follow_the_order_of_the_pipeline() -> None:
    rows = [
        line.split("|")
        for line in passes_doc.catalogue().splitlines()
        if line.startswith("| 1 |") or line[2:3].isdigit()
    ]
    names = [row[2].strip().split(" ")[0] for row in rows]
    assert names == [p.name for phase in passes_doc.PHASES for p in pipeline(phase)]


def test_the_rest_of_the_page_is_left_alone() -> None:
    text = f"before\n{passes_doc.START}OUTDATED\n{passes_doc.END}after\n"
    made = passes_doc.page(text)
    assert made.startswith(f"before\n{passes_doc.START}")
    assert made.endswith(f"{passes_doc.END}after\n")
    assert "OUTDATED" not in made
    assert "fold-affine (scalars=False)" in made
