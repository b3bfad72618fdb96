"""SMS Spam Collection (Almeida and Gómez Hidalgo 2011), which comes with this package."""

import gzip
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
_LENGTH = 3.0  # of rows on the average, as in projects
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
    """What can be labelled, what the model is for (no labels used), and what judges it."""

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

    Some messages occur many times over. All copies of a text go to the same side, so that a model
    is never tested on a message it was trained on; inside the pool the copies stay, as they would
    in real life.
    """
    wordings = [canonical_text(text) for text in messages.texts]
    _, text_number = np.unique(wordings, return_inverse=True)
    n_texts = int(text_number.max()) + 1
    place = derive_generator(seed, "split").permutation(n_texts)[text_number] / n_texts
    side = np.searchsorted((0.6, 0.8), place, side="right")
    return Split(*(messages.take(np.flatnonzero(side == number)) for number in range(3)))


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool, target source and test as :func:`split_messages` divides them.

    ``features`` are TF-IDF and SVD, or "words": what `parbals init` makes of texts.
    """
    check_choice(features, ("auto", "tfidf", "words"), "features")
    split = split_messages(load_messages(), seed)
    parts = [part.texts for part in (split.pool, split.target, split.test)]
    if features == "words":
        mix = TextMix().fit(parts[0])
        X_pool, X_target, X_test = (np.float32(_LENGTH) * mix.transform(part) for part in parts)
    else:
        encoder = TextFeatures().fit(parts[0])
        X_pool, X_target, X_test = (encoder.transform(part).astype(np.float32) for part in parts)
    y_pool, y_test = (
        (part.labels == CLASSES[1]).astype(np.int64) for part in (split.pool, split.test)
    )
    return Data(NAME, X_pool, y_pool, X_target, X_test, y_test, CLASSES)


DATASET = Dataset(
    "SMS Spam",
    load,
    "is a text message spam? 5,574 messages; comes with parbals",
    features=("tfidf", "words"),
)
