"""The interval of an audit holds at every look of a session, whenever one chooses to stop."""

import math

import numpy as np
import pytest
from parbals.learner.numbers.looks import error_limits, latest_look
from scipy.stats import binom


def test_there_is_no_look_before_the_first_label():
    assert latest_look(0) is None


def test_three_looks_come_in_every_doubling_of_the_labels():
    seen = [latest_look(n).n_labels for n in range(1, 1001)]
    assert all(look <= n < 1.26 * look + 1 for n, look in enumerate(seen, start=1))
    assert [look for look in sorted(set(seen)) if look >= 100] == [
        *(100, 126, 159, 200, 252, 318, 400, 504, 635, 800)
    ]
    assert all(latest_look(look).n_labels == look for look in seen), "a look is its own latest"


def test_the_risks_of_all_looks_add_up_to_five_percent():
    """Every k that counts of labels can reach, and the tail Σ 1/k² of those far out."""
    looks = {latest_look(n) for n in np.unique(np.geomspace(1, 1e15, 200_000).astype(np.int64))}
    assert 0.045 < sum(look.delta for look in looks) < 0.05


@pytest.mark.parametrize("n", [1, 7, 50])
@pytest.mark.parametrize("delta", [0.05, 0.003])
def test_the_limits_solve_the_tails_of_the_binomial(n, delta):
    for n_wrong in range(n + 1):
        low, high = error_limits(n_wrong, n, delta)
        assert low <= n_wrong / n <= high
        if n_wrong > 0:
            assert binom.sf(n_wrong - 1, n, low) == pytest.approx(delta, rel=1e-6)
        if n_wrong < n:
            assert binom.cdf(n_wrong, n, high) == pytest.approx(delta, rel=1e-6)
    assert error_limits(0, n, delta)[0] == 0.0
    assert error_limits(n, n, delta)[1] == 1.0


@pytest.mark.parametrize("n_runs", [400, pytest.param(4_000, marks=pytest.mark.full)])
def test_stopping_at_the_first_good_look_keeps_the_promise(n_runs):
    """Models that get better, each wrong where the one before was or somewhere else, and a person
    who stops as soon as the upper end lies below 10 %, which is false until 400 labels."""
    generator = np.random.default_rng(3)
    stopped_too_early = outside = 0
    for _ in range(n_runs):
        losses_of = generator.random(300)  # an item is wrong where this lies below the error
        any_outside = False
        for n_labels in range(20, 600, 20):
            look = latest_look(n_labels)
            true = 0.3 if look.n_labels < 100 else 0.101 if look.n_labels < 400 else 0.05
            if generator.random() < 0.2:  # the errors lie elsewhere now
                losses_of = generator.permutation(losses_of)
            n = look.n_labels // 3
            low, high = error_limits(int((losses_of[:n] < true).sum()), n, look.delta)
            any_outside |= not low <= true <= high
            if high < 0.1:
                stopped_too_early += true > 0.1
                break
        outside += any_outside
    error = math.sqrt(0.05 * 0.95 / n_runs)
    assert stopped_too_early / n_runs < 0.05 + 3 * error
    assert outside / n_runs < 0.10 + 3 * error


def test_limits_without_a_share_of_the_risk_would_break_it():
    """Fresh draws at each of 40 looks with 5 % each: a look fails in far more runs than that."""
    generator = np.random.default_rng(0)
    wrong = generator.binomial(60, 0.1, (500, 40))
    limit = np.array([error_limits(count, 60, 0.05)[1] for count in range(61)])
    assert (limit[wrong] < 0.1).any(axis=1).mean() > 0.25
