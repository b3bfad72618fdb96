"""The default posterior agrees with long NUTS runs that share no code with it.

Each takes a while; posterior/test_smc.py compares with quadrature in every run.
"""

from functools import cache

import numpy as np
import parbals
import pytest
from dose import full_count
from oracles.checks import ALPHA, agreement, predictive_values, summarise_chains, summarise_model
from oracles.designs import DESIGNS, design

pytestmark = pytest.mark.slow
N_DRAWS = full_count(6000, least=1500)
TWO_CLASSES = [name for name in DESIGNS if design(name).n_classes == 2]


@cache
def long_nuts(name):
    from oracles.numpyro_reference import numpyro_chains  # slow to import, and seldom used

    probs = numpyro_chains(design(name), n_draws=N_DRAWS, seed=1)  # (chains, S, T, C)
    return summarise_chains(probs[:, :, :, 1:].reshape(*probs.shape[:2], -1))


def fitted(data, **options):
    options = {
        "n_samples": 2000,
        "prior_scale": data.prior_scale,
        "inference": "smc",
        "classes": list(range(data.n_classes)),
        "random_state": 0,
    } | options
    return parbals.BayesianLogisticRegression(**options).fit(data.X, data.y)


def conditioned_one_by_one(data, n_last, **options):
    model = fitted(data._replace(X=data.X[:-n_last], y=data.y[:-n_last]), **options)
    for x, y in zip(data.X[-n_last:], data.y[-n_last:], strict=True):
        model = model.condition(x[None], [y])
    return model


@pytest.mark.parametrize("name", DESIGNS)
def test_means_and_standard_deviations_agree_with_nuts(name):
    """A fit, and a chain of up to 50 one-label conditionings, against one long reference."""
    data = design(name)
    reference = long_nuts(name)
    model = fitted(data, n_samples=N_DRAWS)
    assert agreement(summarise_model(model, data.X_test), reference).p_value > ALPHA
    chain = conditioned_one_by_one(data, min(50, len(data.X) - 5), n_samples=N_DRAWS)
    assert agreement(summarise_model(chain, data.X_test), reference).p_value > ALPHA


def test_laplace_is_told_apart():
    """The comparison has power: a Gaussian at the mode fails it."""
    data = design("separable")
    laplace = summarise_model(fitted(data, inference="laplace"), data.X_test)
    assert agreement(laplace, long_nuts("separable")).p_value < ALPHA


def distance(model, data, reference):
    """Root mean square errors of predictive means and deviations, less the reference's own."""
    ours = summarise_model(model, data.X_test)
    n_values = len(ours.mean)
    noise = np.diag(reference.covariance).reshape(2, n_values).mean(axis=1)
    parts = np.square([ours.mean - reference.mean, ours.sd - reference.sd]).mean(axis=1)
    return np.sqrt(np.maximum(parts - noise, 0.0))


@pytest.mark.parametrize("name", TWO_CLASSES)
def test_expectation_propagation_is_near_nuts_and_laplace_is_not(name):
    """It is biased, by less than the noise of 400 draws; many draws of the Gaussian show it."""
    data = design(name)
    reference = long_nuts(name)
    mean, sd = distance(fitted(data, inference="ep", n_samples=200_000), data, reference)
    assert mean < 0.004
    assert sd < 0.006
    mean, sd = distance(fitted(data, inference="laplace", n_samples=200_000), data, reference)
    assert mean > 0.01
    assert sd > 0.006


def test_our_nuts_agrees_with_another_librarys():
    data = design("four classes")
    model = fitted(data, inference="nuts")
    values = predictive_values(model.sample_proba(data.X_test))
    chains = summarise_chains(values.reshape(-1, 4, values.shape[1]).swapaxes(0, 1))
    assert agreement(chains, long_nuts("four classes")).p_value > ALPHA
