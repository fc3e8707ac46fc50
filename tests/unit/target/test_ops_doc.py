"""docs/supported-ops is what the targets say today."""

from bpuc.report import ops_doc


def test_pages_are_fresh():
    pages = ops_doc.pages()
    assert {p.name for p in ops_doc.FOLDER.glob("*.md")} == set(pages)
    stale = [name for name, text in pages.items() if (ops_doc.FOLDER / name).read_text(encoding="utf-8") != text]
    assert not stale, "run python -m bpuc.report.ops_doc"


def test_a_limit_is_told_in_the_words_of_the_diagnostic():
    page = ops_doc.pages()["bayes-e.md"]
    (row,) = [line for line in page.splitlines() if line.startswith("| Conv | ") and "int16" in line]
    assert "kernel height 1..31" in row
    assert "known: public operator list of the X5" in row


def test_nash_has_one_page_for_three_marches():
    page = ops_doc.pages()["nash.md"]
    assert all(march in page for march in ("nash-e (S100)", "nash-m (S100P)", "nash-p (S600)"))
    assert "assumed: as bayes-e" in page
