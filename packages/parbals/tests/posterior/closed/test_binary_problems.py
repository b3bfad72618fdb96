"""Labels of many classes as binary problems."""

import numpy as np
from parbals.posterior.closed.binary_problems import pair_label_noise
from scipy.special import expit


def test_a_third_class_counts_for_both_of_a_pair():
    """λ + (1 - λ) σ(f) is w_a σ(f) + w_b σ(-f) + ½ W, up to a factor."""
    w = np.array([[0.7, 0.1, 0.2], [0.2, 0.6, 0.2]])
    noise = pair_label_noise(w, np.array([0, 1]))
    f = np.linspace(-3.0, 3.0, 7)
    likelihood = 0.7 * expit(f) + 0.1 * expit(-f) + 0.5 * 0.2
    formula = noise[0] + (1.0 - noise[0]) * expit(f)
    np.testing.assert_allclose(formula / formula[0], likelihood / likelihood[0])
