"""An item's reason is told without giving the answer away."""

import pytest
from parbals_label.web.reasons import why_words


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ((0.5, 0.4, 0.1), "The model wavers between a and b."),
        ((0.1, 0.4, 0.5), "The model wavers between b and c."),
        ((0.35, 0.35, 0.3), "The model wavers between a, b and c."),
        ((0.95, 0.03, 0.02), "The model is fairly sure of this one."),
        ((0.8, 0.1, 0.1), "The model has a guess but is not sure."),
    ],
)
def test_why_this_item(shares, sentence):
    assert why_words(dict(zip("abc", shares, strict=True))) == sentence


def test_a_model_that_knows_nothing_names_nothing():
    even = dict.fromkeys("abcdef", 1 / 6)
    assert why_words(even) == "The model has no idea yet what this is."
    assert why_words(None) == "The model does not know this item yet."
    assert why_words(even, is_start=True).startswith("One of the items that stand for the others")
