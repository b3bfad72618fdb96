"""What is computed from hand-written records, each figure worked out beside it."""

from dataclasses import replace

import numpy as np
import pytest
from bench_helpers import record_of, records_of, results_of, runs_of
from parbals_bench.report.page import _savings
from parbals_bench.report.results import ONE_VS_ALL
from parbals_bench.report.tables import to_html, to_latex
from parbals_bench.report.tasks import Line, collect
from parbals_bench.run.metrics import METRICS
from parbals_bench.run.spec import Settings
from scipy import stats as scipy_stats

AIRLINE = {
    "random": (0.80, 0.81, 0.82),
    "confidence": (0.88, 0.89, 0.90),
    "bald": (0.70, 0.71, 0.72),
    "parbals-epig": (0.89, 0.90, 0.91),
}
TWO = {"random": (0.8, 0.8), "epig": (0.9, 0.9)}


@pytest.fixture(scope="module")
def results():
    return results_of(records_of(AIRLINE))


def tables_of(records, metric="accuracy"):
    return results_of(records, metric).tables[metric]


def texts(table, name):
    return [entry.text for entry in table.rows[name]]


def test_the_two_kinds_of_table(results):
    bayesian, heuristics = results.tables["accuracy"]
    assert bayesian.title == "Bayesian methods, budget 100 + 10×20: test accuracy, %"
    assert list(bayesian.rows) == ["Random", "BALD", "ParBaLS EPIG"]
    assert list(heuristics.rows) == ["Random", "Confidence", "ParBaLS EPIG"]
    assert bayesian.columns == ("Airline",)


def test_each_part_is_computed_once(results):
    for part in ("tasks", "tables", "leaderboards", "savings", "agreements", "pictures", "figures"):
        assert getattr(results, part) is getattr(results, part)


def test_other_metrics_have_their_own_unit_and_direction():
    """Where less is better the lowest mean is best: hand-written log losses, in nats."""
    records = [
        replace(record, metrics={**record.metrics, "log_loss": (0.9,) * 10 + (loss,)})
        for record, loss in zip(
            records_of({"random": (0.8, 0.8, 0.8), "parbals-epig": (0.9, 0.9, 0.9)}),
            (0.50, 0.51, 0.52, 0.30, 0.31, 0.32),
            strict=True,
        )
    ]
    results = results_of(records, "log_loss")
    table = results.tables["log_loss"][0]
    html = to_html(table)
    # s = 0.01, n = 3: 4.3027 · 0.01 / √3
    assert "ParBaLS EPIG</th><td><u><b>0.3100 ± 0.0248</b></u></td>" in html
    assert "Random</th><td>0.5100 ± 0.0248</td>" in html
    assert table.title == "Bayesian methods, budget 100 + 10×20: log loss, nats"
    assert "Lowest mean underlined" in to_latex(table)
    assert results.savings[0].labels.saved > 0
    assert list(results.leaderboard_tables[0].rows) == ["ParBaLS EPIG", "Random"]
    assert list(results.tables) == list(METRICS)


def test_what_was_not_run_is_a_dash():
    others = records_of({"random": (0.9, 0.9), "bald": (0.8, 0.9)}, "yelp")
    bayesian, _ = tables_of(records_of(AIRLINE) + others)
    assert bayesian.columns == ("Airline", "Yelp")
    assert texts(bayesian, "ParBaLS EPIG")[1] == "–"


def test_leaderboard_over_settings_without_one_label_at_a_time():
    records = records_of(AIRLINE) + records_of(AIRLINE, "yelp")
    boards = results_of(records + records_of(AIRLINE, budget="100+200x1")).leaderboards
    first = boards["ParBaLS and the heuristics"][0]
    assert (first.name, first.n_best, first.n_top, first.n_settings) == ("ParBaLS EPIG", 2, 2, 2)
    assert [place.n_top for place in boards["Bayesian methods"]] == [2, 0, 0]


def test_strategies_of_other_packages_meet_parbals_too():
    tables = tables_of(records_of({**AIRLINE, "elsewhere": (0.95, 0.96, 0.97)}))
    assert list(tables[1].rows) == ["Random", "Confidence", "ParBaLS EPIG", "elsewhere"]


class TestCurveMeans:
    def test_they_are_the_area_under_the_curve_over_its_width(self):
        (run,) = runs_of(strategy="random", budget="10+3x5", seeds=[0])
        record = replace(record_of(run), metrics={"accuracy": (0.5, 0.7, 0.8, 0.9)})
        (task,) = collect([record])
        area = 5 * (0.5 + 0.7) / 2 + 5 * (0.7 + 0.8) / 2 + 5 * (0.8 + 0.9) / 2
        assert task.curve_mean(Line("random")) == pytest.approx([area / 15])

    def test_every_budget_has_a_table_for_each_metric(self):
        records = records_of(AIRLINE) + records_of(AIRLINE, budget="20+10x20")
        tables = results_of(records).curve_tables
        assert [table.title for table in tables["accuracy"]] == [
            f"Mean over the curve (normalised area under it), budget {budget}: test accuracy, %"
            for budget in ("100 + 10×20", "20 + 10×20")
        ]
        # straight from 70 % to the final values, whose mean is 81 %
        assert texts(tables["accuracy"][0], "Random")[0].startswith("75.50 ±")
        assert len(tables["log_loss"]) == 2


class TestVariants:
    def test_they_are_compared_on_the_seeds_they_share(self):
        m5 = records_of({"parbals-epig": (0.90, 0.91)}, settings=Settings(n_universes=5))
        *main, table = tables_of(records_of(AIRLINE) + m5)
        assert table.title.startswith("Variants of ParBaLS EPIG by m, budget 100 + 10×20")
        assert list(table.rows) == ["ParBaLS EPIG (m = 5)", "ParBaLS EPIG (m = 10)"]
        assert [row[0].standing.interval.n for row in table.rows.values()] == [2, 2]
        assert all("m = 5" not in name for other in main for name in other.rows)

    def test_each_parameter_has_its_own_table_with_the_baseline_in_its_place(self):
        records = records_of(AIRLINE) + records_of(AIRLINE, "yelp")
        for name, value in (
            ("n_universes", 20),
            ("n_universes", 5),
            ("n_samples", 1600),
            ("n_samples", 100),
        ):
            settings = Settings(**{name: value})
            records += records_of({"parbals-epig": (0.90, 0.91)}, settings=settings)
        *_, samples, universes = tables_of(records)
        variants = [[name.partition("(")[2] for name in t.rows] for t in (samples, universes)]
        assert variants == [["K = 100)", "K = 400)", "K = 1600)"], ["m = 5)", "m = 10)", "m = 20)"]]
        assert universes.columns == samples.columns == ("Airline",)  # nothing was varied on Yelp

    def test_without_a_baseline_they_are_lines_of_the_tables_and_compared_with_random(self):
        records = records_of({"random": (0.8, 0.8), "confidence": (0.85, 0.85)})
        for m in (20, 5):
            records += records_of({"parbals-epig": (0.9, 0.9)}, settings=Settings(n_universes=m))
        results = results_of(records)
        _, heuristics, ablation = results.tables["accuracy"]
        names = ["ParBaLS EPIG (m = 5)", "ParBaLS EPIG (m = 20)"]
        assert list(heuristics.rows) == ["Random", "Confidence", *names]
        assert list(results.savings_tables[0].rows) == ["Confidence", *names]
        assert list(ablation.rows) == names

    def test_where_there_is_a_baseline_it_alone_is_shown(self):
        records = records_of({"random": (0.8,), "epig": (0.9,)})
        records += records_of({"epig": (0.9,)}, settings=Settings(n_samples=100))
        results = results_of(records)
        assert list(results.tables["accuracy"][0].rows) == ["Random", "EPIG"]
        assert [saving.line for saving in results.savings] == [Line("epig")]

    def test_each_is_measured_against_random_with_the_same_settings(self):
        records = records_of({"random": (0.8,)})
        records += records_of({"random": (0.75,), "epig": (0.9,)}, settings=Settings(n_samples=100))
        (saving,) = results_of(records).savings
        assert saving.line == Line("epig", "K = 100")
        assert saving.labels.value == pytest.approx(0.75)


class TestClasses:
    def test_one_column_per_positive_class_and_their_average(self):
        first = records_of({"random": (0.70, 0.72, 0.99), "epig": (0.80, 0.84, 0.99)}, "ag-news")
        values = {"random": (0.80, 0.90), "epig": (0.90, 0.94)}
        sports = records_of(values, "ag-news", positive="Sports")
        *_, table = tables_of(first + sports)
        assert table.columns == ("first class", "Sports", "average")
        assert list(table.rows) == ["Random", "EPIG"]
        # Seeds 0 and 1, which both classes have: (0.70 + 0.80) / 2 = 75, (0.72 + 0.90) / 2 = 81.
        average = table.rows["Random"][2].standing
        assert (average.interval.mean, average.interval.n) == (pytest.approx(78.0), 2)
        half_width = 12.7062 * np.std([75, 81], ddof=1) / np.sqrt(2)
        assert average.interval.half_width == pytest.approx(half_width, rel=1e-4)
        best = table.rows["EPIG"][2].standing
        assert (best.interval.mean, best.is_best) == (pytest.approx(87.0), True)
        test = scipy_stats.ttest_ind([75, 81], [85, 89], equal_var=False)
        assert average.p == pytest.approx(test.pvalue)

    def test_the_average_leaves_out_what_lacks_a_class(self):
        first = records_of({"random": (0.70, 0.72), "epig": (0.80, 0.84)}, "ag-news")
        values = {"random": (0.80, 0.90), "epig": (0.9, 0.9), "bald": (0.9, 0.9)}
        *_, table = tables_of(first + records_of(values, "ag-news", positive="Sports"))
        assert texts(table, "BALD")[::2] == ["–", "–"]

    def test_all_classes_are_a_setting_of_their_own_and_none_against_the_others(self):
        values = {"random": (0.5, 0.6), "confidence": (0.6, 0.7)}
        higher = {"random": (0.9, 0.91), "confidence": (0.95, 0.96)}
        results = results_of(
            [
                *records_of(values, "digits", positive="*"),
                *records_of(higher, "digits"),
                *records_of(higher, "digits", positive="3"),
                *records_of(values, "airline", positive="*"),
            ]
        )
        main, classes = results.tables["accuracy"]
        assert main.columns == ("Digits, all classes", "Digits", "Airline, all classes")
        assert classes.title.startswith("Digits, each class against the others")
        assert classes.columns == ("first class", "3", "average")
        (board,) = results.leaderboards.values()
        assert board[0].n_settings == 3
        assert results.savings_tables[0].columns == main.columns
        assert [picture.group for picture in results.pictures] == [
            "Budget 100 + 10×20",
            "Budget 100 + 10×20",
            ONE_VS_ALL,
            "Budget 100 + 10×20",
        ]
        assert results.pictures[0].name == "digits-all-classes-100+10x20-all-strategies"


class TestBesideRandomAndBatches:
    def test_labels_saved(self, results):
        labels = {saving.line.strategy: saving.labels for saving in results.savings}
        # Both start at 70 %; ParBaLS climbs 20 points in 200 labels and Random 11: they take 110.
        assert labels["parbals-epig"].saved == pytest.approx(300 - (100 + 200 * 0.11 / 0.20))
        assert labels["bald"].saved < 0
        assert results.shares_saved[Line("parbals-epig")] == [pytest.approx(0.30)]

    def test_one_label_at_a_time_stands_beside_batches_of_as_many_labels(self):
        batches = {"epig": (0.88, 0.88, 0.5), "parbals-epig": (0.89, 0.89, 0.5)}
        ours = {"parbals-epig": (0.85, 0.85)}
        results = results_of(
            [
                *records_of({"epig": (0.90, 0.90), "random": (0.8, 0.8)}, budget="100+200x1"),
                *records_of(batches, budget="100+10x20"),
                *records_of(ours, budget="100+10x10"),
                *records_of(ours, "yelp", budget="100+10x20"),
            ]
        )
        # The third seed of the batches has nothing to be compared with, and does not count.
        first = results.pictures[0]
        assert [curve.title for curve in first.curves if curve.faint] == [
            "EPIG, 20 at a time",
            "ParBaLS EPIG, 20 at a time",
        ]
        assert [len(curve.values) for curve in first.curves] == [2] * 4


class TestSummaries:
    def test_in_both_forms(self, results):
        parts = (results.leaderboard_tables, results.savings_tables)
        for table in (table for part in parts for table in part):
            latex = to_latex(table)
            html = to_html(table)
            assert "ParBaLS EPIG" in html
            assert latex.count("{") == latex.count("}")
            assert latex.count("\\\\\n") == len(table.rows) + 1
            assert html.count("<tr>") == len(table.rows) + 1
        assert texts(results.savings_tables[0], "ParBaLS EPIG") == ["+90 of 300"]

    def test_what_is_not_reached_is_no_number_and_counts_as_the_worst(self):
        """GLISTER learns from fewer initial labels, and never catches up with Random's 70 %."""
        low = dict.fromkeys(METRICS, (0.6,) * 11)
        lame = [replace(x, metrics=low) for x in records_of({"glister": (0.6, 0.6)})]
        results = results_of(records_of({"random": (0.8, 0.8)}) + lame)
        assert texts(results.savings_tables[0], "GLISTER") == ["not reached"]
        assert results.shares_saved[Line("glister")] == [pytest.approx((100 - 300) / 100)]
        assert "never gets beyond where Random starts" in " ".join(_savings(results).split())

    def test_one_label_at_a_time_does_not_rank(self):
        batches = records_of(TWO)
        singles = records_of(TWO, budget="100+200x1")
        results = results_of(batches + singles)
        assert [saving.task.budget.batch for saving in results.savings] == [20, 1]
        assert len(results.shares_saved[Line("epig")]) == 1
        # Where there is nothing else, it does.
        assert len(results_of(singles).shares_saved[Line("epig")]) == 1


def test_no_picture_replaces_another():
    records = [x for name in ("a b", "a-b", "a/b") for x in records_of(TWO, positive=name)]
    names = [picture.name for picture in results_of(records).pictures]
    assert len(set(names)) == len(names) == 3
