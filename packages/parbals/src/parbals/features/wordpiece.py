"""Texts as the word pieces of BERT's uncased vocabulary, without a tokenizer package.

Letters are lowered and lose their accents, every mark of punctuation is a word, and a word is cut
into the longest pieces that the vocabulary holds, from the left; those inside a word begin with ##.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

__all__ = ["WordPieces"]

_LONGEST_WORD = 100
_REMEMBERED = 200_000
_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """Numbers of the pieces of a text; ``unknown`` stands for a word that cannot be cut."""

    def __init__(self, vocabulary: Sequence[str], unknown: int) -> None:
        self._number = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = unknown
        self._cut = lru_cache(_REMEMBERED)(self._cut_word)

    def __call__(self, text: str) -> list[int]:
        return [number for word in _words(text) for number in self._cut(word)]

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


def _words(text: str) -> list[str]:
    return "".join(_spaced(unicodedata.normalize("NFD", text.lower()))).split()


def _spaced(text: str) -> Iterator[str]:
    """Each character: dropped, a space, itself, or a word of its own."""
    for character in text:
        part = _part(character)
        if part:
            yield part


@lru_cache(10_000)
def _part(character: str) -> str:
    category, code = unicodedata.category(character), ord(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if category == "Mn" or category[0] == "C" or code == 0xFFFD:
        return ""
    is_mark = category[0] == "P" or (33 <= code <= 126 and not character.isalnum())
    if is_mark or any(first <= code <= last for first, last in _IDEOGRAPHS):
        return f" {character} "
    return character
