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

HERE = Path(__file__).parent
SETS = ("ag-news:*", "ag-news:0", "sms-spam", "digits:*", "airline", "credit-card", "cifar10:*")
SETS += ("cifar10:0",)
SIZES = (50, 100, 250)
LAST = 250
FIRST = 50
STRATEGIES = ("random", "confidence", "parbals-epig")
TIMES = (0.5, 1.0, 2.0)
LEARNT = "learnt"


def main() -> int:
    options = {"sets": ",".join(SETS), "strategies": ",".join(STRATEGIES)}
    records = HERE / "record.jsonl"
    return study(__doc__, records, HERE / "table.txt", runs, page, seeds=4, options=options)


def runs(given: Namespace) -> Iterator[Todo]:
    for seed, strategy, name in product(
        range(given.seeds), given.strategies.split(","), given.sets.split(",")
    ):
        for size in SIZES if strategy == "random" else (LAST,):
            yield (name, strategy, size, seed), partial(measured, name, strategy, size, seed)


def measured(name: str, strategy: str, size: int, seed: int) -> Record:
    """Recipe → error, log loss, expected error as shown, scale."""
    import parbals

    X_pool, y_pool, X_test, y_test = divided(name)
    n_classes = int(y_pool.max()) + 1
    learner = parbals.ActiveLearner(X_pool, range(n_classes), strategy=strategy, random_state=seed)
    known = np.empty(0, int)
    while len(known) < size:
        out = learner.ask(FIRST if len(known) == 0 else 20 if strategy != "random" else size)
        out = out[: size - len(known)]
        learner.tell(out, y_pool[out])
        known = np.append(known, out)
    X = X_pool[known]
    y = y_pool[known]
    pool = PoolMoments.of(X_pool)
    found = {}
    models = {}
    for recipe, choose in RECIPES.items():
        chosen = choose(X, y, n_classes, pool)
        models[recipe] = model = fitted(X, y, n_classes, chosen._replace(sites=None))
        places, without = model.leave_one_out()
        score = np.log(np.maximum(without[np.arange(len(places)), y[places]], 1e-12)).sum()
        found[recipe] = (
            model.predict_proba(add_bias(X_test)),
            without,
            places,
            score,
            chosen.scale,
        )
    scales = [f"{LEARNT} × {times:g}" if times != 1 else LEARNT for times in TIMES]
    scores = np.array([found[recipe][3] for recipe in scales])
    shares = np.exp(scores - np.logaddexp.reduce(scores))
    found["best left-out"] = found[max((*scales, "alike"), key=lambda r: found[r][3])]
    found["averaged"] = tuple(
        sum(share * found[r][part] for share, r in zip(shares, scales, strict=True))
        if part in (0, 1, 4)
        else found[LEARNT][part]
        for part in range(5)
    )
    nothing = np.zeros((0, n_classes)), np.zeros(0, int)
    rows = {}
    for recipe, (probs, without, places, _, scale) in found.items():
        temperature = fit_temperature(
            (without, y[places]), nothing, actively_selected=strategy != "random"
        )
        shown = 1.0 - temperature_scaled(probs, temperature.value).max(axis=1).mean()
        error, _, loss = judged(probs, y_test)
        rows[recipe] = np.round([error, loss, shown, scale], 5).tolist()
    return {"recipes": rows}


def scaled(times: float, *terms: Any) -> Prior:
    found = learn_prior(*terms)
    return found._replace(whitening=found.whitening.times(times), scale=times * found.scale)


def patched(terms: dict[str, Any], *given: Any) -> Prior:
    """The learnt prior with other constants of its module."""
    kept = {name: getattr(prior, name) for name in terms}
    try:
        for name, value in terms.items():
            setattr(prior, name, value)
        return learn_prior(*given)
    finally:
        for name, value in kept.items():
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
        some = [np.mean(rows, axis=0) for (_, s, _), rows in groups.items() if s == strategy]
        if some:
            all_rows = np.array(some)
            error, loss = np.mean(all_rows - all_rows[:, names.index(LEARNT), None], axis=0).T[:2]
            apart = 100 * np.abs(all_rows[:, :, 2] - all_rows[:, :, 0]).mean(axis=0)
            said = zip(100 * error, loss, apart, strict=True)
            cells = [f"{e:+.2f} / {v:+.3f} / {a:.1f}" for e, v, a in said]
            yield f"| *mean* | {strategy} | | {len(some)} rows | {' | '.join(cells)} |"
