"""Functional Map of the World (WILDS 1.1): rgb_metadata.csv and the folder images/, which only an
encoder opens."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from parbals.datasets.base import Data, Dataset, MissingData, Part, Raw, Remote, data_folder
from parbals.datasets.embedded import embedded
from parbals.datasets.files import class_numbers, find, open_member, read_csv
from parbals.datasets.wilds import rows_of_splits
from parbals.errors import InputError

__all__ = ["CLASSES", "DATASET", "load", "read"]

NAME = "fmow"
_ARCHIVE = "fmow_v1.1.tar.gz"
_URL = (
    "https://worksheets.codalab.org/rest/bundles/0xaec91eb7c9d548ebb15e1b5e60f966ab/contents/blob/"
)
SOURCE = MissingData(
    NAME,
    _URL,
    (_ARCHIVE,),
    (Remote(_URL, _ARCHIVE),),
    hint="54 GB; unpack it there, so that rgb_metadata.csv and images/ lie in that folder",
    must_unpack=True,
)
PAPER_ENCODER = "clip-vit-b32"
_NAMES = """
    airport airport_hangar airport_terminal amusement_park aquaculture archaeological_site barn border_checkpoint
    burial_site car_dealership construction_site crop_field dam debris_or_rubble educational_institution
    electric_substation factory_or_powerplant fire_station flooded_road fountain gas_station golf_course
    ground_transportation_station helipad hospital impoverished_settlement interchange lake_or_pond lighthouse
    military_facility multi-unit_residential nuclear_powerplant office_building oil_or_gas_facility park
    parking_lot_or_garage place_of_worship police_station port prison race_track railway_bridge recreational_facility
    road_bridge runway shipyard shopping_mall single-unit_residential smokestack solar_farm space_facility stadium
    storage_tank surface_mine swimming_pool toll_booth tower tunnel_opening waste_disposal water_treatment_facility
    wind_farm zoo
"""
CLASSES = tuple(_NAMES.split())
_METADATA = ("rgb_metadata.csv", "metadata.csv")
_WANTED = ("split", "category", "timestamp")
_PUBLISHED = {"train": 76_863, "val": 19_915, "test": 22_108}
_FIRST_YEAR = {"train": 0, "val": 2013, "test": 2016}


def read(folder: Path | None = None) -> Raw:
    """Image paths and land use. Train is before 2013, val from 2013 to 2015, test from 2016 on."""
    place = data_folder(folder, NAME)
    place = place / "fmow_v1.1" if find(place / "fmow_v1.1", _METADATA) else place
    with open_member(place, _METADATA, SOURCE) as (file, name):
        cells = read_csv(file, name, _WANTED, wanted=_WANTED)
    y = class_numbers(
        cells["category"], {label: c for c, label in enumerate(CLASSES)}, name, "category", 2
    )
    year = np.array(
        [_year(cell, name, row) for row, cell in enumerate(cells["timestamp"], start=2)]
    )
    # An image counts only where its split and its year agree: the others are WILDS' tests without
    # shift.
    era = np.select(
        [year >= _FIRST_YEAR["test"], year >= _FIRST_YEAR["val"]], ["test", "val"], "train"
    )
    split = np.array(cells["split"])
    rows, notes = rows_of_splits(np.where(split == era, split, ""), _PUBLISHED, name)
    parts = {
        part: Part([place / "images" / f"rgb_img_{i}.png" for i in found], y[found], part)
        for part, found in rows.items()
    }
    return Raw(NAME, "image", parts, CLASSES, notes)


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool: train. Target source: val. Test: test (both of later years)."""
    return embedded(read(folder), data_folder(folder, NAME), features, seed, PAPER_ENCODER)


def _year(cell: str, name: str, row: int) -> int:
    try:
        time = datetime.fromisoformat(cell)
    except ValueError:
        raise InputError(
            f"{name}, row {row}, column 'timestamp' is {cell!r}; a date is needed."
        ) from None
    return (time if time.tzinfo is None else time.astimezone(UTC)).year


DATASET = Dataset(
    load,
    "land use in a satellite image, 62 classes, 118,886 images",
    SOURCE,
    read,
    (PAPER_ENCODER,),
)
