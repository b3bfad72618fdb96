"""Check the links of all pages, README included, which is not part of the site."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from pages import ROOT, all_pages

PAGES = sorted({*all_pages(), *(path.name for path in ROOT.glob("*.md"))})
ADDRESS = re.compile(r"https?://([\w-]+\.)+[a-z]{2,}(:\d+)?(/[^\s<>]*)?")


def links_of(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links, except those in code."""
    for block in MarkdownIt().parse(page.read_text("utf-8")):
        for token in block.children or []:
            if token.type == "link_open":
                yield str(token.attrs["href"])


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings: lower case, hyphens for spaces, no punctuation."""
    tokens = MarkdownIt().parse(page.read_text("utf-8"))
    headings = [
        content.content for opening, content in pairwise(tokens) if opening.type == "heading_open"
    ]
    words = [re.sub(r"[^\w -]", "", heading.lower()).strip() for heading in headings]
    return {heading.replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = ROOT / page
    for link in links_of(path):
        if "://" in link:
            assert ADDRESS.fullmatch(link), f"{page}: {link}"
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{page}: {link}"
        assert not anchor or anchor in anchors_of(target), f"{page}: {link}"


def test_the_map_of_the_code_is_one_page():
    lines = (ROOT / "ARCHITECTURE.md").read_text("utf-8").splitlines()
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 125


def test_every_tick_of_ours_is_a_test():
    page = ROOT / "docs" / "explanation" / "comparison.md"
    rows = page.read_text("utf-8").splitlines()
    ours = [row.split(" | ")[1] for row in rows if row.startswith("| ") and "✔" in row]
    ticks = [cell for cell in ours if "✔" in cell]
    assert len(ticks) >= 8
    for tick in ticks:
        assert re.fullmatch(
            r"\[✔\]\(\.\./\.\./((packages/[\w-]+/)?tests/\S+/test_\w+\.py|LICENSE)\)", tick
        ), tick


def test_every_claim_about_another_tool_links_to_a_page():
    """A cell is a link, "–" for what its code has not, or empty where nobody looked."""
    page = ROOT / "docs" / "explanation" / "comparison.md"
    tables = page.read_text("utf-8").split("\n## ")[1:3]
    for table in tables:
        header, _, *rows = (line for line in table.splitlines() if line.startswith("|"))
        assert len(rows) >= 10
        for row in rows:
            cells = [cell.strip() for cell in row.split("|")[1:-1]]
            assert len(cells) == header.count("|") - 1, row
            for cell in cells[2:]:
                assert re.fullmatch(r"(– \()?\[[^]]+\]\(https://[^)\s]+\)\)?|–|", cell), cell


def test_the_readme_is_one_screen():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 70
    assert max(map(len, lines)) <= 100
