"""TF-IDF of words and pairs of words, reduced by truncated SVD to at most 256 numbers; rows of
length 1, no download.

Vocabulary and directions are learnt from the items, from 100,000 of them evenly spread where there
are more: their number must not decide how much memory is needed.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from parbals.errors import InputError
from parbals.features.encoders.base import Encoder, Entry, Items, Kind, Options

__all__ = ["TFIDF"]

_DIRECTIONS = 256
_LEARN_FROM = 100_000
_WORDS = 50_000


class _Tfidf(Encoder):
    kind: ClassVar[Kind] = "text"
    reduced: ClassVar[bool] = True

    def __init__(self) -> None:
        self.model = "not fitted"

    def fit(self, items: Items, n_items: int) -> None:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._words = TfidfVectorizer(
            sublinear_tf=True,
            ngram_range=(1, 2),
            min_df=1 if n_items < 500 else 2,
            max_features=_WORDS,
            token_pattern=r"(?u)\b\w+\b",
            dtype=np.float32,
        )
        try:
            weighted = self._words.fit_transform(_spread(items, n_items))
        except ValueError:
            raise InputError("The texts have no words to tell the items apart by.") from None
        n_directions = min(_DIRECTIONS, min(weighted.shape) - 1)
        self._directions = (
            TruncatedSVD(n_directions, random_state=0).fit(weighted) if n_directions >= 1 else None
        )
        learnt = hashlib.blake2b(
            "\0".join(self._words.get_feature_names_out()).encode(), digest_size=12
        )
        learnt.update(self._words.idf_.tobytes())
        self.model = f"{learnt.hexdigest()} {n_directions} directions"

    def encode(self, prepared: Sequence[str]) -> np.ndarray:
        from sklearn.preprocessing import normalize

        weighted = self._words.transform(prepared)
        rows = (
            weighted.toarray() if self._directions is None else self._directions.transform(weighted)
        )
        return np.asarray(normalize(rows), np.float32)


def _spread(items: Items, n_items: int) -> Iterator[str]:
    """Every text, or every second, third, … so that no more than the limit are left."""
    step = -(-n_items // _LEARN_FROM)
    for place, (_, text) in enumerate(items()):
        if place % step == 0:
            yield text


def _load(name: str, options: Options) -> Encoder:
    return _Tfidf()


TFIDF = Entry(_load, "text", "words and pairs of words, up to 256 numbers; no download")
