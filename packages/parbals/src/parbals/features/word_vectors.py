"""What the words of a text mean: the weighted mean of vectors that come with this package.

The vectors are all-MiniLM-L6-v2's own answers to single word pieces (Reimers and Gurevych 2019,
Apache-2.0), in fewer directions and eight bits; ``examples/parbals-encoders`` has the program that
made them. Frequent pieces count less, by their rank in the vocabulary. They know English best.
"""

import zipfile
from collections.abc import Sequence
from functools import cache
from importlib import resources

import numpy as np

from parbals.errors import ParbalsError
from parbals.features.wordpiece import WordPieces

__all__ = ["WordVectors", "word_vectors"]

_FILE = "word_vectors.npz"


class WordVectors:
    """Pieces, their vectors (V, D) and how much each piece counts, in ``weights`` (V,)."""

    def __init__(self, pieces: Sequence[str], vectors: np.ndarray, weights: np.ndarray) -> None:
        self._cut = WordPieces(pieces, unknown=-1)
        self._vectors = vectors.astype(np.float32) * weights[:, None].astype(np.float32)

    @property
    def n_features(self) -> int:
        return int(self._vectors.shape[1])

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Rows (N, D) of length 1; zero where a text has no piece that is known."""
        rows = np.zeros((len(texts), self.n_features), np.float32)
        for row, text in zip(rows, texts, strict=True):
            pieces = [piece for piece in self._cut(text) if piece >= 0]
            if pieces:
                row[:] = self._vectors[pieces].sum(axis=0)
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(length > 0, length, 1)


@cache
def word_vectors() -> WordVectors:
    """Those that come with the package, read once."""
    try:
        with resources.files("parbals.features").joinpath("data", _FILE).open("rb") as file:
            stored = np.load(file, allow_pickle=False)
            pieces = stored["pieces"].tobytes().decode("utf-8").split("\n")
            return WordVectors(pieces, stored["vectors"], stored["weights"])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ParbalsError(
            f"The data file {_FILE} of this package cannot be read ({error}); reinstall parbals."
        ) from error
