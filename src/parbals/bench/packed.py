"""A folder of results as one file small enough to commit: what the folder holds, exactly, in less than a quarter of it.

The file is an .xz stream (``xz -d`` opens it) of one line of JSON and the columns of numbers after it. The line says

    format, version   "parbals results", 1
    suite             the text of suite.toml
    shared            values that many records have in common (versions, data, notes), each kind once
    cells             for every results file: its run without the seed, and of every record in it the seed, the place of
                      its shared values, and how many numbers each of its parts has
    columns           for each column of numbers: its name, how many there are, bytes a number, digits after the point

A column is one part (a metric, a stage's seconds, the initial sets, the batches) of all records, one after the
other. Numbers are whole: v · 10^digits, for metrics and seconds less the one before it in the same record, negative
ones folded in between (0, -1, 1, -2, ... are 0, 1, 2, 3, ...). All lowest bytes of a column come first, then all second
bytes, and so on: high bytes repeat and vanish, low ones are noise that no program can shrink. "digits": null marks a
column whose numbers have no short decimal form; it holds them as 64-bit floats.
"""

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parbals.atomic import whole_file
from parbals.bench.folder import Damage, ResultsFolder
from parbals.bench.records import RunRecord, record_of, write_line
from parbals.bench.runs import Run
from parbals.errors import InputError

__all__ = ["SUFFIX", "PackedResults", "open_results", "pack", "unpack"]

SUFFIX = ".parbals.xz"
_FORMAT, _VERSION = "parbals results", 1
_MOST_DIGITS = 9
_SHARED = ("versions", "data", "notes")
_MAGIC = b"\xfd7zXZ\x00"


class PackedResults:
    """A packed file, to be read as a :class:`ResultsFolder` is."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._suite, self._records = _unpacked(self.path)

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
        "format": _FORMAT,
        "version": _VERSION,
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
    return [row if place == 0 or row[2:] != rows[place - 1][2:] else row[:2] for place, row in enumerate(rows)]


def _column(parts: Sequence[Sequence[Any]], *, deltas: bool) -> tuple[tuple[int, int, int | None], bytes]:
    """(how many, bytes each, digits) and the bytes themselves."""
    values = np.array([value for numbers in parts for value in numbers], np.float64)
    digits = next((d for d in range(_MOST_DIGITS + 1) if _exact(values, d)), None)
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


def _unpacked(path: Path) -> tuple[str, list[RunRecord]]:
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    if not packed.startswith(_MAGIC):
        raise InputError(f"{path} is no packed results; write them with `parbals bench pack FOLDER`.")
    try:
        first, _, columns = lzma.decompress(packed, format=lzma.FORMAT_XZ).partition(b"\n")
        header = json.loads(first)
        if header["format"] != _FORMAT:
            raise ValueError("another kind of file")
    except (lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged or no packed results ({error}); take it from a copy.") from None
    if header["version"] != _VERSION:
        raise InputError(f"{path} was packed by a newer version of parbals; upgrade to read it.")
    return header["suite"], list(_records(header, columns))


def _records(header: Mapping[str, Any], content: bytes) -> Iterator[RunRecord]:
    columns: dict[str, tuple[np.ndarray, int | None]] = {}
    at = 0
    for name, n, width, digits in header["columns"]:
        planes = np.frombuffer(content, np.uint8, n * width, at).reshape(width, n)
        at += n * width
        padded = np.zeros((n, 8), np.uint8)
        padded[:, :width] = planes.T
        columns[name] = (padded.view("<f8" if digits is None else "<u8")[:, 0], digits)
    used = dict.fromkeys(columns, 0)

    def taken(name: str, n: int) -> list[Any]:
        values, digits = columns[name]
        part = values[used[name] : used[name] + n]
        used[name] += n
        if digits is None:
            return [float(value) for value in part]
        whole = (part >> np.uint64(1)).astype(np.int64) ^ -(part & np.uint64(1)).astype(np.int64)
        if "." not in name:
            return [int(value) for value in whole]
        return [float(value) for value in np.cumsum(whole) / 10**digits]

    for cell in header["cells"]:
        sizes: dict[str, int] = {}
        batches: list[int] = []
        for seed, place, *shape in cell["records"]:
            sizes, batches = shape or (sizes, batches)
            parts = {name: taken(name, n) for name, n in sizes.items()}
            chosen = iter(parts["chosen"])
            values: dict[str, Any] = {
                "run": {**cell["run"], "seed": seed},
                "initial": parts["initial"],
                "chosen": [[next(chosen) for _ in range(n)] for n in batches],
                **header["shared"][place],
            }
            for kind in ("metrics", "seconds"):
                values[kind] = {
                    name.partition(".")[2]: numbers for name, numbers in parts.items() if name.startswith(f"{kind}.")
                }
            yield record_of(values)
