"""Single values on their way in and out: what JSON can hold, and what spreadsheets would run."""

import datetime
import json
import math
import re
import unicodedata
import uuid
from decimal import Decimal
from typing import Any

from parbals.features.reading import is_missing

__all__ = ["NO_LABEL", "as_text", "cell_text", "is_missing", "label_form", "label_key"]
__all__ += ["plain_text", "plain_value", "raw_cell", "safe_cell", "without_nul"]

# Spreadsheets start a formula at these; Excel also at the wide forms of East Asian keyboards.
_SIGNS = "=+-@＝＋－＠"
_STARTS = (*_SIGNS, "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Where lists are separated by semicolons, spreadsheets split a row of ours at these, inside quotes
# as well: a quote counts only at the beginning of a cell.
_INNER = re.compile(rf"(?<=[;\t\r\n])(?=['\" ]*[{re.escape(_SIGNS)}])")
_WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")
NO_LABEL = frozenset({"n/a", "na", "nan", "null", "#n/a", "<na>"})
"""Keys of what programs write for no label; "none" is a class that people have."""
_ADDED = re.compile(rf"(?<=[;\t\r\n])'(?=['\" ]*[{re.escape(_SIGNS)}])")


def safe_cell(text: str, *, is_first: bool = False) -> str:
    """Text that no spreadsheet takes for a formula, whatever it splits rows at.

    An apostrophe stands before what could be one: at the beginning, or after a semicolon, tab or
    line end. Plain numbers are left alone, but for the ``is_first`` cell of a row: a row that is
    not split begins a formula with it. A text that already begins with apostrophes and a formula
    gets one more, so that :func:`raw_cell` undoes every case.
    """
    is_number = not is_first and _NUMBER.fullmatch(text) is not None
    apostrophe = "'" if text.lstrip("'").startswith(_STARTS) and not is_number else ""
    return apostrophe + _INNER.sub("'", text)


def raw_cell(text: str) -> str:
    """Undo :func:`safe_cell`; text that it never changes is returned as it is."""
    has_more = text.startswith("'") and text.lstrip("'").startswith(_STARTS)
    return _ADDED.sub("", text[has_more:])


def label_form(text: str) -> str:
    """A label in one spelling: an é may be two characters, and gaps turn 1 into 1.0."""
    form = unicodedata.normalize("NFC", text.strip())
    whole = _WHOLE.fullmatch(form)
    return whole[1] if whole else form


def label_key(text: str) -> str:
    """What all spellings of a label share: those of :func:`label_form`, and capitals."""
    return label_form(text).casefold()


def plain_text(text: str) -> str:
    """The text, if every format can hold it; else ValueError says what is wrong."""
    if "\0" in text:
        raise ValueError("contains a NUL character")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("contains half a surrogate pair, which is not a character") from None
    return text


def without_nul(value: Any) -> Any:
    """A value as a file can hold it, where somebody else has put a NUL into a comment."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def plain_value(value: Any) -> Any:
    """The same value as JSON can hold it; ValueError where there is none.

    Dates, times, durations, decimals and UUIDs become text. Bytes become text if they are UTF-8
    and are refused if not. NaN becomes None; infinities are refused. Lists and objects are
    converted all the way down.
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
        return [plain_value(part) for part in value]
    if isinstance(value, dict):
        return {plain_text(str(key)): plain_value(part) for key, part in value.items()}
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
    """An id or a label: 7 and 7.0 are both '7', as a column with gaps turns numbers into floats."""
    plain = plain_value(value)
    if isinstance(plain, str):
        return plain
    if isinstance(plain, float) and plain.is_integer():
        return str(int(plain))
    if plain is None or isinstance(plain, (list, dict)):
        raise ValueError("holds no single value")
    return str(plain)


def cell_text(value: Any) -> str:
    """A CSV cell, not yet made safe: missing is empty; lists, objects and booleans are JSON."""
    plain = plain_value(value)
    if plain is None:
        return ""
    if isinstance(plain, str):
        return plain
    return repr(plain) if isinstance(plain, float) else json.dumps(plain, ensure_ascii=False)
