"""What the words of a text mean: the weighted mean of vectors that come with this package.

The vectors are all-MiniLM-L6-v2's own answers to single word pieces (Reimers and Gurevych 2019,
Apache-2.0), in fewer directions and eight bits; ``examples/parbals-encoders`` has the program that
made them. Frequent pieces count less, by their rank in the vocabulary. They know English best.

Texts are cut into the word pieces of BERT's uncased vocabulary, without a tokenizer package:
letters are lowered and lose their accents, every mark of punctuation is a word, and a word is cut
into the longest pieces that the vocabulary holds, from the left; those inside one begin with ##.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources

import numpy as np

__all__ = ["WordPieces", "WordVectors", "word_vectors"]

_FILE = "word_vectors.npz"
_LONGEST_WORD = 100
_REMEMBERED = 200_000
_IDEOGRAPHS = ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH")


class WordVectors:
    """Pieces, their vectors (V, D) and how much each piece counts, in ``weights`` (V,)."""

    def __init__(self, pieces: Sequence[str], vectors: np.ndarray, weights: np.ndarray) -> None:
        self._cut = WordPieces(pieces, unknown=-1)
        self._vectors = vectors.astype(np.float32) * weights[:, None].astype(np.float32)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Rows (N, D) of length 1; zero where a text has no piece that is known."""
        rows = np.zeros((len(texts), self._vectors.shape[1]), np.float32)
        for row, text in zip(rows, texts, strict=True):
            pieces = [piece for piece in self._cut(text) if piece >= 0]
            if pieces:
                row[:] = self._vectors[pieces].sum(axis=0)
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(length > 0, length, 1)


@cache
def word_vectors() -> WordVectors:
    """Those that come with the package, read once."""
    with resources.files("parbals.features").joinpath("data", _FILE).open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        pieces = stored["pieces"].tobytes().decode("utf-8").split("\n")
        return WordVectors(pieces, stored["vectors"], stored["weights"])


class WordPieces:
    """Numbers of the pieces of a text; ``unknown`` stands for a word that cannot be cut."""

    def __init__(self, vocabulary: Sequence[str], unknown: int) -> None:
        self._number = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = unknown
        self._cut = lru_cache(_REMEMBERED)(self._cut_word)

    def __call__(self, text: str) -> list[int]:
        words = "".join(map(_part, unicodedata.normalize("NFD", text.lower()))).split()
        return [number for word in words for number in self._cut(word)]

    def _cut_word(self, word: str) -> tuple[int, ...]:
        pieces: list[int] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._number.get(mark + word[start:end])
                if number is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(pieces) or (self._unknown,)


@lru_cache(10_000)
def _part(character: str) -> str:
    """A character: dropped, a space, itself, or a word of its own."""
    category, code = unicodedata.category(character), ord(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if category == "Mn" or category[0] == "C" or code == 0xFFFD:
        return ""
    is_mark = category[0] == "P" or (33 <= code <= 126 and not character.isalnum())
    is_ideograph = unicodedata.name(character, "").startswith(_IDEOGRAPHS)
    return f" {character} " if is_mark or is_ideograph else character
