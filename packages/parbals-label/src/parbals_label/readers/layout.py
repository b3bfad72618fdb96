"""Guesses about a delimited file: its delimiter, its header, and what its quotes mean."""

import csv
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from parbals.errors import InputError

from parbals_label.readers.encoding import LIMIT, lines_of, open_text, undecodable

__all__ = ["counts_tabs_alike", "is_headless", "sniff_delimiter"]

_SEP_LINE = re.compile(r'"?sep=([,;|\t])"?[\r\n]*', re.IGNORECASE)
_LINES = 50
_NUMBER = re.compile(r"[-+\d.,\s%]*")


def sniff_delimiter(path: Path, encoding: str) -> tuple[str, bool]:
    """The delimiter among , ; and tab, and whether a first line such as ``sep=;`` names it."""
    with open_text(path, encoding) as file:
        try:
            sample = list(islice(iter(lambda: file.readline(1 << 20), ""), _LINES))
        except UnicodeError:
            raise InputError(undecodable(path.name, 1, encoding)) from None
    if sample and (named := _SEP_LINE.fullmatch(sample[0])):
        return named[1], True

    def fit(delimiter: str) -> tuple[float, int]:
        widths: list[int] = []
        with suppress(csv.Error):  # the full reading reports what is wrong
            widths.extend(
                len(record) for record in csv.reader(sample, delimiter=delimiter) if record
            )
        if not widths or widths[0] == 1:
            return 0.0, 1
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    csv.field_size_limit(LIMIT)
    return max(",;\t", key=fit), False


def counts_tabs_alike(path: Path, encoding: str) -> int | None:
    """How many lines the file has if each has the same number of tabs, one or more; else None."""
    n_lines, n_tabs = 0, None
    with open_text(path, encoding) as file, suppress(UnicodeError, csv.Error):
        for line in lines_of(file):
            if not line.strip("\r\n"):
                continue
            found = line.count("\t")
            n_tabs = found if n_tabs is None else n_tabs
            if found != n_tabs or not found:
                return None
            n_lines += 1
    return n_lines or None


def is_headless(records: Sequence[Sequence[str]]) -> bool:
    """Whether the first of some records is data: one of its words stands below it again.

    A word such as a label; not one that is the only entry of its column, as in exports of boxes
    that were ticked, nor a header that is repeated as a whole.
    """
    header, *below = records
    if header in below:
        return False
    for place, name in enumerate(header):
        if not name.strip() or _NUMBER.fullmatch(name):
            continue
        entries = {record[place] for record in below if len(record) > place and record[place]}
        if name in entries and len(entries) > 1:
            return True
    return False
