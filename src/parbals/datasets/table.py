"""The table of datasets: one line each, nothing registered by import magic."""

from pathlib import Path
from typing import Any

from parbals.datasets import (
    ag_news,
    airline,
    breast_cancer,
    cifar10,
    civil_comments,
    credit_card,
    digits,
    fashion_mnist,
    fmow,
    iwildcam,
    own,
    sms_spam,
    yelp,
)
from parbals.datasets.base import Data, Dataset
from parbals.errors import InputError

__all__ = ["DATASETS", "dataset_named", "load_dataset"]

DATASETS: dict[str, Dataset] = {
    "airline": airline.DATASET,
    "credit-card": credit_card.DATASET,
    "ag-news": ag_news.DATASET,
    "yelp": yelp.DATASET,
    "civil-comments": civil_comments.DATASET,
    "cifar10": cifar10.DATASET,
    "iwildcam": iwildcam.DATASET,
    "fmow": fmow.DATASET,
    "digits": digits.DATASET,
    "breast-cancer": breast_cancer.DATASET,
    "sms-spam": sms_spam.DATASET,
    "fashion-mnist": fashion_mnist.DATASET,
    "own": own.DATASET,
}


def dataset_named(name: str) -> Dataset:
    """Look a dataset up, or say which there are."""
    if name not in DATASETS:
        raise InputError(f"There is no dataset {name!r}; choose one of: {', '.join(DATASETS)}.")
    return DATASETS[name]


def load_dataset(
    name: str, folder: Path | None = None, *, features: str = "auto", seed: int = 0, **options: Any
) -> Data:
    """Load one by name; ``folder`` is that dataset's own, by default ``$PARBALS_DATA/<name>``."""
    return dataset_named(name).load(folder, features=features, seed=seed, **options)
