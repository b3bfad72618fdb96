"""Text features: TF-IDF of words and bigrams, word embeddings, and counts that describe style.

Every statistic (vocabulary, document frequencies, directions, mean, scale) comes from the texts
passed to ``fit``; texts that are transformed later do not change it.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from threadpoolctl import threadpool_limits

from parbals.features.pca import singular_directions
from parbals.features.words import word_vectors

__all__ = ["CANONICAL", "VIEW_WEIGHTS", "TextMix", "Tfidf", "canonical_text", "style_features"]

_TOKENS = r"[^\W\d_]+|\d+|[£$!?]"
VIEW_WEIGHTS = (2 / 3, 1 / 3, 2 / 3)
"""Weights of words, style and meaning; their squares sum to 1."""
_MIN_TEXTS_TO_DROP_RARE_WORDS = 500
_MAX_WORDS = 50_000
_STYLE_VIEW = 1  # position of this view
_ROUNDING = 1e-6  # smaller standard deviations and lengths count as zero
_LINK = re.compile(r"https?:|www\.", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def canonical_text(text: str) -> str:
    """Lower case, single spaces, every digit a 0: all phone numbers of one length are one word.

    >>> canonical_text("Call  0800 123")
    'call 0000 000'
    """
    return re.sub(r"\d", "0", " ".join(text.lower().split()))


CANONICAL: dict[str, Any] = {"preprocessor": canonical_text, "token_pattern": _TOKENS}


class Tfidf:
    """TF-IDF of words and bigrams, reduced to ``n_directions`` by truncated SVD.

    ``options`` are those of scikit-learn's TfidfVectorizer. With too few words or texts there are
    fewer directions (if none, the features are the TF-IDF itself). Texts without words raise a
    ValueError.

    >>> Tfidf(2).fit_transform(["a cat sat", "a dog sat", "the cat ran", "the dog ran"]).shape
    (4, 2)
    """

    def __init__(self, n_directions: int, *, seed: int = 0, **options: Any) -> None:
        self.n_directions = n_directions
        self.seed = seed
        self.vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), **options)

    def fit_transform(self, texts: Iterable[str]) -> np.ndarray:
        """Learn words and directions, and return the features of these texts."""
        weights = self.vectorizer.fit_transform(texts)
        self.n_directions = min(self.n_directions, min(weights.shape) - 1)
        if self.n_directions < 1:
            self._directions = np.zeros((0, weights.shape[1]))
            return np.asarray(weights.toarray())
        self._directions = singular_directions(weights, self.n_directions, self.seed)
        return np.asarray(weights @ self._directions.T)

    def as_arrays(self) -> dict[str, np.ndarray]:
        """Fitted parameters: ``vocabulary`` and ``idf`` (V,), ``directions`` (n_directions, V)."""
        words = self.vectorizer.get_feature_names_out().astype("U")
        return {"vocabulary": words, "idf": self.vectorizer.idf_, "directions": self._directions}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **options: Any) -> Self:
        """A fitted instance from :meth:`as_arrays`, with the ``options`` of the original."""
        vocabulary = {
            str(word): column for column, word in enumerate(arrays["vocabulary"].tolist())
        }
        tfidf = cls(
            len(arrays["directions"]),
            vocabulary=vocabulary,
            dtype=arrays["idf"].dtype.type,
            **options,
        )
        tfidf.vectorizer.idf_ = arrays["idf"]
        tfidf._directions = arrays["directions"]
        return tfidf

    def words(self, texts: Sequence[str]) -> csr_matrix:
        """TF-IDF rows (N, V) of length 1; their products are cosine similarities."""
        return csr_matrix(self.vectorizer.transform(texts))

    def transform(self, texts: Sequence[str]) -> np.ndarray:
        """Features (N, n_directions)."""
        weights = self.words(texts)
        if len(self._directions) == 0:
            return np.asarray(weights.toarray())
        return np.asarray(weights @ self._directions.T)


class TextMix:
    """Text features from three views: words, style and meaning, concatenated.

    Words are TF-IDF in at most ``n_directions`` directions, fitted to the pool's vocabulary. Style
    is :func:`style_features`. Meaning is the embedding of :mod:`parbals.features.words`, which
    places "match" near "goal" before anything is labelled; it is left out if ``meaning`` is False,
    for encoders with their own embedding. Each view is centred and scaled so that the root mean
    square length of the pool's rows is its weight, and 1 for all three together.

    >>> texts = ["Win a free prize now!", "See you at lunch", "Free entry, call now"]
    >>> TextMix().fit(texts).transform(["Are you free for lunch?"]).shape
    (1, 138)
    """

    def __init__(self, n_directions: int = 64, *, meaning: bool = True) -> None:
        self._n_directions = n_directions
        self._meaning = meaning

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn words, directions and scales; a ValueError if no text has a word."""
        self._tfidf = Tfidf(
            self._n_directions,
            **CANONICAL,
            min_df=1 if len(texts) < _MIN_TEXTS_TO_DROP_RARE_WORDS else 2,
            max_features=_MAX_WORDS,
            dtype=np.float32,
        )
        # One thread: on matrices this small, threads mostly wait for each other, which takes ten
        # times as long on a busy machine.
        with threadpool_limits(1):
            self._tfidf.fit_transform(texts)
        centres = []
        factors = []
        for number, view in enumerate(self._views(texts)):
            centre = view.mean(axis=0)
            is_style = number == _STYLE_VIEW
            unit = _replace_zeros(view.std(axis=0)) if is_style else np.ones(view.shape[1])
            length = np.sqrt(np.square((view - centre) / unit).sum(axis=1).mean())
            centres.append(centre)
            factors.append(VIEW_WEIGHTS[number] / (unit * _replace_zeros(length)))
        self._centre = np.concatenate(centres)
        self._factor = np.concatenate(factors)
        return self

    def transform(self, texts: Sequence[str]) -> np.ndarray:
        """Features (N, D) float32."""
        return ((np.hstack(self._views(texts)) - self._centre) * self._factor).astype(np.float32)

    @property
    def width(self) -> int:
        """D."""
        return len(self._centre)

    def words(self, texts: Sequence[str]) -> csr_matrix:
        """TF-IDF rows (N, V) of length 1; their products are cosine similarities."""
        return self._tfidf.words(texts)

    def as_arrays(self) -> dict[str, np.ndarray]:
        """Fitted parameters: those of :meth:`Tfidf.as_arrays`, ``centre`` and ``factor`` (D,)."""
        return {**self._tfidf.as_arrays(), "centre": self._centre, "factor": self._factor}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], *, meaning: bool = True) -> Self:
        """A fitted instance from :meth:`as_arrays`, with the ``meaning`` of the original."""
        mix = cls(meaning=meaning)
        mix._tfidf = Tfidf.from_arrays(arrays, **CANONICAL)
        mix._centre = arrays["centre"]
        mix._factor = arrays["factor"]
        return mix

    def _views(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Words, style and, unless left out, meaning of the texts."""
        with threadpool_limits(1):
            words = self._tfidf.transform(texts)
        style = np.array([style_features(text) for text in texts]).reshape(len(texts), -1)
        if not self._meaning:
            return [words, style]
        return [words, style, word_vectors().encode(texts)]


def _replace_zeros(values: Any) -> np.ndarray:
    """Values with 1 in place of those that are zero up to rounding."""
    return np.where(values > _ROUNDING, values, 1.0)


def style_features(text: str) -> list[float]:
    """log(1 + count) of characters, words, digits, capitals, punctuation, currency signs, links
    and digits of the longest number.
    """
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
