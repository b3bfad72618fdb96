"""EPIG against enumeration; its bounds, symmetries and memory."""

import tracemalloc

import jax.numpy as jnp
import numpy as np
import parbals
import pytest
from brute_force import bald as slow_bald
from brute_force import epig as slow_epig
from brute_force import linear_probs, random_probs
from hypothesis import given, settings
from hypothesis import strategies as st

# Twelve samples and at most sixteen rows where it does not matter: a shape is compiled once.


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("sharpness", [0.3, 3.0, 30.0])
def test_equals_enumeration_of_every_pair_of_labels(n_classes, sharpness):
    pool = random_probs(1, 7, 12, n_classes, sharpness)
    target = random_probs(2, 7, 12, n_classes, sharpness)
    weights = np.random.default_rng(3).random(12)
    np.testing.assert_allclose(
        parbals.epig(pool, target), slow_epig(pool, target), rtol=1e-9, atol=1e-13
    )
    np.testing.assert_allclose(
        parbals.epig(pool, target, weights), slow_epig(pool, target, weights), rtol=1e-9, atol=1e-13
    )


def test_float32_keeps_small_values():
    """A nearly certain posterior has EPIG near 1e-5; float32 must not lose it to cancellation."""
    pool = 0.5 + 0.02 * (random_probs(1, 40, 60, 2) - 0.5)
    target = 0.5 + 0.02 * (random_probs(2, 40, 60, 2) - 0.5)
    exact = slow_epig(pool, target)
    single = parbals.epig(pool.astype(np.float32), target.astype(np.float32))
    assert single.dtype == np.float32
    assert exact.max() < 1e-4
    np.testing.assert_allclose(single, exact, rtol=2e-2)
    assert np.corrcoef(single, exact)[0, 1] > 0.9999


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_weight_is_a_repeated_sample(n_classes):
    pool = random_probs(1, 9, 12, n_classes)
    target = random_probs(2, 9, 12, n_classes)
    counts = np.array([1, 4, 0, 2, 3, 0, 0, 0, 1, 0, 0, 1])
    repeated = (np.repeat(p, counts, axis=1) for p in (pool, target))
    np.testing.assert_allclose(
        parbals.epig(pool, target, counts), parbals.epig(*repeated), rtol=1e-10, atol=1e-15
    )


def test_two_classes_equal_three_classes_of_which_one_never_occurs():
    """The two-class fast path and the general path give one answer."""
    pool = random_probs(1, 15, 12, 2, 2.0)
    target = random_probs(2, 15, 12, 2, 2.0)
    wide = [np.concatenate([p, np.zeros((*p.shape[:2], 1))], axis=2) for p in (pool, target)]
    np.testing.assert_allclose(
        parbals.epig(pool, target), parbals.epig(*wide), rtol=1e-9, atol=1e-14
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), n_classes=st.sampled_from([2, 3]), log_sharpness=st.floats(-3, 5)
)
def test_lies_between_zero_bald_and_ln_c(seed, n_classes, log_sharpness):
    pool = random_probs(seed + 0, 6, 12, n_classes, np.exp(log_sharpness))
    target = random_probs(seed + 1, 6, 12, n_classes, np.exp(log_sharpness))
    epig = parbals.epig(pool, target)
    bald = parbals.bald(pool)
    assert (epig >= 0).all()
    assert (epig <= bald + 1e-12).all()
    assert (bald <= np.log(n_classes) + 1e-12).all()
    np.testing.assert_allclose(bald, slow_bald(pool), atol=1e-12)


def test_certain_and_impossible_labels_are_safe():
    pool = np.zeros((3, 12, 2))
    pool[0, :, 0] = 1.0  # the same label in every sample: nothing to learn
    pool[1, :6, 0] = pool[1, 6:, 1] = 1.0  # one bit, known once θ is
    pool[2] = 0.5
    np.testing.assert_allclose(parbals.epig(pool, pool[1:2]), [0.0, np.log(2), 0.0], atol=1e-12)
    np.testing.assert_allclose(parbals.epig(pool, pool[:1]), 0.0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_reordering_rows_targets_samples_and_classes_reorders_the_scores(n_classes):
    pool = linear_probs(1, 16, 12, n_classes)
    target = linear_probs(2, 16, 12, n_classes)
    scores = parbals.epig(pool, target)
    rng = np.random.default_rng(0)
    rows = rng.permutation(16)
    samples = rng.permutation(12)
    classes = rng.permutation(n_classes)
    np.testing.assert_allclose(parbals.epig(pool[rows], target[::-1]), scores[rows], rtol=1e-10)
    np.testing.assert_allclose(
        parbals.epig(pool[:, samples], target[:, samples]), scores, rtol=1e-10
    )
    np.testing.assert_allclose(
        parbals.epig(pool[:, :, classes], target[:, :, classes]), scores, rtol=1e-10
    )


@pytest.mark.parametrize(("n_pool", "n_targets"), [(1, 1), (15, 300), (2049, 3), (5, 257)])
def test_padding_to_blocks_changes_nothing(n_pool, n_targets):
    pool = random_probs(1, n_pool, 12, 2)
    target = random_probs(2, n_targets, 12, 2)
    expected = [slow_epig(pool[i : i + 1], target)[0] for i in (0, n_pool // 2, n_pool - 1)]
    scores = parbals.epig(pool, target)
    assert scores.shape == (n_pool,)
    np.testing.assert_allclose(
        scores[[0, n_pool // 2, n_pool - 1]], expected, rtol=1e-9, atol=1e-14
    )


@pytest.mark.parametrize(
    ("n_classes", "n_pool"), [(2, 4000), pytest.param(10, 200, marks=pytest.mark.full)]
)
def test_no_table_of_all_pairs_is_ever_held(n_classes, n_pool):
    """All threads together hold a few blocks of candidates × chunks of targets."""
    pool = random_probs(1, n_pool, 12, n_classes).astype(np.float32)
    target = random_probs(2, 4000, 12, n_classes).astype(np.float32)
    all_pairs = 4 * len(pool) * len(target) * (1 if n_classes == 2 else n_classes**2)
    tracemalloc.start()
    try:
        parbals.epig(pool, target)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < all_pairs / 2


@pytest.mark.parametrize("loss", ["log", "error"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_accelerator_gives_the_same_scores(n_classes, loss, monkeypatch):
    """JAX agrees with NumPy, also for certain labels."""
    pool = random_probs(1, 40, 12, n_classes, 3.0)
    target = random_probs(2, 40, 12, n_classes, 3.0)
    pool[0] = target[1] = np.eye(n_classes)[0]
    in_numpy = parbals.epig(pool, target, loss=loss)
    monkeypatch.setattr("parbals.scores.rows.on_host", lambda: False)
    np.testing.assert_allclose(
        parbals.epig(pool, target, loss=loss), in_numpy, rtol=1e-9, atol=1e-13
    )
    assert jnp.zeros(1).dtype == jnp.float32  # the caller's setting is left alone


def test_bad_input_is_refused_in_one_sentence():
    good = random_probs(1, 4, 5, 2)
    bad = good.copy()
    bad[2, 3, 1] = np.nan
    with pytest.raises(parbals.errors.InputError, match=r"pool_probs\[2, 3, 1\] is nan"):
        parbals.epig(bad, good)
    with pytest.raises(
        parbals.errors.ShapeError, match="5 posterior samples and target_probs has 4"
    ):
        parbals.epig(good, good[:, :4])
    with pytest.raises(parbals.errors.ShapeError, match="has shape"):
        parbals.epig(good[:, :, 0], good)
    with pytest.raises(parbals.errors.InputError, match="sums to"):
        parbals.epig(good, good * 1.1)
    with pytest.raises(parbals.errors.InputError, match=r"sample_weights\[0\] is -1"):
        parbals.epig(good, good, [-1, 1, 1, 1, 1])
