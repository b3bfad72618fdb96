"""The benchmark problems, and plain NumPy code that solves them.

Axis letters as in the package: N pool points, M target points, K posterior samples, C classes, D
features, B batch, U universes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = [
    "FULL",
    "PRESETS",
    "QUICK",
    "SMOKE",
    "Problem",
    "Sizes",
    "make_problem",
    "plain_epig",
    "plain_predict",
]


@dataclass(frozen=True)
class Sizes:
    """How large the problems are and how often each thing is timed."""

    name: str
    n_labelled: int = 200
    n_features: int = 300
    n_samples: int = 400
    n_pool: int = 10_000
    n_target: int = 1_000
    batch_size: int = 20
    n_universes: int = 10
    many_classes: int = 10
    n_chains: int = 4
    tune: int = 100
    draws: int = 100  # of each chain
    cores: int = 2  # processes that PyMC's chains run in
    designs: tuple[str, ...] = ("unit", "normal")
    rivals: tuple[str, ...] = (
        "pymc",
        "pymc-numba",
        "numpyro",
        "numpyro-jit",
        "blackjax-jit",
        "parbals-nuts",
        "laplace",
        "parbals-ep",
    )
    reference: tuple[int, int] = (
        1_000,
        5_000,
    )  # warm-up and draws of each chain of the long run; (0, 0): none
    fit_repeats: int = 15
    refit_repeats: int = 10
    batch_repeats: int = 3
    sampled_repeats: int = 3  # of batches from particles, which take long
    score_repeats: int = 31
    plain_repeats: int = 3


FULL = Sizes("full")
QUICK = Sizes(
    "quick",
    designs=("unit",),
    rivals=("pymc", "numpyro-jit", "laplace", "parbals-ep"),
    many_classes=0,
    reference=(300, 1_000),
    fit_repeats=10,
    refit_repeats=10,
    batch_repeats=5,
    sampled_repeats=1,
    score_repeats=11,
    plain_repeats=5,
)
SMOKE = Sizes(
    "smoke",
    n_labelled=12,
    n_features=3,
    n_samples=32,
    n_pool=40,
    n_target=20,
    batch_size=3,
    n_universes=2,
    many_classes=0,
    tune=20,
    draws=8,
    designs=("unit",),
    reference=(0, 0),
    fit_repeats=1,
    refit_repeats=1,
    batch_repeats=1,
    score_repeats=2,
    plain_repeats=1,
)
PRESETS = {sizes.name: sizes for sizes in (FULL, QUICK, SMOKE)}

DESIGNS = {
    "unit": "unit-norm features (as embeddings have)",
    "normal": "standard-normal features (norm 17, separable)",
}


class Problem(NamedTuple):
    """Labelled rows to fit, a pool to choose from and a target set to be judged on."""

    X: np.ndarray
    y: np.ndarray
    X_pool: np.ndarray
    X_target: np.ndarray


def make_problem(design: str, sizes: Sizes, n_classes: int = 2) -> Problem:
    """Rows of one design with labels drawn from a softmax model; every call gives the same rows.

    "unit": a spectrum that decays as that of encoder embeddings after PCA, rows scaled to norm 1,
    class weights of norm 6 in every direction that carries variance. "normal": independent N(0, 1)
    features and weights from the prior, so that fewer labels than features are always separable.
    """
    generator = np.random.default_rng(0)
    n_rows = sizes.n_pool + sizes.n_target + sizes.n_labelled
    X = generator.standard_normal((n_rows, sizes.n_features))
    weights = generator.standard_normal((sizes.n_features, n_classes))
    if design == "unit":
        X /= np.sqrt(1.0 + np.arange(sizes.n_features))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        weights *= 6.0
    elif design != "normal":
        raise ValueError(f"design is {design!r}; choose one of {', '.join(DESIGNS)}.")
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
