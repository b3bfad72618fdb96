"""AG News and Yelp Review Full (Zhang et al. 2015): train.csv and test.csv without a header.

A row is the class, counted from 1, and texts; or Parquet with label, counted from 0, and text.
"""

from dataclasses import dataclass
from pathlib import Path

from parbals_bench.datasets.base import Data, Dataset, Origin, Part, Raw, data_folder
from parbals_bench.datasets.embedded import embedded
from parbals_bench.datasets.files import Table, count_note, find_parquet, published_file, read_table

__all__ = ["AG_NEWS", "YELP"]

PAPER_ENCODER = "bert-base-uncased"
_LABEL = "class index"


@dataclass(frozen=True)
class _Texts:
    """One of the two sets; ``inside`` is the publisher's folder within ``archive``."""

    origin: Origin
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    published: dict[str, int]
    inside: str
    archive: str

    def load(self, folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
        """Pool: train. Target source and test: the halves of test, equal for all seeds."""
        path = data_folder(folder, self.origin.name)
        return embedded(self.read(folder), path, features, seed, PAPER_ENCODER)

    def read(self, folder: Path | None = None) -> Raw:
        """Texts and classes of train and test; the archive may stay packed."""
        path = data_folder(folder, self.origin.name)
        parts: dict[str, Part] = {}
        notes: list[str] = []
        for name in self.published:
            parts[name], part_notes = self._read_part(path, name)
            notes += part_notes
        return Raw(self.origin.name, "text", parts, self.classes, tuple(notes))

    def _read_part(self, folder: Path, name: str) -> tuple[Part, tuple[str, ...]]:
        csv_names = [f"{name}.csv", f"{name}.csv.gz", f"{self.inside}/{name}.csv"]
        parquet = find_parquet(folder, name, csv_names)
        if parquet is not None:
            table = read_table(parquet, ("label", "text"))
            stem = parquet.stem
            y = table.classes("label", {c: c for c in range(len(self.classes))})
            texts = [_plain(text) for text in table.cells["text"]]
        else:
            columns = (_LABEL, *self.columns)
            stem = name
            with published_file(folder, csv_names, self.origin, (self.archive,)) as path:
                table = read_table(path, columns, header=False)
            if table.cells[_LABEL][0].strip().lower() == _LABEL:  # added by some mirrors
                cells = {column: values[1:] for column, values in table.cells.items()}
                table = Table(table.name, cells, 2)
            y = table.classes(_LABEL, {str(c + 1): c for c in range(len(self.classes))})
            rows = zip(*(table.cells[column] for column in self.columns), strict=True)
            texts = [" ".join(map(_plain, pieces)) for pieces in rows]
        return Part(texts, y, stem), count_note(table.name, len(y), self.published[name])


def _plain(text: str) -> str:
    """The publishers wrote a line break as the two characters \\n, and a quote as \\"."""
    return text.replace("\\n", "\n").replace('\\"', '"')


_NEWS = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"
_NEWS_FILES = ("train.csv", "test.csv")
_ag_news = _Texts(
    Origin("ag-news", _NEWS, _NEWS_FILES, tuple(f"{_NEWS}{file}" for file in _NEWS_FILES)),
    ("World", "Sports", "Business", "Sci/Tech"),
    ("title", "description"),
    {"train": 120_000, "test": 7_600},
    "ag_news_csv",
    "ag_news_csv.tgz",
)
AG_NEWS = Dataset(
    "AG News",
    _ag_news.load,
    "topic of a news item, 4 classes, 127,600 texts",
    _ag_news.origin,
    _ag_news.read,
    (PAPER_ENCODER, "tfidf"),
)

_REVIEWS = "https://s3.amazonaws.com/fast-ai-nlp/"
_REVIEWS_FILE = "yelp_review_full_csv.tgz"
_yelp = _Texts(
    Origin("yelp", _REVIEWS, (_REVIEWS_FILE,), (f"{_REVIEWS}{_REVIEWS_FILE}",)),
    ("1 star", "2 stars", "3 stars", "4 stars", "5 stars"),
    ("text",),
    {"train": 650_000, "test": 50_000},
    "yelp_review_full_csv",
    _REVIEWS_FILE,
)
YELP = Dataset(
    "Yelp",
    _yelp.load,
    "stars of a review, 5 classes, 700,000 texts",
    _yelp.origin,
    _yelp.read,
    (PAPER_ENCODER, "tfidf"),
)
