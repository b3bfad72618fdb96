"""The language of the pages that are shown before anybody is signed in.

The page itself translates in the browser (``static/js/text.js``); these few pages have no script,
or run before the page's files may be read. Both use the same catalogues.
"""

import json
import re
from functools import cache
from html import escape
from pathlib import Path

__all__ = ["preferred_language", "translated_page"]

_CATALOGUES = Path(__file__).with_name("static") / "texts"
_TEXT = re.compile(r"\[\[(.+?)\]\]")
_MAX_HEADER = 500
"""Characters of the header Accept-Language that are read."""


def preferred_language(accept_language: str) -> str:
    """The language of the page that a browser likes best; English if there is none.

    >>> preferred_language("nl, de-AT;q=0.8, fr;q=0.9")
    'fr'
    """
    weights: dict[str, float] = {}
    for entry in accept_language[:_MAX_HEADER].split(","):
        tag, _, weight = entry.partition(";q=")
        language = tag.strip().lower().partition("-")[0]
        if language == "en" or language in _languages():
            weights.setdefault(language, _weight(weight))
    return max(weights, key=lambda language: weights[language], default="en")


def translated_page(page: str, accept_language: str) -> str:
    """Replace each ``[[text]]`` of an HTML page by its translation, and ``[[language]]``."""
    language = preferred_language(accept_language)
    texts = {"language": language, **_catalogue(language)}
    return _TEXT.sub(lambda match: escape(texts.get(match[1], match[1])), page)


def _weight(text: str) -> float:
    """The weight of a language: 1 without one, 0 if it cannot be read."""
    if not re.fullmatch(r"\s*(?:0|1|0?\.\d{1,3}|1\.0{1,3})?\s*", text):
        return 0.0
    return float(text.strip() or 1)


@cache
def _languages() -> frozenset[str]:
    return frozenset(file.stem for file in _CATALOGUES.glob("*.json"))


@cache
def _catalogue(language: str) -> dict[str, str]:
    """The translations of a language; none for English, whose texts are their own keys."""
    if language == "en":
        return {}
    texts: dict[str, str] = json.loads((_CATALOGUES / f"{language}.json").read_text("utf-8"))
    return texts
