"""Names that have never labelled anything: anybody with the link can invent them by the thousand.

Together they may hold so many items and no more. Nobody is locked out by that: where it is reached,
who asks gets an item that a newcomer has, and both may answer it.
"""

__all__ = ["MOST_LEASES", "most_of_newcomers", "most_queued"]

MOST_LEASES = 20
"""Items of the page that one person may have in hand."""
_NEWCOMERS = 200
_SMALL = 10
_EACH, _AHEAD = 10, 2


def most_of_newcomers(n_items: int) -> int:
    """Items that all newcomers together may have: half of a small pool, 200 of a large one."""
    return min(_NEWCOMERS, max(_SMALL, n_items // 2))


def most_queued(n_answers: int, n_known: int) -> int:
    """Items that may wait on the page or be out there: more with every label and every person."""
    return _NEWCOMERS + _EACH * n_known + _AHEAD * n_answers
