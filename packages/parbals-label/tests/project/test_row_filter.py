"""Filters that select items by their columns."""

import pytest
from parbals.errors import InputError
from parbals_label.project.row_filter import RowFilter, is_filter

COLUMNS = ["region", "age", "home town", "is new"]


@pytest.mark.parametrize(
    ("text", "content", "expected"),
    [
        ("region = north", {"region": "north"}, True),
        ("region == north", {"region": " north "}, True),
        ("region = 'north and south'", {"region": "north and south"}, True),
        ("region = north and south", {"region": "north and south"}, True),
        ("region != north", {"region": "south"}, True),
        ("region != north", {"region": None}, True),
        ("region = north", {"region": None}, False),
        ("region = north", {}, False),
        ("age >= 58", {"age": "58"}, True),
        ("age < 9", {"age": "10"}, False),  # as numbers, not as texts
        ("age > 9", {"age": ""}, False),
        ("age = 5.0", {"age": 5}, True),
        ("age < 60 and region = north", {"age": 59, "region": "north"}, True),
        ("age < 60 AND region = north", {"age": 61, "region": "north"}, False),
        ("home town = Basel", {"home town": "Basel"}, True),
        ('"home town" = Basel', {"home town": "Bern"}, False),
        ("is new = true", {"is new": True}, True),
        ("is new = True", {"is new": False}, False),
        ("age >= 2026-01-01", {"age": "2026-02-01"}, True),  # texts: dates in ISO 8601 are ordered
    ],
)
def test_a_row_matches_if_all_conditions_hold(text, content, expected):
    assert is_filter(text)
    assert RowFilter.parse(text, COLUMNS).matches(content) is expected


@pytest.mark.parametrize("text", ["region", "= north", "", "region ="])
def test_other_texts_are_no_filters(text):
    assert not is_filter(text)
    with pytest.raises(InputError, match="no filter"):
        RowFilter.parse(text, COLUMNS)


def test_an_unknown_column_is_named_beside_those_there_are():
    with pytest.raises(InputError, match="'city'; the items have region, age"):
        RowFilter.parse("city = Basel", COLUMNS)
