"""The table of datasets: one line each, nothing registered by import magic."""

from pathlib import Path

from parbals.errors import InputError

from parbals_bench.datasets import airline, cifar10, credit_card, own, sms_spam
from parbals_bench.datasets.base import Data, Dataset
from parbals_bench.datasets.scikit_learn import BREAST_CANCER, DIGITS
from parbals_bench.datasets.texts import AG_NEWS, YELP
from parbals_bench.datasets.wilds import CIVIL_COMMENTS, FMOW, IWILDCAM

__all__ = ["DATASETS", "dataset_named", "dataset_title", "load_dataset"]

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


def dataset_named(name: str) -> Dataset:
    """Look a dataset up, or say which there are."""
    if name not in DATASETS:
        raise InputError(f"There is no dataset {name!r}; choose one of: {', '.join(DATASETS)}.")
    return DATASETS[name]


def dataset_title(name: str) -> str:
    """What a dataset is called in tables and pictures; a suite's own data by their own name."""
    return DATASETS[name].title if name in DATASETS else name


def load_dataset(
    name: str, folder: Path | None = None, *, features: str = "auto", seed: int = 0
) -> Data:
    """Load one by name; ``folder`` is that dataset's own, by default ``$PARBALS_DATA/<name>``."""
    return dataset_named(name).load(folder, features=features, seed=seed)
