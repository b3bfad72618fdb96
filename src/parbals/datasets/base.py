"""What every dataset hands over, how its rows are divided, and what is said when its files are not
there."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from parbals.errors import InputError, LabelError
from parbals.randomness import derive_generator

__all__ = [
    "Data",
    "Dataset",
    "MissingData",
    "Part",
    "Raw",
    "Remote",
    "data_folder",
    "halves",
    "how_to_choose",
    "one_vs_all",
    "three_parts",
]

DATA_VARIABLE = "PARBALS_DATA"


@dataclass(frozen=True)
class Data:
    """Features and class numbers, divided; what the model is for (the target source) comes without
    labels.

    ``notes`` says what differs from the published experiment: fewer rows, other features.
    """

    name: str
    X_pool: np.ndarray
    y_pool: np.ndarray
    X_target_source: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    classes: tuple[str, ...]
    positive: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for what, X, y in (
            ("pool", self.X_pool, self.y_pool),
            ("test set", self.X_test, self.y_test),
        ):
            if len(X) != len(y) or not len(X):
                raise InputError(
                    f"{self.name}: the {what} has {len(X)} rows of features and {len(y)} labels."
                )
        if not len(self.X_target_source):
            raise InputError(
                f"{self.name}: no row is left for the target set; the files are too small."
            )
        if len({X.shape[1] for X in (self.X_pool, self.X_target_source, self.X_test)}) != 1:
            raise InputError(
                f"{self.name}: pool, target and test have different numbers of features."
            )


def one_vs_all(data: Data, positive: str | int = 0) -> Data:
    """The same rows with two classes: 1 for ``positive`` (a class or its number), 0 for all the
    others."""
    if isinstance(positive, str) and positive in data.classes:
        number = data.classes.index(positive)
    elif isinstance(positive, (int, np.integer)) and 0 <= positive < len(data.classes):
        number = int(positive)
    else:
        known = ", ".join(data.classes[:10]) + (", …" if len(data.classes) > 10 else "")
        raise LabelError(
            f"{data.name} has no class {positive!r}; its classes are 0 to {len(data.classes) - 1}: "
            f"{known}."
        )
    name = data.classes[number]
    y_pool, y_test = ((y == number).astype(np.int64) for y in (data.y_pool, data.y_test))
    if y_pool.min() == y_pool.max():
        raise LabelError(
            f"{data.name}: {'no' if y_pool.max() == 0 else 'every'} row of the pool is of class "
            f"{name!r}."
        )
    return replace(data, y_pool=y_pool, y_test=y_test, classes=(f"not {name}", name), positive=name)


@dataclass(frozen=True)
class Part:
    """Rows of one file or split: texts, image paths or pixels; and their class numbers.

    ``stem`` names its features.
    """

    items: Sequence[Any] | np.ndarray | None
    y: np.ndarray
    stem: str


@dataclass(frozen=True)
class Raw:
    """What a publisher's files hold, before features."""

    name: str
    kind: str
    parts: Mapping[str, Part]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Remote:
    """One file on the network, and what is known about it beforehand.

    ``first_line`` is a regular expression that the beginning of a text file fits, whatever the case
    of its letters.
    """

    url: str
    file: str
    bytes: int | None = None
    sha256: str | None = None
    first_line: str | None = None


@dataclass(frozen=True)
class MissingData:
    """What to say when a dataset is not there: which files, from which page, to which place.

    ``must_unpack``: the files are archives that are not read as they are.
    """

    name: str
    page: str
    files: tuple[str, ...]
    remotes: tuple[Remote, ...] = ()
    hint: str = ""
    must_unpack: bool = False

    def error(self, folder: Path, missing: str | None = None) -> InputError:
        """The one sentence that gets a person from here to a loaded dataset."""
        what = (
            f"{missing} is not in {folder}"
            if missing
            else f"The files of {self.name} are not in {folder}"
        )
        if self.must_unpack and (unpacking := self.unpacking(folder)) is not None:
            return InputError(f"{what}, but its archive is: unpack it with `{unpacking}`.")
        places = " and ".join(str(folder / file) for file in self.files)
        to = "" if folder == data_folder(None, self.name) else f" --to {shlex.quote(str(folder))}"
        command = f"run `parbals data fetch {self.name}{to}`, or " if self.remotes else ""
        hint = f" ({self.hint})" if self.hint else ""
        return InputError(
            f"{what}: {command}download {' and '.join(self.files)} from {self.page}{hint} and save "
            f"as {places}."
        )

    def unpacking(self, folder: Path) -> str | None:
        """The command that unpacks the archive which lies in the folder; None where there is none."""
        archives = (folder / file for file in self.files if file.endswith((".tar.gz", ".tgz")))
        found = next((path for path in archives if path.is_file()), None)
        return (
            None
            if found is None
            else f"tar -xzf {shlex.quote(str(found))} -C {shlex.quote(str(folder))}"
        )


@dataclass(frozen=True)
class Dataset:
    """One line of the table: how to load it, what it is, and where it comes from."""

    load: Callable[..., Data]
    summary: str
    source: MissingData | None = None
    read: Callable[[Path | None], Raw] | None = None
    features: tuple[str, ...] = field(default=())


def data_folder(folder: Path | str | None, name: str) -> Path:
    """The folder of one dataset: as given, else ``$PARBALS_DATA/name``, else one in the user's
    home."""
    if folder is not None:
        return Path(folder)
    home = os.environ.get(DATA_VARIABLE)
    return (Path(home) if home else Path.home() / ".cache" / "parbals" / "data") / name.replace(
        "-", "_"
    )


def how_to_choose(name: str, folder: Path, features: str) -> str:
    """How features are asked for by name, in Python and in a suite; part of a sentence."""
    return (
        f'in Python load_dataset("{name}", "{folder}", features="{features}"), in a suite of `parbals bench run` a '
        f'table [data.NAME] with dataset = "{name}" and features = "{features}"'
    )


def halves(n_rows: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of two halves, shuffled the same way whatever the seed of an experiment: (target
    source, test)."""
    order = derive_generator(0, "halves", name).permutation(n_rows)
    return np.sort(order[: n_rows // 2]), np.sort(order[n_rows // 2 :])


def three_parts(n_rows: int, name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row numbers of 60 % pool, 20 % target source, 20 % test, shuffled by the seed."""
    order = derive_generator(seed, "split", name).permutation(n_rows)
    first, second = round(0.6 * n_rows), round(0.8 * n_rows)
    return np.sort(order[:first]), np.sort(order[first:second]), np.sort(order[second:])
