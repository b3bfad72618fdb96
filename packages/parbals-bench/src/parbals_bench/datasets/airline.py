"""Airline Passenger Satisfaction (Kaggle, teejmahal20): train.csv and test.csv, also compressed."""

from pathlib import Path

import numpy as np
from parbals.validate import check_choice

from parbals_bench.datasets.base import Data, Dataset, Origin, data_folder, halves
from parbals_bench.datasets.files import count_note, published_file, read_table
from parbals_bench.datasets.tabular import TabularFeatures

__all__ = ["DATASET", "load"]

NAME = "airline"
ORIGIN = Origin(
    NAME,
    "https://www.kaggle.com/datasets/teejmahal20/airline-passenger-satisfaction",
    ("train.csv", "test.csv"),
    hint="a free account is needed",
)
CLASSES = ("neutral or dissatisfied", "satisfied")
_LABEL = "satisfaction"
_CATEGORICAL = ("Gender", "Customer Type", "Type of Travel", "Class")
_RATINGS = (
    "Inflight wifi service",
    "Departure/Arrival time convenient",
    "Ease of Online booking",
    "Gate location",
    "Food and drink",
    "Online boarding",
    "Seat comfort",
    "Inflight entertainment",
    "On-board service",
    "Leg room service",
    "Baggage handling",
    "Checkin service",
    "Inflight service",
    "Cleanliness",
)
_NUMERIC = (
    "Age",
    "Flight Distance",
    *_RATINGS,
    "Departure Delay in Minutes",
    "Arrival Delay in Minutes",
)
_COLUMNS = (*_CATEGORICAL, *_NUMERIC, _LABEL)
_BINNINGS = {
    "auto": "kbins",
    "tabular": "kbins",
    "tabular-qcut": "qcut",
    "tabular-values": "values",
}
_PUBLISHED = {"train": 103_904, "test": 25_976}


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool: train.csv. Target source and test: the halves of test.csv, the same for every seed.

    "tabular" cuts at deciles alone, which joins some of the ratings: of the binnings we tried, the
    one whose figures are nearest the paper's. "tabular-qcut" does, too, but joins others of them: a
    rating on a decile counts to the bin below, not above. "tabular-values" gives every rating its
    own bin.
    """
    check_choice(features, tuple(_BINNINGS), "features")
    place = data_folder(folder, NAME)
    X_pool, y_pool, short_train = _read(place, "train")
    X_rest, y_rest, short_test = _read(place, "test")
    encoder = TabularFeatures(len(_CATEGORICAL), binning=_BINNINGS[features]).fit(X_pool)
    to_target, to_test = halves(len(y_rest), NAME)
    rest = encoder.transform(X_rest)
    X_target, X_test, y_test = rest[to_target], rest[to_test], y_rest[to_test]
    notes = (*short_train, *short_test)
    X = encoder.transform(X_pool)
    return Data(NAME, X, y_pool, X_target, X_test, y_test, CLASSES, notes=notes)


def _read(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """(N, 22) cells, the categorical columns first; class numbers; notes."""
    with published_file(folder, (f"{part}.csv", f"{part}.csv.gz"), ORIGIN) as path:
        table = read_table(path, _COLUMNS)
    y = table.classes(_LABEL, {label: number for number, label in enumerate(CLASSES)})
    cells = np.empty((len(y), len(_CATEGORICAL) + len(_NUMERIC)), dtype=object)
    for place, column in enumerate(_CATEGORICAL):
        cells[:, place] = table.cells[column]
    for place, column in enumerate(_NUMERIC, start=len(_CATEGORICAL)):
        cells[:, place] = table.numbers(column, allow_missing=True)
    return cells, y, count_note(table.name, len(y), _PUBLISHED[part])


DATASET = Dataset(
    "Airline",
    load,
    "is an airline passenger satisfied? 129,880 answers, 22 columns",
    ORIGIN,
    features=tuple(_BINNINGS)[1:],
)
