"""Links of the pages lead somewhere; those of README, which is not part of the site, too."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from pages import ROOT, all_pages

PAGES = [*all_pages(), "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"]
ADDRESS = re.compile(r"https?://([\w-]+\.)+[a-z]{2,}(:\d+)?(/[^\s<>]*)?")


def links_of(page: Path) -> Iterator[str]:
    """Where the links of a page lead, code left out."""
    for block in MarkdownIt().parse(page.read_text("utf-8")):
        for part in block.children or []:
            if part.type == "link_open":
                yield str(part.attrs["href"])


def anchors_of(page: Path) -> set[str]:
    """What a heading is called in links: lower case, hyphens for spaces, no other marks."""
    tokens = MarkdownIt().parse(page.read_text("utf-8"))
    heads = [b.content for a, b in pairwise(tokens) if a.type == "heading_open"]
    return {re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    here = ROOT / page
    for link in links_of(here):
        if "://" in link:
            assert ADDRESS.fullmatch(link), f"{page}: {link}"
            continue
        file, _, anchor = link.partition("#")
        to = (here.parent / file).resolve() if file else here
        assert to.exists(), f"{page}: {link}"
        assert not anchor or anchor in anchors_of(to), f"{page}: {link}"


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


def test_the_readme_is_one_screen():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 70
    assert max(map(len, lines)) <= 100
