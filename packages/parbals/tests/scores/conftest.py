"""A Gaussian with the truth about its labels."""

import numpy as np
import pytest
from scipy.special import expit


@pytest.fixture(scope="session")
def pairs():
    """60 pool and 25 target points under a Gaussian of 4 weights.

    Joint probabilities (2, 2, N, M) of both labels from many draws of it; the Gaussian's moments.
    """
    generator = np.random.default_rng(0)
    root, center = generator.standard_normal((4, 4)), generator.standard_normal(4)
    pool, target = generator.standard_normal((60, 4)), generator.standard_normal((25, 4))
    n_draws, joint = 200_000, np.zeros((60, 25))
    p, q = np.zeros(60), np.zeros(25)
    for _ in range(10):
        weights = center[:, None] + root @ generator.standard_normal((4, n_draws // 10))
        here, there = expit(pool @ weights), expit(target @ weights)
        joint += here @ there.T / n_draws
        p += here.sum(axis=1) / n_draws
        q += there.sum(axis=1) / n_draws
    moments = (pool @ center, np.square(pool @ root).sum(axis=1))
    moments += (target @ center, np.square(target @ root).sum(axis=1))
    moments += ((pool @ root) @ (target @ root).T,)
    p, q = p[:, None], q[None, :]
    cells = np.array([[1 - p - q + joint, q - joint], [p - joint, joint]])
    return cells, [np.asarray(part, np.float32) for part in moments]
