"""Shares of classes: the intervals hold as often as they say, with few labels and rare classes."""

import numpy as np
import pytest
from parbals.types import Estimate
from parbals_label.project.measuring import _difference, _Population

N_ITEMS = 2_000
N_RUNS = 400


def draw_population(rng, share, n_sampled, skill):
    """Items of which a share is of the class, some of them labelled at random.

    Args:
        skill: how far the predictions tell items of the class from others; 0 is not at all.
    """
    is_class = (rng.random(N_ITEMS) < share).astype(float)
    logits = skill * (is_class - 0.5) + rng.standard_normal(N_ITEMS)
    is_sampled = np.zeros(N_ITEMS, bool)
    is_sampled[rng.choice(N_ITEMS, n_sampled, replace=False)] = True
    return _Population(
        is_sampled=is_sampled,
        is_known=np.zeros(N_ITEMS, bool),
        is_unlabelled=~is_sampled,
        is_class=is_class,
        probs=1.0 / (1.0 + np.exp(-logits)),
    )


@pytest.mark.parametrize("skill", [0.0, 4.0])
@pytest.mark.parametrize(("share", "n"), [(0.02, 20), (0.1, 20), (0.1, 50), (0.4, 20)])
def test_an_interval_fails_no_more_often_than_it_says(share, n, skill):
    rng = np.random.default_rng(round(1000 * share) + n)
    n_failures = 0
    for _ in range(N_RUNS):
        population = draw_population(rng, share, n, skill)
        estimate = population.share()
        n_failures += not estimate.low <= population.is_class.mean() <= estimate.high
    monte_carlo_error = np.sqrt(0.1 * 0.9 / N_RUNS)
    assert n_failures / N_RUNS <= 0.1 + 2 * monte_carlo_error


def test_a_sample_without_the_class_does_not_say_that_there_is_none():
    rng = np.random.default_rng(0)
    population = draw_population(rng, 0.0, 20, 0.0)
    estimate = population.share()
    assert estimate.low == 0.0
    clopper_pearson = 1.0 - 0.05 ** (1 / 20)
    assert clopper_pearson <= estimate.high < 2.0 * clopper_pearson


def test_known_labels_are_counted_as_they_are():
    rng = np.random.default_rng(1)
    population = draw_population(rng, 0.3, 50, 0.0)
    is_known = np.arange(N_ITEMS) < N_ITEMS // 2
    population = population._replace(
        is_known=is_known & ~population.is_sampled,
        is_unlabelled=population.is_unlabelled & ~is_known,
    )
    estimate = population.share()
    n_known = population.is_class[population.is_known].sum()
    assert estimate.low >= n_known / N_ITEMS
    assert estimate.high - estimate.low < 0.15  # half of the items are certain


def test_the_difference_of_two_shares_holds_as_often_as_it_says():
    rng = np.random.default_rng(2)
    n_failures = 0
    for _ in range(N_RUNS):
        first = draw_population(rng, 0.05, 30, 0.0)
        second = draw_population(rng, 0.2, 30, 0.0)
        difference = _difference(second.share(), first.share())
        truth = second.is_class.mean() - first.is_class.mean()
        n_failures += not difference.low <= truth <= difference.high
    assert n_failures / N_RUNS <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / N_RUNS)


def test_the_difference_of_certain_shares_is_certain():
    difference = _difference(Estimate(0.4, 0.4, 0.4), Estimate(0.1, 0.1, 0.1))
    assert (difference.mean, difference.low, difference.high) == pytest.approx((0.3, 0.3, 0.3))
