"""Tables from hand-written records."""

import pytest
from bench_helpers import records_of

from parbals.bench.collect import Line, collect
from parbals.bench.findings import headlines, savings, stage_times
from parbals.bench.runs import Settings
from parbals.bench.tables import (
    ablation_tables,
    leaderboards,
    main_tables,
    one_vs_all_tables,
    paper_figures,
    to_html,
    to_latex,
    to_markdown,
)

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
    bayesian, _ = main_tables(settings)
    assert bayesian.rows["ParBaLS EPIG"][0].agrees
    assert not bayesian.rows["Random"][0].agrees  # 81.00 ± 2.48 against 87.24 ± 0.52


def test_what_was_not_run_is_a_dash():
    records = records_of(AIRLINE) + records_of({"random": (0.9, 0.9), "bald": (0.8, 0.9)}, "yelp")
    (bayesian, _) = main_tables(collect(records))
    assert bayesian.columns == ("Airline", "Yelp")
    assert bayesian.rows["ParBaLS EPIG"][1] is None
    assert "–" in to_markdown(bayesian)


def test_leaderboard_over_settings_without_one_label_at_a_time():
    records = records_of(AIRLINE) + records_of(AIRLINE, "yelp") + records_of(AIRLINE, budget="100+200x1")
    boards = leaderboards(collect(records))
    first = boards["ParBaLS and the heuristics"][0]
    assert (first.name, first.n_best, first.n_top, first.n_settings) == ("ParBaLS EPIG", 2, 2, 2)
    assert [p.n_top for p in boards["Bayesian methods"]] == [2, 0, 0]


def test_variants_are_compared_on_the_seeds_they_share():
    m5 = records_of({"parbals-epig": (0.90, 0.91)}, settings=Settings(n_universes=5))
    (table,) = ablation_tables(collect(records_of(AIRLINE) + m5))
    assert list(table.rows) == ["ParBaLS EPIG (m = 10)", "ParBaLS EPIG (m = 5)"]
    assert [row[0].standing.interval.n for row in table.rows.values()] == [2, 2]
    assert all("m = 5" not in name for t in main_tables(collect(records_of(AIRLINE) + m5)) for name in t.rows)


def test_one_column_per_positive_class():
    sports = records_of({"random": (0.8, 0.9), "epig": (0.9, 0.95)}, "ag-news", positive="Sports")
    tables = one_vs_all_tables(collect(records_of(AIRLINE, "ag-news") + sports))
    assert [t.columns for t in tables] == [("first class", "Sports")]
    assert list(tables[0].rows) == ["Random", "EPIG"]


def test_strategies_of_other_packages_meet_parbals_too():
    tables = main_tables(collect(records_of({**AIRLINE, "density": (0.95, 0.96, 0.97)})))
    assert list(tables[1].rows) == ["Random", "Confidence", "Density", "ParBaLS EPIG"]


def test_labels_saved_and_headlines(settings):
    found = {saving.line.strategy: saving.found for saving in savings(settings)}
    # Both lines start at 70 %; ParBaLS climbs 20 points in 200 labels and Random 11, so 11 points take 110.
    assert found["parbals-epig"].saved == pytest.approx(300 - (100 + 200 * 0.11 / 0.20))
    assert found["bald"].saved < 0
    said = " ".join(headlines(settings))
    assert "ParBaLS EPIG is among the top in 1 of 1 setting" in said
    assert "30% fewer labels" in said
    assert "rest on 3 seeds only" in said


def test_run_time_per_strategy(settings):
    times = {t.line: t for t in stage_times(settings)}
    assert times[Line("bald")].n_runs == 3
    assert times[Line("bald")].select == pytest.approx(0.5 * 10)
    assert times[Line("bald")].select_once == pytest.approx(0.5)
