"""Neighbourhoods: every row joined by its smoothed row."""

import numpy as np
import pytest
from parbals.features import neighbours
from parbals.features.neighbours import Neighbourhoods, nearest_rows


def clusters(n_rows=400, n_columns=6, seed=0):
    generator = np.random.default_rng(seed)
    centres = 4.0 * generator.standard_normal((5, n_columns))
    return centres[np.arange(n_rows) % 5] + generator.standard_normal((n_rows, n_columns))


@pytest.mark.parametrize("n_rows", [7, 60, 1_500])
def test_nearest_rows_are_those_of_all_distances(n_rows):
    rows = np.random.default_rng(1).standard_normal((n_rows, 3)).astype(np.float32)
    distances = np.square(rows[:, None] - rows).sum(axis=2)
    expected = np.argsort(distances, axis=1)[:, :20]
    found = nearest_rows(rows, rows)
    is_equal = np.sort(found) == np.sort(expected)
    assert is_equal.mean() > 0.999  # single precision may swap the last two
    np.testing.assert_array_equal(found[:, 0], np.arange(n_rows))


def test_equal_rows_are_neighbours_in_their_order():
    rows = np.zeros((700, 2), np.float32)
    np.testing.assert_array_equal(nearest_rows(rows[:3], rows), np.tile(np.arange(20), (3, 1)))


def test_the_smoothed_rows_solve_the_equation_of_the_filter():
    """s = (1 - a) (I - a W)⁻¹ z, with W the mean over the neighbours."""
    neighbourhoods = Neighbourhoods.of(clusters())
    z = neighbourhoods.coordinates.astype(np.float64)
    W = np.zeros((len(z), len(z)))
    np.put_along_axis(W, nearest_rows(z, z), 1.0 / 20.0, axis=1)
    expected = 0.1 * np.linalg.solve(np.eye(len(z)) - 0.9 * W, z)
    size = np.abs(expected).max()
    np.testing.assert_allclose(neighbourhoods.smoothed, expected, atol=2e-3 * size)


def test_columns_do_not_depend_on_the_order_of_rows():
    rows = clusters()
    order = np.random.default_rng(2).permutation(len(rows))
    expected = Neighbourhoods.of(rows).columns(rows)
    np.testing.assert_array_equal(Neighbourhoods.of(rows[order]).columns(rows), expected)


def test_a_new_row_gets_what_an_equal_row_of_the_pool_has():
    rows = clusters()
    neighbourhoods = Neighbourhoods.of(rows)
    columns = neighbourhoods.columns(rows)
    alone = np.vstack([neighbourhoods.columns(row[None]) for row in rows[:9]])
    np.testing.assert_allclose(alone, columns[:9], atol=1e-5)
    # They are principal coordinates over the pool.
    covariance = np.cov(columns.T)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-2)


def test_blocks_of_any_size_give_the_same_neighbours(monkeypatch):
    rows = np.asarray(clusters(), np.float32)
    expected = nearest_rows(rows, rows)
    monkeypatch.setattr(neighbours, "_BLOCK_ENTRIES", 7 * len(rows))
    np.testing.assert_array_equal(nearest_rows(rows, rows), expected)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    rows = clusters()
    expected = Neighbourhoods.of(rows).columns(rows)
    scaled = Neighbourhoods.of(scale * rows).columns(scale * rows)
    np.testing.assert_allclose(scaled / scale, expected, atol=1e-3)


def test_equal_rows_have_no_columns():
    assert Neighbourhoods.of(np.ones((200, 3))).n_columns == 0
