"""Do labels chosen for one model help another, alone and with soft labels?

    python studies adaptation.encoder.compare --pack FOLDER  # pack texts and rows, once
    python studies adaptation.successor --folder FOLDER      # run what is missing, write README.md
    python studies adaptation.successor --tables             # write README.md from the records

A learner of ours chooses so many labels of a pool of 2,000 texts, at random or by ParBaLS, on dense
rows: MiniLM's for AG News (four classes), word counts by truncated SVD for SMS Spam. The successors
are TF-IDF with logistic regression, which never sees those rows, a random forest on them, and
MiniLM, fine-tuned on the texts (PyTorch and transformers). They are trained on the labels alone, or
on everything that `parbals export --for-training` writes: the labels, and for all other items the
learner's probabilities at its temperature, weighted by 1 - H(p)/ln C. Errors are those of items
that are in no pool.
"""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lib.labelling import label_in_batches
from lib.records import Record, Todo, study

FOLDER = Path(__file__).parent
N_POOL = 2_000
N_TEST = 1_500
BATCH = 20
SETS = {"ag_news": "AG News, four classes", "sms": "SMS Spam"}
STRATEGIES = ("random", "parbals-epig")
MODELS = {"tfidf": "TF-IDF, logistic regression", "forest": "forest on rows"}
MODELS["minilm"] = "MiniLM, fine-tuned"
RATE = 5e-5
AT_A_TIME = 16
EPOCHS_ALONE = 15
EPOCHS = 4


def main() -> int:
    files = (FOLDER / "record.jsonl", FOLDER / "README.md")
    options = {"labels": 220, "folder": ""}
    return study(__doc__ or "", *files, runs, page, seeds=10, options=options)


def runs(options: Namespace) -> Iterator[Todo]:
    folder = Path(options.folder).resolve()
    if not (folder / "ag_news_rows.npy").is_file():
        raise ValueError(
            "--folder names what `studies adaptation.encoder.compare --pack` has written"
        )
    for seed in range(options.seeds):
        for name in SETS:
            for strategy in STRATEGIES:
                todo = partial(measured, folder, name, strategy, seed, options.labels)
                yield (name, strategy, seed, options.labels), todo


def measured(folder: Path, name: str, strategy: str, seed: int, n_labels: int) -> Record:
    """Errors of the learner, and of the successors with and without soft labels."""
    from parbals import ActiveLearner
    from parbals.learner.evaluation.expectation import temperature_scaled
    from parbals.learner.reporting import calibration_temperature

    texts, rows, labels = _texts(folder, name, seed)
    classes = list(range(labels.max() + 1))
    truth = labels[N_POOL:]
    learner = ActiveLearner(rows[:N_POOL], classes, strategy=strategy, random_state=seed)
    label_in_batches(learner, labels, n_labels, BATCH)
    labelled = learner.labelled
    temperature = calibration_temperature(learner.state, learner.fitted())
    soft = temperature_scaled(learner.predict_proba(rows[:N_POOL]), temperature.value)
    soft[labelled] = np.eye(len(classes))[labels[labelled]]
    surprise = -(soft * np.log(np.maximum(soft, 1e-300))).sum(axis=1)
    weights = 1.0 - surprise / np.log(len(classes))
    decisions = learner.predict(rows[N_POOL:])
    record: Record = {"learner": float((decisions != truth).mean())}
    test = texts[N_POOL:]
    hard = _fine_tuned(
        folder, [texts[i] for i in labelled], soft[labelled], weights[labelled], seed
    )
    everything = _fine_tuned(folder, texts[:N_POOL], soft, weights, seed)
    record["minilm"] = [float((predict(test) != truth).mean()) for predict in (hard, everything)]
    for model in ("tfidf", "forest"):
        X = _tfidf(texts) if model == "tfidf" else rows
        alone = _fitted(model, X[labelled], labels[labelled], np.ones(n_labels), seed)
        all_of_them = _fitted(model, X[:N_POOL], soft, weights, seed)
        record[model] = [
            float((successor.predict(X[N_POOL:]) != truth).mean())
            for successor in (alone, all_of_them)
        ]
    return record


def _fitted(model: str, X: Any, targets: np.ndarray, weights: np.ndarray, seed: int) -> Any:
    """A successor of labels (n,), or of shares (n, C): an item is then there once a class."""
    from scipy import sparse
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    if targets.ndim == 2:
        places, numbers = np.nonzero(targets > 0.01)
        X = X[places]
        weights = weights[places] * targets[places, numbers]
        targets = numbers
    C = 10.0
    n_trees = 200
    if sparse.issparse(X):
        return LogisticRegression(C=C, max_iter=1_000).fit(X, targets, weights)
    forest = RandomForestClassifier(n_trees, random_state=seed, n_jobs=1)
    return forest.fit(X, targets, weights)


def _fine_tuned(
    folder: Path, texts: list[str], probs: np.ndarray, weights: np.ndarray, seed: int
) -> Callable[[list[str]], np.ndarray]:
    """What MiniLM says of texts once it has learnt shares (n, C), as in docs/howto/predict.md."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    weights_folder = folder / "minilm"
    words = AutoTokenizer.from_pretrained(weights_folder)
    network = AutoModelForSequenceClassification.from_pretrained(
        weights_folder, num_labels=probs.shape[1], dtype=torch.float32
    ).to(device)
    targets, shares = (
        torch.as_tensor(values, dtype=torch.float32, device=device) for values in (probs, weights)
    )

    def logits(texts: list[str]) -> Any:
        how = {"padding": True, "truncation": True, "max_length": 128, "return_tensors": "pt"}
        return network(**words(texts, **how).to(device)).logits

    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE)
    n_epochs = EPOCHS if len(texts) == N_POOL else EPOCHS_ALONE
    total = n_epochs * -(-len(texts) // AT_A_TIME)
    down = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0 - step / total)
    order = np.zeros(0, int)
    generator = np.random.default_rng(seed)
    for _ in range(total):
        order = order if len(order) else generator.permutation(len(texts))
        batch = order[:AT_A_TIME]
        order = order[AT_A_TIME:]
        log_likelihoods = (targets[batch] * logits([texts[i] for i in batch]).log_softmax(-1)).sum(
            -1
        )
        loss = -(shares[batch] * log_likelihoods).sum() / shares[batch].sum().clamp(min=1e-6)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        down.step()
    network.eval()

    def predict(some: list[str]) -> np.ndarray:
        with torch.inference_mode():
            parts = [logits(some[i : i + 256]).argmax(-1).cpu() for i in range(0, len(some), 256)]
        return np.asarray(torch.cat(parts).numpy())

    return predict


def _tfidf(texts: list[str]) -> Any:
    """Rows of pool and test items, by the words of the pool."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    return words.fit(texts[:N_POOL]).transform(texts)


def _texts(folder: Path, name: str, seed: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Texts, dense rows and class numbers, of the pool and then of the test items."""
    from sklearn.decomposition import TruncatedSVD

    data = json.loads((folder / "data.json").read_text("utf-8"))[name]
    sample = np.random.default_rng(seed).permutation(len(data["labels"]))[: N_POOL + N_TEST]
    texts = [data["texts"][i] for i in sample]
    labels = np.array(data["labels"])[sample]
    if name == "ag_news":
        return texts, 3.0 * np.load(folder / "ag_news_rows.npy")[sample].astype(np.float32), labels
    words = _tfidf(texts)
    svd = TruncatedSVD(100, random_state=seed).fit(words[:N_POOL])
    return texts, 3.0 * svd.transform(words), labels


def page(records: list[Record]) -> Iterator[str]:
    yield "# Do labels chosen for one model help another?"
    yield ""
    yield "Written by `python studies adaptation.successor`; do not edit."
    yield ""
    yield (
        f"Test errors in %, mean (standard error) over seeds; a pool of {N_POOL:,} texts. *Alone*: "
        "the successor is trained on the labels; *soft*: on what `parbals export --for-training` "
        "writes, the labels and the learner's weighted probabilities of all other items. The "
        "successor with TF-IDF never sees the rows by which the labels were chosen."
    )
    for name, title in SETS.items():
        yield from ("", f"## {title}", "")
        models = "".join(f" {model}: alone | soft |" for model in MODELS.values())
        yield f"| labels | by | seeds | the learner itself |{models}"
        yield "| ---: | --- | ---: | ---: |" + " ---: | ---: |" * len(MODELS)
        for n_labels in sorted({record["run"][3] for record in records}):
            for strategy in STRATEGIES:
                group = [name, strategy, n_labels]
                matching = [r for r in records if [*r["run"][:2], r["run"][3]] == group]
                values = [[r["learner"], *(v for m in MODELS for v in r[m])] for r in matching]
                if values:
                    cells = _cells(np.array(values))
                    yield f"| {n_labels} | {strategy} | {len(values)} | {cells} |"


def _cells(values: np.ndarray) -> str:
    """Columns (n, k) as mean (standard error) in %."""
    means = 100 * values.mean(axis=0)
    errors = np.zeros(values.shape[1])
    if len(values) > 1:
        errors = 100 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    pairs = zip(means, errors, strict=True)
    return " | ".join(f"{mean:.1f} ({error:.1f})" for mean, error in pairs)
