"""Texts as numbers: TF-IDF of words and pairs of words, projected to a few directions by SVD.

Every statistic (vocabulary, document frequencies, directions, centre, scale) is that of the texts
given to ``fit``: what is transformed later has no say in how it is represented.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from threadpoolctl import threadpool_limits

__all__ = ["TextFeatures", "Tfidf", "canonical_text"]


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
            token_pattern=r"[^\W\d_]+|\d+|[£$!?]",
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


def canonical_text(text: str) -> str:
    """Lower case, single spaces, every digit a 0: all phone numbers of one length are one word."""
    return re.sub(r"\d", "0", " ".join(text.lower().split()))
