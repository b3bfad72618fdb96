"""Results packed by earlier versions (``.parbals.xz``): read here, written no more.

A line of JSON, then columns of numbers. The line says

    format, version   "parbals results", 1
    suite             the text of suite.toml
    shared            values that many records have in common (versions, data, notes)
    cells             for every file: its run without the seed, and of every record in it the seed,
                      the place of its shared values, how many numbers each part has, and the
                      lengths of its batches (both only where they differ from the record before)
    columns           for each column of numbers: name, how many, bytes a number, decimals

A column is one part (a metric, a stage's seconds, the initial sets, the batches) of all records.
Numbers are whole: v · 10^decimals, for metrics and seconds less the one before it in the same
record, with 0, -1, 1, -2, ... written as 0, 1, 2, 3, ... All lowest bytes of a column come first,
then all second bytes, and so on. Without decimals (null) a column holds 64-bit floats.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from parbals_bench.run.records import RunRecord, record_of, write_line

__all__ = ["files_of_old"]

_MOST_RECORDS = 100_000


def files_of_old(content: bytes) -> dict[str, bytes]:
    """The files that were packed, byte for byte; what does not fit together is a ValueError."""
    first, _, numbers = content.partition(b"\n")
    try:
        header = json.loads(first)
        if (header["format"], header["version"]) != ("parbals results", 1):
            raise ValueError("another kind of file")
        files: dict[str, bytes] = {"suite.toml": header["suite"].encode()}
        for record in _records(header, numbers):
            name = f"runs/{record.run.cell}.jsonl"
            files[name] = files.get(name, b"") + f"{write_line(record)}\n".encode()
    except (TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return files


def _records(header: Mapping[str, Any], numbers: bytes) -> Iterator[RunRecord]:
    columns = _columns(header["columns"], numbers)
    if sum(len(cell["records"]) for cell in header["cells"]) > _MOST_RECORDS:
        raise ValueError(f"it has more than {_MOST_RECORDS:,} records")
    used = dict.fromkeys(columns, 0)

    def part(name: str, n: int) -> list[Any]:
        values, decimals = columns[name]
        start, used[name] = used[name], used[name] + n
        if not 0 <= n <= len(values) - start:
            raise ValueError(f"the column {name!r} is too short")
        own = values[start : start + n]
        if decimals is None:
            return own.tolist()
        whole = (own >> np.uint64(1)).astype(np.int64) ^ -(own & np.uint64(1)).astype(np.int64)
        return (np.cumsum(whole) / 10**decimals if "." in name else whole).tolist()

    for cell in header["cells"]:
        sizes: dict[str, int] = {}
        batches: list[int] = []
        for seed, place, *shape in cell["records"]:
            sizes, batches = shape or (sizes, batches)
            parts = {name: part(name, n) for name, n in sizes.items()}
            items = parts.pop("chosen")
            if sum(batches) != len(items):
                raise ValueError("the batches do not have the lengths they should")
            chosen = iter(items)
            values = {
                "run": {**cell["run"], "seed": seed},
                "initial": parts.pop("initial"),
                "chosen": [list(islice(chosen, n)) for n in batches],
                **header["shared"][place],
                "metrics": {},
                "seconds": {},
            }
            for name, own in parts.items():
                kind, _, key = name.partition(".")
                values[kind][key] = own
            yield record_of(values)


def _columns(listed: list[Any], numbers: bytes) -> dict[str, tuple[np.ndarray, int | None]]:
    columns: dict[str, tuple[np.ndarray, int | None]] = {}
    at = 0
    for name, n, width, decimals in listed:
        if not (n >= 0 and 1 <= width <= 8 and at + n * width <= len(numbers)):
            raise ValueError(f"the column {name!r} is too short")
        if decimals not in (None, *range(10)):
            raise ValueError(f"the column {name!r} has {decimals!r} decimals")
        padded = np.zeros((n, 8), np.uint8)
        padded[:, :width] = np.frombuffer(numbers, np.uint8, n * width, at).reshape(width, n).T
        at += n * width
        columns[name] = (padded.view("<f8" if decimals is None else "<u8")[:, 0], decimals)
    return columns
