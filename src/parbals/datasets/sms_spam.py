"""SMS Spam Collection (Almeida and Gómez Hidalgo 2011), which comes with this package."""

from pathlib import Path

import numpy as np

from parbals.datasets.base import Data, Dataset
from parbals.validate import check_choice

__all__ = ["DATASET", "load"]

NAME = "sms-spam"


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """60 % pool, 20 % target source, 20 % test, divided by the seed, copies of a text on one side;
    TF-IDF and SVD."""
    from parbals.demo.data import CLASSES, Messages, TextFeatures, load_messages, split_messages

    check_choice(features, ("auto", "tfidf"), "features")
    split = split_messages(load_messages(), seed)
    encoder = TextFeatures().fit(split.pool.texts)

    def numbers(part: Messages) -> np.ndarray:
        return (part.labels == CLASSES[1]).astype(np.int64)

    X_pool, X_target, X_test = (
        encoder.transform(part.texts).astype(np.float32)
        for part in (split.pool, split.target, split.test)
    )
    return Data(NAME, X_pool, numbers(split.pool), X_target, X_test, numbers(split.test), CLASSES)


DATASET = Dataset(
    load, "is a text message spam? 5,574 messages; comes with parbals", features=("tfidf",)
)
