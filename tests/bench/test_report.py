"""The page and the pictures: valid, self-contained, the same every time."""

import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from bench_helpers import Canned, record_of, records_of
from synthetic import SUITE, made_up, write_folder

from parbals.bench.folder import ResultsFolder
from parbals.bench.grid import load_suite, read_suite, run_grid
from parbals.bench.loading import load_data
from parbals.bench.packed import PackedResults, pack
from parbals.bench.report.collect import collect
from parbals.bench.report.findings import savings
from parbals.bench.report.measures import MEASURES
from parbals.bench.report.names import BAYESIAN, HEURISTICS, style_of
from parbals.bench.report.page import build_report, write_report
from parbals.bench.report.plots import curve_figure, inline_svg, savings_figure, to_png, to_svg
from parbals.errors import InputError

_TWO_DATASETS = SUITE.replace(', "cifar10"]', "]").replace('"credit-card", ', "")
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
    for part in (
        "Two small sets",
        "Final test accuracy",
        "Leaderboard",
        "Learning curves",
        "Labels saved",
        "Run time",
    ):
        assert part in page.text
    assert page.tags.count("svg") == 1 + 2  # the overview, and a curve per setting
    assert "nan" not in page.text.lower().split()
    assert "still missing" not in page.text


def test_text_from_results_is_escaped(suite):
    from dataclasses import replace

    records = [replace(record_of(run), notes=("<script>alert(1)</script>",)) for run in suite.runs]
    assert "script" not in Page(build_report(suite, records)).tags


def test_every_note_is_shown_and_those_of_a_few_runs_come_first(suite):
    from dataclasses import replace

    data = tuple(f"note {letter} about the data" for letter in "abcdefg")
    records = [replace(record_of(run), notes=data) for run in suite.runs]
    for place in (3, 4):
        notes = (*data, f"The effective sample size fell to {place} of 400.", "Only <two> runs.")
        records[place] = replace(records[place], notes=notes)
    text = Page(build_report(suite, records)).text
    assert f"Noted in 2 of {len(records)} runs (" in text
    assert "The effective sample size fell to 3 of 400. (and 1 more with other numbers)" in text
    assert "Only <two> runs." in text
    assert all(note in text for note in data)
    assert text.index("Only <two> runs.") < text.index(data[0])
    per_dataset = sum(record.run.dataset == records[0].run.dataset for record in records)
    assert f"Noted in all {per_dataset} runs on " in text


@pytest.mark.parametrize(
    ("more", "heading"),
    [("", "My results.v2"), ('title = "Mine"', "Mine"), ('name = "suite"', "suite")],
)
def test_a_suite_without_a_name_is_called_after_its_results(tmp_path, more, heading):
    text = f'{more}\n[[grid]]\ndatasets = ["digits"]\nbudgets = ["9+2x3"]\nstrategies = ["random"]\nseeds = 2\n'
    folder = ResultsFolder(tmp_path / "My results.v2")
    folder.save_suite(text)
    run_grid(read_suite(text).runs, folder, load_data, Canned())
    write_report(folder, tmp_path / "a", pictures=False)
    assert f"<h1>{heading}</h1>" in (tmp_path / "a" / "report.html").read_text("utf-8")
    packed = tmp_path / "Packed.parbals.xz"
    pack(folder, packed)
    write_report(PackedResults(packed), tmp_path / "b", pictures=False)
    heading = heading.replace("My results.v2", "Packed")
    assert f"<h1>{heading}</h1>" in (tmp_path / "b" / "report.html").read_text("utf-8")


def test_a_grid_that_is_not_finished_says_so(suite):
    page = Page(build_report(suite, [record_of(run) for run in suite.runs[:7]]))
    assert "23 runs of the suite are still missing" in page.text


def test_the_files_for_a_paper(tmp_path, suite):
    folder = ResultsFolder(tmp_path / "results")
    folder.save_suite(suite.text)
    with pytest.raises(InputError, match="no finished run"):
        write_report(folder, tmp_path / "report")
    run_grid(suite.runs, folder, load_data, Canned())
    written = {
        path.relative_to(tmp_path / "report").as_posix(): path
        for path in write_report(folder, tmp_path / "report")
    }
    assert {"report.html", "tables.md", "tables.tex"} <= written.keys()
    assert sum(name.startswith("curves/digits") for name in written) == 2
    assert all(path.stat().st_size > 0 for path in written.values())
    ElementTree.parse(next(path for name, path in written.items() if name.endswith(".svg")))


def test_pictures_are_the_same_every_time():
    (setting,) = collect(
        records_of({"random": (0.8, 0.9, 0.85, 0.84, 0.83), "epig": (0.9, 0.91, 0.9, 0.9, 0.9)})
    )
    one, two = (curve_figure(setting, BAYESIAN) for _ in range(2))
    assert to_png(one) == to_png(two)
    assert to_svg(one) == to_svg(two)


def test_inline_pictures_do_not_share_names_and_say_what_they_show():
    (setting,) = collect(records_of({"random": (0.8, 0.9), "epig": (0.9, 0.91)}))
    one, two = (
        inline_svg(curve_figure(setting, BAYESIAN), prefix, 'A < "B"') for prefix in ("a", "b")
    )
    root = ElementTree.fromstring(one)
    assert root.attrib["aria-label"] == 'A < "B"'
    assert set(Page(one).ids).isdisjoint(Page(two).ids)
    assert "EPIG" in Page(one).text


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made-up")
    paths = write_report(write_folder(folder / "results", _TWO_DATASETS), folder / "report")
    return {path.relative_to(folder / "report").as_posix(): path for path in paths}


@pytest.fixture(scope="module")
def page(written):
    return Page(written["report.html"].read_text("utf-8"))


class TestAWholeExperiment:
    """Three budgets, an ablation, one-vs-all and one label at a time, all on one page."""

    def test_findings_come_first_then_pictures_then_tables(self, page):
        parts = [
            "What was found",
            "Learning curves",
            "Leaderboard",
            "Final test accuracy, and other measures",
        ]
        parts += [
            "Agreement with the paper",
            "Labels saved against Random, budget 100 + 10×20",
            "Run time",
        ]
        places = [page.text.rindex(part) for part in parts]
        assert places == sorted(places)
        assert "script" not in page.tags

    def test_every_part_of_the_experiment_is_there(self, page):
        for part in (
            "Bayesian methods, budget 20 + 10×20",
            "ParBaLS and the heuristics, budget 100 + 10×10",
            "Variants of ParBaLS EPIG by m, budget 100 + 10×20",
            "Variants of ParBaLS EPIG by K, budget 100 + 10×20",
            "ParBaLS EPIG (m = 5)",
            "ParBaLS EPIG (K = 1600)",
            "AG News, each class against the others, budget 100 + 10×20",
            "Sci/Tech",
            "average",
            "One label at a time (2)",
            "ParBaLS EPIG, 20 at a time",
            "of 18 agree",
        ):
            assert part in page.text

    def test_one_can_switch_to_every_metric_without_a_script(self, written, page):
        html = written["report.html"].read_text("utf-8")
        for key, measure in MEASURES.items():
            assert f'id="by-{key}"' in html
            assert f'class="panel {key}"' in html
            assert f"#by-{key}:checked ~ .{key}" in html
            assert measure.title in page.text
        assert html.count(" checked>") == 1

    def test_there_are_files_for_a_paper_of_everything(self, written):
        curves = {name for name in written if name.startswith("curves/")}
        assert {"curves/labels-saved.svg", "curves/airline-100+200x1-all-strategies.png"} <= curves
        assert len(curves) == 2 * (1 + 2 * 3 * 2 + 3 + 2)
        latex = written["tables.tex"].read_text("utf-8")
        assert latex.count("\\begin{tabular}") == latex.count("\\end{tabular}") > 30
        assert latex.count("{") == latex.count("}")
        markdown = written["tables.md"].read_text("utf-8")
        for part in (
            "calibration error, %",
            "Leaderboard, Bayesian methods",
            "| agrees |",
            "Run time",
        ):
            assert part in markdown

    def test_another_metric_decides_pictures_and_findings(self):
        suite = read_suite(SUITE)
        records = [
            made_up(run) for run in suite.runs if run.dataset == "credit-card" and run.seed < 2
        ]
        page = Page(build_report(suite, records, "log_loss"))
        assert "Final log loss, and other measures" in page.text
        assert "and has the lowest mean in" in page.text
        assert "Log loss, nats" in page.text
        assert "Published figures" not in page.text  # the paper has accuracies alone


def test_the_overview_shows_the_median_of_every_strategy():
    records = records_of({"random": (0.8, 0.8), "epig": (0.9, 0.9), "bald": (0.75, 0.75)})
    text = to_svg(savings_figure(savings(collect(records))), text_as_text=True)
    # Random climbs 10 points in 200 labels; EPIG 20, so it is there after 100 of 300 labels fewer.
    assert "+33 %" in text
    assert text.index("BALD") < text.index("EPIG")


@pytest.mark.parametrize("strategies", [BAYESIAN, HEURISTICS])
def test_lines_of_one_picture_differ_without_colour(strategies):
    styles = [style_of(name) for name in strategies]
    assert len({(style.dashes, style.marker) for style in styles}) == len(styles)
