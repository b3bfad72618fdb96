"""Yelp Review Full (Zhang et al. 2015): train.csv and test.csv with stars and review."""

from pathlib import Path

from parbals.datasets.base import Data, Dataset, MissingData, Part, Raw, Remote, data_folder
from parbals.datasets.embedded import embedded
from parbals.datasets.texts import read_texts

__all__ = ["DATASET", "load", "read"]

NAME = "yelp"
_ARCHIVE = "yelp_review_full_csv.tgz"
_PAGE = "https://s3.amazonaws.com/fast-ai-nlp/"
_SHA256 = "56006b0a17a370f1e366504b1f2c3e3754e4a3dda17d3e718a885c552869a559"
SOURCE = MissingData(
    NAME, _PAGE, (_ARCHIVE,), (Remote(f"{_PAGE}{_ARCHIVE}", _ARCHIVE, sha256=_SHA256),)
)
CLASSES = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
PAPER_ENCODER = "bert-base-uncased"


def read(folder: Path | None = None) -> Raw:
    """Reviews and stars of train and test; the archive may stay packed."""
    place = data_folder(folder, NAME)
    parts: dict[str, Part] = {}
    notes: list[str] = []
    for part, published in (("train", 650_000), ("test", 50_000)):
        parts[part], note = read_texts(
            place,
            part,
            SOURCE,
            ("class index", "text"),
            len(CLASSES),
            published,
            "yelp_review_full_csv",
            _ARCHIVE,
        )
        notes += note
    return Raw(NAME, "text", parts, CLASSES, tuple(notes))


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool: train. Target source and test: the halves of test, the same for every seed."""
    return embedded(read(folder), data_folder(folder, NAME), features, seed, PAPER_ENCODER)


DATASET = Dataset(
    load, "stars of a review, 5 classes, 700,000 texts", SOURCE, read, (PAPER_ENCODER, "tfidf")
)
