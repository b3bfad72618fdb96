"""Do labels show that no line divides the classes, so that an expected error cannot be trusted?

    python studies error_estimates.misfit --workers 16    # run what is missing
    python studies error_estimates.misfit --tables        # write README.md from the record

Two signs (:mod:`parbals.learner.evaluation.fit_check`) at 20 to 150 labels: a temperature above 3,
and a nearest-neighbour rule that differs from the model on more of the pool than the upper limit of
the expected error and ten points. On rings and XOR no line divides the classes.
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from lib.records import Record, Todo, study

HERE = Path(__file__).parent
CURVED = ("rings", "xor")
DATA = ("cancer", "digits", "d10", "wine", "lin", "rare", *CURVED)
SIZES = (20, 50, 100, 150)
N_POOL = 1_000
N_MADE = 1_600
MAX_TEMPERATURE = 3.0
MAX_DIFFERENCE = 0.1


def main() -> int:
    page_file = HERE / "README.md"
    return study(__doc__, HERE / "record.jsonl", page_file, runs, page, seeds=8, options={})


def runs(given: Namespace) -> Iterator[Todo]:
    """Every run: dataset, strategy and seed."""
    for seed, strategy, name in product(range(given.seeds), ("parbals-epig", "random"), DATA):
        yield (name, strategy, seed), partial(one_run, name, strategy, seed)


def load(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, D) and class numbers (N,)."""
    from sklearn import datasets

    generator = np.random.default_rng(seed)
    readers = {"cancer": datasets.load_breast_cancer, "wine": datasets.load_wine}
    if name in ("cancer", "digits", "d10", "wine"):
        X, y = readers.get(name, datasets.load_digits)(return_X_y=True)
        X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)
        if name == "digits":
            y = y % 2
    elif name == "rings":
        y = generator.integers(0, 2, N_MADE)
        radius = 1.0 + y + 0.25 * generator.standard_normal(N_MADE)
        angle = generator.random(N_MADE) * 6.283
        X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    else:
        X = generator.standard_normal((N_MADE, 6))
        y = (X[:, 0] * X[:, 1] > 0).astype(int)
        if name == "lin":
            y = (X[:, 0] + 0.5 * generator.standard_normal(N_MADE) > 0).astype(int)
        elif name == "rare":
            y = (X[:, 0] + 0.3 * generator.standard_normal(N_MADE) > 2).astype(int)
    order = generator.permutation(len(y))[:N_POOL]
    return X[order], y[order]


def one_run(name: str, strategy: str, seed: int) -> Record:
    """True and expected error, the temperature, and how far neighbours differ, at every size."""
    import parbals
    from parbals.learner.evaluation.expectation import expected_error_and_log_loss
    from parbals.learner.reporting import calibration_temperature

    X, y = load(name, seed)
    classes = sorted(set(y.tolist()))
    learner = parbals.ActiveLearner(X, classes, strategy=strategy, random_state=seed)
    rows = []
    for size in SIZES:
        items = learner.ask(size - len(learner.labelled))
        learner.tell(items, y[items].tolist())
        temperature = calibration_temperature(learner.state, learner.fitted())
        probs = learner.predict_proba(X)
        decisions = probs.argmax(axis=1)
        generator = np.random.default_rng(seed)
        expected, _ = expected_error_and_log_loss(probs, generator, temperature)
        labelled = np.array(learner.labelled)
        distances = np.square(X[:, None] - X[labelled]).sum(axis=2)
        neighbours = y[labelled[distances.argmin(axis=1)]]
        rows.append(
            {
                "labels": size,
                "error": round(float(np.mean(decisions != y)), 4),
                "expected": [round(v, 4) for v in (expected.mean, expected.low, expected.high)],
                "neighbours": round(float(np.mean(neighbours != decisions)), 4),
                "temperature": round(temperature.value, 3),
            }
        )
    return {"rows": rows}


def page(records: list[Record]) -> Iterator[str]:
    """README.md."""
    yield "# Do labels show that no line divides the classes?"
    yield ""
    yield "Written by `python studies error_estimates.misfit`; do not edit."
    yield ""
    yield (
        "Means over seeds, in %: the true error, the expected one and its upper limit, and how "
        "often each sign is seen. *Guesses*: the temperature is above 3. *Neighbours*: they differ "
        "from the model on more of the pool than the upper limit and ten points; the report asks "
        "in addition that they predict the labels as well as the model. Both limits were chosen on "
        "these sets."
    )
    yield ""
    yield "| data | labels by | labels | runs | error | expected | up to | guesses | neighbours |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, strategy, size in product(DATA, ("parbals-epig", "random"), SIZES):
        rows = [
            row
            for record in records
            for row in record["rows"]
            if record["run"][:2] == [name, strategy] and row["labels"] == size
        ]
        if not rows:
            continue
        error = np.mean([row["error"] for row in rows])
        mean, _, high = np.mean([row["expected"] for row in rows], axis=0)
        is_guess = np.mean([row["temperature"] > MAX_TEMPERATURE for row in rows])
        is_other = np.mean(
            [row["neighbours"] > row["expected"][2] + MAX_DIFFERENCE for row in rows]
        )
        cells = " | ".join(f"{100 * v:.0f}" for v in (error, mean, high, is_guess, is_other))
        yield f"| {name} | {strategy} | {size} | {len(rows)} | {cells} |"
