"""The page and the files: valid, self-contained, with every part of an experiment."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from importlib import resources

import pytest
from bench_helpers import folder_of, pack, record_of
from parbals.errors import InputError
from parbals_bench.report import page as report_page
from parbals_bench.report.page import build_page, read_results, write_report
from parbals_bench.report.plots import to_png
from parbals_bench.report.results import Results
from parbals_bench.run.folder import ResultsFiles, ResultsFolder
from parbals_bench.run.grid import load_suite, read_suite
from parbals_bench.run.metrics import METRICS
from synthetic import SUITE, made_up, write_folder

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Refuses tags that do not match, and collects what the page refers to."""

    def __init__(self, html):
        super().__init__()
        self.open = []
        self.ids = []
        self.links = []
        self.text = ""
        self.tags = []
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


def page_of(suite, records, metric="accuracy"):
    return build_page(Results(suite, tuple(records), METRICS[metric]))


@pytest.fixture(scope="module")
def html(suite):
    """Notes of all kinds, one of them nasty, and a grid that is not finished."""
    data = tuple(f"note {letter} about the data" for letter in "abcdefg")
    records = [
        replace(record_of(run, 0.8 + 0.01 * (run.seed + len(run.strategy))), notes=data)
        for run in suite.runs[:-3]
    ]
    for place in (3, 4):
        doubt = f"The effective sample size fell to {place} of 400."
        records[place] = replace(records[place], notes=(*data, doubt, "Only <script> runs."))
    return page_of(suite, records)


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
    for part in (
        "Two small sets",
        "Final test accuracy",
        "Leaderboard",
        "Learning curves",
        "Labels saved",
        "3 runs of the suite are still missing",
    ):
        assert part in page.text
    assert page.tags.count("svg") == 1 + 2  # the overview, and a curve per setting
    assert "nan" not in page.text.lower().split()


def test_every_note_is_shown_and_those_of_a_few_runs_come_first(html):
    text = Page(html).text
    assert "Noted in 2 of 27 runs (" in text
    assert text.count("The effective sample size fell to 3 of 400.") == 1
    assert "Only <script> runs." in text
    assert all(f"note {letter} about the data" in text for letter in "abcdefg")
    assert text.index("Only <script> runs.") < text.index("note a about the data")
    assert re.search(r"Noted in 27 of 27 runs \([^)]*Digits[^)]*\): note a about the data", text)


@pytest.mark.parametrize(
    ("more", "title"),
    [("", "My results.v2"), ('title = "Mine"', "Mine"), ('name = "suite"', "suite")],
)
def test_a_suite_without_a_name_is_called_after_its_results(tmp_path, more, title):
    grid = (
        '[[grid]]\ndatasets = ["digits"]\nbudgets = ["9+2x3"]\nstrategies = ["random"]\nseeds = 2\n'
    )
    suite = read_suite(f"{more}\n{grid}")
    records = [record_of(run) for run in suite.runs]
    folder = folder_of(tmp_path / "My results.v2", records, suite.text)
    assert read_results(folder).suite.title == title
    pack(folder, tmp_path / "Packed.tar.xz")
    packed = read_results(ResultsFiles(tmp_path / "Packed.tar.xz"))
    assert packed.suite.title == title.replace("My results.v2", "Packed")


def test_a_folder_without_a_finished_run_has_no_report(tmp_path, suite):
    folder = ResultsFolder(tmp_path / "results")
    folder.save_suite(suite.text)
    with pytest.raises(InputError, match="no finished run"):
        read_results(folder)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made-up")
    with pytest.MonkeyPatch.context() as coarse:
        coarse.setattr(report_page, "to_png", partial(to_png, dpi=20))
        paths = write_report(read_results(write_folder(folder / "results")), folder / "report")
    return {path.relative_to(folder / "report").as_posix(): path for path in paths}


@pytest.fixture(scope="module")
def page(written):
    return Page(written["report.html"].read_text("utf-8"))


@pytest.mark.full
class TestAWholeExperiment:
    """Two budgets, ablations, one-vs-all and one label at a time, all on one page."""

    def test_pictures_come_first_then_tables(self, page):
        parts = [
            "Learning curves",
            "Leaderboard, Bayesian methods",
            "Final test accuracy, and other metrics",
            "Agreement with the paper",
            "Labels saved against Random, budget 100 + 10×20",
        ]
        places = [page.text.rindex(part) for part in parts]
        assert places == sorted(places)
        assert "script" not in page.tags

    def test_every_part_of_the_experiment_is_there(self, page):
        for part in (
            "Bayesian methods, budget 20 + 10×20",
            "ParBaLS and the heuristics, budget 100 + 10×20",
            "Variants of ParBaLS EPIG by m, budget 100 + 10×20",
            "Variants of ParBaLS EPIG by K, budget 100 + 10×20",
            "ParBaLS EPIG (m = 5)",
            "ParBaLS EPIG (K = 1600)",
            "AG News, each class against the others, budget 100 + 10×20",
            "Sci/Tech",
            "average",
            "One label at a time (1)",
            "ParBaLS EPIG, 20 at a time",
            "Figures that agree with the paper's",
        ):
            assert part in page.text

    def test_one_can_switch_to_every_metric_without_a_script(self, written, page):
        html = written["report.html"].read_text("utf-8")
        for key, metric in METRICS.items():
            assert f'id="by-{key}"' in html
            assert f'class="panel {key}"' in html
            assert f"#by-{key}:checked ~ .{key}" in html
            assert metric.title in page.text
        assert html.count(" checked>") == 1

    def test_there_are_files_for_a_paper_of_everything(self, written):
        assert {"report.html", "tables.tex"} <= written.keys()
        curves = {name for name in written if name.startswith("curves/")}
        assert {"curves/labels-saved.svg", "curves/airline-100+200x1-all-strategies.png"} <= curves
        assert len(curves) == 2 * (1 + 2 * 2 + 1 + 2 + 1)
        assert all(path.stat().st_size > 0 for path in written.values())
        ElementTree.parse(written["curves/labels-saved.svg"])
        latex = written["tables.tex"].read_text("utf-8")
        assert latex.count("\\begin{tabular}") == latex.count("\\end{tabular}") > 30
        assert latex.count("{") == latex.count("}")
        for part in (
            "calibration error, \\%",
            "Leaderboard, Bayesian methods",
            "Figures that agree with the paper",
        ):
            assert part in latex

    def test_another_metric_decides_pictures_and_leaderboard(self):
        suite = read_suite(SUITE)
        runs = [run for run in suite.runs if str(run.budget) == "20+10x20" and run.seed < 2]
        page = Page(page_of(suite, map(made_up, runs), "log_loss"))
        assert "Final log loss, and other metrics" in page.text
        assert "lowest mean" in page.text
        assert "Log loss, nats" in page.text


def test_on_a_phone_pictures_keep_readable_letters_and_scroll():
    css = resources.files("parbals_bench.report").joinpath("report.css").read_text("utf-8")
    assert re.search(r"figure \{[^}]*overflow-x: auto", css)
    # 9 inches are 648 points: at 50rem = 800 px, letters of 8.5 points are 10 px high.
    assert "figure.wide svg { min-width: 50rem; }" in css
    assert re.search(r"max-width: 34rem\) \{.*figure svg \{ min-width: 34rem; \}", css)
