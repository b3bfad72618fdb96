"""Text embeddings: the weighted mean of word-piece vectors that ship with this package.

The vectors are the embeddings of single word pieces by all-MiniLM-L6-v2 (Reimers and Gurevych 2019,
Apache-2.0), reduced by PCA and stored in eight bits; ``examples/parbals-encoders`` has the program
that made them. Frequent pieces have lower weights, by their rank in the vocabulary. They work best
for English.

Texts are tokenized into the word pieces of BERT's uncased vocabulary, without a tokenizer package:
letters are lowercased and lose their accents, every punctuation mark is a word, and a word is split
greedily from the left into the longest pieces of the vocabulary. Pieces inside a word begin with
##.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

__all__ = ["WordPieces", "WordVectors", "word_vectors"]

_FILE = "word_vectors.npz"
_MAX_WORD_LENGTH = 100
_MAX_CACHED_WORDS = 200_000
_IDEOGRAPHS = ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH")


class WordVectors:
    """Embeds texts by the vectors (V, D) of word pieces with weights (V,).

    >>> vectors = WordVectors(["good", "day"], np.eye(2), np.array([3.0, 4.0]))
    >>> vectors.encode(["Good day", "?"]).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """

    def __init__(self, pieces: Sequence[str], vectors: np.ndarray, weights: np.ndarray) -> None:
        self.tokenize = WordPieces(pieces, unknown=-1)
        self._vectors = vectors.astype(np.float32) * weights[:, None].astype(np.float32)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Rows (N, D) of length 1; zero for texts without a known piece."""
        rows = np.zeros((len(texts), self._vectors.shape[1]), np.float32)
        for row, text in zip(rows, texts, strict=True):
            pieces = [piece for piece in self.tokenize(text) if piece >= 0]
            if pieces:
                row[:] = self._vectors[pieces].sum(axis=0)
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(length > 0, length, 1)


@cache
def word_vectors() -> WordVectors:
    """The vectors that ship with the package, loaded once."""
    from importlib import resources

    with resources.files("parbals.features").joinpath("data", _FILE).open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        pieces = stored["pieces"].tobytes().decode("utf-8").split("\n")
        return WordVectors(pieces, stored["vectors"], stored["weights"])


class WordPieces:
    """WordPiece tokenizer: numbers of the pieces of a text.

    ``unknown`` is the number of a word that cannot be split into pieces.

    >>> WordPieces(["play", "##ing"], unknown=-1)("Playing chess")
    [0, 1, -1]
    """

    def __init__(self, vocabulary: Sequence[str], unknown: int) -> None:
        self._number_of_piece = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = unknown
        self._split_cached = lru_cache(_MAX_CACHED_WORDS)(self._split_word)

    def __call__(self, text: str) -> list[int]:
        decomposed = unicodedata.normalize("NFD", text.lower())
        words = "".join(map(_normalised_character, decomposed)).split()
        return [number for word in words for number in self._split_cached(word)]

    def _split_word(self, word: str) -> tuple[int, ...]:
        """Numbers of the longest pieces of a word, from the left."""
        pieces: list[int] = []
        start = 0
        while start < len(word) <= _MAX_WORD_LENGTH:
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._number_of_piece.get(prefix + word[start:end])
                if number is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(pieces) or (self._unknown,)


@lru_cache(10_000)
def _normalised_character(character: str) -> str:
    """A character as BERT normalises it: dropped, a space, itself, or a separate word."""
    category = unicodedata.category(character)
    code = ord(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if category == "Mn" or category[0] == "C" or code == 0xFFFD:
        return ""
    is_punctuation = category[0] == "P" or (33 <= code <= 126 and not character.isalnum())
    is_ideograph = unicodedata.name(character, "").startswith(_IDEOGRAPHS)
    return f" {character} " if is_punctuation or is_ideograph else character
