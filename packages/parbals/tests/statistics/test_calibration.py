"""Simulation-based calibration: draws from the prior rank uniformly among posterior draws."""

import warnings

import numpy as np
import parbals
import pytest
from dose import full_count
from oracles.checks import ALPHA, ranks_of, uniformity
from oracles.definition import draw_labels, log_likelihood
from parbals.errors import PosteriorWarning

# name: (labels, features, classes, scale of the features)
SHAPES = {
    "two classes": (15, 3, 2, 1.0),
    "more features than labels": (6, 12, 2, 1.0),
    "three classes": (12, 2, 3, 2.0),
}


def simulate(shape, n_runs, seed=0, n_conditioned=0, **options):
    """Ranks (R, 3) of a logit, of the size of the weights and of the log likelihood."""
    n, d, n_classes, scale = SHAPES[shape]
    rng = np.random.default_rng(seed)
    ranks = []
    n_flagged = 0
    for run in range(n_runs):
        truth = rng.standard_normal((n_classes, d + 1))
        X = scale * rng.standard_normal((n, d))
        x_test = scale * rng.standard_normal(d)
        y = draw_labels(rng, truth, X)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("error")
            warnings.simplefilter("always", PosteriorWarning)
            settings = {"prior_scale": 1.0, "inference": "smc", "random_state": run} | options
            model = parbals.BayesianLogisticRegression(
                n_samples=128, classes=list(range(n_classes)), **settings
            ).fit(X[: n - n_conditioned], y[: n - n_conditioned])
            for i in range(n - n_conditioned, n):
                model = model.condition(X[i : i + 1], y[i : i + 1])
        n_flagged += bool(told)
        draws = np.concatenate([model.coef_samples_, model.intercept_samples_[:, :, None]], axis=2)
        every = np.concatenate([(truth - truth.mean(axis=0))[None], draws])
        logit = np.einsum("kcd,d->kc", every, np.append(x_test, 1.0)) @ np.linspace(
            -1, 1, n_classes
        )
        values = np.column_stack(
            [logit, np.square(every).sum(axis=(1, 2)), log_likelihood(every, X, y)]
        )
        ranks.append(ranks_of(values[0], values[1:], model.sample_weights, rng))
    # Four chains of 32 draws disagree by chance now and then; what they say counts all the same,
    # but it must be rare.
    assert n_flagged <= 0.05 * n_runs, (
        f"{n_flagged} of {n_runs} posteriors failed their own diagnostics"
    )
    return np.array(ranks)


@pytest.mark.parametrize(
    "shape",
    [
        name if name == "two classes" else pytest.param(name, marks=pytest.mark.full)
        for name in SHAPES
    ],
)
def test_the_default_posterior_is_calibrated(shape):
    assert uniformity(simulate(shape, 40)) > ALPHA


def test_expectation_propagation_is_calibrated():
    assert uniformity(simulate("two classes", 80, inference="ep")) > ALPHA


def test_the_posterior_after_conditioning_is_calibrated():
    assert uniformity(simulate("two classes", 20, n_conditioned=6)) > ALPHA


@pytest.mark.full
def test_nuts_is_calibrated():
    assert uniformity(simulate("two classes", 60, inference="nuts")) > ALPHA


def test_a_wrong_prior_is_not():
    """The test has power: twice the prior's width is noticed."""
    assert uniformity(simulate("two classes", 60, prior_scale=2.0, inference="ep")) < ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("inference", ["smc", "nuts"])
def test_calibration_at_full_length(shape, inference):
    n_runs = full_count(1000 if inference == "smc" else 400, least=40)
    assert uniformity(simulate(shape, n_runs, seed=1, inference=inference)) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_calibration_after_conditioning_at_full_length(shape):
    assert uniformity(simulate(shape, full_count(600, least=40), seed=2, n_conditioned=5)) > ALPHA
