"""The posteriors that are compared: four chains of NUTS in three libraries, Laplace's approximation
around scikit-learn's fit, and this package's.

Every function takes labelled rows and a seed and returns logit weights (K, D+1), the bias last, so
that all are judged by the same predictions. They run in a process of their own (see
:mod:`isolate`).

PyMC gets the model as the paper states it: two columns of weights, Categorical. NumPyro and
BlackJAX get the exactly equivalent model of half the size, in single precision and vectorised over
chains, which was the fastest way to run them on two cores.
"""

import time
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from lib.workload import Sizes

__all__ = ["LABELS", "PACKAGES", "Draws", "fit", "missing_packages"]

LABELS = {
    "parbals": "parbals, particles",
    "parbals-ep": "parbals, expectation propagation",
    "laplace": "Laplace around scikit-learn's fit",
    "parbals-nuts": 'parbals, inference="nuts"',
    "pymc": "PyMC, the paper's model",
    "pymc-numba": "PyMC, compiled by Numba",
    "numpyro": "NumPyro, as documented",
    "numpyro-jit": "NumPyro, inside one jax.jit",
    "blackjax-jit": "BlackJAX, inside one jax.jit",
}
PACKAGES = {
    "pymc": "pymc",
    "pymc-numba": "pymc",
    "numpyro": "numpyro",
    "numpyro-jit": "numpyro",
    "blackjax-jit": "blackjax",
}


class Draws(NamedTuple):
    """Logit weights (K, D+1) and the seconds it took to get them."""

    weights: np.ndarray
    seconds: float
    sampling_seconds: float | None = None


def missing_packages(methods: list[str]) -> dict[str, str]:
    """Methods that cannot run here, each with the package it lacks."""
    return {m: PACKAGES[m] for m in methods if m in PACKAGES and find_spec(PACKAGES[m]) is None}


def fit(method: str, X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    """One fit by one method. The clock starts with NumPy arrays and stops with NumPy arrays."""
    function = {
        "parbals": _parbals,
        "parbals-ep": _parbals_ep,
        "parbals-nuts": _parbals_nuts,
        "laplace": _laplace,
        "pymc": _pymc,
        "pymc-numba": _pymc_numba,
        "numpyro": _numpyro,
        "numpyro-jit": _numpyro_jit,
        "blackjax-jit": _blackjax_jit,
    }[method]
    time.sleep(0.1)  # threads of whatever ran before stop spinning
    return function(X, y, seed, sizes)


def long_run(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> np.ndarray:
    """The reference for accuracy: long chains of BlackJAX in double precision, on the plain
    definition."""
    import jax

    warm_up, draws = sizes.reference
    with jax.enable_x64(True):
        sampler = _blackjax_sampler(sizes.n_chains, warm_up, draws)
        return np.asarray(sampler(jax.random.PRNGKey(seed), X, y))


def _parbals(
    X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes, inference: str = "smc"
) -> Draws:
    import parbals

    start = time.perf_counter()
    model = parbals.BayesianLogisticRegression(
        n_samples=sizes.n_samples, prior_scale=1.0, inference=inference, random_state=seed
    ).fit(X, y)
    seconds = time.perf_counter() - start
    coefficients = model.coef_samples_
    intercepts = model.intercept_samples_
    weights = np.concatenate(
        [coefficients[:, 1] - coefficients[:, 0], (intercepts[:, 1] - intercepts[:, 0])[:, None]],
        axis=1,
    )
    return Draws(weights, seconds)


def _parbals_nuts(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    return _parbals(X, y, seed, sizes, "nuts")


def _parbals_ep(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    return _parbals(X, y, seed, sizes, "auto")


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


def _pymc(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes, mode: str | None = None) -> Draws:
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
            **({"compile_kwargs": {"mode": mode}} if mode else {}),
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
    return Draws(weights, seconds, float(trace.sample_stats.attrs["sampling_time"]))


def _pymc_numba(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    return _pymc(X, y, seed, sizes, "NUMBA")


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


def _numpyro(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    """A new ``MCMC`` for each refit, as in NumPyro's manual: each one is compiled again."""
    import jax

    start = time.perf_counter()
    weights = np.asarray(_numpyro_mcmc(jax.random.PRNGKey(seed), X.astype(np.float32), y, sizes))
    return Draws(weights, time.perf_counter() - start)


@cache
def _numpyro_jitted(sizes: Sizes) -> Any:
    import jax

    return jax.jit(lambda key, X, y: _numpyro_mcmc(key, X, y, sizes))


def _numpyro_jit(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    import jax

    start = time.perf_counter()
    weights = np.asarray(_numpyro_jitted(sizes)(jax.random.PRNGKey(seed), X.astype(np.float32), y))
    return Draws(weights, time.perf_counter() - start)


def _blackjax_jit(X: np.ndarray, y: np.ndarray, seed: int, sizes: Sizes) -> Draws:
    import jax

    start = time.perf_counter()
    sampler = _blackjax_sampler(sizes.n_chains, sizes.tune, sizes.draws)
    weights = np.asarray(sampler(jax.random.PRNGKey(seed), X.astype(np.float32), y))
    return Draws(weights, time.perf_counter() - start)


@cache
def _blackjax_sampler(n_chains: int, warm_up: int, n_draws: int) -> Any:
    import blackjax
    import jax
    import jax.numpy as jnp

    def sample(key: Any, X: Any, y: Any) -> Any:
        rows = jnp.concatenate([X, jnp.ones((len(X), 1), X.dtype)], axis=1)
        sign = jnp.where(y == 1, 1.0, -1.0)

        def log_posterior(w: Any) -> Any:
            return jnp.sum(jax.nn.log_sigmoid(sign * (rows @ w))) - 0.25 * jnp.sum(jnp.square(w))

        def chain(chain_key: Any) -> Any:
            start_key, warm_up_key, draw_key = jax.random.split(chain_key, 3)
            start = jax.random.normal(start_key, (rows.shape[1],), rows.dtype)
            adaptation = blackjax.window_adaptation(blackjax.nuts, log_posterior)
            (state, parameters), _ = adaptation.run(warm_up_key, start, num_steps=warm_up)
            kernel = blackjax.nuts(log_posterior, **parameters)

            def step(state: Any, step_key: Any) -> tuple[Any, Any]:
                state, _ = kernel.step(step_key, state)
                return state, state.position

            return jax.lax.scan(step, state, jax.random.split(draw_key, n_draws))[1]

        return jax.vmap(chain)(jax.random.split(key, n_chains)).reshape(-1, rows.shape[1])

    return jax.jit(sample)
