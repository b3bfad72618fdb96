"""Would another scale or shape of the learnt prior be better, for random and chosen labels?

    python studies prior.scale --data FOLDER  # run what is missing, write table.txt
    python studies prior.scale --tables       # write table.txt from the records

A learner labels items at random (50, 100, 250) or by a strategy (250, of which 50 begin). Its
labels are then fitted under each recipe of a prior, and the error, the log loss, the expected error
as a report shows it and the scale are noted on a test set. Each run is a line of record.jsonl. In
the table: error % / expected error % as shown / scale; last, means of the error in points and the
log loss in nats beside the learnt prior's, and of |shown - real| in points.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.records import Record, Todo, study
from parbals.learner.evaluation.expectation import fit_temperature, temperature_scaled
from parbals.posterior.closed import prior
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


def main() -> int:
    options = {"sets": ",".join(SETS), "strategies": ",".join(STRATEGIES)}
    records = FOLDER / "record.jsonl"
    return study(__doc__, records, FOLDER / "table.txt", runs, page, seeds=10, options=options)


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


def patched(terms: dict[str, Any], *arguments: Any) -> Prior:
    """The learnt prior with other constants of its module."""
    originals = {name: getattr(prior, name) for name in terms}
    try:
        for name, value in terms.items():
            setattr(prior, name, value)
        return learn_prior(*arguments)
    finally:
        for name, value in originals.items():
            setattr(prior, name, value)


def of_first(X: np.ndarray, y: np.ndarray, n_classes: int, pool: Any) -> Prior:
    """Scale and shape by the first labels, which are random."""
    return learn_prior(X[:FIRST], y[:FIRST], n_classes, pool)


RECIPES: dict[str, Callable[..., Prior]] = {
    "scale 1": lambda X, *_: fixed_prior(1.0, X.shape[1]),
    "alike": scale_alone,
    "power ½": partial(patched, {"POWERS": (0.5,), "_LOG_PRIOR_SHARES": (0.0,)}),
    "power 1": partial(patched, {"POWERS": (1.0,), "_LOG_PRIOR_SHARES": (0.0,)}),
    f"{LEARNT} × 0.5": partial(scaled, 0.5),
    LEARNT: learn_prior,
    f"{LEARNT} × 2": partial(scaled, 2.0),
    "narrow": partial(patched, {"_LOG_SCALE_SD": 0.5}),
    "first 50": of_first,
}


def page(records: list[Record]) -> Iterator[str]:
    names = [*RECIPES, "best left-out", "averaged"]
    groups: dict[tuple[Any, ...], list[np.ndarray]] = {}
    for record in records:
        values = np.array([record["recipes"][name] for name in names])
        groups.setdefault(tuple(record["run"][:3]), []).append(values)
    yield f"| data | labelled by | labels | runs | {' | '.join(names)} |"
    yield "| --- | --- | ---: | ---: |" + " --- |" * len(names)
    for (name, strategy, size), rows in sorted(groups.items()):
        cells = [f"{100 * e:.1f} / {100 * s:.1f} / {g:.2g}" for e, _, s, g in np.mean(rows, axis=0)]
        yield f"| {name} | {strategy} | {size} | {len(rows)} | {' | '.join(cells)} |"
    for strategy in STRATEGIES:
        group_means = [np.mean(rows, axis=0) for (_, s, _), rows in groups.items() if s == strategy]
        if group_means:
            all_rows = np.array(group_means)
            error, loss = np.mean(all_rows - all_rows[:, names.index(LEARNT), None], axis=0).T[:2]
            apart = 100 * np.abs(all_rows[:, :, 2] - all_rows[:, :, 0]).mean(axis=0)
            triples = zip(100 * error, loss, apart, strict=True)
            cells = [f"{e:+.2f} / {v:+.3f} / {a:.1f}" for e, v, a in triples]
            yield f"| *mean* | {strategy} | | {len(group_means)} rows | {' | '.join(cells)} |"
