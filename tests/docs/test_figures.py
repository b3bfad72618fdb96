"""Check that pages which explain keep their figures in tables."""

import re

import pytest
from markdown_it import MarkdownIt
from pages import ROOT, all_pages

EXPLAINING = [
    page
    for page in all_pages()
    if page.startswith(("docs/explanation/", "docs/howto/"))
    and "Written by `python studies" not in (ROOT / page).read_text("utf-8")
]
"""All but the pages that a study writes."""
MIN_WORDS = 150
"""A shorter page says too little to count."""
MAX_SHARE = 0.035


def prose_of(page):
    """Yield the words of a page outside of tables and code."""
    in_table = False
    for token in MarkdownIt().enable("table").parse((ROOT / page).read_text("utf-8")):
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        elif token.type == "inline" and not in_table:
            for child in token.children:
                if child.type == "text":
                    yield from child.content.split()


@pytest.mark.parametrize("page", EXPLAINING)
def test_figures_are_in_tables(page):
    words = list(prose_of(page))
    # Names such as CIFAR-10 and F1 are no figures.
    figures = [word for word in words if re.search(r"\d", word) and not re.search("[A-Za-z]", word)]
    assert len(words) < MIN_WORDS or len(figures) <= MAX_SHARE * len(words), figures
