"""Pseudo-labels: right shares, and noise that belongs to the row."""

import numpy as np
from parbals.strategies.universes.labels import KeyedNoise, class_keys

N = 20_000


def test_labels_have_their_probabilities():
    probs = np.array([0.1, 0.25, 0.65])
    logits = np.broadcast_to(np.log(probs) + 3.0, (N, 3))
    labels = KeyedNoise(0).label(logits, class_keys(np.ones(4, np.float32), 3))
    shares = np.bincount(labels, minlength=3) / N
    assert (np.abs(shares - probs) < 4.5 * np.sqrt(probs * (1 - probs) / N)).all()


def test_a_rows_labels_do_not_depend_on_the_rows_before_it():
    rows = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    logits = np.zeros((64, 2))
    there = KeyedNoise(1)
    back = KeyedNoise(1)
    labels = [there.label(logits, class_keys(row, 2)).tolist() for row in rows]
    again = [back.label(logits, class_keys(row, 2)).tolist() for row in rows[::-1]]
    assert labels == again[::-1]
    assert labels[0] != KeyedNoise(2).label(logits, class_keys(rows[0], 2)).tolist()


def test_equal_rows_have_noise_of_their_own():
    noise = KeyedNoise(0)
    logits = np.zeros((N, 2))
    first, second = (noise.label(logits, class_keys(np.ones(3, np.float32), 2)) for _ in range(2))
    agree = (first == second).mean()
    assert abs(agree - 0.5) < 4.5 * 0.5 / np.sqrt(N)
