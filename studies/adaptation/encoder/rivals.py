"""How does `parbals adapt` compare with SetFit and small-text, on one encoder and its labels?

    python studies adaptation.encoder.compare --pack FOLDER  # pack data and weights, once
    python studies adaptation.encoder.rivals --folder FOLDER --workers 4  # run what is missing
    python studies adaptation.encoder.rivals --tables  # write RIVALS.md from the records

Sets, pools and test items are those of `adapt.compare`. Labels are random, or ParBaLS's of frozen
rows, 25 at a time; after 100 and 250 of them each way teaches MiniLM and is judged on the same
items: *adapted* is our model on the rows of an encoder taught by `parbals adapt`; *SetFit* 1.2 has
its logistic regression and twenty pairs an item of each kind, as its authors did; *small-text* 1.4
its own fine-tuning at its defaults. Labels *by small-text* are its breaking ties of the model that
it fine-tunes after every 25 labels. Needs `pip install setfit==1.2.0 small-text==1.4.1`.
"""

import contextlib
import io
import json
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from adaptation.encoder.compare import BATCH, N_TEST, SETS, _learner, _Task, _texts
from lib.records import Record, Todo, study

FOLDER = Path(__file__).parent
ARMS = ("random", "parbals-epig", "by small-text")
ADAPTED_CHOICE = "parbals-epig, adapted"
WAYS = ("linear", "adapted", "SetFit", "small-text")
BUDGETS = (100, 250)
PAIRS = 20  # of each kind an item, as in SetFit's paper
SEEDS = 5


def main() -> int:
    options = {"folder": "", "sets": ";".join(SETS), "arms": ";".join(ARMS)}
    files = FOLDER / "rivals.jsonl", FOLDER / "RIVALS.md"
    return study(__doc__ or "", *files, runs, page, seeds=SEEDS, options=options)


def runs(options: Namespace) -> Iterator[Todo]:
    if not Path(options.folder, "data.json").is_file():
        raise ValueError(
            "--folder names what `studies adaptation.encoder.compare --pack` has written"
        )
    for seed in range(options.seeds):
        for name in options.sets.split(";"):
            for arm in options.arms.split(";"):
                todo = partial(measured, Path(options.folder).resolve(), name, arm, seed)
                yield (name, arm, seed), todo


def measured(folder: Path, name: str, arm: str, seed: int) -> Record:
    """Errors of each way after each budget, and the seconds that teaching it took."""
    texts, labels = _texts(folder, name, seed)
    task = _Task(folder, texts, labels, len(texts) - N_TEST)
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stdout(io.StringIO()):
        weights = _in_full(folder / "minilm", Path(temporary))
        if arm == "by small-text":
            return _own_choices(weights, task, seed)
        return _on_labels(weights, task, arm, seed)


def _on_labels(weights: Path, task: _Task, strategy: str, seed: int) -> Record:
    classes = list(range(int(task.labels.max()) + 1))
    learner = _learner(task.frozen[: task.n_pool], classes, strategy, seed)
    record = {}
    while (n_labels := len(learner.labelled)) < max(BUDGETS):
        batch = learner.ask(min(BATCH, max(BUDGETS) - n_labels))
        learner.tell(batch, task.labels[batch].tolist())
        if len(labelled := learner.labelled) in BUDGETS:
            record[str(len(labelled))] = _judged(weights, task, classes, labelled, seed)
    return record


def _judged(
    weights: Path, task: _Task, classes: list[int], labelled: np.ndarray, seed: int
) -> Record:
    def ours() -> np.ndarray:
        rows = task.adapted(labelled, seed)
        learner = _learner(rows[: task.n_pool], classes, "random", seed, prior="even")
        learner.tell(labelled, task.labels[labelled].tolist())
        return np.asarray(learner.predict(rows[task.n_pool :]))

    ways = {
        "adapted": ours,  # for its seconds: the page has its errors from `adapt.compare`
        "SetFit": lambda: _setfit(weights, task, labelled, seed),
        "small-text": lambda: _small_text(weights, task, labelled, seed).predict(
            _test(weights, task)
        ),
    }
    results = {}
    for way, predicted in ways.items():
        begin = time.perf_counter()
        wrong = np.asarray(predicted()) != task.labels[task.n_pool :]
        results[way] = {"error": float(wrong.mean()), "seconds": time.perf_counter() - begin}
    return results


def _setfit(weights: Path, task: _Task, labelled: np.ndarray, seed: int) -> np.ndarray:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from setfit import SetFitModel, Trainer, TrainingArguments
    from sklearn.linear_model import LogisticRegression

    body = SentenceTransformer(str(weights))
    model = SetFitModel(body, LogisticRegression(max_iter=1_000), normalize_embeddings=False)
    columns = {
        "text": [task.texts[i] for i in labelled],
        "label": task.labels[labelled].tolist(),
    }
    with tempfile.TemporaryDirectory() as temporary:
        settings = TrainingArguments(
            temporary,
            batch_size=16,
            num_epochs=1,
            num_iterations=PAIRS,
            seed=seed,
            save_strategy="no",
            report_to="none",
            logging_strategy="no",
            show_progress_bar=False,
        )
        Trainer(model, settings, train_dataset=Dataset.from_dict(columns)).train()
    return np.asarray(model.predict(task.texts[task.n_pool :], show_progress_bar=False))


def _dataset(weights: Path, texts: list[str], labels: np.ndarray, classes: int) -> Any:
    from small_text import TransformersDataset
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(weights)
    if not hasattr(words, "encode_plus"):  # its name before transformers 5, which small-text calls
        type(words).encode_plus = type(words).__call__
    targets = np.arange(classes)
    return TransformersDataset.from_arrays(
        texts, np.asarray(labels), words, max_length=128, target_labels=targets
    )


def _test(weights: Path, task: _Task) -> Any:
    return _dataset(weights, *task.test(), int(task.labels.max()) + 1)


def _factory(weights: Path, n_classes: int) -> Any:
    import torch
    from small_text import TransformerBasedClassificationFactory, TransformerModelArguments

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return TransformerBasedClassificationFactory(
        TransformerModelArguments(str(weights)), n_classes, kwargs={"device": device}
    )


def _small_text(weights: Path, task: _Task, labelled: np.ndarray, seed: int) -> Any:
    _seeded(seed)
    n_classes = int(task.labels.max()) + 1
    model = _factory(weights, n_classes).new()
    texts = [task.texts[i] for i in labelled]
    model.fit(_dataset(weights, texts, task.labels[labelled], n_classes))
    return model


def _own_choices(weights: Path, task: _Task, seed: int) -> Record:
    """small-text from the first label on: its fine-tuned model chooses by breaking ties."""
    from small_text import BreakingTies, PoolBasedActiveLearner

    _seeded(seed)
    labels = task.labels[: task.n_pool]
    n_classes = int(task.labels.max()) + 1
    pool = _dataset(weights, task.texts[: task.n_pool], labels, n_classes)
    learner = PoolBasedActiveLearner(_factory(weights, n_classes), BreakingTies(), pool)
    first = np.random.default_rng(seed).permutation(task.n_pool)[:BATCH]
    learner.initialize_data(first, labels[first])
    record = {}
    test = _test(weights, task)
    truth = task.labels[task.n_pool :]
    for n_labels in range(2 * BATCH, max(BUDGETS) + 1, BATCH):
        batch = learner.query(num_samples=BATCH)
        learner.update(labels[batch])
        if n_labels in BUDGETS:
            error = float((learner.classifier.predict(test) != truth).mean())
            record[str(n_labels)] = {"small-text": {"error": error}}
    return record


def _seeded(seed: int) -> None:
    import torch

    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (what small-text draws from)


def _in_full(folder: Path, output: Path) -> Path:
    """The packed weights in single precision, which training needs."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    AutoModel.from_pretrained(folder, dtype=torch.float32).save_pretrained(output)
    AutoTokenizer.from_pretrained(folder).save_pretrained(output)
    return output


def page(records: list[Record]) -> Iterator[str]:
    yield "# How does `parbals adapt` compare with SetFit and small-text?"
    yield ""
    yield "Written by `python studies adaptation.encoder.rivals`; do not edit."
    yield ""
    yield (
        "Test errors in %, mean ± standard error over seeds; MiniLM. *Linear* and *adapted* are "
        "ours, from the records of `adapt.compare`, as are labels by *parbals-epig, adapted*, "
        f"which chooses on adapted rows; *SetFit* 1.2 with {PAIRS} pairs of each kind an item; "
        "*small-text* 1.4 at its defaults. *By small-text*: breaking ties of the model that it "
        f"fine-tunes after every {BATCH} labels. In brackets: seeds, where they are fewer than "
        f"{SEEDS}. The recipe of *adapted* and its prior were tuned on these three sets, which "
        "flatters it; the rivals are at their defaults."
    )
    lines = (FOLDER / "compare.jsonl").read_text("utf-8").splitlines()
    ours = [json.loads(line) for line in lines]
    for name in SETS:
        yield from ("", f"## {name}", "", "| labels | by | " + " | ".join(WAYS) + " |")
        yield "| ---: | --- |" + " ---: |" * len(WAYS)
        for n, arm in product(map(str, BUDGETS), (*ARMS[:2], ADAPTED_CHOICE, *ARMS[2:])):
            cells = []
            for way in WAYS:
                candidates = ours if way in ("linear", "adapted") else records
                group = [record[n] for record in candidates if record["run"][:2] == [name, arm]]
                cells.append(_cell(group, way))
            yield f"| {n} | {arm.removeprefix('by ')} | " + " | ".join(cells) + " |"
    yield from ("", _times(records))


def _cell(group: list[Record], way: str) -> str:
    errors = 100 * np.array([record[way]["error"] for record in group if way in record])
    if not len(errors):
        return "–"
    spread = errors.std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else 0.0
    fewer = f" ({len(errors)})" if len(errors) < SEEDS else ""
    return f"{errors.mean():.1f} ± {spread:.1f}{fewer}"


def _times(records: list[Record]) -> str:
    """Medians of what each way took, several at a time on one machine."""
    parts = []
    for way in WAYS[1:]:
        seconds = [
            record["250"][way]["seconds"]
            for record in records
            if "seconds" in record.get("250", {}).get(way, {})
        ]
        if seconds:
            parts.append(f"{way} {np.median(seconds):.0f} s")
    return (
        "Median seconds to teach and judge with 250 labels, several at a time on one GPU: "
        f"{', '.join(parts)}."
    )
