"""Table columns as 0/1 features: quantile bins of numbers, one slot a value of everything else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from parbals.errors import InputError
from parbals.features.reading import as_numbers, looks_like_id, plain_text
from parbals.features.table import bin_edges, bin_labels
from parbals.validate import check_choice, check_positive_int
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["CellError", "TabularFeatures"]

_BINNINGS = ("values", "kbins", "qcut")
_LONGEST_SHOWN = 60


class CellError(InputError):
    """One cell cannot be used; ``row`` and ``place`` (of its column) count from 0."""

    def __init__(self, row: int, place: int, name: str, shown: str, fault: str) -> None:
        self.row, self.place, self.fault = row, place, fault
        self.shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
        super().__init__(f"Row {row} of column {name!r} is {self.shown}, {fault}.")


@dataclass(frozen=True)
class _Numbers:
    """Bins (-∞, e₀], (e₀, e₁], …, (e_last, ∞); with ``edge_is_above`` [e₀, e₁) and so on."""

    place: int
    name: str
    mean: float
    edges: np.ndarray
    edge_is_above: bool = False

    @classmethod
    def fit(
        cls, place: int, name: str, numbers: np.ndarray, n_bins: int, binning: str
    ) -> "_Numbers":
        known = numbers[~np.isnan(numbers)]
        if not len(known):
            return cls(place, name, 0.0, np.empty(0))
        edges = bin_edges(known, n_bins)
        if binning != "values":
            edges = np.unique(np.quantile(known, np.linspace(0.0, 1.0, n_bins + 1)))[1:-1]
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
        _check_finite(numbers, cells, self.place, self.name)
        side: Literal["left", "right"] = "right" if self.edge_is_above else "left"
        filled = np.where(np.isnan(numbers), self.mean, numbers)
        return np.searchsorted(self.edges, filled, side=side)

    def labels(self) -> list[str]:
        return bin_labels(self.name, self.edges, edge_is_above=self.edge_is_above)


@dataclass(frozen=True)
class _Values:
    """One slot a value, in order, missing included; the last is for those not in the pool."""

    name: str
    slots: dict[str | None, int]

    @classmethod
    def fit(cls, name: str, cells: np.ndarray) -> "_Values":
        keys = {plain_text(cell) for cell in cells.tolist()}
        ordered = sorted(keys, key=lambda key: (key is None, key or ""))
        return cls(name, {key: slot for slot, key in enumerate(ordered)})

    @property
    def width(self) -> int:
        return len(self.slots) + 1

    def codes(self, cells: np.ndarray) -> np.ndarray:
        unseen = len(self.slots)
        return np.array(
            [self.slots.get(plain_text(cell), unseen) for cell in cells.tolist()], np.intp
        )

    def labels(self) -> list[str]:
        known = ("is missing" if key is None else f"= {key}" for key in self.slots)
        return [f"{self.name} {what}" for what in (*known, "is new")]


class TabularFeatures(TransformerMixin, BaseEstimator):
    """One-hot features of a table.

    A column of numbers becomes ``n_bins`` bins with equally many rows each; one that takes at most
    ``n_bins`` values gets a bin for each. A missing number counts as the column's mean. Any other
    column becomes one slot for each of its values, and one more for values that come up later.
    Columns that only number the rows are left out; an infinite number is refused. Bins, means and
    values are those of the rows given to ``fit``.

    Args:
        n_bins: most bins of one column.
        categorical: names or positions of columns whose numbers are codes. "auto": no column whose
            values are all numbers is categorical.
        dropped: names or positions of columns to leave out; "auto" leaves out those of
            :func:`looks_like_id`.
        binning: "values" is as above. "kbins" and "qcut" cut at the quantiles and nowhere else, so
            that rare values are joined and a 0/1 column falls into a single bin. A value on an edge
            belongs to the bin above it with "kbins", as in scikit-learn's ``KBinsDiscretizer``, and
            to the one below with "qcut", as in pandas.
    """

    def __init__(
        self,
        n_bins: int = 10,
        *,
        categorical: Sequence[str | int] | str = "auto",
        dropped: Sequence[str | int] | str = "auto",
        binning: str = "values",
    ) -> None:
        self.n_bins = n_bins
        self.categorical = categorical
        self.dropped = dropped
        self.binning = binning

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn bins, means and values from the pool."""
        table = validate_data(
            self, X, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=2
        )
        check_positive_int(self.n_bins, "n_bins", 2)
        check_choice(self.binning, _BINNINGS, "binning")
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        shown = names or [f"x{i}" for i in range(table.shape[1])]
        categorical = self._places(self.categorical, names, "categorical")
        dropped = None if _is_auto(self.dropped) else self._places(self.dropped, names, "dropped")
        self.columns_: list[tuple[int, _Numbers | _Values]] = []
        for place, name in enumerate(shown):
            cells = table[:, place]
            if dropped is None:
                is_left_out = looks_like_id(names[place] if names else None, cells)
            else:
                is_left_out = place in dropped
            if is_left_out:
                continue
            numbers = None if place in categorical else as_numbers(cells)
            if numbers is None:
                self.columns_.append((place, _Values.fit(name, cells)))
            else:
                _check_finite(numbers, cells, place, name)
                column = _Numbers.fit(place, name, numbers, self.n_bins, self.binning)
                self.columns_.append((place, column))
        if not self.columns_:
            raise InputError(
                "Every column only numbers the rows or was dropped; name the ones to drop with "
                "dropped=[]."
            )
        return self

    def transform(self, X: Any) -> np.ndarray:
        """(N, D) float32: in each row a 1 in one slot of every column."""
        check_is_fitted(self, "columns_")
        table = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=False)
        n_slots = sum(column.width for _, column in self.columns_)
        features = np.zeros((len(table), n_slots), np.float32)
        rows, start = np.arange(len(table)), 0
        for place, column in self.columns_:
            features[rows, start + column.codes(table[:, place])] = 1.0
            start += column.width
        return features

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """What each slot stands for, such as ``Age ≤ 27`` or ``Class = Eco``."""
        check_is_fitted(self, "columns_")
        labels = [label for _, column in self.columns_ for label in column.labels()]
        return np.array(labels, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _places(
        self, asked: Sequence[str | int] | str, names: list[str], option: str
    ) -> frozenset[int]:
        if _is_auto(asked):
            return frozenset()
        if isinstance(asked, str):
            raise InputError(f'{option} is {asked!r}; pass a list of columns, or "auto".')
        places = []
        for column in asked:
            if isinstance(column, str) and column in names:
                places.append(names.index(column))
            elif not isinstance(column, str) and 0 <= column < self.n_features_in_:
                places.append(int(column))
            else:
                raise InputError(
                    f"{option} names the column {column!r}, which the table does not have."
                )
        return frozenset(places)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _check_finite(numbers: np.ndarray, cells: np.ndarray, place: int, name: str) -> None:
    """A column of numbers does not become one of texts because one of them is infinite."""
    if len(rows := np.flatnonzero(np.isinf(numbers))):
        shown = str(cells[rows[0]]).strip()
        raise CellError(int(rows[0]), place, name, shown, "which is not a usable number")
