"""A folder of results as one file small enough to commit: what the folder holds, exactly, in less
than a quarter of it.

The file is an .xz stream (``xz -d`` opens it) of one line of JSON and the columns of numbers after
it. The line says

    format, version   "parbals results", 1 suite             the text of suite.toml shared
    values that many records have in common (versions, data, notes), each kind once
    cells             for every results file: its run without the seed, and of every record in it
                      the seed, the place of its shared values, and how many numbers each of its
                      parts has
    columns           for each column of numbers: its name, how many there are, bytes a number,
        digits after the point

A column is one part (a metric, a stage's seconds, the initial sets, the batches) of all records,
one after the other. Numbers are whole: v · 10^digits, for metrics and seconds less the one before
it in the same record, negative ones folded in between (0, -1, 1, -2, ... are 0, 1, 2, 3, ...). All
lowest bytes of a column come first, then all second bytes, and so on: high bytes repeat and vanish,
low ones are noise that no program can shrink. "digits": null marks a column whose numbers have no
short decimal form; it holds them as 64-bit floats.
"""

import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parbals.bench.folder import Damage, ResultsFolder
from parbals.bench.packed_file import FORMAT, MOST_DIGITS, VERSION, read_packed
from parbals.bench.records import RunRecord, write_line
from parbals.bench.spec import Run
from parbals.errors import InputError
from parbals.files import whole_file

__all__ = ["SUFFIX", "PackedResults", "open_results", "pack", "unpack"]

SUFFIX = ".parbals.xz"
_SHARED = ("versions", "data", "notes")


class PackedResults:
    """A packed file, to be read as a :class:`ResultsFolder` is."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._suite, self._records = read_packed(self.path)

    def suite_text(self) -> str:
        return self._suite

    def records(self) -> list[RunRecord]:
        return list(self._records)

    def damages(self) -> list[Damage]:
        """None: a damaged file does not open."""
        return []

    def seconds(self) -> dict[str, tuple[Run, float]]:
        return {record.key: (record.run, record.total_seconds) for record in self._records}


def open_results(path: str | Path) -> ResultsFolder | PackedResults:
    """Results to read, from a folder or from a packed file."""
    return PackedResults(path) if Path(path).is_file() else ResultsFolder(path)


def pack(folder: ResultsFolder, target: Path) -> int:
    """Write everything the folder holds into one file; returns the number of records."""
    suite, cells = folder.suite_text(), list(folder.cells().values())
    columns: dict[str, list[list[Any]]] = {}
    shared: dict[str, int] = {}
    told = []
    for records in cells:
        rows = []
        for record in records:
            values = record.as_dict()
            common = json.dumps({name: values[name] for name in _SHARED}, ensure_ascii=False)
            parts = _parts(values)
            for name, numbers in parts.items():
                columns.setdefault(name, []).append(numbers)
            sizes = {name: len(numbers) for name, numbers in parts.items()}
            batches = [len(batch) for batch in values["chosen"]]
            rows.append([record.run.seed, shared.setdefault(common, len(shared)), sizes, batches])
        if records:
            run = records[0].run.as_dict()
            del run["seed"]
            told.append({"run": run, "records": _without_repeats(rows)})
    written = {name: _column(parts, deltas="." in name) for name, parts in columns.items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "suite": suite,
        "shared": [json.loads(text) for text in shared],
        "cells": told,
        "columns": [[name, *facts] for name, (facts, _) in written.items()],
    }
    content = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    content += b"".join(part for _, part in written.values())
    with whole_file(target) as file:
        file.write(lzma.compress(content, check=lzma.CHECK_CRC64, preset=9 | lzma.PRESET_EXTREME))
    return sum(map(len, cells))


def unpack(source: Path, folder: ResultsFolder) -> int:
    """The folder that was packed, file by file; a folder that already holds results is left alone."""
    packed = PackedResults(source)
    if folder.path.exists() and any(folder.path.iterdir()):
        raise InputError(f"{folder.path} is not empty; unpack into a new folder with --out.")
    folder.save_suite(packed.suite_text())
    files: dict[str, list[str]] = {}
    for record in packed.records():
        files.setdefault(record.run.cell, []).append(write_line(record))
    for cell, lines in files.items():
        with whole_file(folder.runs / f"{cell}.jsonl") as file:
            file.writelines(f"{line}\n".encode() for line in lines)
    return len(packed.records())


def _parts(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Every list of numbers in a record, by its column."""
    parts: dict[str, list[Any]] = {
        "initial": values["initial"],
        "chosen": [index for batch in values["chosen"] for index in batch],
    }
    for kind in ("metrics", "seconds"):
        parts |= {f"{kind}.{name}": numbers for name, numbers in values[kind].items()}
    return parts


def _without_repeats(rows: list[list[Any]]) -> list[list[Any]]:
    """Seeds of a cell mostly have the same sizes: only the first says them."""
    return [
        row if place == 0 or row[2:] != rows[place - 1][2:] else row[:2]
        for place, row in enumerate(rows)
    ]


def _column(
    parts: Sequence[Sequence[Any]], *, deltas: bool
) -> tuple[tuple[int, int, int | None], bytes]:
    """(how many, bytes each, digits) and the bytes themselves."""
    values = np.array([value for numbers in parts for value in numbers], np.float64)
    digits = next((d for d in range(MOST_DIGITS + 1) if _exact(values, d)), None)
    if digits is None:
        raw = values.astype("<f8").view(np.uint8).reshape(-1, 8)
        return (len(values), 8, None), raw.T.tobytes()
    whole = np.rint(values * 10**digits).astype(np.int64)
    if deltas:
        steps = np.diff(whole, prepend=0)
        starts = np.cumsum([0, *(len(numbers) for numbers in parts[:-1])])
        starts = starts[starts < len(whole)]
        steps[starts] = whole[starts]
        whole = steps
    folded = np.where(whole >= 0, 2 * whole, -2 * whole - 1).astype("<u8")
    width = max(1, (int(folded.max(initial=0)).bit_length() + 7) // 8)
    return (len(values), width, digits), folded.view(np.uint8).reshape(-1, 8)[:, :width].T.tobytes()


def _exact(values: np.ndarray, digits: int) -> bool:
    scaled = np.rint(values * 10**digits)
    return bool(np.all(np.abs(scaled) < 2**52) and np.array_equal(scaled / 10**digits, values))
