"""A folder of results: one JSONL file per cell, a line per seed, every line on disk before it
counts.

A process that is killed leaves at most one unfinished last line. It is noticed by its check,
dropped when the folder is next written to, and the run is computed again.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from parbals.bench.records import RunRecord, read_line
from parbals.bench.spec import Run
from parbals.errors import InputError
from parbals.files import sync_folder, whole_file

__all__ = ["Damage", "ResultsFolder"]


@dataclass(frozen=True)
class Damage:
    """A line that cannot be used; its run will be computed again."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path.name}, line {self.line}: {self.reason}"


class ResultsFolder:
    """``suite.toml`` and ``runs/CELL.jsonl``."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.runs = self.path / "runs"

    def save_suite(self, text: str) -> None:
        """Remember what is being run, for `bench status` and `bench report`."""
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"The results folder {self.path} cannot be made: {error.strerror}."
            ) from error
        # Whoever is still writing goes by the suite that is there.
        with _only_writer(self.path), whole_file(self.path / "suite.toml") as file:
            file.write(text.encode())

    def suite_text(self) -> str:
        try:
            return (self.path / "suite.toml").read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(
                f"{self.path} holds no results; make some with `parbals bench run`."
            ) from None

    def records(self) -> list[RunRecord]:
        """Every usable record, each key once."""
        return [record for records in self.cells().values() for record in records]

    def cells(self) -> dict[str, list[RunRecord]]:
        """The same by file, in the order they were finished."""
        seen: set[str] = set()
        found: dict[str, list[RunRecord]] = {}
        for path in self._files():
            records = found.setdefault(path.name, [])
            for record, _ in _read(path)[0]:
                if record.key not in seen:
                    seen.add(record.key)
                    records.append(record)
        return found

    def damages(self) -> list[Damage]:
        """Every line that is not usable."""
        return [damage for path in self._files() for damage in _read(path)[1]]

    def seconds(self) -> dict[str, tuple[Run, float]]:
        """What is there already: key → run and how long it took."""
        return {record.key: (record.run, record.total_seconds) for record in self.records()}

    def digests(self) -> dict[str, str]:
        """Which data the results rest on: dataset reference → digest."""
        return {record.run.reference: record.data for record in self.records()}

    @contextmanager
    def writing(self) -> Iterator[Callable[[Run, str], None]]:
        """A function that stores a run's line for good. One process at a time may write."""
        self.runs.mkdir(parents=True, exist_ok=True)
        with _only_writer(self.path):
            for path in self._files():
                good, damaged = _read(path)
                if damaged:
                    with whole_file(path) as file:
                        file.writelines(f"{line}\n".encode() for _, line in good)
            yield self._append

    def _append(self, run: Run, line: str) -> None:
        path = self.runs / f"{run.cell}.jsonl"
        is_new = not path.exists()
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            left = memoryview(f"{line}\n".encode())
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        except OSError as error:
            raise InputError(
                f"{path} could not be written ({error.strerror}); make room and start again."
            ) from error
        finally:
            os.close(handle)
        if is_new:
            sync_folder(self.runs)

    def _files(self) -> list[Path]:
        return sorted(self.runs.glob("*.jsonl"))


def _read(path: Path) -> tuple[list[tuple[RunRecord, str]], list[Damage]]:
    good: list[tuple[RunRecord, str]] = []
    damaged: list[Damage] = []
    text = path.read_bytes().decode("utf-8", errors="replace")
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        try:
            good.append((read_line(line), line))
        except InputError as error:
            damaged.append(Damage(path, number, str(error)))
    # Whole, but the end of the line is missing: the next line would be glued to it.
    if text and not text.endswith("\n") and not damaged:
        damaged.append(
            Damage(
                path, text.count("\n") + 1, "The end of the line is missing; its content is whole."
            )
        )
    return good, damaged


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """The operating system gives the lock back when the process ends, however it ends."""
    with (folder / ".lock").open("a") as file:
        if os.name == "posix":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"Another process is writing to {folder}; wait for it, or use another folder."
                ) from None
        yield
