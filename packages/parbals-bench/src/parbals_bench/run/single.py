"""One run of the paper's experiment: a pure function of data, budget, strategy, options and seed.

All strategies of one seed start from the same initial set and see the same candidates and targets
in every round: those are drawn from generators keyed by seed and round alone. The pool is put into
a random order for each round and its first unlabelled points are the candidates, so two strategies'
candidates differ only where their labelled points do.
"""

import platform
import sys
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from itertools import chain
from time import perf_counter
from typing import Any, cast

import numpy as np
from parbals.errors import InputError, ParbalsWarning
from parbals.randomness import derive_generator, table_digest
from parbals.scores.losses import Loss

from parbals_bench.datasets.base import Data
from parbals_bench.run.metrics import METRICS, measure
from parbals_bench.run.records import RunRecord
from parbals_bench.run.spec import PAPER, Budget, Run, Settings

__all__ = ["data_digest", "draw_candidates", "draw_initial", "draw_targets", "run_one"]

_VALIDATION_SHARE = 0.2
_MOMENTS_OF = 4_096
_KEYWORDS = ("beta", "n_configurations")


def run_one(
    data: Data,
    budget: Budget | str,
    strategy: str,
    *,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    settings: Settings = PAPER,
) -> RunRecord:
    """Label, fit, measure and choose, round after round.

    The same arguments give the same record, seconds apart.

    Args:
        data: the dataset.
        budget: initial labels + rounds x batch.
        strategy: a name from ``parbals strategies``.
        options: ``beta`` and ``n_configurations`` as in :func:`parbals.select_batch`; others go to
            the strategy.
        seed: decides the initial set, the subsamples of every round, the model's draws and the
            strategy's chances.
        settings: sizes of a round, the model and what batches are chosen by.
    """
    # Loaded only here: what a run is can be known without JAX.
    from parbals.posterior.closed.prior import PoolMoments
    from parbals.posterior.estimator import LogisticModel
    from parbals.select import select_batch_from_model
    from parbals.strategies.table import strategy_named

    from parbals_bench.run.authors import Choice, candidate_limit, choose, prepared

    departures = settings.departures
    data = prepared(data, departures)
    holds_out = strategy_named(strategy).holds_out
    budget = Budget.parse(budget)
    given = dict(options or {})
    if budget.total > len(data.X_pool):
        raise InputError(
            f"The budget {budget} asks for {budget.total} labels and {data.name} has a pool of "
            f"{len(data.X_pool)}; choose a smaller budget."
        )
    y_pool, y_test = (np.asarray(y).astype(np.int64) for y in (data.y_pool, data.y_test))
    n_classes = len(data.classes)
    run = Run(data.name, budget, strategy, seed, data.positive, dict(given), settings)

    keywords: dict[str, Any] = {name: given.pop(name) for name in _KEYWORDS if name in given}
    initial = draw_initial(seed, len(y_pool), budget.initial)
    n_held = max(1, round(_VALIDATION_SHARE * len(initial))) if holds_out else 0
    held, training = initial[:n_held], initial[n_held:]
    metrics: dict[str, list[float]] = {name: [] for name in METRICS}
    seconds: dict[str, list[float]] = {"fit": [], "predict": [], "select": []}
    chosen: list[np.ndarray] = []
    inferences: list[str] = []
    notes: list[str] = list(data.notes)  # what differs from the published data

    moments = None
    if settings.prior_scale == "auto":
        order = derive_generator(seed, "bench moments").permutation(len(y_pool))
        moments = PoolMoments.of(data.X_pool[np.sort(order[:_MOMENTS_OF])])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ParbalsWarning)
        for round_number in range(budget.rounds + 1):
            begun = perf_counter()

            def fit(X: np.ndarray, y: np.ndarray, number: int = round_number) -> LogisticModel:
                return LogisticModel(
                    settings.n_samples,
                    prior_scale=settings.prior_scale,
                    inference=settings.inference,
                    classes=np.arange(n_classes),
                    random_state=_number(seed, "model", number),
                ).fit(X, y, moments)

            model = fit(data.X_pool[training], y_pool[training])
            fitted = perf_counter()
            inferences.append(model.diagnostics_.inference)
            probs = model.predict_proba(data.X_test)
            seconds["fit"].append(fitted - begun)
            seconds["predict"].append(perf_counter() - fitted)
            for name, value in measure(probs, y_test).items():
                metrics[name].append(value)
            if round_number == budget.rounds:
                break

            labelled = np.concatenate([held, training])
            n_source = len(data.X_target_source)
            size = candidate_limit(strategy, departures, settings.n_candidates)
            candidates = draw_candidates(seed, round_number, len(y_pool), labelled, size)
            targets = draw_targets(seed, round_number, n_source, settings.n_targets)
            if n_held:
                keywords["validation"] = np.arange(n_held)
            X_candidates, X_targets = data.X_pool[candidates], data.X_target_source[targets]
            begun, chance = perf_counter(), _number(seed, "select", round_number)
            known = data.X_pool[labelled], y_pool[labelled]
            batch: Any = {}
            if departures:
                round_ = Choice(
                    strategy, budget.batch, model, fit, X_candidates, y_pool[candidates],
                    X_targets, *known, settings.n_universes, chance,
                )  # fmt: skip
                batch = choose(round_, departures)
            if isinstance(batch, dict):
                batch = select_batch_from_model(
                    model,
                    X_candidates,
                    X_targets,
                    budget.batch,
                    strategy,
                    n_universes=settings.n_universes,
                    random_state=chance,
                    X_labelled=known[0],
                    y_labelled=known[1],
                    loss=cast(Loss, settings.loss),
                    options=given,
                    **(keywords | batch),
                )
            seconds["select"].append(perf_counter() - begun)
            notes += batch.notes
            chosen.append(candidates[batch.indices])
            training = np.concatenate([training, chosen[-1]])
    for warning in caught:
        if issubclass(warning.category, ParbalsWarning):
            notes.append(str(warning.message))
        else:
            place = (warning.filename, warning.lineno)
            warnings.warn_explicit(warning.message, warning.category, *place)

    return RunRecord(
        run=run,
        metrics={name: _rounded(x, 7) for name, x in metrics.items()},
        initial=tuple(initial.tolist()),
        chosen=tuple(tuple(indices.tolist()) for indices in chosen),
        seconds={name: _rounded(x, 4) for name, x in seconds.items()},
        versions=_versions(),
        data=data_digest(data),
        inference=tuple(inferences),
        notes=tuple(dict.fromkeys(notes)),
    )


def draw_initial(seed: int, n_pool: int, size: int) -> np.ndarray:
    """Pool positions of the initial set: uniform, without replacement, in random order."""
    return derive_generator(seed, "bench initial").permutation(n_pool)[:size]


def draw_candidates(
    seed: int, round_number: int, n_pool: int, labelled: np.ndarray, size: int | None
) -> np.ndarray:
    """Positions of at most ``size`` unlabelled pool points, ascending: this round's first ones."""
    order = derive_generator(seed, "bench candidates", round_number).permutation(n_pool)
    free = np.ones(n_pool, bool)
    free[labelled] = False
    return np.sort(order[free[order]][:size])


def draw_targets(seed: int, round_number: int, n_source: int, size: int) -> np.ndarray:
    """Positions of at most ``size`` target points, ascending."""
    order = derive_generator(seed, "bench targets", round_number).permutation(n_source)
    return np.sort(order[:size])


def _rounded(values: list[float], digits: int) -> tuple[float, ...]:
    return tuple(round(value, digits) for value in values)


def _number(seed: int, *path: Any) -> int:
    return int(derive_generator(seed, "bench", *path).integers(2**62))


def data_digest(data: Data) -> str:
    """A name for the data: labels exactly, features to a thousandth of their column's largest.

    Features that a PCA made differ in their last digits from machine to machine, and with the
    number of threads on one machine; runs on them belong together all the same.
    """
    size = 8192
    blocks = [
        (table, slice(first, first + size))
        for table in (data.X_pool, data.X_target_source, data.X_test)
        for first in range(0, len(table), size)
    ]
    tops = [np.abs(table[rows]).max(axis=0) for table, rows in blocks]
    largest = np.max(tops, axis=0).astype(np.float64)
    # A column that is nothing but rounding errors beside the others must not count.
    _, exponents = np.frexp(np.maximum(largest, 2.0**-40 * largest.max(initial=0.0)))
    steps = np.exp2(exponents - 10.0)
    coarse = (np.rint(np.asarray(table[rows]) / steps) + 0.0 for table, rows in blocks)
    return table_digest(chain((np.asarray(data.y_pool), np.asarray(data.y_test)), coarse))


def _versions() -> dict[str, str]:
    """Of JAX only where the run has loaded it: to ask for its device would start it."""
    from parbals import __version__

    others = {name: version(name) for name in ("numpy", "scikit-learn", "scipy")}
    device = "cpu"
    if (jax := sys.modules.get("jax")) is not None:
        others["jax"] = version("jax")
        device = f"{jax.default_backend()}: {jax.devices()[0].device_kind}"
    return {"parbals": __version__, "python": platform.python_version(), **others, "device": device}
