"""The table of datasets: one line each, nothing registered by import magic.

Datasets of other packages are found through the entry-point group ``parbals.datasets``; each entry
point names a :class:`~parbals_bench.datasets.base.Dataset`.
"""

from importlib.metadata import EntryPoint
from pathlib import Path

from parbals.errors import InputError
from parbals.plugins import load_entry, loadable_entries, other_entries

from parbals_bench.datasets import airline, cifar10, credit_card, own, sms_spam
from parbals_bench.datasets.base import Data, Dataset
from parbals_bench.datasets.scikit_learn import BREAST_CANCER, DIGITS
from parbals_bench.datasets.texts import AG_NEWS, YELP
from parbals_bench.datasets.wilds import CIVIL_COMMENTS, FMOW, IWILDCAM

__all__ = ["DATASETS", "all_datasets", "dataset_named", "dataset_title", "load_dataset"]

DATASETS: dict[str, Dataset] = {
    "airline": airline.DATASET,
    "credit-card": credit_card.DATASET,
    "ag-news": AG_NEWS,
    "yelp": YELP,
    "civil-comments": CIVIL_COMMENTS,
    "cifar10": cifar10.DATASET,
    "iwildcam": IWILDCAM,
    "fmow": FMOW,
    "digits": DIGITS,
    "breast-cancer": BREAST_CANCER,
    "sms-spam": sms_spam.DATASET,
    "own": own.DATASET,
}

_TYPE_NAME = "parbals_bench.datasets.base.Dataset"


def all_datasets() -> dict[str, Dataset]:
    """The built-in datasets, then those of installed packages that can be loaded."""
    return DATASETS | loadable_entries(_other_entries(), Dataset, "dataset", _TYPE_NAME)


def dataset_named(name: str) -> Dataset:
    """Look a dataset up, or say which there are."""
    if name in DATASETS:
        return DATASETS[name]
    entries = _other_entries()
    if name in entries:
        return load_entry(entries[name], Dataset, "dataset", _TYPE_NAME)
    names = ", ".join([*DATASETS, *entries])
    raise InputError(f"There is no dataset {name!r}; choose one of: {names}.")


def dataset_title(name: str) -> str:
    """What a dataset is called in tables and pictures; a suite's own data by their own name."""
    if name not in DATASETS and name not in _other_entries():
        return name
    try:
        return dataset_named(name).title
    except InputError:  # results outlive the package that had the dataset
        return name


def load_dataset(
    name: str, folder: Path | None = None, *, features: str = "auto", seed: int = 0
) -> Data:
    """Load one by name; ``folder`` is that dataset's own, by default ``$PARBALS_DATA/<name>``."""
    return dataset_named(name).load(folder, features=features, seed=seed)


def _other_entries() -> dict[str, EntryPoint]:
    """Entry points of other packages, by name."""
    return other_entries("parbals.datasets", DATASETS)
