"""BALD and the classical measures against their definitions."""

import numpy as np
import parbals
import pytest
from brute_force import bald as slow_bald
from brute_force import random_probs

SCORES = [parbals.bald, parbals.predictive_entropy, parbals.least_confidence, parbals.margin]


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("sharpness", [0.01, 1.0, 50.0])
def test_bald_is_the_entropy_that_the_parameters_explain(n_classes, sharpness):
    probs = random_probs(1, 20, 15, n_classes, sharpness)
    weights = np.random.default_rng(2).random(15)
    np.testing.assert_allclose(parbals.bald(probs), slow_bald(probs), atol=1e-12)
    np.testing.assert_allclose(parbals.bald(probs, weights), slow_bald(probs, weights), atol=1e-12)


def test_small_information_keeps_its_digits_in_single_precision():
    probs = random_probs(1, 20, 15, 4, 0.01).astype(np.float32)
    np.testing.assert_allclose(parbals.bald(probs), slow_bald(probs.astype(np.float64)), rtol=1e-3)


def test_probabilities_without_a_reciprocal_count_for_nothing():
    probs = np.array([[[1.0, 1e-40], [1.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]]], np.float32)
    scores = parbals.bald(probs)
    assert 0 <= scores[0] < 1e-38
    assert scores[1] == pytest.approx(slow_bald(probs.astype(np.float64))[1], rel=1e-6)


def test_classical_measures_read_the_averaged_prediction():
    probs = random_probs(1, 20, 15, 4, 2.0)
    mean = np.sort(probs.mean(axis=1), axis=1)
    np.testing.assert_allclose(
        parbals.predictive_entropy(probs), -(mean * np.log(mean)).sum(axis=1)
    )
    np.testing.assert_allclose(parbals.least_confidence(probs), 1 - mean[:, -1])
    np.testing.assert_allclose(parbals.margin(probs), 1 - (mean[:, -1] - mean[:, -2]))


@pytest.mark.parametrize("score", SCORES)
def test_a_weight_is_a_repeated_sample(score):
    probs = random_probs(1, 9, 5, 3)
    counts = np.array([1, 4, 0, 2, 3])
    np.testing.assert_allclose(
        score(probs, counts), score(np.repeat(probs, counts, axis=1)), rtol=1e-10, atol=1e-14
    )


@pytest.mark.parametrize("score", SCORES)
def test_the_order_of_classes_does_not_matter(score):
    probs = random_probs(1, 9, 5, 3)
    np.testing.assert_allclose(score(probs[:, :, [2, 0, 1]]), score(probs), rtol=1e-12)


@pytest.mark.parametrize("score", SCORES)
def test_certain_predictions_score_zero(score):
    probs = np.zeros((2, 3, 2))
    probs[:, :, 1] = 1.0
    np.testing.assert_allclose(score(probs), 0.0, atol=1e-15)


@pytest.mark.parametrize("score", SCORES)
def test_precision_and_length_follow_the_input(score):
    probs = random_probs(1, 5000, 20, 2)
    assert score(probs).dtype == np.float64
    single = score(probs.astype(np.float32))
    assert single.dtype == np.float32
    assert single.shape == (5000,)
    np.testing.assert_allclose(single, score(probs), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("score", SCORES)
def test_an_accelerator_gives_the_same(score, monkeypatch):
    """JAX agrees with NumPy, also for a certain prediction."""
    probs = random_probs(3, 20, 15, 3, 2.0)
    probs[0] = [1.0, 0.0, 0.0]
    in_numpy = score(probs)
    monkeypatch.setattr("parbals.scores.rows.on_host", lambda: False)
    np.testing.assert_allclose(score(probs), in_numpy, rtol=1e-10, atol=1e-14)
