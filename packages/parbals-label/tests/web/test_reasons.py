"""The reason for an item is explained without revealing the prediction."""

import pytest
from parbals_label.web.reasons import why_words


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ((0.5, 0.4, 0.1), "The model is undecided between a and b."),
        ((0.1, 0.4, 0.5), "The model is undecided between b and c."),
        ((0.35, 0.35, 0.3), "The model is undecided between a, b and c."),
        ((0.95, 0.03, 0.02), "The model is fairly certain about this item."),
        ((0.8, 0.1, 0.1), "The model has a prediction but is not certain."),
    ],
)
def test_why_this_item(shares, sentence):
    assert why_words(dict(zip("abc", shares, strict=True))) == sentence


def test_a_model_that_knows_nothing_names_nothing():
    even = dict.fromkeys("abcdef", 1 / 6)
    assert why_words(even) == "The model is undecided between many classes."
    assert why_words(None) == "The model has no prediction for this item yet."
    assert why_words(even, is_start=True).startswith("A representative item")
