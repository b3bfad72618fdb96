"""Texts as numbers: TF-IDF of words and pairs of words, what the words mean, and how it is written.

Every statistic (vocabulary, document frequencies, directions, centre, scale) is that of the texts
given to ``fit``: what is transformed later has no say in how it is represented.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from threadpoolctl import threadpool_limits

from parbals.features.word_vectors import word_vectors

__all__ = ["VIEW_WEIGHTS", "TextFeatures", "TextMix", "Tfidf", "canonical_text", "form_of"]

_TOKENS = r"[^\W\d_]+|\d+|[£$!?]"
VIEW_WEIGHTS = (2 / 3, 1 / 3, 2 / 3)
"""Of words, form and meaning; their squares add up to 1."""
_RARE_WORDS_COUNT_BELOW = 500
_MOST_WORDS = 50_000
_NOTHING = 1e-6  # what rounding leaves of a deviation that is zero
_LINK = re.compile(r"https?:|www\.", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


class Tfidf:
    """TF-IDF rows, and their projection to ``n_directions`` by truncated SVD.

    ``options`` are those of scikit-learn's TfidfVectorizer. Where there are too few words or texts
    for so many directions, ``fewer_allowed`` takes fewer (none: the rows are the TF-IDF itself);
    otherwise that is a ValueError, as texts without words are.
    """

    def __init__(
        self, n_directions: int, *, seed: int = 0, fewer_allowed: bool = False, **options: Any
    ) -> None:
        self.n_directions, self.seed, self.fewer_allowed = n_directions, seed, fewer_allowed
        self.vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), **options)

    def fit_transform(self, texts: Iterable[str]) -> np.ndarray:
        """Learn words and directions; returns the rows of these texts."""
        weights = self.vectorizer.fit_transform(texts)
        if self.fewer_allowed:
            self.n_directions = min(self.n_directions, min(weights.shape) - 1)
        if self.fewer_allowed and self.n_directions < 1:
            self._svd = None
            return np.asarray(weights.toarray())
        self._svd = TruncatedSVD(self.n_directions, random_state=self.seed)
        with np.errstate(invalid="ignore"):  # the share of a variance that is zero: equal texts
            return np.asarray(self._svd.fit_transform(weights))

    def words(self, texts: Sequence[str]) -> csr_matrix:
        """(N, vocabulary) rows of length 1; their products are cosine similarities of wordings."""
        return csr_matrix(self.vectorizer.transform(texts))

    def transform(self, texts: Sequence[str]) -> np.ndarray:
        """(N, n_directions)."""
        weights = self.words(texts)
        return np.asarray(weights.toarray() if self._svd is None else self._svd.transform(weights))


class TextFeatures:
    """Features of short messages: TF-IDF in ``n_features`` directions, centred, on one scale.

    The directions keep their relative size (a whitened tail would be mostly noise), and the rows of
    the pool get a root mean square norm of ``scale``. With a N(0, 1) prior on the weights, 3 is the
    scale at which randomly labelled messages predict the others best (log loss, 20 to 100 labels).
    """

    def __init__(self, n_features: int = 64, scale: float = 3.0, seed: int = 0) -> None:
        self.scale = scale
        self._tfidf = Tfidf(
            n_features,
            seed=seed,
            preprocessor=canonical_text,
            token_pattern=_TOKENS,
            min_df=2,
        )
        self.words = self._tfidf.words

    def fit(self, pool_texts: Sequence[str]) -> Self:
        # One thread: on matrices this small several mostly wait for each other, ten times as long
        # on a busy machine.
        with threadpool_limits(1):
            rows = self._tfidf.fit_transform(pool_texts)
        self._centre = rows.mean(axis=0)
        self._factor = self.scale / np.sqrt(np.square(rows - self._centre).sum(axis=1).mean())
        return self

    def transform(self, texts: Sequence[str]) -> np.ndarray:
        """(N, n_features) features for the model."""
        return (self._tfidf.transform(texts) - self._centre) * self._factor


class TextMix:
    """Three views of a text side by side: its words, how it is written, and what the words mean.

    Words are TF-IDF in at most ``n_directions`` directions, which learn the pool's own language;
    form is :func:`form_of`; meaning is that of :mod:`parbals.features.word_vectors`, which know
    that "match" and "goal" are near each other before anything is labelled (left out where
    ``meaning`` is False, for an encoder that brings its own). Each view is centred, and the root
    mean square length of its rows of the pool is its weight, so that of all three it is 1.
    """

    def __init__(self, n_directions: int = 64, *, meaning: bool = True, seed: int = 0) -> None:
        self._n_directions, self._meaning, self._seed = n_directions, meaning, seed

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn words, directions and scales; a ValueError where no text has a word."""
        self._tfidf = Tfidf(
            self._n_directions,
            seed=self._seed,
            fewer_allowed=True,
            preprocessor=canonical_text,
            token_pattern=_TOKENS,
            min_df=1 if len(texts) < _RARE_WORDS_COUNT_BELOW else 2,
            max_features=_MOST_WORDS,
            dtype=np.float32,
        )
        self.words = self._tfidf.words
        with threadpool_limits(1):  # as for TextFeatures
            self._tfidf.fit_transform(texts)
        words, form, *others = self._views(texts)
        self._centres = [view.mean(axis=0) for view in (words, form, *others)]
        units = [np.ones(1), _or_one(form.std(axis=0)), np.ones(1)]
        self._factors = []
        for view, centre, unit, weight in zip(  # noqa: B905 - there may be no view of the meaning
            (words, form, *others), self._centres, units, VIEW_WEIGHTS
        ):
            length = np.sqrt(np.square((view - centre) / unit).sum(axis=1).mean())
            self._factors.append(weight / (unit * _or_one(length)))
        return self

    def transform(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D) float32."""
        views = zip(self._views(texts), self._centres, self._factors, strict=True)
        return np.hstack([(view - centre) * factor for view, centre, factor in views]).astype(
            np.float32
        )

    def _views(self, texts: Sequence[str]) -> list[np.ndarray]:
        with threadpool_limits(1):
            words = self._tfidf.transform(texts)
        form = np.array([form_of(text) for text in texts]).reshape(len(texts), -1)
        return [words, form, *([word_vectors().encode(texts)] if self._meaning else [])]


def _or_one(values: Any) -> np.ndarray:
    return np.where(values > _NOTHING, values, 1.0)


def form_of(text: str) -> list[float]:
    """log(1 + count) of letters, words, digits, capitals, marks, signs of money, links, and the
    length of the longest number."""
    counts = (
        len(text),
        len(text.split()),
        sum(map(str.isdigit, text)),
        sum(map(str.isupper, text)),
        sum(not (c.isalnum() or c.isspace()) for c in text),
        sum(c in "£$€¥" for c in text),
        len(_LINK.findall(text)),
        max(map(len, _NUMBER.findall(text)), default=0),
    )
    return [math.log1p(count) for count in counts]


def canonical_text(text: str) -> str:
    """Lower case, single spaces, every digit a 0: all phone numbers of one length are one word."""
    return re.sub(r"\d", "0", " ".join(text.lower().split()))
