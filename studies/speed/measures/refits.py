"""Refits by other libraries, and what a batch of ParBaLS takes beside them.

The page multiplies out a batch with a refit for every pseudo-label: U × (B - 1) refits, and as many
predictions and scores of the pool in plain NumPy and one more.
"""

from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
from lib.rivals import fit, missing_packages
from lib.workload import FULL, make_problem, plain_epig, plain_predict
from speed.clock import Measure, measured

REPEATS = {"pymc": 3, "numpyro-jit": 5}


def measures(sizes: dict[str, Any]) -> Iterator[Measure]:
    method = sizes["method"]
    if method in ("closed", "particles"):
        yield from _own_batch("smc" if method == "particles" else "auto")
        return
    if method == "plain":
        yield from _plain()
        return
    if package := missing_packages([method]).get(method):
        raise SystemExit(f"{package} is not installed")
    problem = make_problem(FULL)
    seconds = [
        fit(method, problem.X, problem.y, seed, FULL).seconds
        for seed in range(1 + REPEATS.get(method, 10))
    ]
    yield {"measure": "first refit", "seconds": seconds[0]}
    yield {"measure": "refit", "seconds": median(seconds[1:])}


def _own_batch(inference: str) -> Iterator[Measure]:
    import parbals

    problem = make_problem(FULL)
    model = parbals.BayesianLogisticRegression(FULL.n_samples, 1.0, inference, random_state=0).fit(
        problem.X, problem.y
    )
    rows = problem.X_pool, problem.X_target

    def choose() -> parbals.Batch:
        return parbals.select_batch_from_model(model, *rows, 20, n_universes=10, random_state=0)

    yield measured("batch", choose)[0]


def _plain() -> Iterator[Measure]:
    """Predictions and EPIG in plain NumPy; the time does not depend on the weights."""
    problem = make_problem(FULL)
    generator = np.random.default_rng(0)
    weights = generator.standard_normal((FULL.n_samples, FULL.n_features + 1))

    def predict() -> tuple[np.ndarray, np.ndarray]:
        return plain_predict(weights, problem.X_pool), plain_predict(weights, problem.X_target)

    measure, probabilities = measured("predict pool and targets", predict, 3)
    yield measure
    yield measured("score the pool", lambda: plain_epig(*probabilities), 3)[0]
