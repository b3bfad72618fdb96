"""AG News (Zhang et al.

2015): train.csv and test.csv with class, title, description; or Parquet with label, text.
"""

from pathlib import Path

from parbals.datasets.base import Data, Dataset, MissingData, Part, Raw, Remote, data_folder
from parbals.datasets.embedded import embedded
from parbals.datasets.texts import read_texts

__all__ = ["DATASET", "load", "read"]

NAME = "ag-news"
_PAGE = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"
_FIRST_LINE = r'"?([1-4]|class index)"?,'
SOURCE = MissingData(
    NAME,
    _PAGE,
    ("train.csv", "test.csv"),
    tuple(
        Remote(f"{_PAGE}{file}", file, first_line=_FIRST_LINE) for file in ("train.csv", "test.csv")
    ),
)
CLASSES = ("World", "Sports", "Business", "Sci/Tech")
PAPER_ENCODER = "bert-base-uncased"
_COLUMNS = ("class index", "title", "description")


def read(folder: Path | None = None) -> Raw:
    """Texts (title and description) and classes of train and test."""
    place = data_folder(folder, NAME)
    parts: dict[str, Part] = {}
    notes: list[str] = []
    for part, published in (("train", 120_000), ("test", 7_600)):
        parts[part], note = read_texts(
            place, part, SOURCE, _COLUMNS, len(CLASSES), published, "ag_news_csv", "ag_news_csv.tgz"
        )
        notes += note
    return Raw(NAME, "text", parts, CLASSES, tuple(notes))


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool: train. Target source and test: the halves of test, the same for every seed."""
    return embedded(read(folder), data_folder(folder, NAME), features, seed, PAPER_ENCODER)


DATASET = Dataset(
    load, "topic of a news item, 4 classes, 127,600 texts", SOURCE, read, (PAPER_ENCODER, "tfidf")
)
