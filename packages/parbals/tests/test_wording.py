"""Shares are written in one way, and one is no plural."""

import pytest
from parbals.wording import counted, percent


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


def test_one_is_no_plural():
    assert [counted(n, "item") for n in (0, 1, 1200)] == ["0 items", "1 item", "1,200 items"]
    assert counted(1, "text is", "texts are") == "1 text is"
    assert counted(2, "text is", "texts are") == "2 texts are"
