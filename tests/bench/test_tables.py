"""Tables from hand-written records."""

from dataclasses import replace

import numpy as np
import pytest
from bench_helpers import records_of
from scipy import stats as scipy_stats

from parbals.bench.metrics import measure
from parbals.bench.records import METRICS
from parbals.bench.report import sections
from parbals.bench.report.collect import Line, collect
from parbals.bench.report.findings import batched, headlines, savings, stage_times
from parbals.bench.report.measures import MEASURES, measure_named
from parbals.bench.report.paper import agreements, paper_figures
from parbals.bench.report.render import to_html, to_latex, to_markdown
from parbals.bench.report.summaries import (
    agreement_tables,
    leaderboard_tables,
    savings_table,
    times_table,
)
from parbals.bench.report.tables import (
    ablation_tables,
    leaderboards,
    main_tables,
    one_vs_all_tables,
)
from parbals.bench.spec import Settings
from parbals.errors import InputError

AIRLINE = {
    "random": (0.80, 0.81, 0.82),
    "confidence": (0.88, 0.89, 0.90),
    "bald": (0.70, 0.71, 0.72),
    "parbals-epig": (0.89, 0.90, 0.91),
}


@pytest.fixture
def settings():
    return collect(records_of(AIRLINE))


def test_the_two_kinds_of_table(settings):
    bayesian, heuristics = main_tables(settings)
    assert bayesian.title == "Bayesian methods, budget 100 + 10×20"
    assert list(bayesian.rows) == ["Random", "BALD", "ParBaLS EPIG"]
    assert list(heuristics.rows) == ["Random", "Confidence", "ParBaLS EPIG"]
    assert bayesian.columns == ("Airline",)


def test_best_is_underlined_among_the_top_is_bold_and_the_papers_figure_stands_beside(settings):
    text = to_markdown(main_tables(settings)[1])
    # s = 1 point, n = 3: the half-width is 4.3027 / √3
    assert "| ParBaLS EPIG | <u>**90.00 ± 2.48**</u><br>paper 89.38 ± 0.36 |" in text
    assert "| Confidence | **89.00 ± 2.48**<br>paper 89.35 ± 0.33 |" in text
    assert "| Random | 81.00 ± 2.48<br>paper 87.24 ± 0.52 |" in text


def test_latex_and_html_say_the_same(settings):
    latex, html = to_latex(main_tables(settings)[1]), to_html(main_tables(settings)[1])
    assert r"\underline{$\mathbf{90.00 \pm 2.48}$} {\scriptsize (paper $89.38 \pm 0.36$)}" in latex
    assert r"Random & $81.00 \pm 2.48$" in latex
    assert latex.count("{") == latex.count("}")
    assert "<u><b>90.00 ± 2.48</b></u>" in html
    assert "<td><b>89.00 ± 2.48</b>" in html


def test_the_papers_figures_are_those_of_its_table():
    figures = paper_figures()
    assert len(figures) == 9 * 5
    assert figures["100+10x20", "random", "airline"] == (87.24, 0.52)
    assert figures["100+10x20", "parbals-epig", "cifar10"] == (95.40, 0.80)
    assert not main_tables(collect(records_of(AIRLINE, budget="20+10x20")))[0].has_paper


def test_a_figure_agrees_within_both_intervals(settings):
    rows = {row.line: row for row in agreements(settings)}
    assert len(rows) == 9  # all that the paper says about Airline, run or not
    ours, random = rows[Line("parbals-epig")], rows[Line("random")]
    # 90.00 ± 2.48 against 89.38 ± 0.36, and 81.00 ± 2.48 against 87.24 ± 0.52
    assert (ours.difference, ours.room, ours.agrees) == (
        pytest.approx(0.62),
        pytest.approx(2.484 + 0.36, abs=1e-3),
        True,
    )
    assert (random.difference, random.agrees) == (pytest.approx(-6.24), False)
    assert (rows[Line("badge")].ours, rows[Line("badge")].agrees) == (None, None)
    agreeing = sum(bool(row.agrees) for row in rows.values())
    compared = sum(row.ours is not None for row in rows.values())
    assert f"agree with ours: Airline {agreeing} of {compared}." in " ".join(headlines(settings))


@pytest.mark.parametrize(
    ("final", "agrees"), [(0.8724, True), (0.8776, True), (0.8777, False), (0.8671, False)]
)
def test_one_seed_has_no_interval_to_widen_with(final, agrees):
    (row,) = (row for row in agreements(collect(records_of({"random": (final,)}))) if row.ours)
    assert row.room == 0.52
    assert row.agrees is agrees


def test_the_table_of_agreement_says_it_plainly(settings):
    (table,) = agreement_tables(settings)
    text = to_markdown(table)
    assert "| ParBaLS EPIG | 90.00 ± 2.48 | 89.38 ± 0.36 | +0.62 | 2.84 | yes | 0.396 |" in text
    assert "| Random | 81.00 ± 2.48 | 87.24 ± 0.52 | -6.24 | 3.00 | no | 0.003 |" in text
    assert "| BADGE | – | 87.88 ± 0.72 | – | – | not run | – |" in text
    assert agreement_tables(collect(records_of(AIRLINE, "digits"))) == []
    assert agreement_tables(collect(records_of(AIRLINE, budget="20+10x20"))) == []


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
    settings = collect(records)
    table = main_tables(settings, "log_loss")[0]
    text = to_markdown(table)
    # s = 0.01, n = 3: 4.3027 · 0.01 / √3
    assert "| ParBaLS EPIG | <u>**0.3100 ± 0.0248**</u> |" in text
    assert "| Random | 0.5100 ± 0.0248 |" in text
    assert table.title == "Bayesian methods, budget 100 + 10×20"
    assert "log loss, nats" in text
    assert "Lowest mean underlined" in to_latex(table)
    assert not table.has_paper
    assert "has the lowest mean in 1" in headlines(settings, "log_loss")[0]
    assert savings(settings, "log_loss")[0].found.saved > 0
    assert [row[0] for row in leaderboard_tables(settings, "log_loss")[0].rows] == [
        "ParBaLS EPIG",
        "Random",
    ]


def test_every_recorded_metric_can_be_shown_and_others_are_refused():
    assert tuple(MEASURES) == METRICS
    assert measure_named("Balanced-Accuracy").key == "balanced_accuracy"
    with pytest.raises(InputError, match="no metric 'recall'; choose one of accuracy, log_loss"):
        measure_named("recall")


def test_what_was_not_run_is_a_dash():
    records = records_of(AIRLINE) + records_of({"random": (0.9, 0.9), "bald": (0.8, 0.9)}, "yelp")
    (bayesian, _) = main_tables(collect(records))
    assert bayesian.columns == ("Airline", "Yelp")
    assert bayesian.rows["ParBaLS EPIG"][1] is None
    assert "–" in to_markdown(bayesian)


def test_leaderboard_over_settings_without_one_label_at_a_time():
    records = (
        records_of(AIRLINE) + records_of(AIRLINE, "yelp") + records_of(AIRLINE, budget="100+200x1")
    )
    boards = leaderboards(collect(records))
    first = boards["ParBaLS and the heuristics"][0]
    assert (first.name, first.n_best, first.n_top, first.n_settings) == ("ParBaLS EPIG", 2, 2, 2)
    assert [p.n_top for p in boards["Bayesian methods"]] == [2, 0, 0]


def test_variants_are_compared_on_the_seeds_they_share():
    m5 = records_of({"parbals-epig": (0.90, 0.91)}, settings=Settings(n_universes=5))
    (table,) = ablation_tables(collect(records_of(AIRLINE) + m5))
    assert table.title == "Variants of ParBaLS EPIG by m, budget 100 + 10×20"
    assert list(table.rows) == ["ParBaLS EPIG (m = 5)", "ParBaLS EPIG (m = 10)"]
    assert [row[0].standing.interval.n for row in table.rows.values()] == [2, 2]
    assert all(
        "m = 5" not in name
        for t in main_tables(collect(records_of(AIRLINE) + m5))
        for name in t.rows
    )


def test_each_parameter_has_its_own_ablation_with_the_baseline_in_its_place():
    records = records_of(AIRLINE) + records_of(AIRLINE, "yelp")
    for changed in (
        {"n_universes": 20},
        {"n_universes": 5},
        {"n_samples": 1600},
        {"n_samples": 100},
    ):
        records += records_of({"parbals-epig": (0.90, 0.91)}, settings=Settings(**changed))
    by_universes, by_samples = ablation_tables(collect(records))
    assert [name.partition("(")[2] for name in by_universes.rows] == [
        "m = 5)",
        "m = 10)",
        "m = 20)",
    ]
    assert [name.partition("(")[2] for name in by_samples.rows] == [
        "K = 100)",
        "K = 400)",
        "K = 1600)",
    ]
    assert by_universes.columns == by_samples.columns == ("Airline",)  # nothing was varied on Yelp


def test_one_column_per_positive_class_and_their_average():
    first = records_of({"random": (0.70, 0.72, 0.99), "epig": (0.80, 0.84, 0.99)}, "ag-news")
    sports = records_of(
        {"random": (0.80, 0.90), "epig": (0.90, 0.94)}, "ag-news", positive="Sports"
    )
    (table,) = one_vs_all_tables(collect(first + sports))
    assert table.columns == ("first class", "Sports", "average")
    assert list(table.rows) == ["Random", "EPIG"]
    # Seeds 0 and 1, which both classes have: (0.70 + 0.80) / 2 = 75 and (0.72 + 0.90) / 2 = 81.
    average = table.rows["Random"][2].standing
    assert (average.interval.mean, average.interval.n) == (pytest.approx(78.0), 2)
    assert average.interval.half_width == pytest.approx(
        12.7062 * np.std([75, 81], ddof=1) / np.sqrt(2), rel=1e-4
    )
    best = table.rows["EPIG"][2].standing
    assert (best.interval.mean, best.is_best) == (pytest.approx(87.0), True)
    assert average.p == pytest.approx(
        scipy_stats.ttest_ind([75, 81], [85, 89], equal_var=False).pvalue
    )


def test_the_average_leaves_out_who_lacks_a_class():
    first = records_of({"random": (0.70, 0.72), "epig": (0.80, 0.84)}, "ag-news")
    sports = records_of(
        {"random": (0.80, 0.90), "epig": (0.9, 0.9), "bald": (0.9, 0.9)},
        "ag-news",
        positive="Sports",
    )
    (table,) = one_vs_all_tables(collect(first + sports))
    assert table.rows["BALD"][0] is None
    assert table.rows["BALD"][2] is None


def test_strategies_of_other_packages_meet_parbals_too():
    tables = main_tables(collect(records_of({**AIRLINE, "density": (0.95, 0.96, 0.97)})))
    assert list(tables[1].rows) == ["Random", "Confidence", "Density", "ParBaLS EPIG"]


def test_labels_saved_and_headlines(settings):
    found = {saving.line.strategy: saving.found for saving in savings(settings)}
    # Both lines start at 70 %; ParBaLS climbs 20 points in 200 labels and Random 11, so 11 points
    # take 110.
    assert found["parbals-epig"].saved == pytest.approx(300 - (100 + 200 * 0.11 / 0.20))
    assert found["bald"].saved < 0
    said = " ".join(headlines(settings))
    assert "ParBaLS EPIG is among the top in 1 of 1 setting" in said
    assert "30% fewer labels" in said
    assert "rest on 3 seeds only" in said


def test_where_parbals_is_beaten_is_said():
    beaten = {"confidence": (0.95, 0.951, 0.952), "parbals-epig": (0.93, 0.931, 0.932)}
    said = " ".join(headlines(collect(records_of(beaten, "cifar10"))))
    assert "ParBaLS EPIG is beaten by Confidence on CIFAR-10 (100 + 10×20, by 2.00 points)." in said
    assert "beaten" not in " ".join(headlines(collect(records_of(AIRLINE))))


def test_one_label_at_a_time_stands_beside_batches_of_as_many_labels():
    settings = collect(
        [
            *records_of({"epig": (0.90, 0.90), "random": (0.8, 0.8)}, budget="100+200x1"),
            *records_of(
                {"epig": (0.88, 0.88, 0.5), "parbals-epig": (0.89, 0.89, 0.5)}, budget="100+10x20"
            ),
            *records_of({"parbals-epig": (0.85, 0.85)}, budget="100+10x10"),
            *records_of({"parbals-epig": (0.85, 0.85)}, "yelp", budget="100+10x20"),
        ]
    )
    beside = batched(settings[0], settings)
    assert [(s.budget.batch, line.strategy) for s, line in beside] == [
        (20, "epig"),
        (20, "parbals-epig"),
    ]
    said = " ".join(headlines(settings))
    # The third seed of the batches has nothing to be compared with, and does not count.
    assert (
        "EPIG ends 1.00 points above ParBaLS EPIG and 2.00 points above EPIG in batches with as "
        "many labels (mean of "
        "1 setting)" in said
    )


def test_summaries_in_all_three_forms(settings):
    for table in (*leaderboard_tables(settings), *savings_table(settings), *times_table(settings)):
        markdown, latex, html = to_markdown(table), to_latex(table), to_html(table)
        assert "ParBaLS EPIG" in markdown
        assert latex.count("{") == latex.count("}")
        assert latex.count("\\\\\n") == len(table.rows) + 1
        assert html.count("<tr>") == len(table.rows) + 1
    (saved,) = savings_table(settings)
    assert {row[0]: row[1] for row in saved.rows}["ParBaLS EPIG"] == "+90 of 300"


def test_run_time_per_strategy(settings):
    (found,) = stage_times(settings).values()
    times = {t.line: t for t in found}
    assert times[Line("bald")].n_runs == 3
    assert times[Line("bald")].select == pytest.approx(0.5 * 10)
    assert times[Line("bald")].select_once == pytest.approx(0.5)


def test_each_device_has_its_own_times_and_one_label_at_a_time_has_none():
    def on(device, seconds, strategy, budget):
        select = (
            9.0,
            *(seconds,) * (int(budget.split("+")[1].split("x")[0]) - 1),
        )  # the first batch compiles
        return [
            replace(
                record, versions={"device": device}, seconds={**record.seconds, "select": select}
            )
            for record in records_of({strategy: (0.8, 0.8)}, budget=budget)
        ]

    records = on("cpu: cpu", 0.1, "epig", "100+10x20") + on("cpu: cpu", 5.0, "epig", "100+200x1")
    records += on("gpu: NVIDIA H200", 0.2, "parbals-epig", "100+10x20")
    settings = collect(records)
    first, second = times_table(settings)
    assert (first.title, second.title) == ("Run time on CPU", "Run time on NVIDIA H200 (GPU)")
    assert first.rows == (("EPIG", "100 ms", "9.9 s", "5.5 s", "5.5 s", "2"),)
    assert second.rows[0][:2] == ("ParBaLS EPIG", "200 ms")
    said = sections.times(settings)
    assert "compare times within a table, never between tables" in said
    assert "different machines" not in sections.times(collect(on("cpu: cpu", 0.1, "epig", "9+3x2")))
    assert sections.times(collect(on("cpu: cpu", 0.1, "epig", "100+200x1"))) == ""


def test_welchs_test_of_the_papers_figures_is_scipys(settings):
    rows = {row.line: row for row in agreements(settings)}
    t9, t2 = scipy_stats.t.ppf(0.975, 9), scipy_stats.t.ppf(0.975, 2)
    for strategy in ("random", "parbals-epig"):
        row = rows[Line(strategy)]
        ours = row.ours.half_width / t2 * np.sqrt(3)
        theirs = row.paper[1] / t9 * np.sqrt(10)
        expected = scipy_stats.ttest_ind_from_stats(
            row.ours.mean, ours, 3, row.paper[0], theirs, 10, equal_var=False
        )
        assert row.p == pytest.approx(expected.pvalue)
    assert rows[Line("badge")].p is None
    tested = [row.p for row in rows.values() if row.p is not None]
    said = " ".join(headlines(settings))
    assert (
        f"Welch's test gives p ≥ 0.05 for {sum(p >= 0.05 for p in tested)} of {len(tested)} "
        "figures." in said
    )
    single = collect(records_of({"random": (0.87,)}))
    assert next(row for row in agreements(single) if row.ours).p is None
    assert "Welch's test gives" not in " ".join(headlines(single))


def test_what_is_not_reached_is_no_number_and_counts_as_the_worst():
    """GLISTER learns from fewer of the initial labels, and here never catches up with Random's
    start of 70 %."""
    lame = [
        replace(r, metrics=dict.fromkeys(METRICS, (0.6,) * 11))
        for r in records_of({"glister": (0.6, 0.6)})
    ]
    settings = collect(records_of({"random": (0.8, 0.8)}) + lame)
    (table,) = savings_table(settings)
    assert table.rows == (("GLISTER", "not reached"),)
    (saving,) = savings(settings)
    assert saving.share == pytest.approx((100 - 300) / 100)
    assert "never gets beyond where Random starts" in sections.savings(settings, "accuracy")


class TestAllClasses:
    """ "digits:*" is a setting of its own, and none of one class against the others."""

    def settings(self):
        values = {"random": (0.5, 0.6), "confidence": (0.6, 0.7)}
        return collect(
            [
                *records_of(values, "digits", positive="*"),
                *records_of({"random": (0.9, 0.91), "confidence": (0.95, 0.96)}, "digits"),
                *records_of(
                    {"random": (0.9, 0.91), "confidence": (0.95, 0.96)}, "digits", positive="3"
                ),
                *records_of(values, "airline", positive="*"),
            ]
        )

    def test_it_stands_in_the_main_tables_the_leaderboard_and_the_savings(self):
        (table,) = main_tables(self.settings())
        assert table.columns == ("Digits, all classes", "Digits", "Airline, all classes")
        assert [entry.paper for entry in table.rows["Random"]] == [
            None
        ] * 3  # the paper has no such figure
        (board,) = leaderboards(self.settings()).values()
        assert board[0].n_settings == 3
        assert savings_table(self.settings())[0].head[1:] == table.columns

    def test_it_is_no_class_against_the_others(self):
        (table,) = one_vs_all_tables(self.settings())
        assert table.title == "Digits, each class against the others, budget 100 + 10×20"
        assert table.columns == ("first class", "3", "average")
        assert one_vs_all_tables([self.settings()[0]]) == []

    def test_the_papers_figures_are_not_of_all_classes(self):
        assert agreement_tables(collect(records_of(AIRLINE, positive="*"))) == []

    def test_f1_is_explained_for_both(self):
        assert (
            "with two classes of the positive one, with more the mean over the classes"
            in MEASURES["f1"].explained
        )

    def test_f1_leaves_out_classes_that_neither_occur_nor_are_predicted(self):
        probs, truth = np.eye(4)[[0, 1, 1, 0]], np.array([0, 1, 0, 0])
        # F1 of class 0 is 4/5 and of class 1 2/3; classes 2 and 3 do not count as 0.
        assert measure(probs, truth)["f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)
        assert measure(np.eye(2)[[0, 0]], np.array([0, 0]))["f1"] == 0.0


class TestOnlyVariants:
    """A strategy without a baseline is shown by its variants."""

    def settings(self):
        records = records_of({"random": (0.8, 0.8), "confidence": (0.85, 0.85)})
        for m in (20, 5):
            records += records_of({"parbals-epig": (0.9, 0.9)}, settings=Settings(n_universes=m))
        return collect(records)

    def test_they_are_lines_of_the_tables_and_are_compared_with_random(self):
        heuristics = main_tables(self.settings())[1]
        names = ["ParBaLS EPIG (m = 5)", "ParBaLS EPIG (m = 20)"]
        assert list(heuristics.rows) == ["Random", "Confidence", *names]
        (saved,) = savings_table(self.settings())
        assert [row[0] for row in saved.rows] == ["Confidence", *names]
        (ablation,) = ablation_tables(self.settings())
        assert list(ablation.rows) == names

    def test_where_there_is_a_baseline_it_alone_is_shown(self):
        records = records_of({"random": (0.8,), "epig": (0.9,)})
        records += records_of({"epig": (0.9,)}, settings=Settings(n_samples=100))
        assert list(main_tables(collect(records))[0].rows) == ["Random", "EPIG"]
        assert [saving.line for saving in savings(collect(records))] == [Line("epig")]

    def test_each_is_measured_against_random_with_the_same_settings(self):
        records = records_of({"random": (0.8,)})
        records += records_of({"random": (0.75,), "epig": (0.9,)}, settings=Settings(n_samples=100))
        (saving,) = savings(collect(records))
        assert saving.line == Line("epig", "K = 100")
        assert saving.found.value == pytest.approx(0.75)
