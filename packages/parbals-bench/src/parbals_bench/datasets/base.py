"""Datasets: their arrays, how rows are split, and where the files come from."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError, LabelError
from parbals.randomness import derive_generator
from parbals_label.files import cache_folder

__all__ = [
    "Data",
    "Dataset",
    "Origin",
    "Part",
    "Raw",
    "data_folder",
    "halves",
    "one_vs_all",
    "three_parts",
]

DATA_VARIABLE = "PARBALS_DATA"


@dataclass(frozen=True)
class Data:
    """Features and class numbers of pool and test set; the target source is used without labels.

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
    y_target_source: np.ndarray | None = None

    def __post_init__(self) -> None:
        self._check_labels("pool", self.X_pool, self.y_pool)
        self._check_labels("test set", self.X_test, self.y_test)
        if not len(self.X_target_source):
            raise InputError(
                f"{self.name}: no row is left for the target set; the files are too small."
            )

    def _check_labels(self, subset: str, X: np.ndarray, y: np.ndarray) -> None:
        if len(X) != len(y) or not len(X):
            raise InputError(
                f"{self.name}: the {subset} has {len(X)} rows of features and {len(y)} labels."
            )
        last = len(self.classes) - 1
        if y.dtype.kind not in "iu" or y.min() < 0 or y.max() > last:
            raise InputError(
                f"{self.name}: the labels of the {subset} must be class numbers from 0 to {last}."
            )


def one_vs_all(data: Data, name: str) -> Data:
    """The same rows with two classes: 1 for the class ``name``, else 0."""
    if name not in data.classes:
        classes = ", ".join(data.classes[:10]) + (", …" if len(data.classes) > 10 else "")
        raise LabelError(
            f"{data.name} has no class {name!r}; its {len(data.classes)} classes are: {classes}."
        )
    number = data.classes.index(name)
    y_pool = (data.y_pool == number).astype(np.int64)
    y_test = (data.y_test == number).astype(np.int64)
    if y_pool.min() == y_pool.max():
        how_many = "no" if y_pool.max() == 0 else "every"
        raise LabelError(f"{data.name}: {how_many} row of the pool is of class {name!r}.")
    return replace(data, y_pool=y_pool, y_test=y_test, classes=(f"not {name}", name), positive=name)


@dataclass(frozen=True)
class Part:
    """Rows of a file or split: texts, image paths or pixels; classes; a stem for file names."""

    items: Sequence[Any] | np.ndarray | None
    y: np.ndarray
    stem: str


@dataclass(frozen=True)
class Raw:
    """Contents of a publisher's files, without features; ``kind``: "text", "image" or "pixels"."""

    name: str
    kind: str
    parts: Mapping[str, Part]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Origin:
    """Where a dataset's files come from, and what to say when they are not there.

    ``urls`` are the addresses of ``files``; without any they are to be had from the ``page`` alone.
    ``unpack``: the one file is an archive of tens of gigabytes. ``hint`` says what one should know.
    """

    name: str
    page: str
    files: tuple[str, ...]
    urls: tuple[str, ...] = ()
    hint: str = ""
    unpack: bool = False

    def error(self, folder: Path, missing: str | None = None) -> InputError:
        """One sentence: which files are missing, how to get them and where to put them."""
        subject = f"{missing} is" if missing else f"The files of {self.name} are"
        names = " and ".join(self.files)
        hint = f" ({self.hint})" if self.hint else ""
        if self.urls:
            advice = f"{self._fetch_advice(folder)}download {names}{hint} {self._by_curl(folder)}"
        else:
            paths = " and ".join(str(folder / file) for file in self.files)
            advice = f"download {names} from {self.page}{hint} and save as {paths}"
        return InputError(f"{subject} not in {folder}: {advice}.")

    def _fetch_advice(self, folder: Path) -> str:
        """The command that downloads the files; archives of tens of gigabytes are left to curl."""
        if self.unpack:
            return ""
        is_default = folder == data_folder(None, self.name)
        option = "" if is_default else f" --data {shlex.quote(str(folder))}"
        return f"run `parbals bench data fetch {self.name}{option}`, or "

    def _by_curl(self, folder: Path) -> str:
        """The commands that download the files and, where needed, unpack them."""
        downloads = [
            f"curl -L -C - --create-dirs -o {shlex.quote(str(folder / file))} {url}"
            for file, url in zip(self.files, self.urls, strict=True)
        ]
        words = f"with `{' && '.join(downloads)}`, which continues a download that was cut off"
        if self.unpack:
            archive = shlex.quote(str(folder / self.files[0]))
            words += f"; then unpack it with `tar -xzf {archive} -C {shlex.quote(str(folder))}`"
        return words


@dataclass(frozen=True)
class Dataset:
    """One row of the dataset table: title, loader, summary and origin.

    ``read`` returns the texts or images behind the features; ``features`` are the available kinds.
    """

    title: str
    load: Callable[..., Data]
    summary: str
    origin: Origin | None = None
    read: Callable[[Path | None], Raw] | None = None
    features: tuple[str, ...] = ()


def data_folder(folder: Path | str | None, name: str) -> Path:
    """A dataset's folder: ``folder``, else ``$PARBALS_DATA/name``, else in the cache folder."""
    if folder is not None:
        return Path(folder)
    home = os.environ.get(DATA_VARIABLE)
    return (Path(home) if home else cache_folder() / "data") / name.replace("-", "_")


def halves(n_rows: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of two halves, equal for all seeds: (target source, test)."""
    order = derive_generator(0, "halves", name).permutation(n_rows)
    return np.sort(order[: n_rows // 2]), np.sort(order[n_rows // 2 :])


def three_parts(n_rows: int, name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row numbers of 60 % pool, 20 % target source, 20 % test, shuffled by the seed."""
    order = derive_generator(seed, "split", name).permutation(n_rows)
    pool_end = round(0.6 * n_rows)
    target_end = round(0.8 * n_rows)
    pool = np.sort(order[:pool_end])
    target = np.sort(order[pool_end:target_end])
    test = np.sort(order[target_end:])
    return pool, target, test
