"""Padding, precision and safe logarithms."""

import jax.numpy as jnp
import numpy as np
import pytest

from parbals.arrays import (
    block_rows,
    bucket,
    effective_sample_size,
    normalise_log_weights,
    pad_rows,
)
from parbals.numerics import entropy, safe_reciprocal, working_precision


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


def test_impossible_events_contribute_nothing():
    assert safe_reciprocal(jnp.array([0.0, 2.0])).tolist() == [0.0, 0.5]
    assert entropy(jnp.array([1.0, 0.0])) == 0.0
    assert entropy(jnp.array([0.5, 0.5])) == pytest.approx(np.log(2))


def test_weights_from_very_small_likelihoods():
    weights = normalise_log_weights(np.array([-1e4, -1e4 - np.log(3), -np.inf]))
    np.testing.assert_allclose(weights, [0.75, 0.25, 0.0])


def test_effective_sample_size_counts_equal_weights():
    assert effective_sample_size(np.array([0.25] * 4)) == pytest.approx(4)
    assert effective_sample_size(np.array([1.0, 0, 0, 0])) == pytest.approx(1)
    assert effective_sample_size(np.array([2.0, 2.0, 0, 0])) == pytest.approx(2)


def test_double_precision_is_scoped_to_the_call():
    with working_precision(np.dtype(np.float64)):
        assert jnp.zeros(1).dtype == jnp.float64
    assert jnp.zeros(1).dtype == jnp.float32
