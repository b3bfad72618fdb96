"""Predictive samples against the definition, in blocks of any size."""

import numpy as np
import pytest
from oracles.definition import log_softmax
from parbals.posterior.predictive import add_bias, contrast_basis, mean_proba, sample_proba


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("n", [1, 17, 5000])
def test_samples_are_softmax_of_the_weights(n_classes, n):
    rng = np.random.default_rng(0)
    X = add_bias(rng.standard_normal((n, 3)))
    V = rng.standard_normal((4, n_classes - 1, 30))
    expected = np.exp(log_softmax(np.einsum("nd,djk,cj->nkc", X, V, contrast_basis(n_classes))))
    np.testing.assert_allclose(sample_proba(X, V, n_classes), expected, atol=1e-5)
    weights = rng.dirichlet(np.ones(30))
    np.testing.assert_allclose(
        mean_proba(X, V, n_classes, weights), np.einsum("nkc,k->nc", expected, weights), atol=1e-5
    )


def test_the_constant_is_the_last_feature():
    assert add_bias(np.array([[2, 3]])).tolist() == [[2.0, 3.0, 1.0]]
