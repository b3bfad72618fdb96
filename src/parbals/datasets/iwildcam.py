"""iWildCam 2020 (WILDS 2.0): metadata.csv and the folder train/ with the images, which only an
encoder opens."""

from pathlib import Path

import numpy as np

from parbals.datasets.base import Data, Dataset, MissingData, Part, Raw, Remote, data_folder
from parbals.datasets.embedded import embedded
from parbals.datasets.files import find, open_member, read_csv
from parbals.datasets.wilds import rows_of_splits
from parbals.errors import InputError, LabelError

__all__ = ["DATASET", "load", "read"]

NAME = "iwildcam"
_ARCHIVE = "iwildcam_v2.0.tar.gz"
_URL = (
    "https://worksheets.codalab.org/rest/bundles/0x6313da2b204647e79a14b468131fcd64/contents/blob/"
)
SOURCE = MissingData(
    NAME,
    _URL,
    (_ARCHIVE,),
    (Remote(_URL, _ARCHIVE),),
    hint="12 GB; unpack it there, so that metadata.csv, categories.csv and train/ lie in that folder",
    must_unpack=True,
)
PAPER_ENCODER = "clip-vit-b32"
N_CLASSES = 182
_METADATA = ("metadata.csv",)
_WANTED = ("split", "y", "filename")
_PUBLISHED = {"train": 129_809, "val": 14_961, "test": 42_791}


def read(folder: Path | None = None) -> Raw:
    """Image paths (relative to the folder) and species; the cameras of val and test are not those
    of train."""
    place = data_folder(folder, NAME)
    place = place / "iwildcam_v2.0" if find(place / "iwildcam_v2.0", _METADATA) else place
    with open_member(place, _METADATA, SOURCE) as (file, name):
        cells = read_csv(file, name, _WANTED, wanted=_WANTED)
    y = np.array(
        [_species(cell, name, row) for row, cell in enumerate(cells["y"], start=2)], np.int64
    )
    rows, notes = rows_of_splits(np.array(cells["split"]), _PUBLISHED, name)
    paths = [place / "train" / filename for filename in cells["filename"]]
    parts = {part: Part([paths[i] for i in found], y[found], part) for part, found in rows.items()}
    return Raw(NAME, "image", parts, _names(place), notes)


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool: train. Target source: val. Test: test (both from other cameras)."""
    return embedded(read(folder), data_folder(folder, NAME), features, seed, PAPER_ENCODER)


def _species(cell: str, name: str, row: int) -> int:
    number = int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 9 else N_CLASSES
    if number >= N_CLASSES:
        raise LabelError(
            f"{name}, row {row}, column 'y' is {cell!r}; it must be 0 to {N_CLASSES - 1}."
        )
    return number


def _names(place: Path) -> tuple[str, ...]:
    """Names of the species from categories.csv where it is there; the labels do not depend on it."""
    names = [f"species {number}" for number in range(N_CLASSES)]
    names[0] = "empty"
    path = find(place, ("categories.csv",))
    if path is not None:
        with path.open("rb") as file:
            try:
                cells = read_csv(file, path.name, ("y", "name"), wanted=("y", "name"))
            except InputError:
                return tuple(names)
        for number, name in zip(cells["y"], cells["name"], strict=True):
            if (
                number.isascii()
                and number.isdigit()
                and len(number) < 9
                and int(number) < N_CLASSES
            ):
                names[int(number)] = name
    return tuple(names)


DATASET = Dataset(
    load,
    "species before a camera trap, 182 classes, 203,029 images",
    SOURCE,
    read,
    (PAPER_ENCODER,),
)
