"""Credit Card Fraud (Kaggle, dhanushnarayananr): card_transdata.csv, or Parquet with the split."""

from pathlib import Path

import numpy as np
from parbals.validate import check_choice

from parbals_bench.datasets.base import Data, Dataset, Origin, data_folder
from parbals_bench.datasets.files import count_note, find_parquet, published_file, read_table
from parbals_bench.datasets.tabular import TabularFeatures

__all__ = ["DATASET", "load", "paper_split"]

NAME = "credit-card"
ORIGIN = Origin(
    NAME,
    "https://www.kaggle.com/datasets/dhanushnarayananr/credit-card-fraud",
    ("card_transdata.csv",),
    hint="a free account is needed",
)
CLASSES = ("genuine", "fraud")
_LABEL = "fraud"
_NUMERIC = (
    "distance_from_home",
    "distance_from_last_transaction",
    "ratio_to_median_purchase_price",
    "repeat_retailer",
    "used_chip",
    "used_pin_number",
    "online_order",
)
_COLUMNS = (*_NUMERIC, _LABEL)
_SPLIT = "paper_split"
_SPLIT_NAMES = ("train", "val", "test")
_FEATURES = ("auto", "tabular", "tabular-values")
_N_PUBLISHED = 1_000_000
_PAPER_SEED = 42


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """60 % pool, 20 % target source, 20 % test: the paper's rows, equal for all seeds.

    "tabular" cuts at deciles only, so the four 0/1 columns fall into one bin each and are lost; its
    accuracy with random labels agrees with the paper's. "tabular-values" keeps these columns.
    """
    check_choice(features, _FEATURES, "features")
    table, y, split, notes = _read(data_folder(folder, NAME))
    if features != "tabular-values":
        notes = (
            *notes,
            "deciles put each 0/1 column into one bin, as the paper seems to; features "
            "tabular-values keep them",
        )
    rows = {name: np.flatnonzero(split == name) for name in _SPLIT_NAMES}
    binning = "values" if features == "tabular-values" else "kbins"
    encoder = TabularFeatures(binning=binning).fit(table[rows["train"]])
    return Data(
        name=NAME,
        X_pool=encoder.transform(table[rows["train"]]),
        y_pool=y[rows["train"]],
        X_target_source=encoder.transform(table[rows["val"]]),
        X_test=encoder.transform(table[rows["test"]]),
        y_test=y[rows["test"]],
        classes=CLASSES,
        notes=notes,
    )


def paper_split(n_rows: int) -> np.ndarray:
    """train, val or test of each row; of all 1,000,000 rows the paper's own split."""
    from sklearn.model_selection import train_test_split

    _, held_out = train_test_split(np.arange(n_rows), test_size=0.4, random_state=_PAPER_SEED)
    val, test = train_test_split(held_out, test_size=0.5, random_state=_PAPER_SEED)
    split = np.full(n_rows, "train", dtype="U5")
    split[val] = "val"
    split[test] = "test"
    return split


def _read(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    csv_names = ("card_transdata.csv", "card_transdata.csv.gz")
    parquet = find_parquet(folder, "card_transdata", csv_names)
    if parquet is not None:
        table = read_table(parquet, (*_COLUMNS, _SPLIT))
        numbers = {name: number for number, name in enumerate(_SPLIT_NAMES)}
        split = np.array(_SPLIT_NAMES)[table.classes(_SPLIT, numbers)]
    else:
        with published_file(folder, csv_names, ORIGIN) as path:
            table = read_table(path, _COLUMNS)
        split = paper_split(len(table.cells[_LABEL]))
    cells = np.column_stack([table.numbers(column) for column in _NUMERIC])
    y = table.classes(_LABEL, {0: 0, 1: 1, "0": 0, "1": 1, "0.0": 0, "1.0": 1})
    return cells, y, split, count_note(table.name, len(y), _N_PUBLISHED)


DATASET = Dataset(
    "Credit Card",
    load,
    "is a card payment fraud? 1,000,000 payments, 7 columns",
    ORIGIN,
    features=_FEATURES[1:],
)
