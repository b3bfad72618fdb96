"""What the cells of a column mean: numbers and dates as people write them.

A *reading* names how cells become numbers, so that later rows are read as the first ones were:

    point     12.5   1,234.5   € 12   45 %      comma     12,5   1.234,5
    date      ISO dates, or objects that are dates; as days since 1970
    day/month, month/day    13.1.2024 and 1/13/2024; as days
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
_CODE = re.compile(r"0\d+")
_PARTS = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T,]+(\d{1,2}):(\d{2})(?::(\d{2}))?)?")
_SLASHES = re.compile(r"\d{4}/\d{1,2}/\d{1,2}")
_AROUND = " \t\u00a0\u202f€$£¥%"
_MARKS = frozenset(
    {"na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?", ".", "missing", "unknown"}
)
YES = frozenset({"yes", "y", "true", "t", "1", "1.0", "on", "ja", "oui", "si", "sí"})
NO = frozenset({"no", "n", "false", "f", "0", "0.0", "off", "nein", "non"})
_EPOCH = datetime.datetime(1970, 1, 1)
_ENOUGH = 0.95
"""The share of cells that a reading must fit; of five or more, one may always be odd."""
_FEW = 5
DATES = ("date", "day/month", "month/day")


class Guess(NamedTuple):
    """How a column is read as numbers; cells that do not fit are counted, and the first shown."""

    reading: str
    n_odd: int = 0
    odd: Any = None
    in_doubt: bool = False


def read_cells(cells: Sequence[Any] | np.ndarray, reading: str) -> np.ndarray:
    """float64 (n,); NaN for what is missing, infinite, or not to be read so."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        days = cells.astype("datetime64[ms]").astype(np.float64) / 86_400_000
        return np.where(np.isnat(cells), np.nan, days)
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        numbers = cells.astype(np.float64)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    parse = _PARSERS[reading]
    known: dict[Any, float] = {}

    def one(cell: Any) -> float:
        if isinstance(cell, str):  # distinct texts are few; each is read once
            if cell not in known:
                known[cell] = _text_number(cell, parse)
            return known[cell]
        return _object_number(cell, reading)

    return np.array([one(cell) for cell in cells], np.float64)


def guess_reading(cells: Sequence[Any] | np.ndarray) -> Guess | None:
    """The reading that fits nearly all cells that are not empty; None: they are names of things."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "Mm":
        return Guess("date") if cells.dtype.kind == "M" else None
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return Guess("point")
    filled = [cell for cell in cells if not is_empty(cell)]
    if not filled or all(isinstance(cell, bool | np.bool_) for cell in filled):
        return None
    counts = Counter(cell for cell in filled if isinstance(cell, str))
    if any(_CODE.fullmatch(cell.strip()) for cell in counts):
        return None  # a post code or an article number
    others = [cell for cell in filled if not isinstance(cell, str)]
    distinct, weights = [*counts, *others], np.array([*counts.values(), *(1 for _ in others)])
    best: Guess | None = None
    in_doubt = False
    for reading in _PARSERS:
        is_odd = np.isnan(read_cells(distinct, reading))
        n_odd = int(weights[is_odd].sum())
        if reading == "month/day" and best is not None and best.reading == "day/month":
            in_doubt = n_odd == best.n_odd
        allowed = max(len(filled) * (1.0 - _ENOUGH), float(len(filled) >= _FEW))
        if n_odd <= allowed and (best is None or n_odd < best.n_odd):
            best = Guess(reading, n_odd, distinct[is_odd.argmax()] if n_odd else None)
        if best is not None and not best.n_odd and best.reading in ("point", "comma", "date"):
            return best
    if best is not None and in_doubt:
        # 3.4.2024 is the fourth month where a point stands, the third where a stroke does.
        slash = any("/" in cell for cell in counts)
        return best._replace(reading="month/day" if slash else "day/month", in_doubt=True)
    return best


def is_empty(cell: Any) -> bool:
    """Missing, or a mark that people write where there is no number."""
    return is_missing(cell) or (isinstance(cell, str) and cell.strip().lower() in _MARKS)


def _text_number(text: str, parse: Callable[[str], float]) -> float:
    if is_empty(text):
        return math.nan
    try:
        value = parse(text.strip())
    except (ValueError, OverflowError):
        return math.nan
    return value if math.isfinite(value) else math.nan


def _object_number(cell: Any, reading: str) -> float:
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
    text = text.strip(_AROUND)
    if not pattern.fullmatch(text):
        raise ValueError(text)
    return float(text.replace(thousands, "").replace(decimal, "."))


def _days(moment: Any) -> float:
    if isinstance(moment, np.datetime64):
        return float(moment.astype("datetime64[ms]").astype(np.float64) / 86_400_000)
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return (moment - _EPOCH) / datetime.timedelta(days=1)


def _iso(text: str) -> float:
    if text.isdigit():  # 20240113 may be any number
        raise ValueError(text)
    if _SLASHES.match(text):
        text = "-".join(f"{part:>02}" for part in text[:10].split("/")) + text[10:]
    return _days(datetime.datetime.fromisoformat(text))


def _parted(text: str, day: int, month: int) -> float:
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hour, minute, second = (int(part or 0) for part in match.groups()[4:])
    year = int(match[4])
    return _days(datetime.datetime(year, int(match[month]), int(match[day]), hour, minute, second))


_PARSERS: dict[str, Callable[[str], float]] = {
    "point": lambda text: _number(text, _POINT, ",", "."),
    "comma": lambda text: _number(text, _COMMA, ".", ","),
    "date": _iso,
    "day/month": lambda text: _parted(text, 1, 3),
    "month/day": lambda text: _parted(text, 3, 1),
}


def is_missing(cell: Any) -> bool:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return True
    # NaN, NaT and pandas.NA: the last one has no truth value, so it is told by its type.
    return type(cell).__name__ in ("NAType", "NaTType") or (
        isinstance(cell, float) and cell != cell
    )
