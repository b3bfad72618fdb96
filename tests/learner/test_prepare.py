"""Standardising and PCA happen only when asked for, and are fitted on the pool."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from parbals.learner.prepare import Preparation
from parbals.learner.table import FeatureTable

X = np.random.default_rng(0).standard_normal((200, 6)) @ np.diag([9, 4, 2, 1, 0.1, 0.01]) + 5.0
POOL = FeatureTable(X)


def test_nothing_happens_unless_asked_for():
    assert Preparation.fit(POOL, False, None, 0)(X) is X


def test_standardising_is_that_of_scikit_learn():
    prepared = Preparation.fit(POOL, True, None, 0)(X)
    np.testing.assert_allclose(prepared, StandardScaler().fit_transform(X), rtol=1e-9)


def test_a_constant_column_stays_finite():
    flat = np.column_stack([X[:, 0], np.full(200, 7.0)])
    assert np.isfinite(Preparation.fit(FeatureTable(flat), True, None, 0)(flat)).all()


@pytest.mark.parametrize("pca", [0.99, 2, 6])
def test_pca_is_that_of_scikit_learn(pca):
    prepared = Preparation.fit(POOL, False, pca, 0)(X)
    expected = PCA(pca, svd_solver="full").fit_transform(X)
    np.testing.assert_allclose(np.abs(prepared), np.abs(expected), rtol=1e-6, atol=1e-9)
