"""Limits of a share fail no more often than they say: at one look, at all looks, by predictions."""

import math

import numpy as np
import pytest
from dose import full_count
from parbals.learner.evaluation.limits import (
    clopper_pearson_limits,
    sequence_limits,
    stratified_limits,
)
from scipy.integrate import quad
from scipy.stats import binom


@pytest.mark.parametrize("n", [1, 7, 50])
@pytest.mark.parametrize("delta", [0.05, 0.003])
def test_clopper_pearson_limits_solve_the_tails_of_the_binomial(n, delta):
    for n_wrong in range(n + 1):
        low, high = clopper_pearson_limits(n_wrong, n, delta)
        assert low <= n_wrong / n <= high
        if n_wrong > 0:
            assert binom.sf(n_wrong - 1, n, low) == pytest.approx(delta, rel=1e-6)
        if n_wrong < n:
            assert binom.cdf(n_wrong, n, high) == pytest.approx(delta, rel=1e-6)
    assert clopper_pearson_limits(0, n, delta)[0] == 0.0
    assert clopper_pearson_limits(n, n, delta)[1] == 1.0


@pytest.mark.parametrize(("n_wrong", "n"), [(0, 30), (3, 20), (40, 200)])
def test_a_sequence_limit_is_where_the_mixture_of_likelihood_ratios_is_one_over_delta(n_wrong, n):
    delta = 0.05
    low, high = sequence_limits(n_wrong, n, delta)

    def likelihood_ratio(share):
        """The mixture over smaller shares, by quadrature over the angle of Jeffreys' prior."""
        angle = math.asin(math.sqrt(share))
        mixture, _ = quad(
            lambda t: math.sin(t) ** (2 * n_wrong) * math.cos(t) ** (2 * (n - n_wrong)), 0, angle
        )
        return mixture / angle / (share**n_wrong * (1 - share) ** (n - n_wrong))

    assert likelihood_ratio(high) == pytest.approx(1 / delta, rel=1e-3)
    mirrored = sequence_limits(n - n_wrong, n, delta)
    assert (low, high) == pytest.approx((1 - mirrored[1], 1 - mirrored[0]), abs=1e-6)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("n_runs", [150, pytest.param(full_count(3_000), marks=pytest.mark.slow)])
def test_sequence_limits_hold_after_every_draw(share, n_runs):
    """Each fails in at most 5 % of the runs at any of 200 draws; Clopper and Pearson's do not."""
    n = 200
    generator = np.random.default_rng(round(1000 * share))
    counts = (generator.random((n_runs, n)) < share).cumsum(axis=1)
    rates = {}
    for limits in (sequence_limits, clopper_pearson_limits):
        is_outside = np.zeros((2, n_runs), bool)
        for draw in range(n):
            n_draws = draw + 1
            for count in np.unique(counts[:, draw]):
                low, high = limits(count, n_draws, 0.05)
                fails = np.array([[share > high], [share < low]])
                is_outside |= fails & (counts[:, draw] == count)
        rates[limits] = is_outside.mean(axis=1)
    assert rates[sequence_limits].max() <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / n_runs)
    assert rates[clopper_pearson_limits].max() > 0.1


def sure_predictions(generator, is_class, n_missed):
    """Predictions of a model that is sure of everything, and misses some of the class."""
    predicted = is_class.copy()
    predicted[generator.choice(np.flatnonzero(is_class), n_missed, replace=False)] = 0.0
    return np.abs(predicted - generator.beta(0.5, 30, len(predicted)))


@pytest.mark.parametrize("n", [20, 60, 200])
@pytest.mark.parametrize("n_runs", [200, pytest.param(full_count(2_000), marks=pytest.mark.slow)])
def test_a_model_that_is_sure_of_its_mistakes_does_not_narrow_the_limits_too_much(n, n_runs):
    """Most samples show no mistake. A variance of the residuals alone failed in up to half."""
    generator = np.random.default_rng(n)
    is_class = (np.arange(5_000) < 300).astype(float)
    n_low = n_high = 0
    for _ in range(n_runs):
        predictions = sure_predictions(generator, is_class, n_missed=100)
        order = generator.permutation(5_000)
        sampled = order[:n]
        _, low, high = stratified_limits(
            is_class[sampled], predictions[sampled], predictions[order[n:]], 0.05
        )
        n_low += low > 0.06
        n_high += high < 0.06
    assert max(n_low, n_high) / n_runs <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / n_runs)


def test_good_predictions_narrow_the_limits():
    generator = np.random.default_rng(0)
    is_class = (np.arange(5_000) < 1_500).astype(float)
    predictions = sure_predictions(generator, is_class, n_missed=30)
    order = generator.permutation(5_000)
    sampled = order[:100]
    values = is_class[sampled]
    _, low, high = stratified_limits(values, predictions[sampled], predictions[order[100:]], 0.05)
    plain = clopper_pearson_limits(values.sum(), 100, 0.05)
    assert high - low < 0.6 * (plain[1] - plain[0])


def test_predictions_that_know_nothing_do_little_harm():
    generator = np.random.default_rng(1)
    ratios = []
    for _ in range(100):
        wrong = generator.random(60) < 0.15
        noise = generator.random(2_060)
        _, low, high = stratified_limits(wrong.astype(float), noise[:60], noise[60:], 0.02)
        plain = clopper_pearson_limits(wrong.sum(), 60, 0.02)
        ratios.append((high - low) / (plain[1] - plain[0]))
    assert 0.95 < np.mean(ratios) < 1.1


@pytest.mark.parametrize("others", [np.full(500, 0.1), np.zeros(0)])
def test_with_one_stratum_the_limits_are_exact(others):
    wrong = (np.arange(40) < 7).astype(float)
    share, *limits = stratified_limits(wrong, np.full(40, 0.1), others, 0.03)
    assert (share, tuple(limits)) == (7 / 40, clopper_pearson_limits(7, 40, 0.03))
