"""Texts as numbers: TF-IDF of words and pairs of words, what the words mean, and how it is written.

Every statistic (vocabulary, document frequencies, directions, centre, scale) is that of the texts
given to ``fit``: what is transformed later has no say in how it is represented.
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

__all__ = ["CANONICAL", "VIEW_WEIGHTS", "TextMix", "Tfidf", "canonical_text", "form_of"]

_TOKENS = r"[^\W\d_]+|\d+|[£$!?]"
VIEW_WEIGHTS = (2 / 3, 1 / 3, 2 / 3)
"""Of words, form and meaning; their squares add up to 1."""
_RARE_WORDS_COUNT_BELOW = 500
_MOST_WORDS = 50_000
_FORM = 1  # the place of that view
_NOTHING = 1e-6  # what rounding leaves of a deviation that is zero
_LINK = re.compile(r"https?:|www\.", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def canonical_text(text: str) -> str:
    """Lower case, single spaces, every digit a 0: all phone numbers of one length are one word."""
    return re.sub(r"\d", "0", " ".join(text.lower().split()))


CANONICAL: dict[str, Any] = {"preprocessor": canonical_text, "token_pattern": _TOKENS}


class Tfidf:
    """TF-IDF rows, and their projection to ``n_directions`` by truncated SVD.

    ``options`` are those of scikit-learn's TfidfVectorizer. Where there are too few words or texts
    for so many directions there are fewer (none: the rows are the TF-IDF itself); texts without
    words are a ValueError.
    """

    def __init__(self, n_directions: int, *, seed: int = 0, **options: Any) -> None:
        self.n_directions, self.seed = n_directions, seed
        self.vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), **options)

    def fit_transform(self, texts: Iterable[str]) -> np.ndarray:
        """Learn words and directions; returns the rows of these texts."""
        weights = self.vectorizer.fit_transform(texts)
        self.n_directions = min(self.n_directions, min(weights.shape) - 1)
        if self.n_directions < 1:
            self._directions = np.zeros((0, weights.shape[1]))
            return np.asarray(weights.toarray())
        self._directions = singular_directions(weights, self.n_directions, self.seed)
        return np.asarray(weights @ self._directions.T)

    def as_arrays(self) -> dict[str, np.ndarray]:
        """What was learnt: ``vocabulary`` and ``idf`` (V,), ``directions`` (n_directions, V)."""
        words = self.vectorizer.get_feature_names_out().astype("U")
        return {"vocabulary": words, "idf": self.vectorizer.idf_, "directions": self._directions}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **options: Any) -> Self:
        """Learnt before; ``options`` as they were then."""
        places = {str(word): place for place, word in enumerate(arrays["vocabulary"].tolist())}
        made = cls(
            len(arrays["directions"]), vocabulary=places, dtype=arrays["idf"].dtype.type, **options
        )
        made.vectorizer.idf_, made._directions = arrays["idf"], arrays["directions"]
        return made

    def words(self, texts: Sequence[str]) -> csr_matrix:
        """(N, vocabulary) rows of length 1; their products are cosine similarities of wordings."""
        return csr_matrix(self.vectorizer.transform(texts))

    def transform(self, texts: Sequence[str]) -> np.ndarray:
        """(N, n_directions)."""
        weights = self.words(texts)
        some = len(self._directions) > 0
        return np.asarray(weights @ self._directions.T if some else weights.toarray())


class TextMix:
    """Three views of a text side by side: its words, how it is written, and what the words mean.

    Words are TF-IDF in at most ``n_directions`` directions, which learn the pool's own language;
    form is :func:`form_of`; meaning is that of :mod:`parbals.features.words`, which know
    that "match" and "goal" are near each other before anything is labelled (left out where
    ``meaning`` is False, for an encoder that brings its own). Each view is centred, and the root
    mean square length of its rows of the pool is its weight, so that of all three it is 1.
    """

    def __init__(self, n_directions: int = 64, *, meaning: bool = True) -> None:
        self._n_directions, self._meaning = n_directions, meaning

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn words, directions and scales; a ValueError where no text has a word."""
        self._tfidf = Tfidf(
            self._n_directions,
            **CANONICAL,
            min_df=1 if len(texts) < _RARE_WORDS_COUNT_BELOW else 2,
            max_features=_MOST_WORDS,
            dtype=np.float32,
        )
        # One thread: on matrices this small several mostly wait for each other, ten times as long
        # on a busy machine.
        with threadpool_limits(1):
            self._tfidf.fit_transform(texts)
        centres, factors = [], []
        for place, (view, weight) in enumerate(
            zip(self._views(texts), VIEW_WEIGHTS, strict=False)  # there may be none of the meaning
        ):
            centre, width = view.mean(axis=0), view.shape[1]
            unit = _or_one(view.std(axis=0)) if place == _FORM else np.ones(width)
            length = np.sqrt(np.square((view - centre) / unit).sum(axis=1).mean())
            centres.append(centre)
            factors.append(weight / (unit * _or_one(length)))
        self._centre, self._factor = np.concatenate(centres), np.concatenate(factors)
        return self

    def transform(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D) float32."""
        return ((np.hstack(self._views(texts)) - self._centre) * self._factor).astype(np.float32)

    @property
    def width(self) -> int:
        """D."""
        return len(self._centre)

    def words(self, texts: Sequence[str]) -> csr_matrix:
        """(N, vocabulary) rows of length 1; their products are cosine similarities of wordings."""
        return self._tfidf.words(texts)

    def as_arrays(self) -> dict[str, np.ndarray]:
        """What was learnt: as :meth:`Tfidf.as_arrays`, and ``centre`` and ``factor`` (D,)."""
        return {**self._tfidf.as_arrays(), "centre": self._centre, "factor": self._factor}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Learnt before, with all three views."""
        made = cls()
        made._tfidf = Tfidf.from_arrays(arrays, **CANONICAL)
        made._centre, made._factor = arrays["centre"], arrays["factor"]
        return made

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
