"""Datasets of which a small part is what the model is for.

    python studies targets.shifts FOLDER --data DATA  # one file a shift, for a machine without DATA

A shift is features (N, D), classes (N,) and which rows are of the target's kind. NumPy and SciPy
alone read FOLDER's files, which hold at most 9,500 rows each; a study gives the same figures from
DATA and from FOLDER.
"""

import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lib.packing import packing_folder

__all__ = ["POOL_SHARE", "SHIFTS", "Split", "split"]

POOL_SHARE = 0.05
"""Rows of the target's kind are this share of every pool."""
MAX_POOL = 2_000
MAX_TARGET = 1_000
MAX_TEST = 2_000
MAX_OTHER_ROWS = 5_500
MAX_TARGET_ROWS = 4_000
N_COMPONENTS = 32
PRIOR_SHIFT_SHARE = 0.9
"""Where only the class prior differs, this share of the target is of the rare classes."""


class Rows(NamedTuple):
    """Features (N, D) float32, class numbers (N,), and whether a row is of the target's kind."""

    X: np.ndarray
    y: np.ndarray
    of_target: np.ndarray


class Split(NamedTuple):
    """A pool, the unlabelled target rows, and other rows of the target to test on."""

    X_pool: np.ndarray
    y_pool: np.ndarray
    pool_of_target: np.ndarray
    X_target: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    n_classes: int


def split(name: str, seed: int, n_target: int) -> Split:
    """Draw pool, target and test; a smaller target is the beginning of a larger one."""
    rows = _rows(name)
    generator = np.random.default_rng(seed)
    kind = generator.permutation(np.flatnonzero(rows.of_target))
    other_rows = generator.permutation(np.flatnonzero(~rows.of_target))
    n_pool = min(MAX_POOL, 2 * len(other_rows) // 3)
    n_kind = round(POOL_SHARE * n_pool)
    pool = generator.permutation(np.concatenate([kind[:n_kind], other_rows[: n_pool - n_kind]]))
    kind = kind[n_kind:]
    other_rows = other_rows[n_pool - n_kind :]
    if name in PRIOR_SHIFTS:
        n_other_rows = round(len(kind) * (1.0 - PRIOR_SHIFT_SHARE) / PRIOR_SHIFT_SHARE)
        kind = generator.permutation(np.concatenate([kind, other_rows[:n_other_rows]]))
    n_reserved = min(MAX_TARGET, len(kind) // 2)
    target = kind[: min(n_target, n_reserved)]
    test = kind[n_reserved:][:MAX_TEST]
    return Split(
        X_pool=rows.X[pool],
        y_pool=rows.y[pool],
        pool_of_target=rows.of_target[pool],
        X_target=rows.X[target],
        X_test=rows.X[test],
        y_test=rows.y[test],
        n_classes=int(rows.y.max()) + 1,
    )


def main() -> int:
    folder = packing_folder(__doc__)
    for name in SHIFTS:
        rows = _rows(name)
        np.savez_compressed(
            folder / f"{name}.npz",
            X=rows.X.astype(np.float16),
            y=rows.y.astype(np.int8),
            of_target=rows.of_target,
        )
        n_classes = int(rows.y.max()) + 1
        print(name, rows.X.shape, rows.of_target.sum(), "of the target,", n_classes, "classes")
    return 0


@cache
def _rows(name: str) -> Rows:
    """The rows of a shift in half precision's accuracy, from FOLDER's file where there is one."""
    file = _data_folder() / f"{name}.npz"
    if file.exists():
        with np.load(file) as stored:
            X = stored["X"].astype(np.float32)
            return Rows(X, stored["y"].astype(np.int64), stored["of_target"])
    X, y, of_target = SHIFTS[name].load()
    order = np.random.default_rng(0).permutation(len(y))
    is_kind = np.asarray(of_target, bool)[order]
    drawn = np.concatenate([order[is_kind][:MAX_TARGET_ROWS], order[~is_kind][:MAX_OTHER_ROWS]])
    X = np.asarray(X)[drawn].astype(np.float16).astype(np.float32)
    return Rows(X, np.asarray(y)[drawn].astype(np.int64), np.asarray(of_target, bool)[drawn])


def _data_folder() -> Path:
    return Path(os.environ.get("PARBALS_DATA", "."))


def _standardised(columns: Any) -> np.ndarray:
    values = np.asarray(columns, np.float64)
    return (values - values.mean(axis=0)) / values.std(axis=0)


def _components(rows: np.ndarray) -> np.ndarray:
    """The leading principal components, scaled to a mean squared norm of their number."""
    from parbals.features.pca import principal_components

    rows = np.asarray(rows, np.float64)
    components = principal_components(rows, N_COMPONENTS)
    reduced = (rows - components.mean) @ components.directions.T
    return reduced / np.sqrt(np.mean(reduced**2))


def _passengers(label: str, is_target: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """Standardised answers of the airline's passengers, the classes of a column, and the target."""
    import pandas as pd

    frame = pd.read_csv(_data_folder() / "airline" / "train.csv.gz").dropna()
    of_target = is_target(frame).to_numpy()
    classes = np.unique(frame[label], return_inverse=True)[1]
    columns = pd.get_dummies(frame.drop(columns=["Unnamed: 0", "id", label]), dtype=float)
    return _standardised(columns), classes, of_target


def _payments() -> tuple[Any, Any, Any]:
    """Card payments, their amounts and distances as logarithms; the target's amounts are large."""
    import pandas as pd

    frame = pd.read_parquet(_data_folder() / "credit_card" / "card_transdata_97k.parquet")
    of_target = (frame["ratio_to_median_purchase_price"] > 4.0).to_numpy()
    columns = frame.drop(columns=["row", "src", "paper_split", "fraud"]).astype(float)
    for name in columns.columns[:3]:  # the other four are 0 or 1
        columns[name] = np.log1p(columns[name])
    return _standardised(columns), frame["fraud"].to_numpy(), of_target


def _news(is_target: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """Principal components of sentence embeddings of news, and their topics."""
    import pandas as pd

    folder = _data_folder() / "ag_news"
    frame = pd.read_parquet(folder / "train_subset.parquet")
    embeddings = np.load(folder / "minilm_l6_v2_train_subset_f16.npy")
    return _components(embeddings), frame["label"].to_numpy(), is_target(frame).to_numpy()


def _photos() -> tuple[Any, Any, Any]:
    """Principal components of photos' features; the target has animals, the pool has vehicles."""
    folder = _data_folder() / "cifar10"
    features = np.load(folder / "efficientnet_lite0_r160_pca256_test_f16.npy")
    classes = np.load(folder / "y_test.npy")
    vehicles = [0, 8, 9]
    animals = [3, 5, 7]
    rows = np.flatnonzero(np.isin(classes, vehicles + animals))
    y = np.unique(classes[rows], return_inverse=True)[1]
    return _components(features[rows]), y, np.isin(classes[rows], animals)


def _slanted_digits() -> tuple[Any, Any, Any]:
    """Handwritten digits; of each digit the 30 % that lean most to the right are the target."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    images = X.reshape(-1, 8, 8)
    ink = images.sum(axis=(1, 2))
    row, column = np.mgrid[:8, :8]
    row_offset = row - ((images * row).sum(axis=(1, 2)) / ink)[:, None, None]
    column_offset = column - ((images * column).sum(axis=(1, 2)) / ink)[:, None, None]
    covariance = (images * row_offset * column_offset).sum(axis=(1, 2))
    slant = -covariance / (images * row_offset**2).sum(axis=(1, 2))
    limits = np.array([np.quantile(slant[y == digit], 0.7) for digit in range(10)])
    return X / 4.0, y, slant > limits[y]


def _long_messages() -> tuple[Any, Any, Any]:
    """Words of text messages; messages of more than 140 characters are the target."""
    from parbals_bench.datasets.embedded import TextFeatures
    from parbals_bench.datasets.sms_spam import load_messages

    messages = load_messages()
    features = TextFeatures().fit(messages.texts).transform(messages.texts)
    is_long = np.array([len(text) > 140 for text in messages.texts])
    return _components(features), messages.labels == "spam", is_long


class Shift(NamedTuple):
    """What the model decides, for which rows, and how they are loaded."""

    title: str
    load: Callable[[], tuple[Any, Any, Any]]


_SATISFACTION = partial(_passengers, "satisfaction")
SHIFTS = {
    "airline-personal": Shift(
        "personal travel; Airline, satisfied?",
        partial(_SATISFACTION, lambda frame: frame["Type of Travel"] == "Personal Travel"),
    ),
    "airline-eco-plus": Shift(
        "class Eco Plus; Airline, satisfied?",
        partial(_SATISFACTION, lambda frame: frame["Class"] == "Eco Plus"),
    ),
    "airline-older": Shift(
        "passengers of 60 and older; Airline, satisfied?",
        partial(_SATISFACTION, lambda frame: frame["Age"] >= 60),
    ),
    "airline-ticket": Shift(
        "first-time customers; Airline, 3 ticket classes",
        partial(_passengers, "Class", lambda frame: frame["Customer Type"] == "disloyal Customer"),
    ),
    "card-amount": Shift("four times the usual amount; Credit Card, fraud?", _payments),
    "news-agency": Shift(
        "from the agency AP; AG News, 4 topics",
        partial(_news, lambda frame: frame["text"].str.contains("(AP)", regex=False)),
    ),
    "news-topics": Shift(
        "mostly world and sports; AG News, 4 topics",
        partial(_news, lambda frame: frame["label"] < 2),
    ),
    "photos-animals": Shift("mostly cats, dogs and horses; CIFAR-10, 6 classes", _photos),
    "digits-slanted": Shift("leaning to the right; digits, 10 classes", _slanted_digits),
    "sms-long": Shift("longer than 140 characters; SMS, spam?", _long_messages),
}
PRIOR_SHIFTS = ("news-topics", "photos-animals")
"""Only the shares of the classes differ between pool and target."""
