"""The statistics against SciPy, and against cases worked by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parbals_bench.report.stats import (
    Standing,
    compare,
    holm,
    labels_saved,
    leaderboard,
    mean_interval,
    welch,
)
from scipy import stats as scipy_stats

samples = st.lists(st.integers(0, 1000).map(lambda n: n / 10), min_size=2, max_size=12).filter(
    lambda v: len(set(v)) > 1
)


@settings(max_examples=50, deadline=None)
@given(samples)
def test_the_interval_is_scipys(values):
    interval = mean_interval(values)
    low, high = scipy_stats.t.interval(
        0.95, len(values) - 1, np.mean(values), scipy_stats.sem(values)
    )
    assert interval.mean - interval.half_width == pytest.approx(low)
    assert interval.mean + interval.half_width == pytest.approx(high)


@settings(max_examples=50, deadline=None)
@given(samples, samples)
def test_welch_is_scipys(a, b):
    assert welch(mean_interval(a), mean_interval(b)) == pytest.approx(
        scipy_stats.ttest_ind(a, b, equal_var=False).pvalue, abs=1e-12
    )


def test_an_interval_by_hand():
    # 1, 2, 3: mean 2, s = 1, t with 2 degrees of freedom = 4.3027
    interval = mean_interval([1.0, 2.0, 3.0])
    assert interval.mean == 2.0
    assert interval.half_width == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)


def test_one_seed_has_no_interval_and_no_test():
    assert math.isnan(mean_interval([0.9]).half_width)
    assert math.isnan(welch(mean_interval([0.9]), mean_interval([0.8, 0.7])))
    standings = compare({"a": [0.9], "b": [0.8]})
    assert (standings["a"].is_top, standings["b"].is_top) == (True, False)


def test_equal_numbers_do_not_differ_and_constant_ones_do():
    one = mean_interval([0.97] * 3)
    other = mean_interval([0.98] * 3)
    assert (welch(one, one), welch(one, other)) == (1.0, 0.0)


def test_who_is_best_and_who_is_among_the_top():
    standings = compare({"best": [90, 91, 92], "near": [89, 91, 91], "far": [80, 81, 82]})
    assert {name for name, s in standings.items() if s.is_best} == {"best"}
    assert {name for name, s in standings.items() if s.is_top} == {"best", "near"}
    assert standings["near"].p == pytest.approx(
        scipy_stats.ttest_ind([90, 91, 92], [89, 91, 91], equal_var=False).pvalue
    )


def test_where_less_is_better_the_lowest_mean_is_best():
    values = {"best": [0.30, 0.31, 0.32], "near": [0.31, 0.31, 0.33], "far": [0.50, 0.51, 0.52]}
    standings = compare(values, lower_is_better=True)
    assert [s.is_best for s in standings.values()] == [True, False, False]
    assert [s.is_top for s in standings.values()] == [True, True, False]
    for name in ("near", "far"):
        expected = scipy_stats.ttest_ind(values[name], values["best"], equal_var=False).pvalue
        assert standings[name].p == pytest.approx(expected)


@settings(max_examples=30, deadline=None)
@given(st.lists(samples, min_size=2, max_size=4))
def test_turning_the_sign_turns_the_direction(columns):
    higher = compare(dict(enumerate(columns)))
    lower = compare(
        {i: [-v for v in column] for i, column in enumerate(columns)}, lower_is_better=True
    )
    assert [(s.is_best, s.is_top) for s in higher.values()] == [
        (s.is_best, s.is_top) for s in lower.values()
    ]


def test_two_with_the_same_highest_mean_are_both_best():
    standings = compare({"a": [90, 92], "b": [91, 91], "c": [50, 51]})
    assert [s.is_best for s in standings.values()] == [True, True, False]


def test_holms_correction_is_that_of_statsmodels():
    from statsmodels.stats.multitest import multipletests

    ps = dict(enumerate(np.random.default_rng(0).beta(0.3, 2.0, 12).tolist()))
    corrected = holm(ps)
    np.testing.assert_allclose(
        [corrected[name] for name in ps], multipletests(list(ps.values()), method="holm")[1]
    )


def test_one_of_many_weak_differences_is_not_beyond_doubt():
    generator = np.random.default_rng(1)
    values = {f"s{n}": generator.normal(0.0, 1.0, 10) for n in range(15)}
    values["best"] = np.linspace(0.5, 1.5, 10)
    values["worst"] = np.linspace(-9.5, -8.5, 10)
    standings = compare(values)
    apart = {name for name, standing in standings.items() if standing.is_significantly_worse}
    behind = {name for name, standing in standings.items() if not standing.is_top}
    assert "worst" in apart
    assert apart < behind


def test_the_leaderboard_counts_only_where_one_took_part():
    def standing(best, top):
        return Standing(mean_interval([1.0, 2.0]), 1.0, best, top, is_significantly_worse=not top)

    board = leaderboard(
        [
            {"a": standing(True, True), "b": standing(False, True)},
            {"a": standing(False, False), "b": standing(True, True)},
            {"a": standing(True, True)},
        ]
    )
    assert [(p.name, p.n_best, p.n_top, p.n_settings) for p in board] == [
        ("a", 2, 2, 3),
        ("b", 1, 2, 2),
    ]


def test_labels_saved_by_hand():
    # Random reaches 0.8 with 30 labels; the other is there half-way between 10 and 20.
    result = labels_saved([10, 20, 30], [0.7, 0.9, 0.95], [0.6, 0.7, 0.8])
    assert (result.value, result.needed, result.reference) == pytest.approx((0.8, 15.0, 30.0))
    assert result.saved == pytest.approx(15.0)


def test_a_worse_curve_costs_labels_and_random_saves_none_against_itself():
    random = [0.6, 0.7, 0.8]
    assert labels_saved([10, 20, 30], [0.6, 0.62, 0.65], random).saved == pytest.approx(15.0 - 30.0)
    assert labels_saved([10, 20, 30], random, random).saved == 0.0
    wavy = [0.6, 0.8, 0.7]
    assert labels_saved([10, 20, 30], wavy, wavy).saved == 0.0


@pytest.mark.parametrize("curve", [[0.5, 0.55, 0.58], [0.6, 0.5, 0.4]])
def test_a_curve_that_never_gets_beyond_the_start_reaches_nothing(curve):
    result = labels_saved([10, 20, 30], curve, [0.6, 0.7, 0.8])
    assert not result.reached
    assert result.share == pytest.approx((10 - 30) / 10)
    # With a small budget, too, it is no better than -100 %.
    assert labels_saved([10, 11, 12], curve, [0.6, 0.7, 0.8]).share == -1.0


def test_where_nobody_gets_beyond_the_start_there_is_no_loss():
    assert labels_saved([10, 20], [0.6, 0.5], [0.6, 0.55]).saved == 0.0
