"""The page and the pictures: valid, self-contained, the same every time."""

import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from bench_helpers import Canned, record_of, records_of

from parbals.bench.collect import collect
from parbals.bench.folder import ResultsFolder
from parbals.bench.grid import load_suite, run_grid
from parbals.bench.names import BAYESIAN, HEURISTICS, style_of
from parbals.bench.plots import curve_figure, inline_svg, to_png, to_svg
from parbals.bench.report import build_report, write_report
from parbals.bench.small import load_small
from parbals.errors import InputError

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Refuses tags that do not match, and collects what the page refers to."""

    def __init__(self, html):
        super().__init__()
        self.open, self.ids, self.links, self.text, self.tags = [], [], [], "", []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self._look(tag, attributes)

    def handle_startendtag(self, tag, attributes):
        self._look(tag, attributes)

    def _look(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                self.links.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def suite():
    return load_suite("quick")


@pytest.fixture(scope="module")
def html(suite):
    records = [record_of(run, 0.8 + 0.01 * (run.seed + len(run.strategy))) for run in suite.runs]
    return build_report(suite, records)


def test_the_page_is_whole_and_refers_to_nothing_outside(html):
    page = Page(html)
    assert html.startswith("<!doctype html>")
    assert all(link.startswith("#") for link in page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert "url(http" not in html
    assert "@import" not in html
    assert "script" not in page.tags


def test_it_says_what_was_run_and_shows_every_part(html):
    page = Page(html)
    for part in ("Two small sets", "Final test accuracy", "Leaderboard", "Learning curves", "Labels saved", "Run time"):
        assert part in page.text
    assert page.tags.count("svg") == 2
    assert "nan" not in page.text.lower().split()
    assert "still missing" not in page.text


def test_text_from_results_is_escaped(suite):
    from dataclasses import replace

    records = [replace(record_of(run), notes=("<script>alert(1)</script>",)) for run in suite.runs]
    assert "script" not in Page(build_report(suite, records)).tags


def test_a_grid_that_is_not_finished_says_so(suite):
    page = Page(build_report(suite, [record_of(run) for run in suite.runs[:7]]))
    assert "23 runs of the suite are still missing" in page.text


def test_the_files_for_a_paper(tmp_path, suite):
    folder = ResultsFolder(tmp_path / "results")
    folder.save_suite(suite.text)
    with pytest.raises(InputError, match="no finished run"):
        write_report(folder, tmp_path / "report")
    run_grid(suite.runs, folder, load_small, Canned())
    written = {
        path.relative_to(tmp_path / "report").as_posix(): path for path in write_report(folder, tmp_path / "report")
    }
    assert {"report.html", "tables.md", "tables.tex"} <= written.keys()
    assert sum(name.startswith("curves/digits") for name in written) == 2
    assert all(path.stat().st_size > 0 for path in written.values())
    ElementTree.parse(next(path for name, path in written.items() if name.endswith(".svg")))


def test_pictures_are_the_same_every_time():
    (setting,) = collect(records_of({"random": (0.8, 0.9, 0.85, 0.84, 0.83), "epig": (0.9, 0.91, 0.9, 0.9, 0.9)}))
    one, two = (curve_figure(setting, BAYESIAN) for _ in range(2))
    assert to_png(one) == to_png(two)
    assert to_svg(one) == to_svg(two)


def test_inline_pictures_do_not_share_names_and_say_what_they_show():
    (setting,) = collect(records_of({"random": (0.8, 0.9), "epig": (0.9, 0.91)}))
    one, two = (inline_svg(curve_figure(setting, BAYESIAN), prefix, 'A < "B"') for prefix in ("a", "b"))
    root = ElementTree.fromstring(one)
    assert root.attrib["aria-label"] == 'A < "B"'
    assert set(Page(one).ids).isdisjoint(Page(two).ids)
    assert "EPIG" in Page(one).text


@pytest.mark.parametrize("strategies", [BAYESIAN, HEURISTICS])
def test_lines_of_one_picture_differ_without_colour(strategies):
    styles = [style_of(name) for name in strategies]
    assert len({(style.dashes, style.marker) for style in styles}) == len(styles)
