"""Is the report's interval honest? How often it holds the error and the log loss that are then
measured.

    python benchmarks/interval_coverage.py               three real data sets; writes
    docs/coverage.md python benchmarks/interval_coverage.py --seeds 2     does it run?

For every seed a pool is labelled at random or by ParBaLS; after 20, 50 and 100 labels the report
gives its 90 % intervals, and the target set's true labels, which the model never saw, say what they
should have held.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

SIZES = (20, 50, 100)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    lines = [
        "| data | labelled by | labels | error: held by the interval | expected, found | log loss: "
        "held |"
    ]
    lines += ["| --- | --- | ---: | ---: | ---: | ---: |"]
    for data in DATA:
        for strategy in ("random", "parbals-epig"):
            runs = [one_run(data, strategy, seed) for seed in range(options.seeds)]
            for i, size in enumerate(SIZES):
                held, expected, found, held_loss = np.array([run[i] for run in runs]).mean(axis=0)
                lines.append(
                    f"| {data} | {strategy} | {size} | {held:.0%} | {expected:.1%}, {found:.1%} | "
                    f"{held_loss:.0%} |"
                )
                print(lines[-1], file=sys.stderr, flush=True)
    print("\n".join(lines))
    if options.seeds >= 20:
        text = (
            f"# How honest is the report?\n\n90 % intervals, {options.seeds} runs each: the share "
            "of runs in which the interval held what was then measured on the target set. With 20 "
            "runs a share of 90 % has a standard error of 7 %.\nWritten by `python "
            "benchmarks/interval_coverage.py`; do not edit.\n\n"
        )
        (Path(__file__).parents[1] / "docs" / "coverage.md").write_text(
            text + "\n".join(lines) + "\n", encoding="utf-8"
        )
    return 0


def one_run(data: str, strategy: str, seed: int) -> list[tuple[float, float, float, float]]:
    """(error held, error expected, error found, log loss held) after each number of labels."""
    import parbals

    X, y = DATA[data]()
    order = np.random.default_rng(seed).permutation(len(X))
    pool, target = order[: len(X) // 2], order[len(X) // 2 :][:300]
    learner = parbals.ActiveLearner(
        X[pool],
        [0, 1],
        X[target],
        strategy,
        random_state=seed,
        n_samples=200,
        n_candidates=500,
        n_targets=300,
    )
    results = []
    for size in SIZES:
        while len(learner.labelled) < size:
            out = learner.ask(min(10, size - len(learner.labelled)))
            learner.tell(out, y[pool[out]])
        report = learner.report(1)
        probs = learner.predict_proba(X[target])
        error = float(np.mean(probs.argmax(axis=1) != y[target]))
        loss = float(-np.log(probs[np.arange(len(target)), y[target]]).mean())
        e, log_loss = report.expected_error, report.expected_log_loss
        results.append(
            (e.low <= error <= e.high, e.mean, error, log_loss.low <= loss <= log_loss.high)
        )
    return results


def _messages() -> tuple[np.ndarray, np.ndarray]:
    from parbals.datasets.sms_spam import load_messages
    from parbals.features.text import TextFeatures

    messages = load_messages()
    return TextFeatures().fit(messages.texts).transform(messages.texts), (
        messages.labels == "spam"
    ).astype(int)


def _cancer() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return (X - X.mean(axis=0)) / 8.0, (y >= 5).astype(
        int
    )  # not linearly separable: the model is wrong here


DATA = {"SMS spam": _messages, "breast cancer": _cancer, "digits, 5 and above": _digits}

if __name__ == "__main__":
    sys.exit(main())
