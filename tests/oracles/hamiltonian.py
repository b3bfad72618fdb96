"""Long Hamiltonian Monte Carlo of softmax regression in plain NumPy, from the model's definition.

Independent chains side by side. ``root`` and ``center`` only choose the coordinates that the chains
move in: they change how fast the chains forget their start, not where they settle.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax


class Predictions(NamedTuple):
    """Mean and standard deviation (T, C) of the class probabilities, and the error of the mean."""

    mean: np.ndarray
    deviation: np.ndarray
    error: np.ndarray


def predictions(
    X, labels, prior_variance, X_test, center, root, *, n_chains=400, n_kept=50, n_steps=7, seed=0
):
    """Design rows X (n, d) and X_test (T, d), class a's weights center_a (d) + root_a (d, d) z."""
    generator = np.random.default_rng(seed)
    is_label = np.eye(len(center))[labels]

    def weights(z):
        return center + np.einsum("aij,kaj->kai", root, z)  # (K, C, d)

    def density(z):
        w = weights(z)
        logits = np.einsum("nd,kad->kna", X, w, optimize=True)
        fit = (log_softmax(logits, axis=2) * is_label).sum(axis=(1, 2))
        slope = np.einsum("kna,nd->kad", is_label - softmax(logits, axis=2), X, optimize=True)
        slope -= w / prior_variance
        prior = -0.5 * (np.square(w) / prior_variance).sum(axis=(1, 2))
        return fit + prior, np.einsum("aij,kai->kaj", root, slope)

    z = generator.standard_normal((n_chains, *center.shape))
    value, slope = density(z)
    samples = []
    accepted = []
    for number in range(n_kept + n_kept // 2):
        step = 1.5 / n_steps * generator.uniform(0.8, 1.2)
        speed = generator.standard_normal(z.shape)
        there = z
        energy = value - 0.5 * np.square(speed).sum(axis=(1, 2))
        new_slope = slope
        for _ in range(n_steps):
            speed = speed + 0.5 * step * new_slope
            there = there + step * speed
            new_value, new_slope = density(there)
            speed = speed + 0.5 * step * new_slope
        change = new_value - 0.5 * np.square(speed).sum(axis=(1, 2)) - energy
        moves = np.log(generator.random(n_chains)) < change
        z = np.where(moves[:, None, None], there, z)
        value = np.where(moves, new_value, value)
        slope = np.where(moves[:, None, None], new_slope, slope)
        if number >= n_kept // 2:
            samples.append(softmax(np.einsum("td,kad->kta", X_test, weights(z)), axis=2))
            accepted.append(moves.mean())
    assert np.mean(accepted) > 0.5, "the chains hardly move: the reference is not one"
    draws = np.array(samples)
    of_chains = draws.mean(axis=0)
    error = of_chains.std(axis=0) / np.sqrt(n_chains)
    return Predictions(of_chains.mean(axis=0), draws.std(axis=(0, 1)), error)
