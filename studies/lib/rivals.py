"""The posteriors that are compared: four chains of NUTS in two libraries, Laplace's approximation
around scikit-learn's fit, and this package's.

Every function takes labelled rows and a seed and returns logit weights (K, D+1), the bias last, so
that all are judged by the same predictions. They run in a process of their own (see
:mod:`isolate`).

PyMC gets the model as the paper states it: two columns of weights, Categorical. NumPyro gets the
exactly equivalent model of half the size, in single precision and vectorised over chains, which was
the fastest way to run it on two cores.
"""

import time
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from lib.workload import Sizes

__all__ = ["LABELS", "PACKAGES", "Draws", "fit", "missing_packages"]

LABELS = {
    "parbals-ep": "parbals, expectation propagation",
    "laplace": "Laplace around scikit-learn's fit",
    "pymc": "PyMC, the paper's model",
    "numpyro-jit": "NumPyro, inside one jax.jit",
}
PACKAGES = {"pymc": "pymc", "numpyro-jit": "numpyro"}


class Draws(NamedTuple):
    """Logit weights (K, D+1) and the seconds it took to get them."""

    weights: np.ndarray
    seconds: float


def missing_packages(methods: list[str]) -> dict[str, str]:
    """Methods that cannot run here, each with the package it lacks."""
    return {m: PACKAGES[m] for m in methods if m in PACKAGES and find_spec(PACKAGES[m]) is None}


def fit(method: str, X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    """One fit by one method. The clock starts with NumPy arrays and stops with NumPy arrays."""
    function = {
        "parbals-ep": _parbals_ep,
        "laplace": _laplace,
        "pymc": _pymc,
        "numpyro-jit": _numpyro_jit,
    }[method]
    time.sleep(0.1)  # threads of whatever ran before stop spinning
    return function(X, y, seed, sizes)


def _parbals_ep(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    import parbals

    start = time.perf_counter()
    model = parbals.BayesianLogisticRegression(sizes.n_samples, 1.0, random_state=seed).fit(X, y)
    seconds = time.perf_counter() - start
    coefficients = model.coef_samples_
    intercepts = model.intercept_samples_
    weights = np.concatenate(
        [coefficients[:, 1] - coefficients[:, 0], (intercepts[:, 1] - intercepts[:, 0])[:, None]],
        axis=1,
    )
    return Draws(weights, seconds)


def _laplace(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    """Draws of N(ŵ, H⁻¹): the mode under weights of variance 2, and the curvature there."""
    from scipy.linalg import cholesky, solve_triangular
    from scipy.special import expit
    from sklearn.linear_model import LogisticRegression

    start = time.perf_counter()
    rows = np.concatenate([X, np.ones((len(X), 1))], axis=1)
    mode = LogisticRegression(C=2.0, fit_intercept=False).fit(rows, y).coef_[0]
    p = expit(rows @ mode)
    curvature = rows.T @ ((p * (1.0 - p))[:, None] * rows) + 0.5 * np.eye(len(mode))
    noise = np.random.default_rng(seed).standard_normal((len(mode), sizes.n_samples))
    weights = mode + solve_triangular(cholesky(curvature), noise).T
    return Draws(weights, time.perf_counter() - start)


def _pymc(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    import logging
    import warnings

    # Short chains always draw advice, and PyTensor from pip always says that it found no BLAS to
    # link and uses NumPy's. (Linking MKL by hand was measured: at these sizes it is not faster.)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    logging.getLogger("pytensor").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=UserWarning, module="pytensor")
    import pymc as pm

    start = time.perf_counter()
    with pm.Model():
        W = pm.Normal("W", 0.0, 1.0, shape=(X.shape[1], 2))
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        pm.Categorical("y", p=pm.math.softmax(X @ W + b, axis=1), observed=y)
        trace = pm.sample(
            draws=sizes.draws,
            tune=sizes.tune,
            chains=sizes.n_chains,
            cores=sizes.cores,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    coefficients = trace.posterior["W"].to_numpy().reshape(-1, X.shape[1], 2)
    intercepts = trace.posterior["b"].to_numpy().reshape(-1, 2)
    seconds = time.perf_counter() - start
    weights = np.concatenate(
        [
            coefficients[:, :, 1] - coefficients[:, :, 0],
            (intercepts[:, 1] - intercepts[:, 0])[:, None],
        ],
        axis=1,
    )
    return Draws(weights, seconds)


def _numpyro_mcmc(key: Any, X: Any, y: Any, sizes: Sizes) -> Any:
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    def model(X: Any, y: Any) -> None:
        w = numpyro.sample("w", dist.Normal(0.0, np.sqrt(2.0)).expand([X.shape[1]]).to_event(1))
        b = numpyro.sample("b", dist.Normal(0.0, np.sqrt(2.0)))
        numpyro.sample("y", dist.Bernoulli(logits=X @ w + b), obs=y)

    mcmc = MCMC(
        NUTS(model),
        num_warmup=sizes.tune,
        num_samples=sizes.draws,
        num_chains=sizes.n_chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(key, X, y)
    samples = mcmc.get_samples()
    return jnp.concatenate([samples["w"], samples["b"][:, None]], axis=1)


@cache
def _numpyro_jitted(sizes: Sizes) -> Any:
    import jax

    return jax.jit(lambda key, X, y: _numpyro_mcmc(key, X, y, sizes))


def _numpyro_jit(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    import jax

    start = time.perf_counter()
    weights = np.asarray(_numpyro_jitted(sizes)(jax.random.PRNGKey(seed), X.astype(np.float32), y))
    return Draws(weights, time.perf_counter() - start)
