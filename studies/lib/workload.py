"""The benchmark problems, and plain NumPy code that solves them.

Axis letters as in the package: N pool points, M target points, K posterior samples, C classes, D
features, B batch, U universes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = [
    "FULL",
    "SMOKE",
    "Problem",
    "Sizes",
    "make_problem",
    "plain_epig",
    "plain_predict",
]


@dataclass(frozen=True)
class Sizes:
    """How large the problems are."""

    name: str
    n_labelled: int = 200
    n_features: int = 300
    n_samples: int = 400
    n_pool: int = 10_000
    n_target: int = 1_000
    batch_size: int = 20
    n_universes: int = 10
    n_chains: int = 4
    tune: int = 100
    draws: int = 100  # of each chain
    cores: int = 2  # processes that PyMC's chains run in


FULL = Sizes("full")
SMOKE = Sizes(
    "smoke",
    n_labelled=12,
    n_features=3,
    n_samples=32,
    n_pool=40,
    n_target=20,
    batch_size=3,
    n_universes=2,
    tune=20,
    draws=8,
)


class Problem(NamedTuple):
    """Labelled rows to fit, a pool to choose from and a target set to be judged on."""

    X: np.ndarray
    y: np.ndarray
    X_pool: np.ndarray
    X_target: np.ndarray


def make_problem(sizes: Sizes, n_classes: int = 2) -> Problem:
    """Rows with labels drawn from a softmax model; every call gives the same rows.

    A spectrum that decays as that of encoder embeddings after PCA, rows scaled to norm 1, class
    weights of norm 6 in every direction that carries variance.
    """
    generator = np.random.default_rng(0)
    n_rows = sizes.n_pool + sizes.n_target + sizes.n_labelled
    X = generator.standard_normal((n_rows, sizes.n_features))
    weights = 6.0 * generator.standard_normal((sizes.n_features, n_classes))
    X /= np.sqrt(1.0 + np.arange(sizes.n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X @ weights + generator.gumbel(size=(n_rows, n_classes))).argmax(axis=1)
    y[-n_classes:] = np.arange(n_classes)  # every class is seen, also at the smallest sizes
    pool = X[: sizes.n_pool]
    target = X[sizes.n_pool : sizes.n_pool + sizes.n_target]
    return Problem(X[-sizes.n_labelled :], y[-sizes.n_labelled :], pool, target)


def plain_predict(weights: np.ndarray, X: np.ndarray) -> np.ndarray:
    """(N, K, 2) float32 probabilities of rows X under logit weights (K, D+1), the bias last."""
    single = weights.astype(np.float32)
    positive = 1.0 / (1.0 + np.exp(-(X.astype(np.float32) @ single[:, :-1].T + single[:, -1])))
    return np.stack([1.0 - positive, positive], axis=2)


def plain_epig(pool: np.ndarray, target: np.ndarray, block: int = 500) -> np.ndarray:
    """EPIG as a careful researcher writes it: a matrix product for each pair of classes, in blocks.

    (One einsum over all four cells takes twice as long: the class axis is too short for NumPy.)
    """
    n_samples, n_classes = pool.shape[1:]
    pool_mean = pool.mean(axis=1)
    target_mean = target.mean(axis=1)
    scores = np.empty(len(pool), pool.dtype)
    for start in range(0, len(pool), block):
        rows = slice(start, start + block)
        information = np.zeros((len(pool[rows]), len(target)), pool.dtype)
        for a in range(n_classes):
            for b in range(n_classes):
                joint = (
                    np.einsum("nk,mk->nm", pool[rows, :, a], target[:, :, b], optimize=True)
                    / n_samples
                )
                product = pool_mean[rows, None, a] * target_mean[None, :, b]
                information += joint * np.log(joint / product)
        scores[rows] = information.mean(axis=1)
    return scores
