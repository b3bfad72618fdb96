"""TF-IDF: fitted on the pool alone, on one scale, and what it cannot do is a ValueError."""

import numpy as np
import pytest
from parbals.features.text import (
    VIEW_WEIGHTS,
    TextMix,
    Tfidf,
    canonical_text,
    style_features,
)

POOL = [f"win a prize of £{i} now!" if i % 2 else f"see you at {i} for dinner" for i in range(40)]


def test_all_numbers_of_one_length_are_one_word():
    assert canonical_text("Call  0790\n now") == canonical_text("call 0123 NOW") == "call 0000 now"


def test_words_are_rows_of_length_one():
    words = TextMix(4).fit(POOL).words(POOL)
    np.testing.assert_allclose((words @ words.T).diagonal(), 1.0, rtol=1e-6)


def test_where_words_are_few_there_are_fewer_directions():
    assert Tfidf(50).fit_transform(["one two", "one three"]).shape == (2, 1)
    assert Tfidf(50).fit_transform(["one two"]).shape == (1, 3)


def test_texts_without_words_are_refused():
    with pytest.raises(ValueError, match="empty vocabulary"):
        TextMix(2).fit(["", "  "])


class TestMix:
    def test_the_pool_is_centred_and_one_long_and_each_view_has_its_weight(self):
        rows = TextMix(4).fit(POOL).transform(POOL)
        assert rows.dtype == np.float32
        assert rows.shape == (40, 4 + 8 + 128)
        np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-6)
        lengths = [
            np.sqrt(np.square(view).sum(axis=1).mean()) for view in np.split(rows, (4, 12), axis=1)
        ]
        np.testing.assert_allclose(lengths, VIEW_WEIGHTS, rtol=1e-5)
        assert np.sqrt(np.square(rows).sum(axis=1).mean()) == pytest.approx(1.0, abs=1e-4)

    def test_without_meaning_the_other_views_are_the_same(self):
        both = TextMix(4).fit(POOL).transform(POOL)
        np.testing.assert_allclose(
            TextMix(4, meaning=False).fit(POOL).transform(POOL), both[:, :12], atol=1e-6
        )

    def test_later_texts_have_no_say(self):
        mix = TextMix(4).fit(POOL)
        together = mix.transform([*POOL[:3], "something else"])
        np.testing.assert_allclose(together[:3], mix.transform(POOL[:3]), atol=1e-6)

    def test_equal_texts_are_all_zero(self):
        np.testing.assert_allclose(
            TextMix().fit(["one two"] * 5).transform(["one two"]), 0, atol=1e-6
        )


def test_form_counts_what_messages_are_made_of():
    counts = np.expm1(style_features("WIN £500 now! www.prize.com 07786200117"))
    np.testing.assert_allclose(counts, [39, 5, 14, 3, 4, 1, 1, 11])
