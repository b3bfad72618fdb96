"""Names of annotators: spellings of one name, names that look alike, and reserved names."""

import unicodedata
from functools import cache
from typing import Any

from parbals.errors import InputError
from parbals.wording import PROGRAM_PREFIX

from parbals_label.store.rows import check_text

__all__ = [
    "PAGE_LINK",
    "PREFIXES",
    "RESERVED",
    "UNNAMED",
    "check_invited_name",
    "check_name",
    "is_reserved",
    "looks_like",
    "name_key",
]

RESERVED = ("import",)
"""Names under which programs label."""
PREFIXES = (PROGRAM_PREFIX, "label-studio ")
"""Prefixes of names under which programs label."""
PAGE_LINK = "the page's link"
"""The name in the log of whoever uses the link that ``parbals serve`` prints."""
UNNAMED = "me"
"""The name of whoever gives labels by a command without a name."""
_NOT_INVITED = (PAGE_LINK, "root")
"""Names in the log of the page's own link, and of whoever administers the machine."""
_BIDI_CONTROLS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that change the direction of text, so that a name reads differently."""
_INVISIBLE = frozenset(
    chr(code)
    for first, last in (
        *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5)),
        *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F)),
        *((0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0)),
        *((0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
        (0x2800, 0x2800),  # not of that property: a Braille cell without dots
    )
    for code in range(first, last + 1)
)
"""Unicode's Default_Ignorable_Code_Point, a property that the standard library does not have."""
_MAX_NAME_LENGTH = 100
"""Characters of a name: it is shown in lists and buttons."""


def name_key(name: str) -> str:
    """Return a key that is equal for spellings of the same name.

    Case, spaces, compatible and invisible characters make no difference.

    >>> name_key("Ada  LOVELACE") == name_key("ada lovelace")
    True
    >>> name_key("eve\\ufe0f") == name_key("eve")
    True
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    visible = "".join(
        letter
        for letter in folded
        if letter not in _INVISIBLE and unicodedata.category(letter) != "Cf"
    )
    return " ".join(visible.split())


def looks_like(name: str, other: str) -> bool:
    """Whether two names look alike, by Unicode's table of confusable characters (UTS 39).

    >>> looks_like("Ada", "\\u0410da"), looks_like("Bill", "BilI"), looks_like("Zoë", "Zoe")
    (True, True, False)
    """
    return not _looks(name).isdisjoint(_looks(other))


def _looks(name: str) -> set[str]:
    """A name's skeletons: I looks like l, and i does not, so both cases count."""
    return {name_key(_skeleton(name)), name_key(_skeleton(name_key(name)))}


def _skeleton(text: str) -> str:
    """Every character replaced by the one that stands for all that look like it."""
    letters = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFD", "".join(map(_prototype, letters)))


@cache
def _prototype(letter: str) -> str:
    """The character, or characters, that Unicode maps a confusable one to.

    The table has one entry for a character that is mapped, and all characters that are mapped to
    it for a prototype. A prototype of a single character cannot be told from that character, so
    the smaller of the two stands for both.
    """
    from confusable_homoglyphs.confusables import confusables_data

    entries = confusables_data.get(letter, ())
    if len(entries) != 1:
        return letter
    target = str(entries[0]["c"])
    is_pair = len(confusables_data.get(target, ())) == 1
    return min(letter, target) if is_pair else target


def is_reserved(name: str) -> bool:
    """Whether the name is blank or reserved for programs."""
    key = name_key(name)
    return not key or key.startswith(PREFIXES) or key in RESERVED


def check_name(name: Any) -> str:
    """Return a name without superfluous spaces, or refuse one that nobody may have."""
    text = " ".join(check_text(name, "The name").split())
    if len(text) > _MAX_NAME_LENGTH or any(
        unicodedata.category(c) == "Cc" or c in _BIDI_CONTROLS for c in text
    ):
        raise InputError(
            f"The name is {text[:_MAX_NAME_LENGTH]!r}; it must be at most {_MAX_NAME_LENGTH} "
            "characters that can be shown."
        )
    if is_reserved(text):
        raise InputError(f"The name is {text!r}, which programs use; choose another.")
    return text


def check_invited_name(name: Any) -> str:
    """Return the name of somebody to invite, or refuse one that the log uses for others."""
    text = check_name(name)
    for reserved in _NOT_INVITED:
        if looks_like(text, reserved):
            raise InputError(
                f"The name {text!r} looks like {reserved!r}, which the log uses; choose another."
            )
    return text
