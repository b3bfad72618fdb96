"""Run every block of code that a reader may copy, as printed."""

import os
import shutil
from pathlib import Path

import matplotlib
import pytest
from pages import ROOT, RUN, all_pages, blocks_of, pictures_of, run_page

NO_PROGRAMS = {"text", "toml", "json", "nginx", "ini", "yaml", "html", "bibtex"}
PROGRAMS = [page for page in all_pages() if any(b.language in RUN for b in blocks_of(page))]
MAKES_PICTURES = "PARBALS_PICTURES" in os.environ
# tests/test_sizes.py runs the tutorials, where what they tell readers to install is installed.
RUN_HERE = [page for page in PROGRAMS if MAKES_PICTURES or "tutorials" not in Path(page).parts]


@pytest.mark.parametrize("page", all_pages())
def test_every_block_names_its_language(page):
    for block in blocks_of(page):
        known = block.language in {*RUN, *NO_PROGRAMS} or block.language.startswith("{")
        assert known, f"{block}: {block.language!r}"


@pytest.mark.parametrize(
    "page",
    [p if p == "README.md" else pytest.param(p, marks=pytest.mark.full) for p in RUN_HERE],
)
@pytest.mark.filterwarnings("ignore")  # a page may show a warning; a reader would see it too
def test_what_a_page_shows_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    run_page(page, tmp_path)
    for name in pictures_of(page):
        if makes(page, name):
            assert (tmp_path / name).exists()
            if MAKES_PICTURES:
                shutil.copy(tmp_path / name, ROOT / Path(page).parent / name)


def makes(page, name):
    return any(name in b.code for b in blocks_of(page) if b.language in RUN)


def test_a_picture_beside_its_page_is_made_by_that_page_or_another():
    for page in PROGRAMS:
        for name in pictures_of(page):
            if Path(name).parent == Path():
                assert any(makes(other, name) for other in PROGRAMS), f"{page}: {name}"


def test_blocks_that_are_not_run_are_few_and_say_why():
    blocks = [b for page in all_pages() for b in blocks_of(page) if b.language in RUN]
    skipped = [b for b in blocks if b.reason]
    assert all(len(b.reason) > 10 for b in skipped)
    assert len(skipped) <= len(blocks) // 4, "\n".join(f"{b}: {b.reason}" for b in skipped)


def test_pictures_of_pages_exist():
    for page in all_pages():
        for name in pictures_of(page):
            assert (Path(ROOT, page).parent / name).exists(), f"{page}: {name}"
