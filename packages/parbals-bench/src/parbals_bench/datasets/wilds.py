"""Sets of the WILDS benchmark, which name each row's split: Civil Comments, iWildCam, fMoW."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError

from parbals_bench.datasets.base import Data, Dataset, Origin, Part, Raw, data_folder
from parbals_bench.datasets.embedded import embedded
from parbals_bench.datasets.files import Table, count_note, find, published_file, read_table

__all__ = ["CIVIL_COMMENTS", "FMOW", "IWILDCAM"]

_BUNDLES = "https://worksheets.codalab.org/rest/bundles"
_TEXT_ENCODER = "bert-base-uncased"
_IMAGE_ENCODER = "clip-vit-b32"


def _loader(read: Callable[[Path | None], Raw], encoder: str) -> Callable[..., Data]:
    def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
        """Pool: train. Target source: val. Test: test."""
        raw = read(folder)
        return embedded(raw, data_folder(folder, raw.name), features, seed, encoder)

    return load


def _parts(
    items: Sequence[Any], y: np.ndarray, split: np.ndarray, published: Mapping[str, int], name: str
) -> tuple[dict[str, Part], tuple[str, ...]]:
    """The rows of each split, in file order; notes on those that are fewer than published."""
    parts: dict[str, Part] = {}
    notes: list[str] = []
    for split_name, size in published.items():
        rows = np.flatnonzero(split == split_name).tolist()
        if not rows:
            raise InputError(
                f"{name} has no row whose split is {split_name!r}; is it the file of WILDS?"
            )
        notes += count_note(f"{name} ({split_name})", len(rows), size)
        parts[split_name] = Part([items[i] for i in rows], y[rows], split_name)
    return parts, tuple(notes)


_COMMENTS = "all_data_with_identities.csv"
_COMMENTS_FOLDER = "civilcomments_v1.0"
_COMMENTS_URL = f"{_BUNDLES}/0x8cd3de0634154aeaad2ee6eb96723c6e/contents/blob/"
_COMMENTS_ORIGIN = Origin(
    "civil-comments", _COMMENTS_URL, (f"{_COMMENTS_FOLDER}.tar.gz",), (_COMMENTS_URL,)
)


def _read_comments(folder: Path | None = None) -> Raw:
    """Comments, toxic if at least half of the readers said so; the archive may stay packed."""
    origin = _COMMENTS_ORIGIN
    names = (_COMMENTS, f"{_COMMENTS_FOLDER}/{_COMMENTS}")
    path_of_folder = data_folder(folder, origin.name)
    with published_file(path_of_folder, names, origin, origin.files) as path:
        table = read_table(path, ("comment_text", "toxicity", "split"))
    published = {"train": 269_038, "val": 45_180, "test": 133_782}
    y = (table.shares("toxicity") >= 0.5).astype(np.int64)
    split = np.array(table.cells["split"])
    parts, notes = _parts(table.cells["comment_text"], y, split, published, table.name)
    return Raw(origin.name, "text", parts, ("not toxic", "toxic"), notes)


CIVIL_COMMENTS = Dataset(
    "Civil Comments",
    _loader(_read_comments, _TEXT_ENCODER),
    "is a comment toxic? 448,000 texts",
    _COMMENTS_ORIGIN,
    _read_comments,
    (_TEXT_ENCODER, "tfidf"),
)

_ANIMALS_URL = f"{_BUNDLES}/0x6313da2b204647e79a14b468131fcd64/contents/blob/"
_ANIMALS_ORIGIN = Origin(
    "iwildcam", _ANIMALS_URL, ("iwildcam_v2.0.tar.gz",), (_ANIMALS_URL,), "12 GB", unpack=True
)
_SPECIES = ("empty", *(f"species {number}" for number in range(1, 182)))


def _read_animals(folder: Path | None = None) -> Raw:
    """Image paths and species; the cameras of val and test are not those of train."""
    place, table = _metadata(_ANIMALS_ORIGIN, folder, "metadata.csv", "split y filename")
    numbers = {str(number): number for number in range(len(_SPECIES))}
    y = table.classes("y", numbers)
    split = np.array(table.cells["split"])
    paths = [place / "train" / filename for filename in table.cells["filename"]]
    published = {"train": 129_809, "val": 14_961, "test": 42_791}
    parts, notes = _parts(paths, y, split, published, table.name)
    return Raw(_ANIMALS_ORIGIN.name, "image", parts, _SPECIES, notes)


IWILDCAM = Dataset(
    "iWildCam",
    _loader(_read_animals, _IMAGE_ENCODER),
    "species before a camera trap, 182 classes, 203,029 images",
    _ANIMALS_ORIGIN,
    _read_animals,
    (_IMAGE_ENCODER,),
)

_LAND_URL = f"{_BUNDLES}/0xaec91eb7c9d548ebb15e1b5e60f966ab/contents/blob/"
_LAND_ORIGIN = Origin("fmow", _LAND_URL, ("fmow_v1.1.tar.gz",), (_LAND_URL,), "54 GB", unpack=True)


def _read_land(folder: Path | None = None) -> Raw:
    """Image paths and land use. Train is before 2013, val from 2013 to 2015, test from 2016 on."""
    columns = "split category timestamp"
    place, table = _metadata(_LAND_ORIGIN, folder, "rgb_metadata.csv", columns)
    classes = tuple(sorted(set(table.cells["category"])))
    y = table.classes("category", {label: number for number, label in enumerate(classes)})
    times = enumerate(table.cells["timestamp"], start=table.first_row)
    year = np.array([_year(cell, table.name, row) for row, cell in times])
    # An image counts only where its split and its year agree: the others are WILDS' tests without
    # shift.
    era = np.select([year >= 2016, year >= 2013], ["test", "val"], "train")
    split = np.array(table.cells["split"])
    paths = [place / "images" / f"rgb_img_{row}.png" for row in range(len(y))]
    published = {"train": 76_863, "val": 19_915, "test": 22_108}
    parts, notes = _parts(paths, y, np.where(split == era, split, ""), published, table.name)
    return Raw(_LAND_ORIGIN.name, "image", parts, classes, notes)


def _year(cell: str, name: str, row: int) -> int:
    try:
        time = datetime.fromisoformat(cell)
    except ValueError:
        raise InputError(
            f"{name}, row {row}, column 'timestamp' is {cell!r}; a date is needed."
        ) from None
    return (time if time.tzinfo is None else time.astimezone(UTC)).year


FMOW = Dataset(
    "fMoW",
    _loader(_read_land, _IMAGE_ENCODER),
    "land use in a satellite image, 62 classes, 118,886 images",
    _LAND_ORIGIN,
    _read_land,
    (_IMAGE_ENCODER,),
)


def _metadata(
    origin: Origin, folder: Path | None, file_name: str, columns: str
) -> tuple[Path, Table]:
    """The folder with the images, and the table that describes them."""
    place = data_folder(folder, origin.name)
    inside = place / origin.files[0].removesuffix(".tar.gz")
    place = inside if find(inside, (file_name,)) else place
    with published_file(place, (file_name,), origin) as path:
        return place, read_table(path, columns.split())
