"""Encoders that need nothing but parbals: ``words``, ``tfidf`` (texts), ``shapes``, ``pixels``."""

import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from parbals.errors import InputError

from parbals_label.encoders.base import Encoder, Entry, Items, Kind
from parbals_label.encoders.images import open_image

__all__ = ["PIXELS", "SHAPES", "TFIDF", "WORDS", "fitted_mix"]

_DIRECTIONS = 256
_LEARN_FROM = 100_000
_WORDS = 50_000
_MIX_LEARNS_FROM = 20_000
_SIDE = 16


class _Tfidf(Encoder):
    """TF-IDF in at most 256 directions, rows of length 1.

    Words and directions are learnt from the items, from 100,000 of them evenly spread where there
    are more: their number must not decide how much memory is needed.
    """

    kind: ClassVar[Kind] = "text"
    reduced: ClassVar[bool] = True
    model = "not fitted"

    def fit(self, items: Items, n_items: int) -> None:
        from parbals.features.text import Tfidf

        self._tfidf = Tfidf(
            _DIRECTIONS,
            min_df=1 if n_items < 500 else 2,
            max_features=_WORDS,
            token_pattern=r"(?u)\b\w+\b",
            dtype=np.float32,
        )
        step = -(-n_items // _LEARN_FROM)
        try:
            self._tfidf.fit_transform(text for _, text in islice(items(), 0, None, step))
        except ValueError:
            raise InputError("The texts have no words to tell the items apart by.") from None
        words = self._tfidf.vectorizer
        digest = hashlib.blake2b("\0".join(words.get_feature_names_out()).encode(), digest_size=12)
        digest.update(words.idf_.tobytes())
        self.model = f"{digest.hexdigest()} {self._tfidf.n_directions} directions"

    def encode(self, prepared: Sequence[str]) -> np.ndarray:
        from sklearn.preprocessing import normalize

        return np.asarray(normalize(self._tfidf.transform(prepared)), np.float32)


def fitted_mix(items: Items, n_items: int, *, meaning: bool = True) -> tuple[Any, str]:
    """A :class:`TextMix` of the items, or of 20,000 evenly spread ones; and a digest of it."""
    from parbals.features.text import TextMix

    step = -(-n_items // _MIX_LEARNS_FROM)
    texts = [text for _, text in islice(items(), 0, None, step)]
    try:
        mix = TextMix(meaning=meaning).fit(texts)
    except ValueError:
        raise InputError("The texts have no words to tell the items apart by.") from None
    digest = hashlib.blake2b(digest_size=12)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return mix, digest.hexdigest()


class _Words(Encoder):
    """Words, form and meaning of texts, as :class:`TextMix` has them."""

    kind: ClassVar[Kind] = "text"
    reduced: ClassVar[bool] = True
    model = "not fitted"

    def fit(self, items: Items, n_items: int) -> None:
        self._mix, self.model = fitted_mix(items, n_items)

    def encode(self, prepared: Sequence[str]) -> np.ndarray:
        return np.asarray(self._mix.transform(prepared))


class _Shapes(Encoder):
    """Directions of edges and coarse colours, as :mod:`parbals_label.encoders.shapes` has them."""

    kind: ClassVar[Kind] = "image"
    model = "shapes 1"

    def prepare(self, item: Any) -> np.ndarray:
        from parbals_label.encoders.shapes import SIDE

        return np.asarray(open_image(item).resize((SIDE, SIDE), 3))

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        from parbals_label.encoders.shapes import shapes

        return shapes(np.stack(prepared))


class _Pixels(Encoder):
    """Images shrunk to 16 × 16 colours, 768 numbers from 0 to 1; a real encoder sees more."""

    kind: ClassVar[Kind] = "image"
    model = f"{_SIDE} × {_SIDE}, bicubic"

    def prepare(self, item: Any) -> np.ndarray:
        return np.asarray(open_image(item).resize((_SIDE, _SIDE), 3))

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(prepared).reshape(len(prepared), -1).astype(np.float32) / 255.0


WORDS = Entry(
    lambda name, options: _Words(),
    "text",
    "words, how they are written and what they mean, 200 numbers; the default",
)
SHAPES = Entry(
    lambda name, options: _Shapes(), "image", "edges and colours, 1,092 numbers; the default"
)
TFIDF = Entry(
    lambda name, options: _Tfidf(),
    "text",
    "words and pairs of words, up to 256 numbers; no download",
)
PIXELS = Entry(
    lambda name, options: _Pixels(), "image", "16 × 16 colours, 768 numbers; no download"
)
