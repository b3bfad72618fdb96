"""Where the authors' code departs from the paper's text, each as an option of an experiment.

Facts about github.com/ADDAPT-ML/ParBaLS as of commit f34befe, written anew from the definitions.
None of them is what parbals itself does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.randomness import derive_generator
from parbals.scores.epig import epig
from parbals.select import select_batch
from parbals.strategies.table import strategy_named
from parbals.types import Batch

from parbals_bench.datasets.base import Data

__all__ = ["DEPARTURES", "Choice", "candidate_limit", "check_departures", "choose", "prepared"]

DEPARTURES = {
    "whitened": "every principal component of an encoder is divided by its deviation",
    "whole-pool": "strategies without a target set choose from the whole pool",
    "badge": "BADGE's probabilities go through a second softmax",
    "galaxy": "GALAXY sees every label of a batch before it chooses the next point",
    "power-epig": "PowerEPIG takes the logarithm of negative numbers, and so chooses at random",
    "bits": "scores are in bits, and EPIG's are summed over the targets, before noise is added",
    "pseudo-labels": "pseudo-labels are the likeliest under single draws, not drawn",
    "map": "MAP's pseudo-labels are those of the model that knows the earlier ones",
    "refit": "every pseudo-label is learnt by sampling the whole posterior again",
}


Model = Any
"""With ``sample_proba``, ``predict_proba`` and ``condition``."""


@dataclass(frozen=True)
class Choice:
    """One round: candidates (N, D) with their true classes (N,), targets (M, D), labels so far."""

    strategy: str
    batch_size: int
    model: Model
    fit: Callable[[np.ndarray, np.ndarray], Model]
    X: np.ndarray
    y: np.ndarray
    X_targets: np.ndarray
    X_labelled: np.ndarray
    y_labelled: np.ndarray
    n_universes: int
    seed: int


def check_departures(names: str) -> str:
    """Names with commas between them, in one order; "all" are all of them."""
    given = set(DEPARTURES) if names == "all" else {name for name in names.split(",") if name}
    unknown = sorted(given - set(DEPARTURES))
    if unknown:
        raise InputError(
            f"There is no departure {unknown[0]!r}; choose from: {', '.join(DEPARTURES)}, or all."
        )
    return ",".join(name for name in DEPARTURES if name in given)


def prepared(data: Data, departures: str) -> Data:
    """The data of an experiment; tables are never whitened, only what an encoder made."""
    is_table = np.isin(data.X_pool[:64], (0.0, 1.0)).all()
    if "whitened" not in departures.split(",") or is_table:
        return data
    mean, deviation = data.X_pool.mean(axis=0), data.X_pool.std(axis=0)
    deviation[deviation == 0] = 1.0
    parts = {
        name: ((getattr(data, name) - mean) / deviation).astype(np.float32)
        for name in ("X_pool", "X_target_source", "X_test")
    }
    return replace(data, **parts)


def candidate_limit(strategy: str, departures: str, usual: int) -> int | None:
    """How many candidates a round has; None for all."""
    is_whole = "whole-pool" in departures.split(",")
    return None if is_whole and not strategy_named(strategy).needs_target else usual


def choose(given: Choice, departures: str) -> Batch | dict[str, Any]:
    """The batch as the authors' code chooses it, or what to pass to ours for the same."""
    names = departures.split(",")
    if given.strategy in ("badge", "galaxy", "power-epig") and given.strategy in names:
        return {"badge": _badge, "galaxy": _galaxy, "power-epig": _random}[given.strategy](given)
    if given.strategy == "parbals-epig" and {"pseudo-labels", "refit"} & set(names):
        return _parbals(given, "refit" in names, drawn="pseudo-labels" not in names)
    if given.strategy == "parbals-map-epig" and {"map", "refit"} & set(names):
        return _parbals_map(given, "refit" in names, renewed="map" in names)
    if "bits" in names and given.strategy == "softmax-epig":
        return {"beta": len(given.X_targets) / np.log(2.0)}
    if "bits" in names and given.strategy == "softmax-bald":
        return {"beta": 1.0 / np.log(2.0)}
    return {}


def _badge(given: Choice) -> Batch:
    powers = np.exp(given.model.predict_proba(given.X))
    twice = powers / powers.sum(axis=1, keepdims=True)
    return select_batch(
        twice[:, None], None, given.batch_size, "badge", pool_features=given.X,
        random_state=given.seed,
    )  # fmt: skip


def _random(given: Choice) -> Batch:
    same = np.full((len(given.X), 1, 2), 0.5)
    return select_batch(same, None, given.batch_size, "random", random_state=given.seed)


def _galaxy(given: Choice) -> Batch:
    """One point at a time; its label is known before the next is chosen."""
    probs = given.model.predict_proba(given.X)[:, None]
    known = given.model.predict_proba(given.X_labelled)[:, None]
    chosen: list[int] = []
    for _ in range(given.batch_size):
        free = np.setdiff1d(np.arange(len(given.X)), chosen)
        batch = select_batch(
            probs[free],
            None,
            1,
            "galaxy",
            labelled_probs=np.concatenate([known, probs[chosen]]),
            labels=np.concatenate([given.y_labelled, given.y[chosen]]),
            random_state=given.seed,
        )
        chosen.append(int(free[batch.indices[0]]))
    return _batch(given, chosen, np.zeros(len(chosen)))


def _parbals(given: Choice, refits: bool, drawn: bool) -> Batch:
    """Labels of all candidates are set before the first choice, one set for each universe."""
    generator = derive_generator(given.seed, "authors")
    samples = given.model.sample_proba(given.X)
    draws = generator.choice(samples.shape[1], given.n_universes, replace=False)
    probs = samples[:, draws].transpose(1, 0, 2)  # (U, N, C)
    if drawn:
        below = np.cumsum(probs, axis=2) < generator.random((*probs.shape[:2], 1))
        labels = np.minimum(below.sum(axis=2), probs.shape[2] - 1)
    else:
        labels = probs.argmax(axis=2)

    def learnt(models: list[Model], chosen: list[int]) -> list[Model]:
        starts = models * given.n_universes if len(models) == 1 else models
        return [
            _next(given, model, chosen, own[chosen], refits)
            for model, own in zip(starts, labels, strict=True)
        ]

    return _greedy(given, learnt)


def _parbals_map(given: Choice, refits: bool, renewed: bool) -> Batch:
    """One universe, labelled with the likeliest classes."""
    first = given.model.predict_proba(given.X).argmax(axis=1)
    known: list[int] = []

    def learnt(models: list[Model], chosen: list[int]) -> list[Model]:
        (model,), latest = models, chosen[-1]
        now = model.predict_proba(given.X[[latest]]).argmax(axis=1)[0]
        known.append(int(now if renewed else first[latest]))
        return [_next(given, model, chosen, np.array(known), refits)]

    return _greedy(given, learnt)


def _greedy(given: Choice, learnt: Callable[[list[Model], list[int]], list[Model]]) -> Batch:
    """The best point by the mean EPIG of the models, and what they learn from it, B times."""
    models: list[Model] = [given.model]
    chosen: list[int] = []
    scores: list[float] = []
    for _ in range(given.batch_size):
        each = [epig(m.sample_proba(given.X), m.sample_proba(given.X_targets)) for m in models]
        mean = np.mean(each, axis=0)
        mean[chosen] = -np.inf
        chosen.append(int(mean.argmax()))
        scores.append(float(mean[chosen[-1]]))
        if len(chosen) < given.batch_size:
            models = learnt(models, chosen)
    return _batch(given, chosen, np.array(scores))


def _next(
    given: Choice, model: Model, chosen: list[int], labels: np.ndarray, refits: bool
) -> Model:
    """A model that knows the labels (b,) of the points chosen so far."""
    if not refits:
        return model.condition(given.X[chosen[-1:]], labels[-1:])
    X = np.concatenate([given.X_labelled, given.X[chosen]])
    return given.fit(X, np.concatenate([given.y_labelled, labels]))


def _batch(given: Choice, chosen: list[int], scores: np.ndarray) -> Batch:
    n = len(chosen)
    return Batch(
        indices=np.array(chosen),
        scores=scores,
        initial_scores=scores,
        effective_sample_size=np.full(n, np.nan),
        strategy=given.strategy,
        n_exact=np.full(n, len(given.X)),
        n_samples=0,
        n_candidates=len(given.X),
    )
