"""EPIG of a pool from posterior samples, and predictions of a pool."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import parbals
from speed.clock import Measure, measured
from speed.problems import batch_problem


def measures(sizes: dict[str, Any]) -> Iterator[Measure]:
    pool = _samples(sizes["N"], sizes["K"], 0)
    target = _samples(sizes["M"], sizes["K"], 1)
    parbals.epig(pool[:10], target)  # loads what is loaded on first use
    name = f"EPIG from {sizes['K']} samples, 2 classes"
    yield measured(name, lambda: parbals.epig(pool, target), sizes["repeats"])[0]
    for n_classes in (2, 10):
        problem = batch_problem(sizes | {"C": n_classes})
        model = parbals.BayesianLogisticRegression(random_state=0).fit(problem.X, problem.y)
        predict = partial(model.predict_proba, problem.X_pool)
        yield measured(f"predict_proba, {n_classes} classes", predict, sizes["repeats"])[0]


def _samples(n_points: int, n_samples: int, seed: int) -> np.ndarray:
    """(n, K, 2) float32 predictions that vary between points and, less, between samples."""
    generator = np.random.default_rng(seed)
    shared = np.random.default_rng(9).standard_normal((8, n_samples))
    logits = generator.standard_normal((n_points, 1))
    logits = logits + 0.3 * generator.standard_normal((n_points, 8)) @ shared
    positive = 1.0 / (1.0 + np.exp(-logits))
    return np.stack([1.0 - positive, positive], axis=2).astype(np.float32)
