"""Does asynchronous labelling pay? Answers arrive one at a time, out of order, while 20 items are
always out.

    studies asynchronous                        ten minutes; docs/asynchronous.md and .png
    studies asynchronous --copies 10            the same with every message ten times in the pool
    studies asynchronous --seeds 1 --labels 10  does it run?

Three ways to label the same messages with ParBaLS-EPIG:

* whole batches: ask for 20, wait for all 20 answers, ask again;
* pending-aware: as soon as one answer arrives ask for one more, the 20 that are out being part of
  the batch;
* pending ignored: the same, but the choice knows nothing of the items that are out except not to
  repeat them.
"""

import argparse
import sys

import numpy as np
from lib.places import DOCS

WAYS = ("whole batches", "pending-aware", "pending ignored")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--labels", type=int, default=100, help="labels after the first 20")
    parser.add_argument(
        "--copies",
        type=int,
        default=1,
        help="how often every message stands in the pool, with small noise",
    )
    parser.add_argument("--out", type=int, default=20, help="items that are out at any time")
    options = parser.parse_args()
    curves = {way: [] for way in WAYS}
    for seed in range(options.seeds):
        for way in WAYS:
            curves[way].append(simulate(way, seed, options.labels, options.out, options.copies))
            print(f"seed {seed}, {way}: {curves[way][-1][-1]:.2%}", file=sys.stderr, flush=True)
    report({way: np.array(values) for way, values in curves.items()}, options)
    return 0


def simulate(way: str, seed: int, n_labels: int, n_out: int, n_copies: int) -> list[float]:
    """Test accuracy after every tenth answer."""
    import parbals
    from parbals_bench.datasets.embedded import TextFeatures
    from parbals_bench.datasets.sms_spam import load_messages, split_messages

    generator = np.random.default_rng(seed)
    split = split_messages(load_messages(), seed)
    features = TextFeatures().fit(split.pool.texts)
    X, truth = features.transform(split.pool.texts), split.pool.labels
    if (
        n_copies > 1
    ):  # as campaigns, retweets and neighbouring video frames are: the same thing over and over
        kept = generator.permutation(len(X))[: len(X) // n_copies].repeat(n_copies)
        X = X[kept] + 0.02 * generator.standard_normal((len(kept), X.shape[1]))
        truth = truth[kept]
    X_test, y_test = features.transform(split.test.texts), split.test.labels
    learner = parbals.ActiveLearner(
        X,
        ["ham", "spam"],
        features.transform(split.target.texts),
        n_samples=200,
        n_candidates=1_000,
        n_targets=300,
        prior_scale=1.0,
        metric="log-loss",
        random_state=seed,
    )
    first = generator.permutation(len(X))[:n_out]
    learner.tell(first, truth[first])
    accuracies = []

    def record(n_done: int) -> None:
        if n_done % 10 == 0:
            accuracies.append(float(np.mean(np.array(learner.predict(X_test)) == y_test)))

    record(0)
    out: list[int] = []
    for done in range(1, n_labels + 1):
        if way == "whole batches":
            if not out:
                out = learner.ask(n_out).tolist()
        else:
            missing = n_out - len(out)
            out += ask(learner, missing, ignore=way == "pending ignored")
        item = out.pop(int(generator.integers(len(out))))
        learner.tell(item, truth[item])
        record(done)
    return accuracies


def ask(learner, n: int, ignore: bool) -> list[int]:
    """``n`` more items; with ``ignore`` the best by themselves (EPIG given the labels) that are not
    out already."""
    if not ignore:
        return learner.ask(n).tolist()
    out = list(learner.pending)
    if out:
        learner.forget(out)
    best = learner.choose(n + len(out), strategy="epig").indices.tolist()
    fresh = [item for item in best if item not in out][:n]
    learner.mark_pending([*out, *fresh])
    return fresh


def report(curves: dict, options: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from scipy import stats

    n_seeds = len(curves[WAYS[0]])
    lines = ["| way | mean accuracy over the run | at the end |", "| --- | ---: | ---: |"]
    for way, values in curves.items():
        area, last = values.mean(axis=1), values[:, -1]
        half = stats.t.ppf(0.975, n_seeds - 1) / np.sqrt(n_seeds) if n_seeds > 1 else float("nan")
        cells = (
            f"{100 * v.mean():.2f} ± {100 * half * v.std(ddof=min(1, n_seeds - 1)):.2f} %"
            for v in (area, last)
        )
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    aware = curves["pending-aware"].mean(axis=1)
    for way in ("whole batches", "pending ignored"):
        difference = aware - curves[way].mean(axis=1)
        p = stats.ttest_1samp(difference, 0.0).pvalue if n_seeds > 1 else float("nan")
        told = f"{100 * difference.mean():+.2f} % (paired t-test, p = {p:.2g})"
        lines.append(f"\nPending-aware minus {way}, mean over the run: {told}.")
    print("\n".join(lines))
    if options.labels < 100 or n_seeds < 5:
        return
    name = "asynchronous" if options.copies == 1 else "asynchronous-copies"
    figure, axes = plt.subplots(figsize=(7, 4))
    for way, values in curves.items():
        axes.plot(20 + 10 * np.arange(values.shape[1]), 100 * values.mean(axis=0), label=way)
    axes.set(xlabel="answers received", ylabel="test accuracy, %")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / f"{name}.png", dpi=130, bbox_inches="tight")
    text = (
        f"# Labelling without waiting\n\n![Accuracy against answers]({name}.png)\n\nSMS Spam, "
        f"every message {options.copies} time(s) in the pool, {n_seeds} seeds, {options.out} items "
        "always out, answers in random order (95 % t-intervals).\nWritten by `python "
        "packages/parbals-bench/studies/asynchronous/run.py`; do not edit.\n\n"
    )
    (DOCS / f"{name}.md").write_text(text + "\n".join(lines) + "\n", encoding="utf-8")
