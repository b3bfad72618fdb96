"""A folder of results: one JSONL file per cell, a line per seed, on disk before it counts.

Packed into one file, to commit or to send, it is read as it is:
tar -cJf results.tar.xz -C bench-results suite.toml runs

A process that is killed leaves at most one unfinished last line. It is noticed by its check,
dropped when the folder is next written to, and the run is computed again.
"""

import io
import lzma
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from parbals.errors import InputError, first_line
from parbals.files import sync_folder
from parbals_label.files import locked, whole_file

from parbals_bench.run.records import RunRecord, read_line
from parbals_bench.run.spec import Run, Shard

__all__ = ["ResultsFiles", "ResultsFolder"]

_PACKED = ".tar.xz"


class ResultsFiles:
    """``suite.toml`` and ``runs/CELL.jsonl``, in a folder or packed into one file.

    Nothing is unpacked to disk, and what does not belong to it is not read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._packed = _unpack(self.path) if self.path.is_file() else None

    @property
    def name(self) -> str:
        """Name of the folder or the file, without the file's extension."""
        return self.path.resolve().name.removesuffix(_PACKED)

    def suite_text(self) -> str:
        """The TOML text of the suite."""
        if self._packed is not None:
            return self._packed["suite.toml"].decode()
        try:
            return (self.path / "suite.toml").read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(
                f"{self.path} holds no results; make some with `parbals bench run`."
            ) from None

    def lines(self) -> dict[str, bytes]:
        """Every file of lines by its name, in the order of the names."""
        if self._packed is None:
            paths = sorted((self.path / "runs").glob("*.jsonl"))
            return {path.name: path.read_bytes() for path in paths}
        names = [PurePosixPath(name) for name in sorted(self._packed)]
        return {p.name: self._packed[str(p)] for p in names if p.match("runs/*.jsonl")}

    def read(self) -> tuple[list[RunRecord], list[str]]:
        """All usable records, each key once, and a message for every damaged line."""
        records: dict[str, RunRecord] = {}
        damages: list[str] = []
        for name, content in self.lines().items():
            good, damaged = _read_lines(name, content)
            damages += damaged
            for record, _ in good:
                records.setdefault(record.key, record)
        return list(records.values()), damages

    def records(self) -> list[RunRecord]:
        return self.read()[0]


class ResultsFolder(ResultsFiles):
    """A folder that a grid is computed into.

    Each shard of a suite has files and a lock of its own, so that all may write at the same time.
    """

    def __init__(self, path: str | Path, shard: Shard | None = None) -> None:
        super().__init__(path)
        self.runs = self.path / "runs"
        self._lock_name = ".lock"
        self._ending = ".jsonl"
        if shard is not None:
            self._lock_name = f".lock-{shard.name}"
            self._ending = f".{shard.name}.jsonl"

    def save_suite(self, text: str) -> None:
        """Store the suite; a process that is still writing keeps the one it has."""
        with self._locked():
            is_shard = self._ending != ".jsonl"
            path = self.path / "suite.toml"
            if is_shard and path.exists() and self.suite_text() != text:
                raise InputError(
                    f"{self.path} holds another suite, which other shards may be computing; use "
                    "another --out."
                )
            with whole_file(path) as file:
                file.write(text.encode())

    @contextmanager
    def writing(self) -> Iterator[Callable[[Run, str], None]]:
        """Provide a function that stores a run's line durably. One process may write at a time.

        Without a shard all files are repaired: other shards should have ended.
        """
        with self._locked():
            for name, content in self.lines().items():
                if not name.endswith(self._ending):
                    continue
                good, damaged = _read_lines(name, content)
                if damaged:
                    with whole_file(self.runs / name) as file:
                        file.writelines(f"{line}\n".encode() for _, line in good)
            yield self._append

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"The results folder {self.path} cannot be made: {error.strerror}."
            ) from error
        busy = f"Another process is writing to {self.path}; wait for it, or use another folder."
        with locked(self.path / self._lock_name, InputError(busy)):
            yield

    def _append(self, run: Run, line: str) -> None:
        path = self.runs / f"{run.cell}{self._ending}"
        is_new = not path.exists()
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            unwritten = memoryview(f"{line}\n".encode())
            while unwritten:
                unwritten = unwritten[os.write(handle, unwritten) :]
            os.fsync(handle)
        except OSError as error:
            raise InputError(
                f"{path} could not be written ({error.strerror}); make room and start again."
            ) from error
        finally:
            os.close(handle)
        if is_new:
            sync_folder(self.runs)


def _unpack(path: Path) -> dict[str, bytes]:
    """Contents of the files of a packed folder, by name."""
    files: dict[str, bytes] = {}
    try:
        content = lzma.decompress(path.read_bytes())  # at once: its check is at the end
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    files[PurePosixPath(member.name).as_posix()] = file.read()
        files["suite.toml"].decode()
        return files
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (lzma.LZMAError, tarfile.TarError, ValueError, LookupError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else first_line(error)
        raise InputError(
            f"{path} is damaged or not a file of packed results ({reason}); take it from a copy."
        ) from None


def _read_lines(name: str, content: bytes) -> tuple[list[tuple[RunRecord, str]], list[str]]:
    good: list[tuple[RunRecord, str]] = []
    damaged: list[str] = []
    text = content.decode("utf-8", errors="replace")
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        try:
            good.append((read_line(line), line))
        except InputError as error:
            damaged.append(f"{name}, line {number}: {error}")
    # Whole, but the end of the line is missing: the next line would be glued to it.
    if text and not text.endswith("\n") and not damaged:
        number = text.count("\n") + 1
        damaged.append(f"{name}, line {number}: The end of the line is missing; it is whole.")
    return good, damaged
