"""The SMS Spam Collection, split without leaks and turned into features.

Every statistic a feature rests on (vocabulary, document frequencies, projection, centre, scale) is
taken from the pool's texts alone: the messages that test the model have no say in how they are
represented.
"""

import gzip
import re
from dataclasses import dataclass
from html import unescape
from importlib import resources
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from threadpoolctl import threadpool_limits

from parbals.errors import ParbalsError
from parbals.randomness import derive_generator

__all__ = ["CLASSES", "Messages", "Split", "TextFeatures", "load_messages", "split_messages"]

CLASSES = ("ham", "spam")
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
        raw = resources.files("parbals.demo").joinpath("data", _FILE).read_bytes()
        lines = gzip.decompress(raw).decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ParbalsError(
            f"The demo's data file {_FILE} cannot be read ({error}); reinstall parbals."
        ) from error
    labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    # The published file writes <, > and & as HTML does; people did not type "&lt;".
    return Messages(tuple(unescape(text) for text in texts), np.array(labels))


def split_messages(
    messages: Messages, seed: int, shares: tuple[float, float] = (0.6, 0.2)
) -> Split:
    """Pool, target and test (60/20/20 % of the distinct texts), shuffled by the seed.

    Some messages occur many times over. All copies of a text go to the same side, so that a model
    is never tested on a message it was trained on; inside the pool the copies stay, as they would
    in real life.
    """
    _, text_number = np.unique([_canonical(text) for text in messages.texts], return_inverse=True)
    n_texts = int(text_number.max()) + 1
    place = derive_generator(seed, "split").permutation(n_texts)[text_number] / n_texts
    side = np.searchsorted(np.cumsum(shares), place, side="right")
    pool, target, test = (messages.take(np.flatnonzero(side == number)) for number in range(3))
    return Split(pool, target, test)


class TextFeatures:
    """TF-IDF of words and word pairs, projected to ``n_features`` directions, centred, brought to
    one scale.

    The directions keep their relative size (a whitened tail would be mostly noise), and the rows
    get a root mean square norm of ``scale``. With a N(0, 1) prior on the weights, 3 is the scale at
    which randomly labelled messages predict the others best (log loss, 20 to 100 labels): the prior
    then fits the data.
    """

    def __init__(self, n_features: int = 64, scale: float = 3.0, seed: int = 0) -> None:
        self.n_features = n_features
        self.scale = scale
        self._words = TfidfVectorizer(
            preprocessor=_canonical,
            token_pattern=r"[^\W\d_]+|\d+|[£$!?]",
            ngram_range=(1, 2),
            min_df=2,
            sublinear_tf=True,
        )
        self._projection = TruncatedSVD(n_features, random_state=seed)

    def fit(self, pool_texts: tuple[str, ...]) -> Self:
        # One thread: on matrices this small several mostly wait for each other, ten times as long
        # on a busy machine.
        with threadpool_limits(1):
            projected = self._projection.fit_transform(self._words.fit_transform(pool_texts))
        self._centre = projected.mean(axis=0)
        spread = np.sqrt(np.square(projected - self._centre).sum(axis=1).mean())
        self._factor = self.scale / spread
        return self

    def transform(self, texts: tuple[str, ...]) -> np.ndarray:
        """(N, n_features) features for the model."""
        return (self._projection.transform(self.words(texts)) - self._centre) * self._factor

    def words(self, texts: tuple[str, ...]) -> csr_matrix:
        """(N, vocabulary) unit-length TF-IDF rows: their products are the cosine similarity of the
        wordings."""
        return csr_matrix(self._words.transform(texts))


def _canonical(text: str) -> str:
    """Lower case, single spaces, and every digit a 0, so that all phone numbers of one length are
    one word."""
    return re.sub(r"\d", "0", " ".join(text.lower().split()))
