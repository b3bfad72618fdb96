"""How accurate are closed-form scores with more than two classes?

    python studies approximation.many_classes  # digits, which scikit-learn brings
    python studies approximation.many_classes --data FOLDER  # AG News and CIFAR-10 too
    python studies approximation.many_classes --only digits --draws 16000
    python studies approximation.many_classes --quick                      # a quick check

FOLDER holds ag_news/ and cifar10/ with features and labels as NumPy files (see SOURCES). Small
pools: 300 candidates, 200 targets. What has been drawn is kept beside many_classes.json, so a run
that was stopped goes on. Writes README.md.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from lib.report import machine
from parbals import BayesianLogisticRegression
from parbals.strategies.problem import GaussianView
from parbals.strategies.top import closed_form_gain
from scipy.stats import spearmanr

FOLDER = Path(__file__).parent
SOURCES = {
    "ag_news": ("minilm_l6_v2_train_subset_f16.npy", "labels_train_subset.npy"),
    "cifar10": ("efficientnet_lite0_r160_pca256_train_f16.npy", "y_train.npy"),
}
PROBLEMS = {  # data set, labels, factor of the features
    "digits, 150 labels": ("digits", 150, 4.0),
    "AG News, 150 labels": ("ag_news", 150, 8.0),
    "CIFAR-10, 150 labels": ("cifar10", 150, 16.0),
}
GROUPS = 4
TEXT = """# How accurate are scores with more than two classes?

300 candidates, 200 targets. The truth is EPIG from posterior draws (particles; column *draws*).
Draws of their own add about (C-1)²/2T nats to every score: the part ½ Σ cov²/(p q) of the mutual
information is therefore taken as ½ Σ cov₁ cov₂/(p q), cov₁ and cov₂ from separate fits, whose
errors are independent and average to zero. What error is left is seen between two truths from
separate halves of the draws (column *truth*: their rank correlation, and the share of the best
score that one half's best point has by the other half); the truth used has twice their draws.

*rank*: rank correlation with the truth. *best*: true EPIG of the point with the highest score, as a
share of the highest. *rms*: root mean square error of the predicted probabilities. Draws: means
over {repeats} fits of K = 400 and {long_repeats} of K = 4,000; *debiased* leaves out the pairs of a
draw with itself. Written by `python studies approximation.many_classes`; do not edit.
"""


@dataclass
class Sums:
    """Sums over draws: pairs of probabilities (N C, M C), probabilities (N, C) and (M, C)."""

    joint: np.ndarray | float = 0.0
    pool: np.ndarray | float = 0.0
    target: np.ndarray | float = 0.0
    n_draws: int = 0

    def __add__(self, addend):
        return Sums(*(getattr(self, f.name) + getattr(addend, f.name) for f in fields(self)))

    def parts(self):
        """Covariances (N, C, M, C), and products of means of the same shape."""
        p = self.pool / self.n_draws
        q = self.target / self.n_draws
        apart = p[:, :, None, None] * q[None, None]
        return self.joint.reshape(apart.shape) / self.n_draws - apart, apart


def main() -> int:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "record.json"
    results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for name, (data, n_labels, factor) in PROBLEMS.items():
        if options.only not in (None, data) or (data != "digits" and options.data is None):
            continue
        key = f"{name}, {options.draws} draws"
        if key not in results:
            X, labels, pool, target = problem(data, n_labels, factor, options)
            started = time.process_time()
            result = measured(name, X, labels, pool, target, options)
            result["cpu_seconds"] = round(time.process_time() - started)
            results[key] = {"problem": name, **result, "machine": machine(1)}
            path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            for group in range(GROUPS):
                sums_path(name, group, options).unlink()
    text = TEXT.format(repeats=options.repeats, long_repeats=options.long_repeats)
    text += "\n" + table(results)
    (options.out / "README.md").write_text(text, encoding="utf-8")
    print(table(results), end="")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="a folder with ag_news/ and cifar10/")
    parser.add_argument("--only", choices=["digits", *SOURCES])
    parser.add_argument("--draws", type=int, default=48_000)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    options.block = 4_000
    options.short = 400
    options.long = 4_000
    options.repeats = 5
    options.long_repeats = 2
    options.sizes = (300, 200)
    if options.quick:
        options.draws = 256
        options.block = 64
        options.short = 16
        options.long = 64
        options.repeats = 2
        options.long_repeats = 1
        options.sizes = (12, 8)
    if options.draws % (GROUPS * options.block):
        parser.error(f"--draws must be a multiple of {GROUPS * options.block}.")
    return options


def problem(data, n_labels, factor, options):
    """Labelled rows, their labels, candidates and targets, by a fixed seed."""
    if data == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std()
    else:
        X, y = (np.load(options.data / data / file) for file in SOURCES[data])
        X = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    X = X / np.sqrt(np.square(X).sum(axis=1).mean()) * factor
    order = np.random.default_rng(0).permutation(len(X))
    n_pool, n_target = options.sizes
    n_labels = min(n_labels, 4 * n_pool)
    labelled, pool, target = np.split(order[: n_labels + n_pool + n_target], [n_labels, -n_target])
    return X[labelled], y[labelled], X[pool], X[target]


def measured(name, X, labels, pool, target, options):
    """Every way to score beside the truth."""
    classes = np.unique(labels)
    truth, p, halves = reference(name, X, labels, pool, target, options)
    closed = BayesianLogisticRegression(prior_scale=1.0, inference="ep", classes=classes).fit(
        X, labels
    )
    scores = closed_form_gain(GaussianView(closed.gaussian, pool, target), "log")
    result = {"n_classes": len(classes), "draws": options.draws, "truth": halves}
    result["closed form"] = {**quality(scores, truth), "rms": rms(closed.predict_proba(pool), p)}
    short = [
        drawn(X, labels, classes, pool, target, options.short, f"{name} 400", 1_000 + seed)
        for seed in range(options.repeats)
    ]
    result["K = 400"] = mean_of(
        {**quality(plain(sums), truth), "rms": rms(sums.pool / sums.n_draws, p)}
        for sums, _ in short
    )
    long = [
        drawn(X, labels, classes, pool, target, options.long, f"{name} 4000", 2_000 + seed)
        for seed in range(options.long_repeats)
    ]
    result["K = 4,000"] = mean_of(quality(plain(sums), truth) for sums, _ in long)
    result["K = 4,000 debiased"] = mean_of(
        quality(plain(sums) - floor, truth) for sums, floor in long
    )
    return result


def reference(name, X, labels, pool, target, options):
    """The truth (N,), averaged predictions (N, C), and how two truths from half the draws agree."""
    classes = np.unique(labels)
    groups = []
    for group in range(GROUPS):
        file = sums_path(name, group, options)
        if file.exists():
            groups.append(Sums(**dict(np.load(file))))
            continue
        sums = Sums()
        for block in range(options.draws // GROUPS // options.block):
            seed = 100 * group + block
            block_sums, _ = drawn(X, labels, classes, pool, target, options.block, name, seed)
            sums = sums + block_sums
        np.savez(file, **vars(sums))
        groups.append(sums)
    first_half = debiased(groups[0], groups[1])
    second_half = debiased(groups[2], groups[3])
    truth = debiased(groups[0] + groups[1], groups[2] + groups[3])
    everything = groups[0] + groups[1] + groups[2] + groups[3]
    return truth, everything.pool / everything.n_draws, quality(first_half, second_half)


def sums_path(name, group, options):
    return options.out / f"many_classes {name} {options.draws} {group}.npz"


def drawn(X, labels, classes, pool, target, n_draws, title, seed):
    """Sums over one fit, and the part (N,) of its EPIG that is pairs of a draw with itself."""
    print(f"{title}: {n_draws} draws, seed {seed}", file=sys.stderr, flush=True)
    model = BayesianLogisticRegression(n_draws, 1.0, classes=classes, random_state=seed)
    pool_probs, target_probs = (
        np.ascontiguousarray(probs.transpose(0, 2, 1))
        for probs in map(model.fit(X, labels).sample_proba, (pool, target))
    )
    joint = pool_probs.reshape(-1, n_draws) @ target_probs.reshape(-1, n_draws).T
    sums = Sums(
        joint.astype(np.float64), pool_probs.sum(2, dtype=float), target_probs.sum(2, dtype=float)
    )
    sums.n_draws = n_draws
    pool_noise, target_noise = (
        (
            np.square(probs - probs.mean(axis=2, keepdims=True)) / probs.mean(axis=2, keepdims=True)
        ).sum(axis=1)
        for probs in (pool_probs, target_probs)
    )
    return sums, 0.5 * pool_noise @ target_noise.mean(axis=0) / n_draws**2


def plain(sums):
    """EPIG (N,) of draws as they are."""
    cov, apart = sums.parts()
    joint = cov + apart
    return (joint * np.log(np.maximum(joint, 1e-30) / apart)).sum(axis=(1, 3)).mean(axis=1)


def debiased(sums, other_sums):
    """EPIG (N,) of both together, less what their own errors add to it to second order."""
    cov, apart = (sums + other_sums).parts()
    crossed = sums.parts()[0] * other_sums.parts()[0]
    excess = ((np.square(cov) - crossed) / apart).sum(axis=(1, 3)).mean(axis=1)
    return plain(sums + other_sums) - 0.5 * excess


def quality(scores, truth):
    return {
        "rank": float(spearmanr(scores, truth).statistic),
        "best": float(truth[scores.argmax()] / truth.max()),
    }


def rms(probs, truth):
    return float(np.sqrt(np.mean(np.square(probs - truth))))


def mean_of(rows):
    rows = list(rows)
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def table(results):
    ways = ("truth", "closed form", "K = 400", "K = 4,000", "K = 4,000 debiased")
    lines = ["| problem | C | draws | " + " | ".join(f"{way}: rank, best" for way in ways)]
    lines[0] += " | closed form: rms | K = 400: rms |"
    lines.append("| --- |" + " ---: |" * (len(ways) + 4))
    for row in results.values():
        cells = [row["problem"], row["n_classes"], f"{row['draws']:,}"]
        cells += [f"{row[way]['rank']:.3f}, {row[way]['best']:.3f}" for way in ways]
        cells += [f"{row[way]['rms']:.4f}" for way in ("closed form", "K = 400")]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"
