"""Sets of texts for the study `promises`, and the encoder that is fine-tuned on them.

    python studies error_estimates.promises.texts FOLDER --data DATA  # collect, and encode
    python studies error_estimates.promises.texts FOLDER              # encode what was collected

For the first, FOLDER must hold vaderSentiment-3.3.2.tar.gz (sentences rated from -4 to 4, Hutto and
Gilbert 2014; ``pip download --no-deps --no-binary :all: vaderSentiment==3.3.2``) and Debian's
fortunes_*.deb (``apt-get download fortunes``). It writes texts.json.xz, the frozen rows of the
texts and, in the folder minilm, all-MiniLM-L6-v2 in half precision without the word embeddings that
no text needs.
"""

import argparse
import gzip
import io
import json
import lzma
import os
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from error_estimates.promises.sets import TEXTS

__all__ = ["AdaptedTexts", "collect", "load_rows", "load_texts", "save_encoder"]

_N_TEXTS = 5_000
_TOPICS = ("computers", "definitions", "people", "politics", "science", "songs-poems")
_FILE = "texts.json.xz"
_ROW_LENGTH = 3.0
"""Length of rows in a project."""
_N_FOLDS = 3
_N_UNLABELLED = 500
"""Items without a label that show how rows of a fold vary, as in a project."""

LabelledTexts = tuple[list[str], np.ndarray]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="the datasets' folder")
    arguments = parser.parse_args()
    if arguments.data is not None:
        sets = collect(arguments.folder, arguments.data)
        with lzma.open(arguments.folder / _FILE, "wt", encoding="utf-8") as stream:
            json.dump(sets, stream)
        save_encoder(
            arguments.folder, [text for content in sets.values() for text in content["texts"]]
        )
    for name in TEXTS:
        texts, labels = load_texts(arguments.folder, name)
        rows = AdaptedTexts(arguments.folder, texts, labels).frozen()
        np.save(arguments.folder / f"{name}.npy", rows.astype(np.float16))
        print(name, len(texts), np.bincount(labels).tolist(), flush=True)
    return 0


@cache
def load_texts(folder: Path, name: str) -> LabelledTexts:
    """Texts in random order, and their class numbers (N,)."""
    with lzma.open(folder / _FILE, "rt", encoding="utf-8") as stream:
        content = json.load(stream)[name]
    return content["texts"], np.array(content["labels"])


@cache
def load_rows(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, D) of the encoder before any fine-tuning, and class numbers (N,)."""
    return np.load(folder / f"{name}.npy").astype(np.float32), load_texts(folder, name)[1]


class AdaptedTexts:
    """Texts as rows of MiniLM, frozen or fine-tuned as `parbals adapt` does."""

    def __init__(self, folder: Path, texts: list[str], labels: np.ndarray) -> None:
        self.folder = folder
        self.texts = texts
        self.labels = labels
        encoder = self._encoder()
        self.prepared = [encoder.prepare(text) for text in texts]

    def frozen(self) -> np.ndarray:
        """Return rows (N, D) before any fine-tuning."""
        return self._rows(self._encoder(), np.arange(len(self.texts)))

    def _encoder(self) -> Any:
        from parbals_label.encoders.adapt import load_base
        from parbals_label.encoders.base import Options

        encoder = load_base(self.folder / "minilm", Options(), "text")
        encoder.network.float()
        return encoder

    def _rows(self, encoder: Any, positions: np.ndarray) -> np.ndarray:
        """Return centred rows (n, D) of some texts."""
        lengths = [len(self.prepared[position]) for position in positions]
        order = np.argsort(lengths, kind="stable")
        rows = np.empty((len(positions), 0), np.float32)
        for start in range(0, len(order), 256):
            block = order[start : start + 256]
            encoded = encoder.encode([self.prepared[position] for position in positions[block]])
            if not rows.shape[1]:
                rows = np.empty((len(positions), encoded.shape[1]), np.float32)
            rows[block] = encoded
        return _ROW_LENGTH * (rows - rows.mean(axis=0))

    def adapted(self, training: np.ndarray, positions: np.ndarray, seed: int) -> np.ndarray:
        """Return rows (n, D) of some positions by an encoder trained on others."""
        from parbals_label.encoders.adapt import fine_tune

        encoder = self._encoder()
        texts = [self.texts[position] for position in training]
        fine_tune(encoder, texts, self.labels[training], seed)
        return self._rows(encoder, positions)

    def held_out(self, training: np.ndarray, n_pool: int, n_classes: int, seed: int) -> np.ndarray:
        """Return predictions (n, C) of each label by an encoder and a model without its fold.

        Args:
            training: (n,) positions of labels, all below ``n_pool``.
        """
        import parbals

        generator = np.random.default_rng([seed, len(training)])
        folds = _stratified_folds(self.labels[training], generator)
        unlabelled = np.setdiff1d(np.arange(n_pool), training)
        unlabelled = generator.permutation(unlabelled)[:_N_UNLABELLED]
        positions = np.concatenate([training, unlabelled])
        probs = np.empty((len(training), n_classes))
        for fold in range(_N_FOLDS):
            is_train = folds != fold
            rows = self.adapted(training[is_train], positions, fold)
            learner = parbals.ActiveLearner(
                rows, range(n_classes), random_state=seed, prior_scale="even"
            )
            train = np.flatnonzero(is_train)
            learner.tell(train, self.labels[training[train]])
            probs[~is_train] = learner.predict_proba(rows[: len(training)][~is_train])
        return probs


def _stratified_folds(labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return random folds (n,) in which every class is equally frequent, as a project's are."""
    folds = np.empty(len(labels), int)
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        folds[members] = (np.arange(len(members)) + generator.integers(_N_FOLDS)) % _N_FOLDS
    return folds


# -- collecting


def collect(folder: Path, data: Path) -> dict[str, dict[str, Any]]:
    """Return every set, at most 5,000 texts of each, drawn once."""
    rated = _rated_sentences(folder / "vaderSentiment-3.3.2.tar.gz")
    sources = {
        "news-4": _news(data),
        "sms-2": _messages(data),
        "films-2": [(int(r > 0), text) for r, text in rated["movieReview"] if abs(r) >= 0.5],
        "films-5": _five_ratings(rated["movieReview"]),
        "tweets-3": _three_moods(rated["tweets"]),
        "places-4": [
            (number, text)
            for number, pairs in enumerate(rated.values())
            for _, text in pairs[:1_500]
        ],
        "shop-5": _five_ratings(rated["amazonReview"]),
        "editorials-3": _three_moods(rated["nytEditorial"]),
        "fortunes-6": _fortunes(next(folder.glob("fortunes_*.deb"))),
    }
    sets = {}
    for name, pairs in sources.items():
        drawn = np.random.default_rng(0).permutation(len(pairs))[:_N_TEXTS]
        sets[name] = {
            "texts": [pairs[i][1] for i in drawn],
            "labels": [int(pairs[i][0]) for i in drawn],
        }
    return sets


def _rated_sentences(archive: Path) -> dict[str, list[tuple[float, str]]]:
    """Read (rating, sentence) of four places."""
    rated = {}
    inner_name = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
    with tarfile.open(archive) as outer:
        packed = outer.extractfile(inner_name)
        assert packed is not None
        with tarfile.open(fileobj=io.BytesIO(packed.read())) as inner:
            for site in ("movieReview", "tweets", "amazonReview", "nytEditorial"):
                kind = "" if site == "tweets" else "Snippets"
                file = inner.extractfile(f"hutto_ICWSM_2014/{site}{kind}_GroundTruth.txt")
                assert file is not None
                lines = file.read().decode("utf-8", "replace").splitlines()
                cells = [line.split("\t", 2) for line in lines]
                rated[site] = [(float(rating), text) for _, rating, text in cells]
    return rated


def _five_ratings(rated: list[tuple[float, str]]) -> list[tuple[int, str]]:
    """Divide ratings into five classes of equal size, whose borders no reader could tell."""
    borders = np.quantile([rating for rating, _ in rated], [0.2, 0.4, 0.6, 0.8])
    return [(int(np.searchsorted(borders, rating)), text) for rating, text in rated]


def _three_moods(rated: list[tuple[float, str]]) -> list[tuple[int, str]]:
    return [(1 + int(rating >= 0.5) - int(rating <= -0.5), text) for rating, text in rated]


def _news(data: Path) -> list[tuple[int, str]]:
    from pyarrow import parquet

    table = parquet.read_table(data / "ag_news/train_subset.parquet")
    labels = table["label"].to_pylist()
    texts = table["text"].to_pylist()
    return [(int(label), str(text)) for label, text in zip(labels, texts, strict=True)]


def _messages(data: Path) -> list[tuple[int, str]]:
    with gzip.open(data / "sms_spam/SMSSpamCollection.tsv.gz", "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file]
    return [(int(label == "spam"), text) for label, text in pairs]


def _fortunes(package: Path) -> list[tuple[int, str]]:
    """Read epigrams of six topics; the topic is the name of their file."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    unpacked = subprocess.run(command, capture_output=True, check=True).stdout
    pairs = []
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as files:
        for number, topic in enumerate(_TOPICS):
            file = files.extractfile(f"./usr/share/games/fortunes/{topic}")
            assert file is not None
            entries = file.read().decode("utf-8", "replace").split("\n%\n")
            pairs += [(number, " ".join(entry.split())) for entry in entries if entry.strip()]
    return pairs


def save_encoder(folder: Path, texts: list[str]) -> None:
    """Save MiniLM in half precision; word embeddings that no text needs are zero."""
    import torch
    from parbals_label.encoders.sentences import sentence_weights
    from transformers import AutoModel, AutoTokenizer

    weights = sentence_weights()
    tokenizer = AutoTokenizer.from_pretrained(weights)
    network = AutoModel.from_pretrained(weights).half()
    used = {number for numbers in tokenizer(texts)["input_ids"] for number in numbers}
    used |= set(tokenizer.all_special_ids)
    embeddings = network.get_input_embeddings().weight
    is_unused = torch.ones(len(embeddings), dtype=torch.bool)
    is_unused[list(used)] = False
    with torch.no_grad():
        embeddings[is_unused] = 0.0
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    network.save_pretrained(folder / "minilm")
    tokenizer.save_pretrained(folder / "minilm")
