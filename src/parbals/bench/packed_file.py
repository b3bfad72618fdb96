"""Reading a file of packed results, whose format packed.py describes, from whoever made it.

Nothing in it is believed before it is checked, and a small file cannot take much memory.
"""

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from parbals.bench.records import RunRecord, record_of
from parbals.errors import InputError, first_line

__all__ = ["FORMAT", "MOST_DIGITS", "VERSION", "read_packed"]

FORMAT, VERSION = "parbals results", 1
MOST_DIGITS = 9
_MAGIC = b"\xfd7zXZ\x00"
# What a file may grow to. Real results grow to little more than twice their size, with less than a
# number a byte.
_MOST_BYTES, _PLAUSIBLE_BYTES, _BYTES_A_BYTE = 1 << 31, 1 << 25, 64
_PLAUSIBLE_HEADER, _HEADER_A_BYTE = 1 << 23, 4
_PLAUSIBLE_VALUES, _VALUES_A_BYTE, _VALUES_A_RECORD = 4_000_000, 16, 50
_LONGEST_RUN = 1 << 16
_XZ_MEMORY = 1 << 28
_CHUNK = 1 << 20


def read_packed(path: Path) -> tuple[str, list[RunRecord]]:
    """The suite's text and all records; anything that is not exactly as it should be is refused."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise InputError(
                    f"{path} is no packed results; write them with `parbals bench pack FOLDER`."
                )
            size = file.seek(0, 2)
            file.seek(0)
            content = _decompressed(
                file, min(_MOST_BYTES, max(_PLAUSIBLE_BYTES, _BYTES_A_BYTE * size))
            )
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except (lzma.LZMAError, EOFError, _Implausible) as error:
        raise _damaged(path, error) from None
    try:
        end = content.find(b"\n", 0, max(_PLAUSIBLE_HEADER, _HEADER_A_BYTE * size))
        if end < 0:
            raise ValueError("it has no first line")
        header = json.loads(content[:end], parse_constant=_no_number)
        if (
            header["format"] != FORMAT
            or type(header["version"]) is not int
            or header["version"] < 1
        ):
            raise ValueError("another kind of file")
        if header["version"] <= VERSION:
            most = max(_PLAUSIBLE_VALUES, _VALUES_A_BYTE * size)
            return _text(header["suite"]), list(
                _records(header, memoryview(content)[end + 1 :], most)
            )
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
        _Implausible,
    ) as error:
        raise _damaged(path, error) from None
    raise InputError(f"{path} was packed by a newer version of parbals; upgrade to read it.")


class _Implausible(Exception):
    """More than a file of this size can hold, unless it was made to harm."""


def _damaged(path: Path, error: BaseException) -> InputError:
    said = f"it lacks {error}" if isinstance(error, KeyError) else first_line(error)
    return InputError(f"{path} is damaged or no packed results ({said}); take it from a copy.")


def _decompressed(file: IO[bytes], most: int) -> bytearray:
    """What the .xz streams in the file hold, a piece at a time: a few bytes can claim to be
    gigabytes."""
    content = bytearray()
    stream, waiting = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY), b""
    while True:
        if stream.eof:
            waiting = stream.unused_data.lstrip(b"\0") or file.read(_CHUNK).lstrip(b"\0")
            if not waiting:
                return content
            stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        elif stream.needs_input:
            waiting = file.read(_CHUNK)
            if not waiting:
                raise EOFError("it is cut short")
        content += stream.decompress(waiting, _CHUNK)
        waiting = b""
        if len(content) > most:
            raise _Implausible(f"it would grow to more than {most:,} bytes")


def _records(header: Mapping[str, Any], content: memoryview, most: int) -> Iterator[RunRecord]:
    """Every record; what does not fit together is an error of whatever kind, which the caller puts
    into words."""
    columns = _columns(header["columns"], content, most)
    shared = [_shared(values) for values in header["shared"]]
    used = dict.fromkeys(columns, 0)
    n_values = 0

    def taken(name: str, n: int) -> list[Any]:
        values, digits = columns[name]
        part = values[used[name] : used[name] + n]
        used[name] += n
        if n < 0 or len(part) != n:
            raise ValueError(f"the column {name!r} is too short")
        if digits is None:
            return [float(value) for value in part]
        whole = (part >> np.uint64(1)).astype(np.int64) ^ -(part & np.uint64(1)).astype(np.int64)
        if "." not in name:
            return [int(value) for value in whole]
        return [float(value) for value in np.cumsum(whole) / 10**digits]

    for cell in header["cells"]:
        run = _checked_run(cell["run"])
        sizes: dict[str, int] = {}
        batches: list[int] = []
        for seed, place, *shape in cell["records"]:
            sizes, batches = shape or (sizes, batches)
            n_values += _VALUES_A_RECORD + len(sizes) + len(batches) + sum(sizes.values())
            if n_values > most:
                raise _Implausible(f"it would grow to more than {most:,} numbers")
            parts = {name: taken(name, n) for name, n in sizes.items()}
            if sum(batches) != len(parts["chosen"]) or min(batches, default=0) < 0:
                raise ValueError("the batches do not have the lengths they should")
            if type(seed) is not int or place < 0:
                raise ValueError("a record has no number where one belongs")
            chosen = iter(parts["chosen"])
            values: dict[str, Any] = {
                "run": {**run, "seed": seed},
                "initial": parts["initial"],
                "chosen": [[next(chosen) for _ in range(n)] for n in batches],
                **shared[place],
            }
            for kind in ("metrics", "seconds"):
                values[kind] = {
                    name.partition(".")[2]: numbers
                    for name, numbers in parts.items()
                    if name.startswith(f"{kind}.")
                }
            record = record_of(values)
            if not {len(numbers) for numbers in record.metrics.values()} == {
                record.run.budget.rounds + 1
            }:
                raise ValueError("a record does not have one value of a metric for every round")
            yield record
    if any(used[name] != len(values) for name, (values, _) in columns.items()):
        raise ValueError("some of its numbers belong to no record")


def _columns(
    told: Sequence[Any], content: memoryview, most: int
) -> dict[str, tuple[np.ndarray, int | None]]:
    columns: dict[str, tuple[np.ndarray, int | None]] = {}
    at = 0
    if sum(n for _, n, _, _ in told) > most:
        raise _Implausible(f"it would grow to more than {most:,} numbers")
    for name, n, width, digits in told:
        if not (n >= 0 and 1 <= width <= 8 and at + n * width <= len(content)):
            raise ValueError(f"the column {name!r} is too short")
        if not (digits is None and width == 8) and digits not in range(MOST_DIGITS + 1):
            raise ValueError(f"the column {name!r} has {digits!r} digits")
        padded = np.zeros((n, 8), np.uint8)
        padded[:, :width] = np.frombuffer(content, np.uint8, n * width, at).reshape(width, n).T
        at += n * width
        columns[_text(name)] = (padded.view("<f8" if digits is None else "<u8")[:, 0], digits)
        if digits is None and not np.isfinite(columns[name][0]).all():
            raise ValueError(f"the column {name!r} holds numbers that are not finite")
    if at != len(content):
        raise ValueError("there is more in it than its columns")
    return columns


def _shared(values: Mapping[str, Any]) -> dict[str, Any]:
    """Checked once, and the same object for every record that has it."""
    versions = {_text(name): _text(version) for name, version in values["versions"].items()}
    return {
        "versions": versions,
        "data": _text(values["data"]),
        "notes": tuple(map(_text, values["notes"])),
    }


def _checked_run(run: dict[str, Any]) -> dict[str, Any]:
    for name in ("dataset", "strategy"):
        _text(run[name])
    if not isinstance(run.get("options", {}), dict) or not isinstance(
        run.get("positive"), str | None
    ):
        raise ValueError("a run has options or a class that cannot be")
    if len(_text(json.dumps(run, ensure_ascii=False))) > _LONGEST_RUN:
        raise _Implausible("a run is described at greater length than any has been")
    return run


def _text(value: Any) -> str:
    """A text that can be written again."""
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:40]!r} stands where a text belongs")
    value.encode()
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"it holds {name}")
