"""The paper's cells beside ours: one table by hand, and both rules by independent formulas."""

import json
from collections import Counter

import numpy as np
import pytest
from bench_helpers import folder_of, records_of, results_of
from click.testing import CliRunner
from parbals_bench.cli.bench import bench
from parbals_bench.datasets import cifar10, wilds
from parbals_bench.datasets import texts as texts_module
from parbals_bench.report.beside import beside_paper, contrasts, count_table, sign_table
from parbals_bench.report.paper import paper_cells, paper_figures
from parbals_bench.report.tasks import Line
from parbals_bench.run.grid import load_suite
from parbals_bench.run.spec import Settings
from scipy import special
from scipy import stats as scipy_stats

AIRLINE = {
    "random": (0.80, 0.81, 0.82),
    "confidence": (0.88, 0.89, 0.90),
    "bald": (0.70, 0.71, 0.72),
    "parbals-epig": (0.89, 0.90, 0.91),
}
YELP_20 = """
random 76.47 0.83, 68.92 1.93, 68.07 1.97, 66.67 1.70, 74.21 1.59
confidence 78.69 1.09*, 69.44 2.85, 70.57 1.23*, 70.67 0.80*, 77.27 1.43*
glister 65.88 1.50, 60.10 3.88, 61.46 3.03, 62.37 2.22, 65.85 1.39
coreset 58.95 1.53, 55.41 0.69, 56.15 1.74, 56.91 1.16, 59.06 1.27
badge 75.50 0.82, 68.09 1.27, 66.62 1.53, 68.32 1.96, 74.05 1.14
galaxy 78.51 1.05*, 72.23 1.41**, 72.45 2.37**, 70.76 1.71**, 76.89 1.07*
parbals-map-epig 78.41 0.45*, 69.37 1.74, 71.04 1.94*, 70.40 1.38*, 76.86 1.18*
parbals-epig 78.91 0.78**, 70.32 0.66, 71.28 2.12*, 70.47 1.51*, 77.39 1.00**
"""


@pytest.fixture(scope="module")
def results():
    return results_of(records_of(AIRLINE))


def of_airline(results):
    cells = [row for row in results.agreements if row.cell.kind == "main"]
    return {row.cell.line: row for row in cells}


def texts(table, name):
    return [entry.text for entry in table.rows[name]]


class TestTheCells:
    def test_all_are_stored(self):
        cells = paper_cells()
        assert len(cells) == 1496
        assert len({cell.table for cell in cells}) == 27
        assert len({cell.subject for cell in cells}) == 1332
        assert Counter(cell.kind for cell in cells) == {
            "main": 440,
            "one-vs-all": 1044,
            "universes": 12,
        }
        assert len(paper_figures()) == 392

    def test_one_table_by_hand(self):
        stars = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
        stored = {
            (cell.strategy, cell.reference): cell
            for cell in paper_cells()
            if cell.table == "yelp_ova_bs20_heuristic_ttest"
        }
        lines = YELP_20.strip().split("\n")
        assert len(stored) == 5 * len(lines)
        for line in lines:
            strategy, _, cells = line.partition(" ")
            for star, text in zip(stars, cells.split(", "), strict=True):
                cell = stored[strategy, f"yelp:{star}"]
                mean, half_width = map(float, text.rstrip("*").split())
                assert (cell.interval.mean, cell.interval.half_width) == (mean, half_width)
                assert (cell.is_top, cell.is_best) == ("*" in text, "**" in text)
                assert (str(cell.budget), cell.interval.n) == ("20+10x20", 10)

    def test_its_leaderboard_of_heuristics_counts_two_budgets(self):
        """The paper says 14 of 24; its cells say 14 of the 16 settings of two budgets."""
        top = Counter(
            str(cell.budget)
            for cell in paper_cells()
            if (cell.kind, cell.strategy) == ("main", "parbals-epig")
            and "heuristic" in cell.table
            and cell.is_top
        )
        assert sorted(top) == ["100+10x10", "100+10x20", "20+10x20"]
        assert top["100+10x20"] + top["20+10x20"] == 14

    def test_some_are_printed_twice_with_two_values(self):
        values = {}
        for cell in paper_cells():
            values.setdefault(cell.subject, set()).add(cell.interval)
        assert sum(len(intervals) == 2 for intervals in values.values()) == 33


class TestTheRules:
    def test_a_figure_agrees_within_both_intervals(self, results):
        rows = of_airline(results)
        assert len(rows) == 16  # the paper's cells of Airline with this budget, run or not
        ours = rows[Line("parbals-epig")]
        random = rows[Line("random")]
        # 90.00 ± 2.48 against 89.38 ± 0.36, and 81.00 ± 2.48 against 87.24 ± 0.52
        assert (ours.difference, ours.room) == pytest.approx((0.62, 2.484 + 0.36), abs=1e-3)
        assert ours.agrees is True
        assert (random.difference, random.agrees) == (pytest.approx(-6.24), False)
        assert (rows[Line("badge")].ours, rows[Line("badge")].agrees) == (None, None)

    @pytest.mark.parametrize(
        ("final", "agrees"), [(0.8724, True), (0.8776, True), (0.8777, False), (0.8671, False)]
    )
    def test_one_seed_has_no_interval_to_widen_with(self, final, agrees):
        rows = results_of(records_of({"random": (final,)})).agreements
        (row,) = (row for row in rows if row.ours)
        assert (row.room, row.agrees, row.p) == (0.52, agrees, None)

    def test_welchs_test_by_the_incomplete_beta_function(self, results):
        """p = I_x(ν/2, 1/2), x = ν / (ν + t²), ν by Welch and Satterthwaite."""
        rows = of_airline(results)
        for strategy in ("random", "confidence", "bald", "parbals-epig"):
            row = rows[Line(strategy)]
            ours = np.var(100.0 * np.array(AIRLINE[strategy]), ddof=1) / 3
            theirs = (row.cell.interval.half_width / scipy_stats.t.ppf(0.975, 9)) ** 2
            t = row.difference / np.sqrt(ours + theirs)
            freedom = (ours + theirs) ** 2 / (ours**2 / 2 + theirs**2 / 9)
            p = special.betainc(freedom / 2, 0.5, freedom / (freedom + t**2))
            assert row.p == pytest.approx(p)


class TestTheTables:
    def test_a_cell_says_it_plainly(self, results):
        _, _, table, _ = beside_paper(results.agreements)
        assert table.title == "Airline, budget 100 + 10×20: final test accuracy, %"
        assert texts(table, "ParBaLS EPIG") == [
            *("90.00 ± 2.48", "89.38 ± 0.36", "+0.62", "2.84", "yes", "0.396"),
        ]
        assert texts(table, "Random") == [
            *("81.00 ± 2.48", "87.24 ± 0.52", "-6.24", "3.00", "no", "0.003"),
        ]
        assert texts(table, "BADGE") == ["–", "87.88 ± 0.72", "–", "–", "not run", "–"]

    def test_counts_by_dataset_and_kind(self, results):
        table = count_table(results.agreements)
        assert texts(table, "Airline") == ["4", "2", "2 of 4"]
        assert texts(table, "Airline, number of universes") == ["1", "1", "1 of 1"]
        assert texts(table, "all") == ["5", "3", "3 of 5"]

    def test_the_signs_of_differences(self):
        values = {"confidence": (0.90,), "epig": (0.93,), "parbals-epig": (0.92,)}
        records = [
            *records_of(values, "cifar10", positive="bird"),
            *records_of(values, "cifar10", positive="cat"),
        ]
        rows = results_of(records).agreements
        signs = contrasts(rows)
        assert [contrast.rival.strategy for contrast in signs] == ["confidence", "epig"] * 2
        # By the paper's cells ParBaLS EPIG is behind Confidence and ahead of EPIG on both.
        assert [contrast.same_sign for contrast in signs] == [False] * 4
        subject = "CIFAR-10, one class against the others, 100 + 10×20"
        paper, ours, same = texts(sign_table(rows), f"{subject}: less Confidence")
        assert (ours, same) == ("+2.00", "0 of 2")
        assert float(paper) < 0

    def test_the_first_class_stands_beside_both_of_its_tables(self):
        rows = results_of(records_of({"random": (0.9, 0.91)}, "cifar10")).agreements
        means = {row.cell.kind: row.cell.interval.mean for row in rows if row.ours}
        assert means == {"main": 88.39, "one-vs-all": 85.58}

    def test_numbers_of_universes_are_cells_of_their_own(self):
        m5 = records_of({"parbals-epig": (0.9, 0.91)}, settings=Settings(n_universes=5))
        (row,) = (row for row in results_of(m5).agreements if row.ours)
        assert (row.cell.kind, row.cell.interval.mean, row.cell.interval.n) == (
            *("universes", 89.45),
            5,
        )

    def test_nine_batches_are_ten_of_the_authors_code(self):
        nine = records_of({"random": (0.87, 0.88)}, budget="100+9x20")
        (row,) = (row for row in results_of(nine).agreements if row.ours)
        assert str(row.cell.budget) == "100+10x20"

    @pytest.mark.parametrize(
        "other",
        [{"dataset": "digits"}, {"budget": "20+10x10"}, {"positive": "*"}],
    )
    def test_what_the_paper_did_not_run_has_no_table(self, other):
        assert beside_paper(results_of(records_of(AIRLINE, **other)).agreements) == []


class TestTheCommand:
    SUITE = """
name = "small"
[[grid]]
datasets = ["airline"]
budgets = ["100+10x20"]
strategies = ["random", "confidence", "bald", "parbals-epig"]
seeds = 3
"""

    def test_it_prints_tables_or_records(self, tmp_path):
        folder_of(tmp_path, records_of(AIRLINE), self.SUITE)
        printed = CliRunner().invoke(bench, ["report", str(tmp_path), "--paper"]).output
        assert "Figures that agree with the paper's" in printed
        assert "ParBaLS EPIG      90.00 ± 2.48  89.38 ± 0.36  +0.62" in printed
        assert not (tmp_path / "report").exists()
        result = CliRunner().invoke(bench, ["report", str(tmp_path), "--paper", "--json"])
        cells = json.loads(result.output)["cells"]
        assert sum(cell["ours"] is not None for cell in cells) == 5
        assert {cell["data"] for cell in cells} == {"airline"}

    def test_records_without_a_cell_of_the_paper_are_refused(self, tmp_path):
        records = records_of(AIRLINE, "digits")
        folder_of(tmp_path, records, self.SUITE.replace("airline", "digits"))
        result = CliRunner().invoke(bench, ["report", str(tmp_path), "--paper"])
        assert "has no run with data, budget and strategy of a table" in str(result.exception)


class TestTheSuites:
    """The suites `paper` and `authors` run what the paper's tables have, and little more."""

    @pytest.mark.parametrize(("name", "rounds"), [("paper", 10), ("authors", 9)])
    def test_they_have_every_cell_of_the_paper(self, name, rounds):
        seeds = Counter(self._subject(run) for run in load_suite(name).runs)
        first_classes = {"ag-news:World", "cifar10:airplane", "fmow:airport"}
        first_classes |= {"iwildcam:empty", "yelp:1 star"}
        cells = set()
        for cell in paper_cells():
            reference = cell.reference
            if reference in first_classes:
                reference = reference.partition(":")[0]
            budget = f"{cell.budget.initial}+{rounds}x{cell.budget.batch}"
            subject = (reference, budget, cell.strategy, cell.n_universes)
            cells.add(subject)
            assert seeds[subject] >= cell.interval.n, subject
        others = set(seeds) - cells
        # Its figure of one label at a time has no table.
        assert {(strategy, n) for _, _, strategy, n in others} == {("epig", 10)}
        assert {budget.partition("x")[2] for _, budget, _, _ in others} == {"1"}
        assert len(others) == 8

    @staticmethod
    def _subject(run):
        return run.reference, str(run.budget), run.strategy, run.settings.n_universes

    def test_every_class_of_theirs_is_one_of_the_datasets(self):
        """Of the sets whose classes are known without their files."""
        known = {
            "cifar10": cifar10.CLASSES,
            "ag-news": texts_module._ag_news.classes,
            "yelp": texts_module._yelp.classes,
            "iwildcam": wilds._SPECIES,
        }
        for run in load_suite("paper").runs:
            if run.positive is not None and run.dataset in known:
                assert run.positive in known[run.dataset]
