"""The batch record."""

import numpy as np
import parbals


def batch(scores, initial):
    n = len(scores)
    return parbals.Batch(
        indices=np.arange(n),
        scores=np.array(scores),
        initial_scores=np.array(initial),
        effective_sample_size=np.full(n, 10.0),
        strategy="parbals-epig",
        n_exact=np.full(n, 5),
        n_samples=20,
        notes=("Something to know.",),
    )


def test_redundancy_is_the_share_that_was_already_explained():
    assert batch([1.0, 0.2, 0.0], [1.0, 1.0, 0.0]).redundancy.tolist() == [0.0, 0.8, 0.0]


def test_explain_has_a_line_for_each_item_and_the_notes():
    text = batch([1.0, 0.2], [1.0, 1.0]).explain()
    assert "80 %" in text
    assert "10/20" in text
    assert text.endswith("Something to know.")
    assert len(text.splitlines()) == 5
