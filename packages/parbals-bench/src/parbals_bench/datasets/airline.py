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
_N_PUBLISHED = {"train": 103_904, "test": 25_976}


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool: train.csv. Target source and test: the halves of test.csv, equal for all seeds.

    "tabular" cuts at deciles only, which merges some ratings; of all binnings its results are
    nearest to the paper's. "tabular-qcut" cuts at deciles, too, but a rating on a decile belongs to
    the bin below it, not above. "tabular-values" gives every rating its own bin.
    """
    check_choice(features, tuple(_BINNINGS), "features")
    folder = data_folder(folder, NAME)
    train_cells, y_train, train_notes = _read(folder, "train")
    test_cells, y_test, test_notes = _read(folder, "test")
    encoder = TabularFeatures(len(_CATEGORICAL), binning=_BINNINGS[features]).fit(train_cells)
    target_rows, test_rows = halves(len(y_test), NAME)
    X_test = encoder.transform(test_cells)
    return Data(
        name=NAME,
        X_pool=encoder.transform(train_cells),
        y_pool=y_train,
        X_target_source=X_test[target_rows],
        X_test=X_test[test_rows],
        y_test=y_test[test_rows],
        classes=CLASSES,
        notes=(*train_notes, *test_notes),
        y_target_source=y_test[target_rows],
    )


def _read(folder: Path, stem: str) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """(N, 22) cells, the categorical columns first; class numbers; notes."""
    with published_file(folder, (f"{stem}.csv", f"{stem}.csv.gz"), ORIGIN) as path:
        table = read_table(path, _COLUMNS)
    y = table.classes(_LABEL, {label: number for number, label in enumerate(CLASSES)})
    cells = np.empty((len(y), len(_CATEGORICAL) + len(_NUMERIC)), dtype=object)
    for index, column in enumerate(_CATEGORICAL):
        cells[:, index] = table.cells[column]
    for index, column in enumerate(_NUMERIC, start=len(_CATEGORICAL)):
        cells[:, index] = table.numbers(column, allow_missing=True)
    return cells, y, count_note(table.name, len(y), _N_PUBLISHED[stem])


DATASET = Dataset(
    "Airline",
    load,
    "is an airline passenger satisfied? 129,880 answers, 22 columns",
    ORIGIN,
    features=tuple(_BINNINGS)[1:],
)
