"""PPI++ means agree with ppi-python, and their intervals hold."""

import math

import numpy as np
import pytest
from parbals.learner.evaluation.ppi import ppi_mean
from scipy.stats import norm

PPI_PYTHON = {
    (40, 500, 0.8): (0.4207447681557658, 0.29953441463303526, 0.5419551216784962),
    (100, 1000, 0.3): (0.2803353470756517, 0.20804522776626339, 0.35262546638504005),
    (60, 90, 1.0): (0.6028658363532944, 0.5060102140500108, 0.699721458656578),
    (50, 400, -0.5): (0.06, 0.004756421040815743, 0.11524357895918425),
}
"""For ``design(*key)``: ppi_mean_pointestimate and ppi_mean_ci(alpha=0.1) of ppi-python 0.2.3."""


def design(n, n_unlabelled, slope):
    """Deterministic values and predictions."""
    i = np.arange(n + n_unlabelled)
    predicted = 0.5 + 0.45 * np.sin(1.7 * i)
    values = (0.5 * np.sin(3.1 * i) + 0.5 < slope * predicted + 0.1).astype(float)
    return values[:n], predicted[:n], predicted[n:]


@pytest.mark.parametrize("arguments", PPI_PYTHON)
def test_it_agrees_with_ppi_python(arguments):
    mean, deviation, _ = ppi_mean(*design(*arguments))
    result = mean, *norm.interval(0.9, mean, deviation)
    assert result == pytest.approx(PPI_PYTHON[arguments], abs=1e-9)


def test_without_predictions_it_is_the_plain_mean():
    values = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    plain = (0.6, math.sqrt(0.24 / 5), 0.0)
    assert ppi_mean(values, np.full(5, 0.3), np.full(9, 0.3)) == pytest.approx(plain)
    assert ppi_mean(values, np.linspace(0, 1, 5), np.zeros(0)) == pytest.approx(plain)


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_interval_holds_nine_times_in_ten_and_is_narrower(share):
    generator = np.random.default_rng(4)
    n_draws = 500
    n = 100
    n_covered = 0
    widths = []
    score = generator.logistic(size=20_000) + math.log(share / (1 - share))
    values = generator.random(20_000) < 1 / (1 + np.exp(-2 * score))
    predicted = 1 / (1 + np.exp(-score))
    for _ in range(n_draws):
        order = generator.permutation(20_000)[:2_000]
        labelled = order[:n]
        unlabelled = order[n:]
        mean, deviation, _ = ppi_mean(values[labelled], predicted[labelled], predicted[unlabelled])
        low, high = norm.interval(0.9, mean, deviation)
        n_covered += low <= values.mean() <= high
        widths.append(deviation / math.sqrt(values.var() / n))
    assert abs(n_covered / n_draws - 0.9) < 3 * math.sqrt(0.09 / n_draws)
    assert np.mean(widths) < 0.85
