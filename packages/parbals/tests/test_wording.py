"""Shares are written in one way."""

import pytest
from parbals.wording import percent


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.413, "41.3 %"),
        (0.05, "5 %"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (1e-5, "<0.1 %"),
        (0.99999, ">99.9 %"),
        (0.999, "99.9 %"),
        (0.0006, "0.1 %"),
        (-0.12, "-12 %"),
        (-1e-5, "0 %"),
    ],
)
def test_a_share_has_one_form(share, words):
    assert percent(share) == words
