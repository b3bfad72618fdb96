"""Principal directions are scikit-learn's, with a sign that rows alone decide."""

import numpy as np
import pytest
from parbals.features.pca import principal_components, singular_directions
from scipy.sparse import random as random_sparse
from sklearn.decomposition import PCA

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.standard_normal((300, 6)) * np.geomspace(5, 0.1, 6) + 2.0


@pytest.mark.parametrize("rows", [ROWS, ROWS[:4]], ids=["more rows", "more columns"])
@pytest.mark.parametrize("keep", [2, 0.9])
def test_directions_are_those_of_scikit_learn(rows, keep):
    mean, directions, shares = principal_components(rows, keep)
    theirs = PCA(keep, svd_solver="full").fit(rows)
    np.testing.assert_allclose(mean, theirs.mean_)
    np.testing.assert_allclose(np.abs(directions), np.abs(theirs.components_), atol=1e-8)
    np.testing.assert_allclose(shares, theirs.explained_variance_ratio_)
    largest = np.abs(directions).argmax(axis=1)
    assert (directions[np.arange(len(directions)), largest] > 0).all()


def test_rows_that_are_all_alike_have_no_direction():
    mean, directions, shares = principal_components(np.full((5, 3), 0.1), 2)
    np.testing.assert_allclose(mean, 0.1)
    assert directions.shape == (0, 3)
    assert len(shares) == 0


def test_singular_directions_are_orthonormal_and_the_seed_decides():
    rows = random_sparse(60, 40, 0.2, "csr", random_state=0)
    directions = singular_directions(rows, 5, seed=1)
    np.testing.assert_allclose(directions @ directions.T, np.eye(5), atol=1e-8)
    np.testing.assert_array_equal(singular_directions(rows, 5, seed=1), directions)
