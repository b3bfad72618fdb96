"""TF-IDF: fitted on the pool alone, on one scale, and what it cannot do is a ValueError."""

import numpy as np
import pytest

from parbals.features.text import TextFeatures, Tfidf, canonical_text

POOL = [f"win a prize of £{i} now!" if i % 2 else f"see you at {i} for dinner" for i in range(40)]


def test_all_numbers_of_one_length_are_one_word():
    assert canonical_text("Call  0790\n now") == canonical_text("call 0123 NOW") == "call 0000 now"


def test_rows_of_the_pool_are_centred_and_three_long():
    rows = TextFeatures(4).fit(POOL).transform(POOL)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    assert np.sqrt(np.square(rows).sum(axis=1).mean()) == pytest.approx(3.0)


def test_texts_that_come_later_have_no_say():
    features = TextFeatures(4).fit(POOL)
    together = features.transform([*POOL[:3], "something else entirely"])
    np.testing.assert_allclose(together[:3], features.transform(POOL[:3]))


def test_words_are_rows_of_length_one():
    words = TextFeatures(4).fit(POOL).words(POOL)
    np.testing.assert_allclose((words @ words.T).diagonal(), 1.0)


def test_more_directions_than_words_are_refused_unless_fewer_are_allowed():
    with pytest.raises(ValueError, match="n_components"):
        Tfidf(50).fit_transform(["one two", "one three"])
    assert Tfidf(50, fewer_allowed=True).fit_transform(["one two", "one three"]).shape == (2, 1)
    assert Tfidf(50, fewer_allowed=True).fit_transform(["one two"]).shape == (1, 3)


def test_texts_without_words_are_refused():
    with pytest.raises(ValueError, match="empty vocabulary"):
        TextFeatures(2).fit(["", "  "])
