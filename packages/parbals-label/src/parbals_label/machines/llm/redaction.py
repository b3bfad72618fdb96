"""Redaction: texts of a server without the key that it was sent, in case that it repeats it.

A key leaks in parts as well: cut, split over lines, headers or JSON strings, escaped or encoded. So
every run of eight of its characters is replaced, whatever separates them.
"""

import base64
import re
from collections.abc import Iterator

__all__ = ["Redaction", "is_possible_key"]

_WINDOW = 8
"""Characters of a key that are a secret; a key with fewer, such as EMPTY, is none."""
_MAX_CHARACTERS = 100_000
"""Characters of a text that are used; of a key that is cut there, less than a window is left."""
_PLAIN = re.compile(r"(?P<plain>[!#-&(-+\--\[\]-~])")
"""Characters of which keys consist: all that ASCII can show but blanks, quotes, commas and \\."""
_ESCAPED = re.compile(
    r"%(?:25){0,4}(?P<percent>[0-9a-f]{2})"
    r"|\\{1,8}(?:u00|x)(?P<backslash>[0-9a-f]{2})"
    r"|&(?:amp;){0,4}#x0{0,5}(?P<entity_hex>[0-9a-f]{1,2});"
    r"|&(?:amp;){0,4}#0{0,5}(?P<entity>[0-9]{1,3});"
    rf"|{_PLAIN.pattern}",
    re.IGNORECASE,
)
"""The same, or written with the escapes of URLs, JSON, programs and HTML, also several times."""


def is_possible_key(text: str) -> bool:
    """Whether a text consists of characters that keys have.

    >>> is_possible_key("sk-1234"), is_possible_key("Bearer sk-1234")
    (True, False)
    """
    return re.fullmatch(f"(?:{_PLAIN.pattern})*", text) is not None


class Redaction:
    """A function from a server's text to the same text with … for every part of a key.

    >>> redacted = Redaction("sk-0123456789")
    >>> redacted("Authorization: Bearer sk-0123456789, and sk%2D0123456, and 456")
    'Authorization: Bearer …, and …, and 456'
    """

    def __init__(self, key: str) -> None:
        self._windows = {
            form[start : start + _WINDOW]
            for form in _forms(key)
            for start in range(len(form) - _WINDOW + 1)
        }

    def __call__(self, text: str) -> str:
        """The text without the key, and without halves of characters, which no file can store."""
        text = text[:_MAX_CHARACTERS].encode(errors="replace").decode()
        if not self._windows:
            return text
        pieces: list[str] = []
        end_of_last = 0
        for start, end in self._spans(text):
            if end <= end_of_last:
                continue
            if start > end_of_last or not pieces:
                pieces += [text[end_of_last:start], "…"]
            end_of_last = end
        return "".join([*pieces, text[end_of_last:]])

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of every part of the key, sorted."""
        spans = []
        # Without reading escapes as well: "%" before a part of the key would hide its beginning.
        for pattern in (_PLAIN, _ESCAPED):
            characters = list(_characters(text, pattern))
            letters = "".join(letter for letter, _, _ in characters)
            for first in range(len(letters) - _WINDOW + 1):
                if letters[first : first + _WINDOW] in self._windows:
                    spans.append((characters[first][1], characters[first + _WINDOW - 1][2]))
        return sorted(spans)


def _characters(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, int, int]]:
    """The characters of a text that keys have, in lower case, with where each starts and ends."""
    for match in pattern.finditer(text):
        kind = match.lastgroup or "plain"
        letter = match[kind]
        if kind != "plain":
            letter = chr(int(letter, 10 if kind == "entity" else 16))
        if _PLAIN.fullmatch(letter):
            yield letter.lower(), match.start(), match.end()


def _forms(key: str) -> Iterator[str]:
    """The key, in hexadecimal, and in base64 at each of the three places that it may begin at."""
    data = key.encode()
    yield key.lower()
    yield data.hex()
    for n_before in range(3):
        # The first and the last character would depend on what stands beside the key as well.
        n_bits = 8 * (n_before + len(data))
        code = base64.b64encode(bytes(n_before) + data).decode()
        form = code[-(-8 * n_before // 6) : n_bits // 6].lower()
        yield form
        yield form.replace("+", "-").replace("/", "_")
