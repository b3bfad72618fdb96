"""How numbers and names are written: alike on the page, in reports and in a shell."""

import math
from collections.abc import Callable

__all__ = [
    "PROGRAM_PREFIX",
    "counted",
    "duration",
    "percent",
    "percent_above",
    "percent_below",
    "without_controls",
]

PROGRAM_PREFIX = "machine:"
"""An annotator whose name starts so is a program, not a person."""


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun; ``plural`` is only needed if it is not formed by adding an s.

    >>> counted(1, "item"), counted(1200, "item"), counted(2, "class", "classes")
    ('1 item', '1,200 items', '2 classes')
    """
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{number:,} {noun}"


def duration(seconds: float) -> str:
    """A time in minutes or hours, as precisely as an estimate deserves.

    >>> duration(20), duration(70), duration(200), duration(9000)
    ('less than a minute', 'about a minute', 'about 3 minutes', 'about 2.5 hours')
    """
    if seconds < 45:
        return "less than a minute"
    minutes = round(seconds / 60)
    if minutes <= 1:
        return "about a minute"
    if minutes <= 90:
        return f"about {minutes} minutes"
    return f"about {f'{seconds / 3600:.1f}'.removesuffix('.0')} hours"


def without_controls(text: str, substitute: str = " ") -> str:
    """A text of others to quote: characters that cannot be shown, line ends too, are replaced.

    >>> without_controls("No.\\r\\nAll is well.")
    'No.  All is well.'
    """
    return "".join(letter if letter.isprintable() else substitute for letter in text)


def percent(share: float) -> str:
    """A share in per cent with at most one decimal; ``0 %`` and ``100 %`` are exact.

    The page uses the same format (``percent`` in ``web/static/js/dom.js``).

    >>> percent(0.4132), percent(0.05), percent(0.0001)
    ('41.3 %', '5 %', '<0.1 %')
    """
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{round(100 * share, 1) + 0.0:.1f}".removesuffix(".0") + " %"  # no "-0"


def percent_above(share: float) -> str:
    """An upper limit in per cent: rounded up, so that it stays one.

    >>> percent_above(0.0501), percent_above(0.05), percent_above(0.0001), percent_above(0.9999)
    ('5.1 %', '5 %', '0.1 %', '100 %')
    """
    return percent(min(1.0, _thousandths(share, math.ceil)))


def percent_below(share: float) -> str:
    """A lower limit in per cent: rounded down, so that it stays one.

    >>> percent_below(0.0509), percent_below(0.05), percent_below(0.0001), percent_below(0.9999)
    ('5 %', '5 %', '0 %', '99.9 %')
    """
    return percent(_thousandths(share, math.floor))


def _thousandths(share: float, rounded: Callable[[float], int]) -> float:
    """A share as a whole number of thousandths; a rounding error of the product is none."""
    return rounded(round(1000 * share, 9)) / 1000
