"""Buckets, padding, blocks, weights, mapped files, and formulas for NumPy and JAX alike."""

import jax.numpy as jnp
import numpy as np
import pytest
from parbals.arrays import (
    block_rows,
    bucket,
    effective_sample_size,
    inverse_lower,
    pad_rows,
    release_pages,
    safe_reciprocal,
    solve_lower,
    times_log,
    without_broken_rows,
)


def test_growing_by_one_row_changes_the_bucket_a_handful_of_times():
    sizes = [bucket(n) for n in range(257)]
    assert all(size >= n for n, size in enumerate(sizes))
    assert len(set(sizes)) == 5


def test_padding_appends_zeros_only():
    padded = pad_rows(np.ones((3, 2)), 5)
    assert padded.tolist() == [[1, 1]] * 3 + [[0, 0]] * 2


@pytest.mark.parametrize(("n", "block"), [(0, 4), (1, 4), (4, 4), (9, 4)])
def test_blocks_cover_every_row_once(n, block):
    covered = [i for rows in block_rows(n, block) for i in range(rows.start, rows.stop)]
    assert covered == list(range(n))


def test_effective_sample_size_counts_equal_weights():
    assert effective_sample_size(np.array([0.25] * 4)) == pytest.approx(4)
    assert effective_sample_size(np.array([1.0, 0, 0, 0])) == pytest.approx(1)
    assert effective_sample_size(np.array([2.0, 2.0, 0, 0])) == pytest.approx(2)


def test_released_pages_are_read_again_when_they_are_needed(tmp_path):
    numbers = np.arange(10_000.0)
    np.save(tmp_path / "x.npy", numbers)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for array in (mapped, numbers, None):  # what is not mapped is left alone
        release_pages(array)
    np.testing.assert_array_equal(mapped, numbers)


@pytest.mark.parametrize("xp", [np, jnp])
def test_impossible_events_contribute_nothing(xp):
    assert safe_reciprocal(xp.asarray([0.0, 2.0]), xp).tolist() == [0.0, 0.5]
    assert times_log(xp.asarray([0.0, 1.0]), xp).tolist() == [0.0, 0.0]


def test_reciprocals_of_tiny_probabilities_stay_finite_when_multiplied():
    by_p = safe_reciprocal(np.array([1e-38, 1e-30, 1e-10], np.float32), np)
    assert np.isfinite(by_p * by_p).all()
    assert by_p[2] == pytest.approx(1e10, rel=1e-6)


def test_broken_rows_are_left_out_and_heavy_tails_are_not():
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((500, 6)) * [1.0, 1e4, 1e-3, 1.0, 1.0, 1.0]
    assert without_broken_rows(rows) is rows
    broken = rows.copy()
    broken[7] *= 100.0
    np.testing.assert_array_equal(without_broken_rows(broken), np.delete(rows, 7, axis=0))
    heavy_tails = generator.standard_cauchy((500, 6))
    assert without_broken_rows(heavy_tails) is heavy_tails
    equal = np.ones((500, 6))
    assert without_broken_rows(equal) is equal


@pytest.mark.parametrize("shape", [(0, 2), (1, 3), (33, 1), (64, 1), (200, 70)])
def test_substitution_by_halves_solves_every_triangle_of_a_stack(shape):
    generator = np.random.default_rng(0)
    lower = triangles(generator, shape[0])
    right = generator.standard_normal((2, *shape))
    np.testing.assert_allclose(lower @ solve_lower(lower, right), right, atol=1e-9)


@pytest.mark.parametrize("size", [0, 1, 32, 33, 131])
def test_the_inverse_of_a_triangle_is_that_of_any_matrix(size):
    lower = triangles(np.random.default_rng(0), size)
    inverse = inverse_lower(lower)
    np.testing.assert_allclose(inverse, np.linalg.inv(lower), atol=1e-12)
    np.testing.assert_array_equal(inverse, np.tril(inverse))


def triangles(generator, size):
    """Two lower triangular matrices (2, size, size)."""
    matrices = generator.standard_normal((2, size, size))
    return np.linalg.cholesky(matrices @ matrices.swapaxes(1, 2) + np.eye(size))
