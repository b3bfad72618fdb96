"""Would another scale or shape of the learnt prior be better, for random and chosen labels?

    python studies prior.scale --data FOLDER  # run what is missing, write README.md
    python studies prior.scale --tables       # write README.md from the records

A learner labels items at random (50, 100, 250) or by a strategy (250, of which 50 begin). Its
labels are then fitted under each recipe of a prior, and the error, the log loss, the expected error
as a report shows it and the scale are noted on a test set. Each run is a line of record.jsonl.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from lib.records import Record, Todo, study
from parbals.learner.evaluation.expectation import fit_temperature, temperature_scaled
from parbals.posterior.closed import prior, prior_shapes
from parbals.posterior.closed.prior import Prior, fixed_prior, learn_prior
from parbals.posterior.closed.whitening import PoolMoments
from parbals.posterior.predictive import add_bias
from prior.learnt.run import divided, fitted, judged, scale_alone

FOLDER = Path(__file__).parent
SETS = ("ag-news:*", "ag-news:0", "sms-spam", "digits:*", "airline", "credit-card", "cifar10:*")
SETS += ("cifar10:0",)
SIZES = (50, 100, 250)
LAST = 250
FIRST = 50
BATCH = 20
STRATEGIES = ("random", "confidence", "parbals-epig")
TIMES = (0.5, 1.0, 2.0)
LEARNT = "learnt"
TITLES = {
    "random": "Random labels",
    "confidence": "Labels by Confidence",
    "parbals-epig": "Labels by ParBaLS",
}


def main() -> int:
    options = {"sets": ",".join(SETS), "strategies": ",".join(STRATEGIES)}
    records = FOLDER / "record.jsonl"
    return study(__doc__, records, FOLDER / "README.md", runs, page, seeds=10, options=options)


def runs(options: Namespace) -> Iterator[Todo]:
    for seed, strategy, name in product(
        range(options.seeds), options.strategies.split(","), options.sets.split(",")
    ):
        for size in SIZES if strategy == "random" else (LAST,):
            yield (name, strategy, size, seed), partial(measured, name, strategy, size, seed)


def measured(name: str, strategy: str, size: int, seed: int) -> Record:
    """Recipe → error, log loss, expected error as shown, scale."""
    import parbals

    X_pool, y_pool, X_test, y_test = divided(name)
    n_classes = int(y_pool.max()) + 1
    learner = parbals.ActiveLearner(X_pool, range(n_classes), strategy=strategy, random_state=seed)
    labelled = np.empty(0, int)
    while len(labelled) < size:
        batch_size = FIRST if len(labelled) == 0 else BATCH
        if len(labelled) and strategy == "random":
            batch_size = size
        batch = learner.ask(batch_size)[: size - len(labelled)]
        learner.tell(batch, y_pool[batch])
        labelled = np.append(labelled, batch)
    X = X_pool[labelled]
    y = y_pool[labelled]
    pool = PoolMoments.of(X_pool)
    results = {}
    models = {}
    for recipe, choose in RECIPES.items():
        recipe_prior = choose(X, y, n_classes, pool)
        models[recipe] = model = fitted(X, y, n_classes, recipe_prior._replace(sites=None))
        places, without = model.leave_one_out()
        score = np.log(np.maximum(without[np.arange(len(places)), y[places]], 1e-12)).sum()
        results[recipe] = (
            model.predict_proba(add_bias(X_test)),
            without,
            places,
            score,
            recipe_prior.scale,
        )
    scales = [f"{LEARNT} × {times:g}" if times != 1 else LEARNT for times in TIMES]
    scores = np.array([results[recipe][3] for recipe in scales])
    shares = np.exp(scores - np.logaddexp.reduce(scores))
    results["best left-out"] = results[max((*scales, "alike"), key=lambda r: results[r][3])]
    results["averaged"] = tuple(
        sum(share * results[r][field] for share, r in zip(shares, scales, strict=True))
        if field in (0, 1, 4)
        else results[LEARNT][field]
        for field in range(5)
    )
    nothing = np.zeros((0, n_classes)), np.zeros(0, int)
    rows = {}
    for recipe, (probs, without, places, _, scale) in results.items():
        temperature = fit_temperature((without, y[places]), nothing)
        reported = 1.0 - temperature_scaled(probs, temperature.value).max(axis=1).mean()
        error, _, loss = judged(probs, y_test)
        rows[recipe] = np.round([error, loss, reported, scale], 5).tolist()
    return {"recipes": rows}


def scaled(times: float, *terms: Any) -> Prior:
    learnt = learn_prior(*terms)
    return learnt._replace(whitening=learnt.whitening.times(times), scale=times * learnt.scale)


def patched(shape_terms: dict[str, Any], powers: tuple[float, ...], *arguments: Any) -> Prior:
    """The learnt prior with other powers, and other constants of the module of shapes."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(prior, "POWERS", powers))
        stack.enter_context(patch.multiple(prior_shapes, **shape_terms))
        return learn_prior(*arguments)


def of_first(X: np.ndarray, y: np.ndarray, n_classes: int, pool: Any) -> Prior:
    """Scale and shape by the first labels, which are random."""
    return learn_prior(X[:FIRST], y[:FIRST], n_classes, pool)


RECIPES: dict[str, Callable[..., Prior]] = {
    "scale 1": lambda X, *_: fixed_prior(1.0, X.shape[1]),
    "alike": scale_alone,
    "power ½": partial(patched, {"_LOG_PRIOR_SHARES": (0.0,)}, (0.5,)),
    "power 1": partial(patched, {"_LOG_PRIOR_SHARES": (0.0,)}, (1.0,)),
    f"{LEARNT} × 0.5": partial(scaled, 0.5),
    LEARNT: learn_prior,
    f"{LEARNT} × 2": partial(scaled, 2.0),
    "narrow": partial(patched, {"_LOG_SCALE_SD": 0.5}, prior.POWERS),
    "first 50": of_first,
}
NAMES = (*RECIPES, "best left-out", "averaged")


def page(records: list[Record]) -> Iterator[str]:
    groups: dict[tuple[str, str, int], list[np.ndarray]] = {}
    for record in records:
        values = np.array([record["recipes"][name] for name in NAMES])
        name, strategy, size = record["run"][:3]
        groups.setdefault((name, strategy, size), []).append(values)
    means = {key: np.mean(rows, axis=0) for key, rows in sorted(groups.items())}
    yield from HEAD
    for strategy, title in TITLES.items():
        rows = np.array([mean for (_, s, _), mean in means.items() if s == strategy])
        if len(rows):
            yield from _beside_the_learnt(f"{title}, {len(rows)} rows", rows)
    yield from _scales(means)
    yield from ("", "## All rows", "")
    yield "Error % / expected error % / scale, means over seeds."
    yield ""
    yield f"| data | labelled by | labels | seeds | {' | '.join(NAMES)} |"
    yield "| --- | --- | ---: | ---: |" + " --- |" * len(NAMES)
    for (name, strategy, size), mean in means.items():
        cells = [f"{100 * e:.1f} / {100 * s:.1f} / {g:.2g}" for e, _, s, g in mean]
        n_seeds = len(groups[name, strategy, size])
        yield f"| {name} | {TITLES[strategy]} | {size} | {n_seeds} | {' | '.join(cells)} |"


def _beside_the_learnt(title: str, rows: np.ndarray) -> Iterator[str]:
    """Means of rows (rows, recipes, 4): differences from the learnt prior's."""
    error, loss = np.mean(rows - rows[:, [NAMES.index(LEARNT)]], axis=0).T[:2]
    distance = 100 * np.abs(rows[:, :, 2] - rows[:, :, 0]).mean(axis=0)
    yield from ("", f"## {title}", "")
    yield "| prior | error, points | log loss, nats | expected error from the true one, points |"
    yield "| --- | ---: | ---: | ---: |"
    for name, *values in zip(NAMES, 100 * error, loss, distance, strict=True):
        yield "| {} | {:+.2f} | {:+.3f} | {:.1f} |".format(name, *values)


def _scales(means: dict[tuple[str, str, int], np.ndarray]) -> Iterator[str]:
    """The learnt scale by how the labels were chosen."""
    yield from ("", f"## The learnt scale, {LAST} labels", "")
    yield "| data | " + " | ".join(TITLES.values()) + " |"
    yield "| --- |" + " ---: |" * len(TITLES)
    for name in SETS:
        keys = [(name, strategy, LAST) for strategy in TITLES]
        if all(key in means for key in keys):
            scales = [f"{means[key][NAMES.index(LEARNT), 3]:.1f}" for key in keys]
            yield f"| {name} | {' | '.join(scales)} |"


HEAD = (
    "# Would another scale or shape of the prior be better?",
    "",
    "**None is noticeably better over seven datasets.** Written by `python studies prior.scale`;",
    "do not edit.",
    "",
    "The labels of a learner, random or chosen, are fitted under each prior; tests are of 1,000",
    "items. *Alike*: all directions have one variance. *Power*: a single power of the directions'",
    "variance. *× 0.5*: the learnt prior with half of its standard deviations. *Narrow*: a",
    "hyperprior of half the width. *First 50*: learnt from the labels before any was chosen. *Best",
    "left-out*: the scale (or *alike*) with the best leave-one-out log score. *Averaged*:",
    "predictions of three scales, weighted by that score, which costs three fits. Errors and log",
    "losses are those beside the learnt prior's, means over rows; a row is a dataset with a number",
    "of labels.",
)
