"""A table as people have it, as features: empty cells, categories, dates, yes and no.

The bins and slots are those of :class:`~parbals_bench.datasets.tabular.TabularFeatures`, which the
experiment uses; this one finds out what each column holds, and can be kept as JSON. A number is
bins and, at half its standard score, itself: with 30 to 300 random labels that predicts within a
point or two of the better of bins and plain numbers on three tables (airline satisfaction, where
bins win by 4 points; card fraud; breast cancer, where numbers win by 4).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from parbals.errors import InputError, ShapeError
from parbals.features.reading import DATES, NO, YES, Guess, guess_reading, is_missing, read_cells

__all__ = ["TableEncoding", "bin_edges", "is_text", "tells_apart"]

_BINS = 10
_MOST_BINNED = 64
"""With more columns of numbers than this, such as an embedding's, numbers are not cut into bins."""
_MOST_VALUES = 50
_BEYOND = 3.0
"""Standard scores are cut off here: one absurd entry must not outweigh a table."""
_SEEN = 1_000
_WORDS = 4
_DISTINCT = 0.5
_ID_NAMES = frozenset(
    {"", "id", "_id", "ids", "index", "row", "row_id", "rowid", "unnamed: 0", "uuid", "guid", "key"}
)
_FEWEST_FOR_ID = 20
"""Rows from which on values that hardly repeat are a sign of names."""
_DISTINCT_FOR_ID = 0.95
_Cells = Sequence[Any] | np.ndarray


@dataclass(frozen=True)
class _Number:
    """[½ (x - mean) / deviation, one slot a bin, one for gaps]; a gap is zero but for its slot."""

    source: str
    reading: str
    part: str
    mean: float
    deviation: float
    edges: list[float] | None
    has_gaps: bool

    @classmethod
    def fit(cls, source: str, reading: str, part: str, x: np.ndarray, bins: bool) -> Self:
        known = x[~np.isnan(x)]
        edges = bin_edges(known, _BINS).tolist() if bins else None
        mean, deviation, has_gaps = float(known.mean()), float(known.std()), len(known) < len(x)
        return cls(source, reading, part, mean, deviation or 1.0, edges, has_gaps)

    @property
    def width(self) -> int:
        return 1 + (0 if self.edges is None else len(self.edges) + 1) + self.has_gaps

    def fill(self, out: np.ndarray, cells: _Cells) -> None:
        x = _part(read_cells(cells, self.reading), self.part)
        gaps = np.isnan(x)
        score = np.clip((x - self.mean) / self.deviation, -_BEYOND, _BEYOND)
        out[:, 0] = np.where(gaps, 0.0, score) * (1.0 if self.edges is None else 0.5)
        if self.edges is not None:
            rows = np.flatnonzero(~gaps)
            out[rows, 1 + np.searchsorted(self.edges, x[rows])] = 1.0
        if self.has_gaps:
            out[gaps, -1] = 1.0


@dataclass(frozen=True)
class _Category:
    """One slot a value, one for gaps, one for rare values and those that come up later.

    The last two where the pool has such rows; elsewhere a gap or a new value is a row of zeros.
    """

    source: str
    reading: str | None
    part: str
    is_yes_no: bool
    values: list[str]
    has_gaps: bool
    has_rest: bool

    @property
    def width(self) -> int:
        return len(self.values) + self.has_gaps + self.has_rest

    def fill(self, out: np.ndarray, cells: _Cells) -> None:
        place = {value: slot for slot, value in enumerate(self.values)}
        gap = len(self.values) if self.has_gaps else None
        rest = out.shape[1] - 1 if self.has_rest else None
        for row, text in enumerate(_texts(cells, self.reading, self.part, self.is_yes_no)):
            slot = gap if text is None else place.get(text, rest)
            if slot is not None:
                out[row, slot] = 1.0


class TableEncoding:
    """Rows (N, D) float32 of a table, by what the rows given to ``fit`` hold.

    ``names`` are the columns that are read; ``notes`` sentences about what was left out or could
    not be read.
    """

    def __init__(self, columns: Sequence[_Number | _Category], notes: Sequence[str] = ()) -> None:
        self.columns, self.notes = list(columns), tuple(notes)
        self.names = tuple(dict.fromkeys(column.source for column in columns))
        self.width = sum(column.width for column in columns)

    @classmethod
    def fit(cls, table: Mapping[str, _Cells], *, is_asked_for: bool = False) -> Self:
        """Learn from columns of equal length.

        Columns that only tell the rows apart are left out, unless they are ``is_asked_for``.
        """
        columns: list[_Number | _Category] = []
        notes: list[str] = []
        guesses = {name: guess_reading(cells) for name, cells in table.items()}
        n_numbers = sum(guess is not None for guess in guesses.values())
        for name, cells in table.items():
            if any(isinstance(cell, list | dict | tuple) for cell in cells[:100]):
                raise InputError(
                    f"The column {name!r} holds lists or records; leave it out, or save its "
                    "numbers in columns of their own or as an .npy file."
                )
            if not is_asked_for and tells_apart(name, cells):
                why = "only tells the rows apart"
                why = "is a text: encode it first" if is_text(cells) else why
                notes.append(f"{name!r} is left out: it {why}.")
                continue
            guess = guesses[name]
            if guess is None:
                made = _categories(name, cells, notes)
            else:
                x = read_cells(cells, guess.reading)
                made = _numbers(name, guess.reading, x, n_numbers <= _MOST_BINNED)
                notes += _doubts(name, guess)
            if not made:
                notes.append(f"{name!r} is left out: it is empty, or the same in every row.")
            columns += made
        if not columns:
            raise InputError(
                f"Nothing in {', '.join(map(repr, table)) or 'the table'} tells the items apart by "
                f"more than their names. {' '.join(notes)}".strip()
            )
        return cls(columns, notes)

    def transform(self, table: Mapping[str, _Cells], name: str = "The table") -> np.ndarray:
        """(n, D) float32; columns that were not there are refused, further ones do not matter."""
        for source in self.names:
            if source not in table:
                raise ShapeError(f"{name} has no column {source!r}, which the pool has.")
        n_rows = len(table[self.names[0]])
        features, start = np.zeros((n_rows, self.width), np.float32), 0
        for column in self.columns:
            stop = start + column.width
            column.fill(features[:, start:stop], table[column.source])
            start = stop
        return features

    def as_json(self) -> dict[str, Any]:
        """Plain values that ``from_json`` reads."""
        return {"columns": [asdict(column) for column in self.columns], "notes": list(self.notes)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        kinds = (_Number if "edges" in column else _Category for column in record["columns"])
        columns = [kind(**c) for kind, c in zip(kinds, record["columns"], strict=True)]
        return cls(columns, record["notes"])


def bin_edges(known: np.ndarray, n_bins: int) -> np.ndarray:
    """Edges e of bins (-∞, e₀], (e₀, e₁], …, (e_last, ∞) with about equally many numbers (n,) each.

    Where there are at most ``n_bins`` values, each has a bin of its own.
    """
    values = np.unique(known)
    if len(values) <= n_bins:
        return values[:-1]  # quantiles of a 0/1 column would put all its rows into one bin
    edges = np.quantile(known, np.arange(1, n_bins) / n_bins, method="inverted_cdf")
    # nothing lies above the largest value
    return np.unique(np.where(edges == values[-1], values[-2], edges))


def _numbers(name: str, reading: str, x: np.ndarray, bins: bool) -> list[_Number | _Category]:
    known = x[~np.isnan(x)]
    if not len(known) or (len(known) == len(x) and np.ptp(known) == 0):
        return []
    made: list[_Number | _Category] = [_Number.fit(name, reading, "", x, bins)]
    for part in ("month", "weekday", "hour") if reading in DATES else ():
        values = _part(x, part)
        if len(distinct := np.unique(values[~np.isnan(values)])) < 2:
            continue
        if part == "hour":
            made.append(_Number.fit(name, reading, part, values, bins))
        else:
            shown = [str(int(value)) for value in distinct]
            made.append(_Category(name, reading, part, False, shown, False, False))
    return made


def _categories(name: str, cells: _Cells, notes: list[str]) -> list[_Number | _Category]:
    found = {text for text in _texts(cells, None, "", False) if text is not None}
    is_yes_no = found <= YES | NO and bool(found & YES) and bool(found & NO)
    texts = list(_texts(cells, None, "", is_yes_no))
    counts = Counter(text for text in texts if text is not None)
    has_gaps = counts.total() < len(texts)
    if len(counts) + has_gaps < 2:
        return []
    kept = [text for text, n in counts.most_common(_MOST_VALUES) if n > 1] or list(counts)[:1]
    rest = len(counts) - len(kept)
    if rest > 1 and len(kept) > 1:
        notes.append(f"{rest:,} rare values of {name!r} count as one.")
    elif rest > 1:
        notes.append(f"{name!r} differs in nearly every row, so it says little; is it a text?")
    return [_Category(name, None, "", is_yes_no, sorted(kept), has_gaps, rest > 0)]


def _doubts(name: str, guess: Guess) -> list[str]:
    notes, reading, odd = [], guess.reading, f"{guess.odd!r:.60}"
    if guess.n_odd:
        kind = "date" if reading in DATES else "number"
        found = f"1 cell of {name!r} is not a {kind} ({odd}) and counts"
        if guess.n_odd > 1:
            found = f"{guess.n_odd:,} cells of {name!r} are not {kind}s (such as {odd}) and count"
        notes.append(f"{found} as empty.")
    if guess.in_doubt:
        first = "month" if reading == "month/day" else "day"
        notes.append(f"{name!r} is read with the {first} first; write 2024-01-31 if that is wrong.")
    return notes


def tells_apart(name: str, cells: _Cells) -> bool:
    """Whether a column only numbers or names the rows: by its name, a count, or words that hardly
    repeat."""
    guess = guess_reading(cells)
    if guess is not None and guess.reading != "point":
        return False  # dates differ, too
    if name.strip().lower() in _ID_NAMES:
        return True
    if len(cells) < _FEWEST_FOR_ID:
        return False
    if guess is None:
        named = {text for text in _texts(cells, None, "", False) if text is not None}
        return len(named) >= _DISTINCT_FOR_ID * len(cells)
    numbers = read_cells(cells, guess.reading)  # "€ 1,250.00" is no name, however seldom it repeats
    distinct = np.unique(numbers)  # NaN once
    is_whole = bool((distinct == np.rint(distinct)).all())
    return is_whole and len(distinct) == len(numbers) == np.ptp(distinct) + 1


def is_text(cells: _Cells) -> bool:
    """Sentences that differ from row to row."""
    texts = [cell for cell in cells[:_SEEN] if isinstance(cell, str) and cell.strip()]
    if not texts or guess_reading(texts) is not None:
        return False
    n_words = sum(len(text.split()) for text in texts) / len(texts)
    return n_words >= _WORDS and len(set(texts)) >= _DISTINCT * len(texts)


def _part(days: np.ndarray, part: str) -> np.ndarray:
    """Month 1 to 12, weekday 1 (Monday) to 7, or hour of the day of days since 1970."""
    if not part:
        return days
    known = np.where(np.isnan(days), 0.0, days)
    if part == "hour":
        values = np.round((known - np.floor(known)) * 24.0, 4)
    elif part == "weekday":
        values = (np.floor(known) + 3) % 7 + 1
    else:
        months = np.floor(known).astype("datetime64[D]").astype("datetime64[M]").astype(int)
        values = months % 12 + 1.0
    return np.where(np.isnan(days), np.nan, values)


def _texts(cells: _Cells, reading: str | None, part: str, is_yes_no: bool) -> list[str | None]:
    """A category's values: capitals and blanks around do not count, and 1.0 is 1."""
    if reading is not None:
        values = _part(read_cells(cells, reading), part)
        return [None if np.isnan(value) else str(int(value)) for value in values]
    texts: list[str | None] = []
    for cell in cells.tolist() if isinstance(cells, np.ndarray) else cells:
        if is_missing(cell):
            texts.append(None)
            continue
        whole = isinstance(cell, float) and cell.is_integer()
        text = str(int(cell)) if whole else " ".join(str(cell).split()).lower()
        texts.append(("yes" if text in YES else "no") if is_yes_no else text)
    return texts
