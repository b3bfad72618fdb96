"""Conversion of single values: for JSON, as text, and safe for spreadsheets."""

import datetime
import json
import math
import re
import unicodedata
import uuid
from decimal import Decimal
from typing import Any

from parbals.features.reading import is_missing

__all__ = [
    "NO_LABEL",
    "as_text",
    "cell_text",
    "is_missing",
    "label_form",
    "label_key",
    "plain_text",
    "plain_value",
    "raw_cell",
    "safe_cell",
    "without_nul",
]

# Characters at which spreadsheets start a formula; Excel also at full-width forms.
_FORMULA_SIGNS = "=+-@＝＋－＠"
_FORMULA_STARTS = (*_FORMULA_SIGNS, "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# In locales with semicolons as separators, spreadsheets split a row at these, even inside quotes: a
# quote counts only at the beginning of a cell.
_INNER_FORMULA = re.compile(rf"(?<=[;\t\r\n])(?=['\" ]*[{re.escape(_FORMULA_SIGNS)}])")
_WHOLE_NUMBER = re.compile(r"([+-]?[0-9]+)\.0*")
NO_LABEL = frozenset({"n/a", "na", "nan", "null", "#n/a", "<na>"})
"""Keys of texts that programs write for a missing label; "none" may be a class."""
_INNER_APOSTROPHE = re.compile(rf"(?<=[;\t\r\n])'(?=['\" ]*[{re.escape(_FORMULA_SIGNS)}])")


def safe_cell(text: str, *, is_first: bool = False) -> str:
    """Return text that no spreadsheet reads as a formula, wherever it splits rows.

    An apostrophe is put before a possible formula: at the beginning, or after a semicolon, tab or
    line end. Plain numbers are not changed, except in the first cell of a row (``is_first``): if
    the row is not split, the formula begins there. A text that already begins with apostrophes and
    a formula gets another one, so that :func:`raw_cell` restores it.

    >>> safe_cell("=1+1"), raw_cell("'=1+1")
    ("'=1+1", '=1+1')
    """
    is_number = not is_first and _NUMBER.fullmatch(text) is not None
    apostrophe = "'" if text.lstrip("'").startswith(_FORMULA_STARTS) and not is_number else ""
    return apostrophe + _INNER_FORMULA.sub("'", text)


def raw_cell(text: str) -> str:
    """Undo :func:`safe_cell`; other text is returned unchanged."""
    has_apostrophe = text.startswith("'") and text.lstrip("'").startswith(_FORMULA_STARTS)
    return _INNER_APOSTROPHE.sub("", text[has_apostrophe:])


def label_form(text: str) -> str:
    """Return the canonical spelling of a label: composed characters, and 1 for 1.0."""
    form = unicodedata.normalize("NFC", text.strip())
    whole = _WHOLE_NUMBER.fullmatch(form)
    return whole[1] if whole else form


def label_key(text: str) -> str:
    """Return a key that is equal for all spellings of a label, ignoring case."""
    return label_form(text).casefold()


def plain_text(text: str) -> str:
    """Return the text if every format supports it, else raise ValueError."""
    if "\0" in text:
        raise ValueError("contains a NUL character")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("contains half a surrogate pair, which is not a character") from None
    return text


def without_nul(value: Any) -> Any:
    """Replace NUL characters in text, which files cannot contain."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def plain_value(value: Any) -> Any:
    """Convert a value to one that JSON supports, or raise ValueError.

    Dates, times, durations, decimals and UUIDs become text. Bytes become text if they are UTF-8
    and are refused otherwise. NaN becomes None; infinities are refused. Lists and objects are
    converted recursively.
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return plain_text(str(value))
    if is_missing(value):
        return None
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError("holds an infinite number")
        return float(value)
    if isinstance(value, bytes):
        return _plain_bytes(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (Decimal, datetime.timedelta, uuid.UUID)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain_value(element) for element in value]
    if isinstance(value, dict):
        return {plain_text(str(key)): plain_value(element) for key, element in value.items()}
    raise ValueError(
        f"holds a value of type {type(value).__name__}, which cannot be kept as text or number"
    )


def _plain_bytes(value: bytes) -> str:
    try:
        return plain_text(value.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError(
            "holds binary data (an image or a file?), which cannot be kept as text"
        ) from None


def as_text(value: Any) -> str:
    """Return an id or a label as text: 7 and 7.0 are both '7', because gaps turn ints to floats."""
    plain = plain_value(value)
    if isinstance(plain, str):
        return plain
    if isinstance(plain, float) and plain.is_integer():
        return str(int(plain))
    if plain is None or isinstance(plain, (list, dict)):
        raise ValueError("holds no single value")
    return str(plain)


def cell_text(value: Any) -> str:
    """Return the text of a CSV cell, before :func:`safe_cell`; lists and objects are JSON."""
    plain = plain_value(value)
    if plain is None:
        return ""
    if isinstance(plain, str):
        return plain
    return repr(plain) if isinstance(plain, float) else json.dumps(plain, ensure_ascii=False)
