"""Encode a table as features: numbers, categories, dates, yes/no columns and missing values.

The bins and slots are those of :class:`~parbals_bench.datasets.tabular.TabularFeatures`, which the
experiment uses; this encoding detects the type of each column and can be stored as JSON. A number
becomes one-hot bins and, with weight one half, its standard score: with 30 to 300 random labels
that predicts within a point or two of the better of bins and plain numbers on three tables (airline
satisfaction, where bins are 4 points better; card fraud; breast cancer, where numbers are 4 points
better).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from parbals.errors import InputError, ShapeError
from parbals.features.reading import DATES, NO, YES, Guess, guess_reading, is_missing, read_cells

__all__ = ["TableEncoding", "bin_edges", "is_identifier", "is_text"]

_N_BINS = 10
_MAX_BINNED_COLUMNS = 64
"""With more columns of numbers, for example of an embedding, numbers are not binned."""
_MAX_CATEGORIES = 50
_MAX_STANDARD_SCORE = 3.0
"""Standard scores are clipped here, so that one absurd entry does not dominate."""
_MAX_INSPECTED_CELLS = 1_000
_MIN_WORDS_OF_TEXT = 4  # on average
_MIN_DISTINCT_SHARE_OF_TEXT = 0.5
_ID_NAMES = frozenset(
    {"", "id", "_id", "ids", "index", "row", "row_id", "rowid", "unnamed: 0", "uuid", "guid", "key"}
)
_MIN_ROWS_FOR_ID = 20
"""With fewer rows, distinct values do not show that a column is an identifier."""
_MIN_DISTINCT_SHARE_OF_ID = 0.95
_Cells = Sequence[Any] | np.ndarray


# The fields of both classes are stored as JSON.
@dataclass(frozen=True)
class _Number:
    """A number: [½ standard score, one slot per bin, one slot for missing values].

    A missing value is zero except in its slot. Without bins the standard score has weight 1.
    """

    source: str  # the column of the table
    reading: str
    part: str  # of a date: "hour", or "" for the whole
    mean: float
    deviation: float
    edges: list[float] | None  # of the bins
    has_gaps: bool  # whether values are missing

    @classmethod
    def fit(cls, source: str, reading: str, part: str, values: np.ndarray, has_bins: bool) -> Self:
        """Learn mean, standard deviation and bins of values (n,), NaN if missing."""
        known = values[~np.isnan(values)]
        return cls(
            source=source,
            reading=reading,
            part=part,
            mean=float(known.mean()),
            deviation=float(known.std()) or 1.0,
            edges=bin_edges(known, _N_BINS).tolist() if has_bins else None,
            has_gaps=len(known) < len(values),
        )

    @property
    def width(self) -> int:
        """Number of features."""
        n_bins = 0 if self.edges is None else len(self.edges) + 1
        return 1 + n_bins + self.has_gaps

    def fill(self, features: np.ndarray, cells: _Cells) -> None:
        """Write the features (n, width) of cells (n,) into zeros."""
        values = _date_part(read_cells(cells, self.reading), self.part)
        is_gap = np.isnan(values)
        score = (values - self.mean) / self.deviation
        score = np.clip(score, -_MAX_STANDARD_SCORE, _MAX_STANDARD_SCORE)
        weight = 1.0 if self.edges is None else 0.5
        features[:, 0] = np.where(is_gap, 0.0, score) * weight
        if self.edges is not None:
            rows = np.flatnonzero(~is_gap)
            features[rows, 1 + np.searchsorted(self.edges, values[rows])] = 1.0
        if self.has_gaps:
            features[is_gap, -1] = 1.0


@dataclass(frozen=True)
class _Category:
    """A category: one slot per value, one for missing values, one for rare and unseen values.

    The last two exist only if the pool has such rows; otherwise a missing or unseen value is a row
    of zeros.
    """

    source: str  # the column of the table
    reading: str | None  # of a date
    part: str  # of a date: "month" or "weekday"
    is_yes_no: bool
    values: list[str]
    has_gaps: bool  # whether values are missing
    has_rest: bool  # whether there are rare values

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.values) + self.has_gaps + self.has_rest

    def fill(self, features: np.ndarray, cells: _Cells) -> None:
        """Write the one-hot features (n, width) of cells (n,) into zeros."""
        slot_of_value = {value: slot for slot, value in enumerate(self.values)}
        gap_slot = len(self.values) if self.has_gaps else None
        rare_slot = features.shape[1] - 1 if self.has_rest else None
        categories = _category_values(cells, self.reading, self.part, self.is_yes_no)
        for row, value in enumerate(categories):
            slot = gap_slot if value is None else slot_of_value.get(value, rare_slot)
            if slot is not None:
                features[row, slot] = 1.0


class TableEncoding:
    """Encode the rows of a table as features (N, D) float32.

    >>> encoding = TableEncoding.fit({"size": [1.0, 2.0, None], "colour": ["red", "blue", "red"]})
    >>> encoding.transform({"size": [2.0], "colour": ["blue"]}).shape
    (1, 6)

    Attributes:
        columns: what each feature block encodes.
        names: columns of the table that are used.
        notes: sentences about columns that were left out or cells that could not be read.
        width: D.
    """

    def __init__(self, columns: Sequence[_Number | _Category], notes: Sequence[str] = ()) -> None:
        self.columns = list(columns)
        self.notes = tuple(notes)
        self.names = tuple(dict.fromkeys(column.source for column in columns))
        self.width = sum(column.width for column in columns)

    @classmethod
    def fit(cls, table: Mapping[str, _Cells], *, keep_identifiers: bool = False) -> Self:
        """Learn the encoding of columns of equal length.

        Columns that identify rows are left out unless ``keep_identifiers``.
        """
        columns: list[_Number | _Category] = []
        notes: list[str] = []
        guesses = {name: guess_reading(cells) for name, cells in table.items()}
        n_numeric = sum(guess is not None for guess in guesses.values())
        for name, cells in table.items():
            if any(isinstance(cell, list | dict | tuple) for cell in cells[:100]):
                raise InputError(
                    f"The column {name!r} holds lists or records; leave it out, or save its "
                    "numbers in columns of their own or as an .npy file."
                )
            if not keep_identifiers and is_identifier(name, cells):
                reason = "is a text: encode it first" if is_text(cells) else "only identifies rows"
                notes.append(f"{name!r} is left out: it {reason}.")
                continue
            guess = guesses[name]
            if guess is None:
                encoded = _fit_category(name, cells, notes)
            else:
                values = read_cells(cells, guess.reading)
                has_bins = n_numeric <= _MAX_BINNED_COLUMNS
                encoded = _fit_number(name, guess.reading, values, has_bins)
                notes += _reading_notes(name, guess)
            if not encoded:
                notes.append(f"{name!r} is left out: it is empty, or the same in every row.")
            columns += encoded
        if not columns:
            raise InputError(
                f"Nothing in {', '.join(map(repr, table)) or 'the table'} distinguishes the items "
                f"except their identifiers. {' '.join(notes)}".strip()
            )
        return cls(columns, notes)

    def transform(self, table: Mapping[str, _Cells], name: str = "The table") -> np.ndarray:
        """Features (n, D) float32; missing columns raise an error, additional ones are ignored."""
        for source in self.names:
            if source not in table:
                raise ShapeError(f"{name} has no column {source!r}, which the pool has.")
        n_rows = len(table[self.names[0]])
        features = np.zeros((n_rows, self.width), np.float32)
        start = 0
        for column in self.columns:
            stop = start + column.width
            column.fill(features[:, start:stop], table[column.source])
            start = stop
        return features

    def as_json(self) -> dict[str, Any]:
        """The encoding as plain values for :meth:`from_json`."""
        return {"columns": [asdict(column) for column in self.columns], "notes": list(self.notes)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The encoding from the values of :meth:`as_json`."""
        columns: list[_Number | _Category] = []
        for fields in record["columns"]:
            is_number = "edges" in fields
            columns.append(_Number(**fields) if is_number else _Category(**fields))
        return cls(columns, record["notes"])


def bin_edges(numbers: np.ndarray, n_bins: int) -> np.ndarray:
    """Edges e of bins (-∞, e₀], (e₀, e₁], …, (e_last, ∞) with about equally many numbers (n,) each.

    If there are at most ``n_bins`` distinct values, each has a separate bin.

    >>> bin_edges(np.array([0.0, 1.0, 1.0]), 10).tolist()
    [0.0]
    """
    distinct = np.unique(numbers)
    if len(distinct) <= n_bins:
        return distinct[:-1]  # quantiles of a 0/1 column would put all its rows into one bin
    edges = np.quantile(numbers, np.arange(1, n_bins) / n_bins, method="inverted_cdf")
    # An edge at the largest value would leave the last bin empty.
    return np.unique(np.where(edges == distinct[-1], distinct[-2], edges))


def _fit_number(
    name: str, reading: str, values: np.ndarray, has_bins: bool
) -> list[_Number | _Category]:
    """Encodings of a column of numbers or dates; empty if it is constant.

    A date is encoded as a number, by month and weekday as categories, and by hour as a number.
    """
    known = values[~np.isnan(values)]
    if not len(known) or (len(known) == len(values) and np.ptp(known) == 0):
        return []
    encoded: list[_Number | _Category] = [_Number.fit(name, reading, "", values, has_bins)]
    if reading not in DATES:
        return encoded
    for part in ("month", "weekday", "hour"):
        part_values = _date_part(values, part)
        distinct = np.unique(part_values[~np.isnan(part_values)])
        if len(distinct) < 2:
            continue
        if part == "hour":
            encoded.append(_Number.fit(name, reading, part, part_values, has_bins))
            continue
        encoded.append(
            _Category(
                source=name,
                reading=reading,
                part=part,
                is_yes_no=False,
                values=[str(int(value)) for value in distinct],
                has_gaps=False,
                has_rest=False,
            )
        )
    return encoded


def _fit_category(name: str, cells: _Cells, notes: list[str]) -> list[_Number | _Category]:
    """The encoding of a categorical column; empty if it is constant. Adds to the notes."""
    raw_values = set(_category_values(cells, None, "", False)) - {None}
    has_yes_and_no = bool(raw_values & YES) and bool(raw_values & NO)
    is_yes_no = raw_values <= YES | NO and has_yes_and_no
    values = _category_values(cells, None, "", is_yes_no)
    counts = Counter(value for value in values if value is not None)
    has_gaps = counts.total() < len(values)
    if len(counts) + has_gaps < 2:
        return []
    repeated = [value for value, n in counts.most_common(_MAX_CATEGORIES) if n > 1]
    categories = repeated or list(counts)[:1]
    n_rare = len(counts) - len(categories)
    if n_rare > 1 and len(categories) > 1:
        notes.append(f"{n_rare:,} rare values of {name!r} count as one.")
    elif n_rare > 1:
        notes.append(f"{name!r} differs in nearly every row, so it says little; is it a text?")
    category = _Category(
        source=name,
        reading=None,
        part="",
        is_yes_no=is_yes_no,
        values=sorted(categories),
        has_gaps=has_gaps,
        has_rest=n_rare > 0,
    )
    return [category]


def _reading_notes(name: str, guess: Guess) -> list[str]:
    """Notes about cells that could not be read, and about ambiguous dates."""
    notes = []
    noun = "date" if guess.reading in DATES else "number"
    example = f"{guess.example!r:.60}"
    if guess.n_unreadable == 1:
        notes.append(f"1 cell of {name!r} is not a {noun} ({example}) and counts as empty.")
    elif guess.n_unreadable > 1:
        notes.append(
            f"{guess.n_unreadable:,} cells of {name!r} are not {noun}s (such as {example}) and "
            "count as empty."
        )
    if guess.is_ambiguous:
        first = "month" if guess.reading == "month/day" else "day"
        notes.append(f"{name!r} is read with the {first} first; write 2024-01-31 if that is wrong.")
    return notes


def is_identifier(name: str, cells: _Cells) -> bool:
    """Whether a column only identifies rows: by its name, as a count, or by distinct texts.

    >>> is_identifier("ID", [3, 4]), is_identifier("age", [30, 41])
    (True, False)
    """
    guess = guess_reading(cells)
    if guess is not None and guess.reading != "point":
        return False  # dates may all be distinct
    if name.strip().lower() in _ID_NAMES:
        return True
    if len(cells) < _MIN_ROWS_FOR_ID:
        return False
    if guess is None:
        distinct_texts = set(_category_values(cells, None, "", False)) - {None}
        return len(distinct_texts) >= _MIN_DISTINCT_SHARE_OF_ID * len(cells)
    # Numbers such as "€ 1,250.00" identify no row, however distinct; consecutive integers do.
    numbers = read_cells(cells, guess.reading)
    distinct = np.unique(numbers)  # contains NaN once
    is_integer = bool((distinct == np.rint(distinct)).all())
    return is_integer and len(distinct) == len(numbers) == np.ptp(distinct) + 1


def is_text(cells: _Cells) -> bool:
    """Whether a column holds sentences that differ from row to row.

    >>> is_text(["How do I reset it?", "The parcel has not arrived"])
    True
    """
    inspected = cells[:_MAX_INSPECTED_CELLS]
    texts = [cell for cell in inspected if isinstance(cell, str) and cell.strip()]
    if not texts or guess_reading(texts) is not None:
        return False
    mean_words = sum(len(text.split()) for text in texts) / len(texts)
    distinct_share = len(set(texts)) / len(texts)
    return mean_words >= _MIN_WORDS_OF_TEXT and distinct_share >= _MIN_DISTINCT_SHARE_OF_TEXT


def _date_part(days: np.ndarray, part: str) -> np.ndarray:
    """Month 1 to 12, weekday 1 (Monday) to 7 or hour of the day, of days since 1970.

    NaN stays NaN; "" returns the days.
    """
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


def _category_values(
    cells: _Cells, reading: str | None, part: str, is_yes_no: bool
) -> list[str | None]:
    """Values of a category, None if missing; case and surrounding blanks are ignored, 1.0 is 1."""
    if reading is not None:
        numbers = _date_part(read_cells(cells, reading), part)
        return [None if np.isnan(number) else str(int(number)) for number in numbers]
    values: list[str | None] = []
    for cell in cells.tolist() if isinstance(cells, np.ndarray) else cells:
        if is_missing(cell):
            values.append(None)
            continue
        is_whole_number = isinstance(cell, float) and cell.is_integer()
        value = str(int(cell)) if is_whole_number else " ".join(str(cell).split()).lower()
        if is_yes_no:
            value = "yes" if value in YES else "no"
        values.append(value)
    return values
