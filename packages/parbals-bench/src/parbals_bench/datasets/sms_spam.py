"""SMS Spam Collection (Almeida and Gómez Hidalgo 2011), which comes with this package."""

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape
from importlib import resources
from pathlib import Path

import numpy as np
from parbals.errors import ParbalsError
from parbals.features.text import TextMix, canonical_text
from parbals.randomness import derive_generator
from parbals.validate import check_choice

from parbals_bench.datasets.base import Data, Dataset
from parbals_bench.datasets.embedded import TextFeatures

__all__ = ["CLASSES", "DATASET", "Messages", "Split", "load", "load_messages", "split_messages"]

NAME = "sms-spam"
CLASSES = ("ham", "spam")
_MEAN_NORM = 3.0  # of rows, as in projects
_FILE = "SMSSpamCollection.tsv.gz"


@dataclass(frozen=True)
class Messages:
    """Texts and labels, row by row."""

    texts: tuple[str, ...]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: np.ndarray) -> "Messages":
        return Messages(tuple(self.texts[i] for i in rows), self.labels[rows])


@dataclass(frozen=True)
class Split:
    """The pool to label from, the target messages (labels unused), and the test set."""

    pool: Messages
    target: Messages
    test: Messages


def load_messages() -> Messages:
    """The 5,574 messages that ship with the package."""
    try:
        raw = resources.files("parbals_bench.datasets").joinpath("data", _FILE).read_bytes()
        lines = gzip.decompress(raw).decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ParbalsError(
            f"The data file {_FILE} of this package cannot be read ({error}); reinstall parbals."
        ) from error
    labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    # The published file writes <, > and & as HTML does; people did not type "&lt;".
    return Messages(tuple(unescape(text) for text in texts), np.array(labels))


def split_messages(messages: Messages, seed: int) -> Split:
    """Pool, target and test (60/20/20 % of the distinct texts), shuffled by the seed.

    Some messages occur many times. All copies of a text are in one subset, so that a model is never
    tested on a message it was trained on; inside the pool copies stay, as in practice.
    """
    wordings = [canonical_text(text) for text in messages.texts]
    _, text_number = np.unique(wordings, return_inverse=True)
    n_texts = int(text_number.max()) + 1
    quantile = derive_generator(seed, "split").permutation(n_texts)[text_number] / n_texts
    subset = np.searchsorted((0.6, 0.8), quantile, side="right")
    return Split(
        pool=messages.take(np.flatnonzero(subset == 0)),
        target=messages.take(np.flatnonzero(subset == 1)),
        test=messages.take(np.flatnonzero(subset == 2)),
    )


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool, target source and test as :func:`split_messages` divides them.

    ``features`` are TF-IDF and SVD, or "words", the features that `parbals init` uses.
    """
    check_choice(features, ("auto", "tfidf", "words"), "features")
    split = split_messages(load_messages(), seed)
    encode = _encoder(features, split.pool.texts)
    return Data(
        name=NAME,
        X_pool=encode(split.pool.texts),
        y_pool=(split.pool.labels == CLASSES[1]).astype(np.int64),
        X_target_source=encode(split.target.texts),
        X_test=encode(split.test.texts),
        y_test=(split.test.labels == CLASSES[1]).astype(np.int64),
        classes=CLASSES,
    )


def _encoder(features: str, pool_texts: Sequence[str]) -> Callable[[Sequence[str]], np.ndarray]:
    """A function from texts to features, learnt from the pool."""
    if features == "words":
        mix = TextMix().fit(pool_texts)
        return lambda texts: np.float32(_MEAN_NORM) * mix.transform(texts)
    tfidf = TextFeatures().fit(pool_texts)
    return lambda texts: tfidf.transform(texts).astype(np.float32)


DATASET = Dataset(
    "SMS Spam",
    load,
    "is a text message spam? 5,574 messages; comes with parbals",
    features=("tfidf", "words"),
)
