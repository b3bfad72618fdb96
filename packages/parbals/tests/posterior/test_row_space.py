"""The row space: it holds the rows, and what lies across it stays as it is."""

import numpy as np
import pytest
from parbals.posterior.row_space import row_space

X = np.random.default_rng(0).standard_normal((5, 40))


@pytest.mark.parametrize(
    "rows", [X, 1000.0 * X, np.repeat(X[:1], 5, axis=0), np.zeros((5, 40)), X[:0]]
)
def test_its_basis_is_orthonormal_and_holds_the_rows_whatever_their_rank(rows):
    basis = row_space(rows, 16).basis
    assert basis.shape == (40, 16)
    np.testing.assert_allclose(basis.T @ basis, np.eye(16), atol=1e-12)
    np.testing.assert_allclose(rows @ basis @ basis.T, rows, rtol=1e-10, atol=1e-10)


def test_new_coordinates_leave_what_lies_across_unchanged():
    space = row_space(X, 16)
    generator = np.random.default_rng(1)
    vectors, inner = generator.standard_normal((40, 2, 7)), generator.standard_normal((16, 2, 7))
    replaced = space.replace(vectors, inner)
    np.testing.assert_allclose(space.coordinates(replaced), inner, atol=1e-12)
    change = replaced - vectors
    np.testing.assert_allclose(space.vectors(space.coordinates(change)), change, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (1, 1), (0, 4)])
def test_by_default_it_has_as_many_dimensions_as_there_are_rows(shape):
    rows = np.random.default_rng(1).standard_normal(shape)
    space = row_space(rows)
    basis = space.matrix(shape[1])
    assert basis.shape == (shape[1], min(shape))
    np.testing.assert_allclose(basis.T @ basis, np.eye(min(shape)), atol=1e-12)
    np.testing.assert_allclose(space.rows(rows) @ basis.T, rows, atol=1e-12)


def test_it_is_the_whole_space_when_that_is_no_larger():
    space = row_space(X, 40)
    assert space.basis is None
    assert space.rows(X) is X
    assert space.replace(np.zeros((40, 3)), np.ones((40, 3))).all()
