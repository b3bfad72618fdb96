"""Is a learnt prior better than a fixed one, and is its expected error accurate?

    python studies prior.learnt --data FOLDER  # run what is missing, write the page
    python studies prior.learnt --data FOLDER --workers 14 --platform cpu
    python studies prior.learnt --tables  # write docs/explanation/prior.md from the records

Random labels, expectation propagation, and for each recipe the error, the error that the model
expects and the log loss on a test set: scale 1; scale alone by evidence; the learnt prior
(``prior_scale="auto"``); scale by cross-validation (five folds, grid of scales, log score; up to
100 labels, with more than two classes up to 50); at 100 labels of some sets, scale and power
sampled together with the weights, where NumPyro is installed. Times are CPU-seconds. Each run is a
line of record.jsonl. FOLDER holds the datasets, or what ``studies/lib/rows.py``
wrote.
"""

import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.folders import EXPLANATION
from lib.records import Record, Todo, study
from lib.rows import load
from parbals.learner.evaluation.expectation import fit_temperature, temperature_scaled
from parbals.posterior.closed import prior
from parbals.posterior.closed.classes import fit_classes
from parbals.posterior.closed.ep import fit_gaussian
from parbals.posterior.closed.whitening import PoolMoments
from parbals.posterior.predictive import add_bias
from prior.learnt.sampled import sampled_predictions

FOLDER = Path(__file__).parent
PAGE = EXPLANATION / "prior.md"
RAW = "breast-cancer raw"
SETS = (
    *("airline", "credit-card", "sms-spam", "breast-cancer", RAW),
    *("ag-news:0", "ag-news:2", "cifar10:0", "cifar10:3"),
    *("ag-news:*", "cifar10:*", "digits:*"),
)
SIZES = (20, 50, 100, 250)
N_POOL = 4_096
N_TEST = 1_000
GRID = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
FOLDS = 5
VALIDATED = "cross-validated scale"
SAMPLED = "sampled"
SAMPLED_SETS = ("airline", "sms-spam", "cifar10:0")
SAMPLED_SIZE = 100
SAMPLED_SEEDS = 10


def main() -> int:
    return study(
        *(__doc__, FOLDER / "record.jsonl", PAGE, runs, report),
        seeds=10,
        options={"sets": ",".join(SETS)},
    )


def runs(options: Namespace) -> Iterator[Todo]:
    """Those of many labels take longest, so they come first."""
    sets = options.sets.split(",")
    if unknown := {*sets} - {*SETS}:
        raise ValueError(f"there is no dataset {min(unknown)!r}; choose some of: {', '.join(SETS)}")
    for size, seed, name in product(reversed(SIZES), range(options.seeds), sets):
        yield (name, size, seed), partial(measured, name, size, seed)
    for seed in range(SAMPLED_SEEDS if find_spec("numpyro") else 0):
        for name in sorted({*sets} & {*SAMPLED_SETS}):
            yield (name, SAMPLED_SIZE, seed, SAMPLED), partial(sampled, name, SAMPLED_SIZE, seed)


def divided(name: str) -> tuple[np.ndarray, ...]:
    """Pool rows and labels, test rows and labels."""
    if name == RAW:
        from sklearn.datasets import load_breast_cancer

        X, y = load_breast_cancer(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(X))
        X = X[order]
        y = y[order]
    else:
        X, y, _ = load(name)
        X = X.astype(float)
    n_pool = min(N_POOL, 3 * len(X) // 4)
    return X[:n_pool], y[:n_pool], X[n_pool:][:N_TEST], y[n_pool:][:N_TEST]


def measured(name: str, size: int, seed: int) -> dict[str, list[float]]:
    """Recipe → error, expected error, log loss, CPU-seconds of choosing, of the fit that begins
    with what choosing left and of one that does not, expected error as the report has it."""
    X_pool, y_pool, X_test, y_test = divided(name)
    n_classes = int(y_pool.max()) + 1
    labelled = drawn(len(X_pool), size, seed)
    X = X_pool[labelled]
    y = y_pool[labelled]
    pool = PoolMoments.of(X_pool)
    results = {}
    for recipe, choose in RECIPES.items():
        if recipe == VALIDATED and size > (100 if n_classes == 2 else 50):
            continue  # 45 fits
        begun = time.process_time()
        recipe_prior = choose(X, y, n_classes, pool)
        times = [begun, time.process_time()]
        model = fitted(X, y, n_classes, recipe_prior)
        times.append(time.process_time())
        fitted(X, y, n_classes, recipe_prior._replace(sites=None))
        times.append(time.process_time())
        probs = model.predict_proba(add_bias(X_test))
        places, left_out = model.leave_one_out()
        nothing = np.zeros((0, n_classes)), np.zeros(0, int)
        temperature = fit_temperature((left_out, y[places]), nothing)
        scaled_probs = temperature_scaled(probs, temperature.value)
        results[recipe] = [
            *judged(probs, y_test),
            *np.diff(times),
            1.0 - scaled_probs.max(axis=1).mean(),
        ]
    return results


def sampled(name: str, size: int, seed: int) -> dict[str, list[float]]:
    X_pool, y_pool, X_test, y_test = divided(name)
    labelled = drawn(len(X_pool), size, seed)
    pool = PoolMoments.of(X_pool)
    probs = sampled_predictions(X_pool[labelled], y_pool[labelled], pool, X_test, seed)
    return {SAMPLED: judged(probs, y_test)}


def drawn(n_pool: int, size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(n_pool)[:size]


def judged(probs: np.ndarray, y: np.ndarray) -> list[float]:
    """Error, expected error, log loss."""
    true_probs = np.maximum(probs[np.arange(len(y)), y], 1e-12)
    wrong = np.mean(probs.argmax(axis=1) != y)
    return [float(wrong), float(1.0 - probs.max(axis=1).mean()), float(-np.log(true_probs).mean())]


def fitted(X: np.ndarray, y: np.ndarray, n_classes: int, recipe_prior: prior.Prior) -> Any:
    if n_classes == 2:
        return fit_gaussian(
            add_bias(X), y, recipe_prior.whitening.times(np.sqrt(2.0)), recipe_prior.sites
        )
    return fit_classes(add_bias(X), y, n_classes, recipe_prior.whitening)


def fixed(X: np.ndarray, y: np.ndarray, n_classes: int, pool: PoolMoments) -> prior.Prior:
    return prior.fixed_prior(1.0, X.shape[1])


def scale_alone(X: np.ndarray, y: np.ndarray, n_classes: int, pool: PoolMoments) -> prior.Prior:
    """All directions alike; without directions there is but one power."""
    n_columns = X.shape[1]
    alike = pool._replace(
        directions=pool.directions[:, :0],
        shares=pool.shares[:0],
        share_across=1.0 / n_columns,
        column_variances=np.full(n_columns, pool.total / n_columns),
    )
    return prior.learn_prior(X, y, n_classes, alike)


def validated(X: np.ndarray, y: np.ndarray, n_classes: int, pool: PoolMoments) -> prior.Prior:
    """The scale of the grid, relative to 1, with the best log score over five folds."""
    fold = np.arange(len(y)) % FOLDS

    def score(scale: float) -> float:
        total = 0.0
        for k in range(FOLDS):
            inside = fold != k
            model = fitted(X[inside], y[inside], n_classes, prior.fixed_prior(scale, X.shape[1]))
            probs = model.predict_proba(add_bias(X[~inside]))
            total += np.log(np.maximum(probs[np.arange((~inside).sum()), y[~inside]], 1e-12)).sum()
        return float(total)

    return prior.fixed_prior(max(GRID, key=score), X.shape[1])


RECIPES: dict[str, Callable[..., prior.Prior]] = {
    "scale 1": fixed,
    "scale by evidence": scale_alone,
    "learnt": prior.learn_prior,
    VALIDATED: validated,
}


def report(records: list[Record]) -> list[str]:
    """docs/explanation/prior.md."""
    columns = [*RECIPES, SAMPLED]
    lines = [
        *HEAD,
        f"| data | labels | runs | {' | '.join(columns)} | learnt, reported | learnt against 1 |",
    ]
    lines += ["| --- | ---: | ---: |" + " --- |" * len(columns) + " ---: | ---: |"]
    times: dict[tuple[bool, int], list[np.ndarray]] = {}
    risen = []
    apart = []
    for name in SETS:
        for size in SIZES:
            group = [record for record in records if record["run"][:2] == [name, size]]
            of = {r: np.array([record[r] for record in group if r in record]) for r in columns}
            if not len(of["learnt"]):
                continue
            means = {r: values.mean(axis=0) for r, values in of.items() if len(values)}
            cells = [
                f"{100 * m[0]:.1f} / {100 * m[1]:.1f} / {m[2]:.3f}" if m is not None else "–"
                for m in map(means.get, columns)
            ]
            error, *_, reported = means["learnt"]
            ratios = of["learnt"][:, 2] / of["scale 1"][:, 2]
            change = 100 * (ratios.mean() - 1.0)
            spread = 100 * ratios.std() / max(len(ratios) - 1, 1) ** 0.5
            risen += [f"{name} at {size} ({change:+.0f} ± {spread:.0f} %)"] * bool(change > 2.0)
            gap = 100 * (reported - error)
            if size >= 100 and abs(gap) > 3.0:
                apart.append(f"{name} at {size} ({gap:+.1f})")
            cells += [f"{100 * reported:.1f}", f"{change:+.0f} ± {spread:.0f} %"]
            lines.append(f"| {name} | {size} | {len(of['learnt'])} | {' | '.join(cells)} |")
            times.setdefault((name in SETS[-3:], size), []).append(means["learnt"][3:6])
    lines += [
        "",
        f"The log loss rises by more than 2 % in: {', '.join(risen) or 'no row'}. From 100 labels "
        "on, the reported error is more than 3 points from the true one in: "
        f"{', '.join(apart) or 'no row'}.",
        "",
        "## What does it cost?",
        "",
        "CPU-milliseconds, mean over the datasets. *Added* is the cost of learning the prior, "
        "relative to one fit with a fixed prior. With two classes the fit starts warm from the "
        "search.",
        "",
        "| classes | labels | learning the prior | the fit | a fit alone | added |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for many in (False, True):
        kind = "4 and 10 classes" if many else "two classes"
        means = {n: 1e3 * np.mean(rows, axis=0) for (m, n), rows in times.items() if m == many}
        rows = [*sorted(means.items()), ("all together", sum(means.values()))] if means else []
        for size, (choosing, fit, alone) in rows:
            lines.append(
                f"| {kind} | {size} | {choosing:.0f} | {fit:.0f} | {alone:.0f} | "
                f"{(choosing + fit - alone) / alone:.2f} |"
            )
    lines += ALTERNATIVES
    return lines


HEAD = (
    "# Why the prior is learnt",
    "",
    "**Because with two classes it gains as much accuracy as a good strategy does.** A learnt",
    "prior lowers the log loss on nearly all datasets, often by a third, and never raises it by",
    "more than 2 %. With ten classes errors rise by about a point all the same, on CIFAR-10 and",
    'digits. It is the default: `prior_scale="auto"`.',
    "",
    "The prior says how large the weights of the model are expected to be. It consists of",
    "",
    "* a *scale*, that of the logits over the pool, so that units do not matter;",
    "* a *shape*: variances of the weights that follow a power of the pool's variance along its",
    "  principal directions (or standardised columns). Features are centred at the pool's mean.",
    "",
    "Scale and power maximise the evidence (marginal likelihood) of expectation propagation. With",
    "more than two classes it is summed over all pairs of classes, each a two-class problem.",
    "",
    "Written by `python studies prior.learnt`; do not edit. The terms are in the",
    "[glossary](../glossary.md#model-and-features).",
    "",
    "## What does it gain?",
    "",
    "Random labels, means over seeds; each cell is error % / expected error % / log loss.",
    "*Reported* is the error of a report, temperature-scaled by leave-one-out predictions",
    "(`parbals/learner/evaluation/expectation.py`). The last column is the change of the log loss,",
    "± its standard error. `ag-news:2` is class 2 against the rest, `ag-news:*` all classes, and",
    "`breast-cancer raw` has columns of very different units.",
    "",
)
"""First lines of the page, up to the table."""

ALTERNATIVES = (
    "",
    "## What else was tried?",
    "",
    "| alternative | result |",
    "| --- | --- |",
    "| evidence of one class against the rest | with ten classes and few labels, scales several "
    "times too small |",
    "| evidence of a part of the labels | chosen labels are hard items, and a part of them gives "
    "scales that are too small |",
    "| *sampled*: ln s ~ N(ln 3, 1) and a power uniform from 0 to 2, drawn with the weights by "
    "NumPyro's NUTS | no better than the learnt prior on three sets with 100 labels |",
    "| half the scale | some 0.6 points better with all classes of AG News at 250 labels, as much "
    "worse elsewhere |",
    "| a narrower hyperprior, leave-one-out scores, an average over scales | no gain over all "
    "datasets ([the study](../../studies/prior/scale/README.md)) |",
)
