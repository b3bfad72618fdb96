"""Columns of a table one by one: bins of numbers, slots of values, and what counts as missing."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from parbals.errors import InputError

__all__ = [
    "CellError",
    "Numbers",
    "Values",
    "as_numbers",
    "check_finite",
    "is_missing",
    "looks_like_id",
]

_ID_NAMES = frozenset(
    {"", "id", "_id", "ids", "index", "row", "row_id", "rowid", "unnamed: 0", "uuid", "guid", "key"}
)
_FEWEST_FOR_ID = 20
_DISTINCT_SHARE = 0.95
_LONGEST_SHOWN = 60


class CellError(InputError):
    """One cell cannot be used; ``row`` and ``place`` (of its column) count from 0."""

    def __init__(self, row: int, place: int, name: str, shown: str, fault: str) -> None:
        self.row, self.place, self.fault = row, place, fault
        self.shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
        super().__init__(f"Row {row} of column {name!r} is {self.shown}, {fault}.")


@dataclass(frozen=True)
class Numbers:
    """Bins (-∞, e₀], (e₀, e₁], …, (e_last, ∞); with ``edge_is_above`` [e₀, e₁) and so on."""

    place: int
    name: str
    mean: float
    edges: np.ndarray
    edge_is_above: bool = False

    @classmethod
    def fit(
        cls, place: int, name: str, numbers: np.ndarray, n_bins: int, binning: str
    ) -> "Numbers":
        known = numbers[~np.isnan(numbers)]
        if not len(known):
            return cls(place, name, 0.0, np.empty(0))
        values = np.unique(known)
        if binning != "values":
            edges = np.unique(np.quantile(known, np.linspace(0.0, 1.0, n_bins + 1)))[1:-1]
        elif len(values) <= n_bins:
            edges = values[:-1]  # quantiles of a 0/1 column would put all its rows into one bin
        else:
            edges = np.quantile(known, np.arange(1, n_bins) / n_bins, method="inverted_cdf")
            # nothing lies above the largest value
            edges = np.unique(np.where(edges == values[-1], values[-2], edges))
        return cls(place, name, float(known.mean()), edges, binning == "kbins")

    @property
    def width(self) -> int:
        return len(self.edges) + 1

    def codes(self, cells: np.ndarray) -> np.ndarray:
        numbers = as_numbers(cells)
        if numbers is None:
            wrong = (i for i, c in enumerate(cells) if as_numbers(np.array([c], object)) is None)
            row, fault = next(wrong), "but this column held numbers in the pool"
            raise CellError(row, self.place, self.name, repr(cells[row]), fault)
        check_finite(numbers, cells, self.place, self.name)
        side: Literal["left", "right"] = "right" if self.edge_is_above else "left"
        filled = np.where(np.isnan(numbers), self.mean, numbers)
        return np.searchsorted(self.edges, filled, side=side)

    def labels(self) -> list[str]:
        shown = [f"{edge:g}" for edge in self.edges]
        if not shown:
            return [f"{self.name} is there"]
        below, above = ("<", "≥") if self.edge_is_above else ("≤", ">")
        after = "≤" if self.edge_is_above else "<"
        between = [f"{low} {after} {self.name} {below} {high}" for low, high in pairwise(shown)]
        return [f"{self.name} {below} {shown[0]}", *between, f"{self.name} {above} {shown[-1]}"]


@dataclass(frozen=True)
class Values:
    """One slot a value, in order, missing included; the last is for those not in the pool."""

    name: str
    slots: dict[str | None, int]

    @classmethod
    def fit(cls, name: str, cells: np.ndarray) -> "Values":
        keys = {_key(cell) for cell in cells.tolist()}
        ordered = sorted(keys, key=lambda key: (key is None, key or ""))
        return cls(name, {key: slot for slot, key in enumerate(ordered)})

    @property
    def width(self) -> int:
        return len(self.slots) + 1

    def codes(self, cells: np.ndarray) -> np.ndarray:
        unseen = len(self.slots)
        return np.array([self.slots.get(_key(cell), unseen) for cell in cells.tolist()], np.intp)

    def labels(self) -> list[str]:
        known = ("is missing" if key is None else f"= {key}" for key in self.slots)
        return [f"{self.name} {what}" for what in (*known, "is new")]


def looks_like_id(name: str | None, cells: np.ndarray) -> bool:
    """Whether a column only tells rows apart: by its name, a count, or texts that hardly repeat."""
    if name is not None and name.strip().lower() in _ID_NAMES:
        return True
    if len(cells) < _FEWEST_FOR_ID:
        return False
    numbers = as_numbers(cells)
    if numbers is None:
        keys = [key for key in map(_key, cells.tolist()) if key is not None]
        return len(set(keys)) >= _DISTINCT_SHARE * len(cells)
    if not np.isfinite(numbers).all() or (numbers != np.rint(numbers)).any():
        return False
    return len(np.unique(numbers)) == len(numbers) and np.ptp(numbers) == len(numbers) - 1


def is_missing(cell: Any) -> bool:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return True
    # NaN, NaT and pandas.NA: the last one has no truth value, so it is told by its type.
    return type(cell).__name__ in ("NAType", "NaTType") or (
        isinstance(cell, float) and cell != cell
    )


def as_numbers(cells: np.ndarray) -> np.ndarray | None:
    """float64 with NaN for what is missing; None where something is not a number."""
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    if cells.dtype.kind not in "OUS":
        return None
    try:
        numbers = cells.astype(np.float64)
    except (TypeError, ValueError):
        try:
            numbers = np.array(
                [np.nan if is_missing(cell) else float(cell) for cell in cells.tolist()]
            )
        except (TypeError, ValueError):
            return None
    return numbers


def check_finite(numbers: np.ndarray, cells: np.ndarray, place: int, name: str) -> None:
    """A column of numbers does not become one of texts because one of them is infinite."""
    if len(rows := np.flatnonzero(np.isinf(numbers))):
        shown = str(cells[rows[0]]).strip()
        raise CellError(int(rows[0]), place, name, shown, "which is not a usable number")


def _key(cell: Any) -> str | None:
    """The same text for 1, 1.0 and "1": a column with gaps turns whole numbers into floats."""
    if is_missing(cell):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()
