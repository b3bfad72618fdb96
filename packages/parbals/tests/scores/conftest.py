"""A Gaussian posterior with exact label probabilities."""

import numpy as np
import pytest
from scipy.special import expit


@pytest.fixture(scope="session")
def pairs():
    """60 pool and 25 target points under a Gaussian of 4 weights.

    Joint probabilities (2, 2, N, M) of both labels from many draws of it; the Gaussian's moments.
    """
    generator = np.random.default_rng(0)
    root = generator.standard_normal((4, 4))
    center = generator.standard_normal(4)
    pool = generator.standard_normal((60, 4))
    target = generator.standard_normal((25, 4))
    n_draws = 200_000
    joint = np.zeros((60, 25))
    p = np.zeros(60)
    q = np.zeros(25)
    for _ in range(10):
        weights = center[:, None] + root @ generator.standard_normal((4, n_draws // 10))
        pool_probs = expit(pool @ weights)
        target_probs = expit(target @ weights)
        joint += pool_probs @ target_probs.T / n_draws
        p += pool_probs.sum(axis=1) / n_draws
        q += target_probs.sum(axis=1) / n_draws
    moments = (pool @ center, np.square(pool @ root).sum(axis=1))
    moments += (target @ center, np.square(target @ root).sum(axis=1))
    moments += ((pool @ root) @ (target @ root).T,)
    p = p[:, None]
    q = q[None, :]
    cells = np.array([[1 - p - q + joint, q - joint], [p - joint, joint]])
    return cells, [np.asarray(moment, np.float32) for moment in moments]
