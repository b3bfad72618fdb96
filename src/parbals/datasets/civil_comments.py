"""Civil Comments (WILDS): all_data_with_identities.csv; toxic if at least half of the readers said
so."""

from pathlib import Path

import numpy as np

from parbals.datasets.base import Data, Dataset, MissingData, Part, Raw, Remote, data_folder
from parbals.datasets.embedded import embedded
from parbals.datasets.files import open_member, read_csv
from parbals.datasets.wilds import rows_of_splits
from parbals.errors import InputError

__all__ = ["DATASET", "load", "read"]

NAME = "civil-comments"
_FILE = "all_data_with_identities.csv"
_ARCHIVE = "civilcomments_v1.0.tar.gz"
_URL = (
    "https://worksheets.codalab.org/rest/bundles/0x8cd3de0634154aeaad2ee6eb96723c6e/contents/blob/"
)
SOURCE = MissingData(NAME, _URL, (_ARCHIVE,), (Remote(_URL, _ARCHIVE),))
CLASSES = ("not toxic", "toxic")
PAPER_ENCODER = "bert-base-uncased"
_WANTED = ("comment_text", "toxicity", "split")
_PUBLISHED = {"train": 269_038, "val": 45_180, "test": 133_782}


def read(folder: Path | None = None) -> Raw:
    """Comments and classes of WILDS' own train, val and test; the archive may stay packed."""
    place = data_folder(folder, NAME)
    with open_member(place, (_FILE, f"civilcomments_v1.0/{_FILE}"), SOURCE, (_ARCHIVE,)) as (
        file,
        name,
    ):
        cells = read_csv(file, name, _WANTED, wanted=_WANTED)
    toxic = np.array(
        [_share(cell, name, row) >= 0.5 for row, cell in enumerate(cells["toxicity"], start=2)]
    )
    rows, notes = rows_of_splits(np.array(cells["split"]), _PUBLISHED, name)
    texts = cells["comment_text"]
    parts = {
        part: Part([texts[i] for i in found], toxic[found].astype(np.int64), part)
        for part, found in rows.items()
    }
    return Raw(NAME, "text", parts, CLASSES, notes)


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool: train. Target source: val. Test: test."""
    return embedded(read(folder), data_folder(folder, NAME), features, seed, PAPER_ENCODER)


def _share(cell: str, name: str, row: int) -> float:
    try:
        share = float(cell)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise InputError(
            f"{name}, row {row}, column 'toxicity' is {cell!r}; a share from 0 to 1 is needed."
        )
    return share


DATASET = Dataset(load, "is a comment toxic? 448,000 texts", SOURCE, read, (PAPER_ENCODER, "tfidf"))
