"""Parse numbers and dates in the cells of a column, as people write them.

A *reading* names a number or date format, so that later rows are parsed like the first ones:

    point     12.5   1,234.5   € 12   45 %      comma     12,5   1.234,5
    date      ISO dates, or date objects; as days since 1970
    day/month, month/day    13.1.2024 and 1/13/2024; as days since 1970
"""

import datetime
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["DATES", "NO", "YES", "Guess", "guess_reading", "is_missing", "read_cells"]

_POINT = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][-+]?\d+)?")
_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+)?(,\d*)?([eE][-+]?\d+)?")
_LEADING_ZERO = re.compile(r"0\d+")
_NUMERIC_DATE = re.compile(
    r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T,]+(\d{1,2}):(\d{2})(?::(\d{2}))?)?"
)
_YEAR_FIRST_SLASHES = re.compile(r"\d{4}/\d{1,2}/\d{1,2}")
_STRIPPED = " \t\u00a0\u202f€$£¥%"
_EMPTY_MARKS = frozenset(
    {"na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?", ".", "missing", "unknown"}
)
YES = frozenset({"yes", "y", "true", "t", "1", "1.0", "on", "ja", "oui", "si", "sí"})
NO = frozenset({"no", "n", "false", "f", "0", "0.0", "off", "nein", "non"})
_EPOCH = datetime.datetime(1970, 1, 1)
_MS_PER_DAY = 86_400_000
_MIN_READABLE_SHARE = 0.95
"""Share of cells that a reading must fit."""
_MIN_CELLS_FOR_ONE_EXCEPTION = 5
"""From this many cells on, one of them may always be unreadable."""
DATES = ("date", "day/month", "month/day")


class Guess(NamedTuple):
    """How a column is parsed as numbers."""

    reading: str
    n_unreadable: int = 0  # cells that do not fit the reading
    example: Any = None  # the first of them
    is_ambiguous: bool = False  # day and month could be swapped


def read_cells(cells: Sequence[Any] | np.ndarray, reading: str) -> np.ndarray:
    """Parse cells as float64 (n,); NaN for missing, infinite and unreadable cells.

    >>> read_cells(["1.234,5", "n/a", "7"], "comma").tolist()
    [1234.5, nan, 7.0]
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        days = cells.astype("datetime64[ms]").astype(np.float64) / _MS_PER_DAY
        return np.where(np.isnat(cells), np.nan, days)
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        numbers = cells.astype(np.float64)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    parse = _PARSERS[reading]
    parsed_texts: dict[str, float] = {}  # there are few distinct texts; each is parsed once

    def number(cell: Any) -> float:
        if not isinstance(cell, str):
            return _object_number(cell, reading)
        if cell not in parsed_texts:
            parsed_texts[cell] = _text_number(cell, parse)
        return parsed_texts[cell]

    return np.array([number(cell) for cell in cells], np.float64)


def guess_reading(cells: Sequence[Any] | np.ndarray) -> Guess | None:
    """The reading that fits nearly all non-empty cells; None if the column is categorical.

    >>> guess_reading(["12,5", "1.234,0", "3"]).reading
    'comma'
    >>> guess_reading(["red", "green"]) is None
    True
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "Mm":
        return Guess("date") if cells.dtype.kind == "M" else None
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return Guess("point")
    filled = [cell for cell in cells if not is_empty(cell)]
    if not filled or all(isinstance(cell, bool | np.bool_) for cell in filled):
        return None
    counts = Counter(cell for cell in filled if isinstance(cell, str))
    if any(_LEADING_ZERO.fullmatch(cell.strip()) for cell in counts):
        return None  # a postcode or an article number
    objects = [cell for cell in filled if not isinstance(cell, str)]
    distinct = [*counts, *objects]
    multiplicity = np.array([*counts.values(), *(1 for _ in objects)])
    max_unreadable = max(
        len(filled) * (1.0 - _MIN_READABLE_SHARE),
        float(len(filled) >= _MIN_CELLS_FOR_ONE_EXCEPTION),
    )
    best: Guess | None = None
    is_ambiguous = False
    for reading in _PARSERS:
        is_unreadable = np.isnan(read_cells(distinct, reading))
        n_unreadable = int(multiplicity[is_unreadable].sum())
        if reading == "month/day" and best is not None and best.reading == "day/month":
            is_ambiguous = n_unreadable == best.n_unreadable
        is_better = best is None or n_unreadable < best.n_unreadable
        if n_unreadable <= max_unreadable and is_better:
            example = distinct[is_unreadable.argmax()] if n_unreadable else None
            best = Guess(reading, n_unreadable, example)
        fits_all = best is not None and best.n_unreadable == 0
        if best is not None and fits_all and best.reading in ("point", "comma", "date"):
            return best
    if best is not None and is_ambiguous:
        # By convention 3.4.2024 is in April (day first) and 3/4/2024 in March (month first).
        has_slash = any("/" in cell for cell in counts)
        return best._replace(reading="month/day" if has_slash else "day/month", is_ambiguous=True)
    return best


def is_empty(cell: Any) -> bool:
    """Whether a cell is missing, or holds a mark such as "n/a" or "-"."""
    return is_missing(cell) or (isinstance(cell, str) and cell.strip().lower() in _EMPTY_MARKS)


def _text_number(text: str, parse: Callable[[str], float]) -> float:
    """A text as a finite number, or NaN."""
    if is_empty(text):
        return math.nan
    try:
        value = parse(text.strip())
    except (ValueError, OverflowError):
        return math.nan
    return value if math.isfinite(value) else math.nan


def _object_number(cell: Any, reading: str) -> float:
    """A number, date or duration (in hours) as a finite number, or NaN."""
    if is_missing(cell):
        return math.nan
    if isinstance(cell, datetime.date | np.datetime64):
        return _days(cell) if reading in DATES else math.nan
    if reading in DATES:
        return math.nan
    if isinstance(cell, datetime.timedelta):
        return cell.total_seconds() / 3600
    try:
        value = float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return value if math.isfinite(value) else math.nan


def _number(text: str, pattern: re.Pattern[str], thousands: str, decimal: str) -> float:
    """A number with these separators, possibly with a currency or per cent sign."""
    text = text.strip(_STRIPPED)
    if not pattern.fullmatch(text):
        raise ValueError(text)
    return float(text.replace(thousands, "").replace(decimal, "."))


def _days(moment: Any) -> float:
    """Days since 1970 of a date or time, in UTC if it has a time zone."""
    if isinstance(moment, np.datetime64):
        return float(moment.astype("datetime64[ms]").astype(np.float64) / _MS_PER_DAY)
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return (moment - _EPOCH) / datetime.timedelta(days=1)


def _iso_date(text: str) -> float:
    """An ISO date, or one with slashes such as 2024/1/13, as days since 1970."""
    if text.isdigit():  # 20240113 could be any number
        raise ValueError(text)
    if _YEAR_FIRST_SLASHES.match(text):
        text = "-".join(f"{part:>02}" for part in text[:10].split("/")) + text[10:]
    return _days(datetime.datetime.fromisoformat(text))


def _numeric_date(text: str, day_group: int, month_group: int) -> float:
    """A date such as 13.1.2024 or 1/13/2024 10:30 as days since 1970."""
    match = _NUMERIC_DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    moment = datetime.datetime(
        year=int(match[4]),
        month=int(match[month_group]),
        day=int(match[day_group]),
        hour=int(match[5] or 0),
        minute=int(match[6] or 0),
        second=int(match[7] or 0),
    )
    return _days(moment)


_PARSERS: dict[str, Callable[[str], float]] = {
    "point": lambda text: _number(text, _POINT, ",", "."),
    "comma": lambda text: _number(text, _COMMA, ".", ","),
    "date": _iso_date,
    "day/month": lambda text: _numeric_date(text, day_group=1, month_group=3),
    "month/day": lambda text: _numeric_date(text, day_group=3, month_group=1),
}


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, blank, NaN, NaT or pandas.NA.

    >>> is_missing(" "), is_missing(0)
    (True, False)
    """
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return True
    is_nan = isinstance(cell, float) and cell != cell
    # pandas.NA has no truth value, so it is recognised by its type.
    return is_nan or type(cell).__name__ in ("NAType", "NaTType")
