"""EPIG and batches of numbers against determinants of covariance matrices."""

import numpy as np
import pytest
from brute_force import covariance_with
from parbals.posterior.closed.ordinal import fit_ordinal, interval_probs
from parbals.posterior.closed.prior import fixed_prior
from parbals.posterior.closed.regression import fit_regression
from parbals.posterior.closed.whitening import PoolMoments
from parbals.posterior.predictive import add_bias
from parbals.strategies.greedy import grow
from parbals.strategies.problem import GaussianView
from parbals.strategies.regression import _NumericUniverse, regression_bald, regression_epig

GENERATOR = np.random.default_rng(1)
POOL = GENERATOR.standard_normal((25, 4))
TARGET = GENERATOR.standard_normal((9, 4))
X = GENERATOR.standard_normal((6, 4))
Y = GENERATOR.standard_normal(6)


def view():
    return GaussianView(fit_regression(add_bias(X), Y, PoolMoments.of(POOL)), POOL, TARGET)


def covariance(view, rows):
    """Of f at rows (n, D), dense."""
    design = add_bias(rows)
    return design @ covariance_with(view.latents, design)[0]


def information(view, chosen):
    """Mean over targets of I(y* ; labels of the chosen), by determinants."""
    noise = view.posterior.noise_variance
    total = 0.0
    for target in TARGET:
        joint = covariance(view, np.vstack([POOL[chosen], target]))
        joint += noise * np.eye(len(joint))
        parts = np.linalg.slogdet(joint[:-1, :-1])[1] + np.log(joint[-1, -1])
        total += 0.5 * (parts - np.linalg.slogdet(joint)[1]) / len(TARGET)
    return total


def test_epig_is_half_the_logarithm_of_a_ratio_of_determinants():
    exact = [information(view(), [i]) for i in range(len(POOL))]
    assert regression_epig(view()) == pytest.approx(exact, rel=1e-4, abs=1e-7)


def test_a_batch_is_greedy_and_its_scores_add_up_to_what_it_tells():
    free = np.ones(len(POOL), bool)
    free[[3, 7]] = False
    steps = grow(_NumericUniverse(view()), free, [3, 7], 5)
    labelled = [3, 7]
    for step in steps:
        gains = [
            information(view(), [*labelled, i]) if free[i] and i not in labelled else -np.inf
            for i in range(len(POOL))
        ]
        assert gains[step.index] == pytest.approx(max(gains), rel=1e-4)
        assert step.score == pytest.approx(max(gains) - information(view(), labelled), rel=1e-3)
        labelled.append(step.index)


def test_bald_is_what_a_label_says_of_f():
    variance = np.diag(covariance(view(), POOL))
    exact = 0.5 * np.log1p(variance / view().posterior.noise_variance)
    assert regression_bald(view()) == pytest.approx(exact, rel=1e-6)


def test_a_rank_tells_to_first_order_what_draws_say():
    """EPIG of ranks against the mutual information of two labels, from the joint of f."""
    whitening = fixed_prior(0.3, 4).whitening
    result = fit_ordinal(add_bias(X), np.array([0, 1, 2, 3, 1, 2]), 4, whitening)
    ordinal_view = GaussianView(result, POOL[:6], TARGET[:4])
    exact = np.zeros(6)
    roots, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    for i, row in enumerate(POOL[:6]):
        for target in TARGET[:4]:
            pair = add_bias(np.stack([row, target]))
            mean = result.marginals(pair)[0]
            lower = np.linalg.cholesky(pair @ covariance_with(result.latents, pair)[0])
            f = mean[0] + lower[0, 0] * roots
            f_target = mean[1] + lower[1, 0] * roots
            pool_probs = interval_probs(f, np.zeros(60), result.thresholds)
            target_probs = interval_probs(
                f_target, np.full(60, lower[1, 1] ** 2), result.thresholds
            )
            joint = np.einsum("q,qa,qb->ab", weights, pool_probs, target_probs)
            apart = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
            exact[i] += (joint * np.log(joint / apart)).sum() / 4
    assert regression_epig(ordinal_view) == pytest.approx(exact, rel=0.1, abs=1e-6)
