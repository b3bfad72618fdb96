"""One run of the paper's experiment: a pure function of data, budget, strategy, options and seed.

All strategies of one seed start from the same initial set and see the same candidates and targets
in every round: those are drawn from generators keyed by seed and round alone. The pool is put into
a random order for each round and its first unlabelled points are the candidates, so two strategies'
candidates differ only where their labelled points do.
"""

import platform
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain
from time import perf_counter
from typing import Any, cast

import numpy as np
from parbals.errors import InputError, ParbalsWarning
from parbals.randomness import derive_generator, table_digest
from parbals.scores.losses import Loss

from parbals_bench.datasets.base import Data
from parbals_bench.run.metrics import measure
from parbals_bench.run.records import RunRecord
from parbals_bench.run.spec import PAPER, Budget, Run, Settings

__all__ = ["data_digest", "draw_candidates", "draw_initial", "draw_targets", "run_one"]

_VALIDATION_SHARE = 0.2
_N_MOMENT_ROWS = 4_096
_SCORE_OPTIONS = ("beta", "n_configurations")
_DIGEST_BLOCK_ROWS = 8_192


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

    Equal arguments give equal records, except for the seconds.

    Args:
        data: the dataset.
        budget: initial labels + rounds x batch.
        strategy: a name from ``parbals strategies``.
        options: ``beta`` and ``n_configurations`` as in :func:`parbals.select_batch`; others go to
            the strategy.
        seed: determines the initial set, the subsamples of every round, the model's draws and the
            strategy's random choices.
        settings: sizes of a round, the model and the loss that batches are chosen by.

    >>> from parbals_bench.datasets.table import load_dataset
    >>> settings = Settings(n_candidates=100, n_targets=40, inference="ep")
    >>> record = run_one(load_dataset("breast-cancer"), "20+2x5", "confidence", settings=settings)
    >>> [len(batch) for batch in record.chosen]
    [5, 5]
    """
    # Loaded only here: what a run is can be known without JAX.
    from parbals_bench.run.authors import prepare_data

    budget = Budget.parse(budget)
    _check_budget(budget, data)
    options = dict(options or {})
    run = Run(data.name, budget, strategy, seed, data.positive, options, settings)
    data = prepare_data(data, settings.departures)
    experiment = _Experiment(run, data)
    log = _RunLog(notes=list(data.notes))  # the notes say what differs from the published data
    initial = draw_initial(seed, len(data.y_pool), budget.initial)
    n_validation = _n_validation(strategy, len(initial))
    validation = initial[:n_validation]
    training = initial[n_validation:]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ParbalsWarning)
        for round_number in range(budget.rounds + 1):
            model = experiment.fit_and_measure(training, round_number, log)
            if round_number < budget.rounds:
                batch = experiment.choose_batch(model, validation, training, round_number, log)
                training = np.concatenate([training, batch])
    log.notes += _parbals_messages(caught)
    return RunRecord(
        run=run,
        metrics={name: _rounded(values, 7) for name, values in log.metrics.items()},
        initial=tuple(initial.tolist()),
        chosen=tuple(tuple(batch.tolist()) for batch in log.batches),
        seconds={name: _rounded(values, 4) for name, values in log.seconds.items()},
        versions=_versions(),
        data=data_digest(data),
        inference=tuple(log.inferences),
        notes=tuple(dict.fromkeys(log.notes)),
    )


@dataclass
class _RunLog:
    """What a run measures, round by round."""

    notes: list[str]
    metrics: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(
        default_factory=lambda: {"fit": [], "predict": [], "select": []}
    )
    batches: list[np.ndarray] = field(default_factory=list)
    inferences: list[str] = field(default_factory=list)


class _Experiment:
    """The steps of a round: fit, measure, choose."""

    def __init__(self, run: Run, data: Data) -> None:
        self._run = run
        self._data = data
        self._settings = run.settings
        self._y_pool = np.asarray(data.y_pool).astype(np.int64)
        self._y_test = np.asarray(data.y_test).astype(np.int64)
        self._strategy_options = dict(run.options)
        self._score_options = {
            name: self._strategy_options.pop(name)
            for name in _SCORE_OPTIONS
            if name in self._strategy_options
        }
        self._moments = _pool_moments(data.X_pool, run.seed, self._settings)

    def fit_and_measure(self, training: np.ndarray, round_number: int, log: _RunLog) -> Any:
        """Fit a model to the training rows, and log its metrics on the test set."""
        started_at = perf_counter()
        model = self._fit(self._data.X_pool[training], self._y_pool[training], round_number)
        fitted_at = perf_counter()
        probs = model.predict_proba(self._data.X_test)
        predicted_at = perf_counter()
        log.seconds["fit"].append(fitted_at - started_at)
        log.seconds["predict"].append(predicted_at - fitted_at)
        log.inferences.append(model.diagnostics_.inference)
        for name, value in measure(probs, self._y_test, self._settings.metric).items():
            log.metrics.setdefault(name, []).append(value)
        return model

    def choose_batch(
        self,
        model: Any,
        validation: np.ndarray,
        training: np.ndarray,
        round_number: int,
        log: _RunLog,
    ) -> np.ndarray:
        """Choose the next batch, log it, and return its pool positions (B,)."""
        from parbals_bench.run.authors import BatchRequest, candidate_limit, choose_batch

        seed = self._run.seed
        settings = self._settings
        labelled = np.concatenate([validation, training])
        n_candidates = candidate_limit(
            self._run.strategy, settings.departures, settings.n_candidates
        )
        candidates = draw_candidates(seed, round_number, len(self._y_pool), labelled, n_candidates)
        n_source = len(self._data.X_target_source)
        targets = draw_targets(seed, round_number, n_source, settings.n_targets)
        X_candidates = self._data.X_pool[candidates]
        X_targets = self._data.X_target_source[targets]

        started_at = perf_counter()
        request = BatchRequest(
            strategy=self._run.strategy,
            batch_size=self._run.budget.batch,
            model=model,
            fit=lambda X, y: self._fit(X, y, round_number),
            X=X_candidates,
            y=self._y_pool[candidates],
            X_targets=X_targets,
            X_labelled=self._data.X_pool[labelled],
            y_labelled=self._y_pool[labelled],
            n_universes=settings.n_universes,
            seed=_derived_seed(seed, "select", round_number),
        )
        batch: Any = {}
        if settings.departures:
            batch = choose_batch(request, settings.departures)
        if isinstance(batch, dict):
            batch = self._select(request, len(validation), batch)
        log.seconds["select"].append(perf_counter() - started_at)
        log.notes += batch.notes
        log.batches.append(candidates[batch.indices])
        return log.batches[-1]

    def _select(self, request: Any, n_validation: int, score_options: dict[str, Any]) -> Any:
        """The batch that parbals chooses; validation rows come first among the labelled ones."""
        from parbals.select import select_batch_from_model

        keywords = dict(self._score_options)
        if n_validation:
            keywords["validation"] = np.arange(n_validation)
        return select_batch_from_model(
            request.model,
            request.X,
            request.X_targets,
            request.batch_size,
            request.strategy,
            n_universes=request.n_universes,
            random_state=request.seed,
            X_labelled=request.X_labelled,
            y_labelled=request.y_labelled,
            loss=cast(Loss, self._settings.loss),
            options=self._strategy_options,
            **(keywords | score_options),
        )

    def _fit(self, X: np.ndarray, y: np.ndarray, round_number: int) -> Any:
        from parbals.posterior.estimator import LogisticModel

        seed = _derived_seed(self._run.seed, "model", round_number)
        if self._settings.model:
            from parbals_bench.run.own_models import OwnModel

            return OwnModel(self._settings.model, len(self._data.classes), seed).fit(X, y)
        model = LogisticModel(
            self._settings.n_samples,
            prior_scale=self._settings.prior_scale,
            inference=self._settings.inference,
            classes=np.arange(len(self._data.classes)),
            random_state=seed,
        )
        return model.fit(X, y, self._moments)


def _check_budget(budget: Budget, data: Data) -> None:
    if budget.total > len(data.X_pool):
        raise InputError(
            f"The budget {budget} asks for {budget.total} labels and {data.name} has a pool of "
            f"{len(data.X_pool)}; choose a smaller budget."
        )


def _n_validation(strategy: str, n_initial: int) -> int:
    """Initial labels that a strategy validates on instead of training on them."""
    from parbals.strategies.table import strategy_named

    if not strategy_named(strategy).holds_out:
        return 0
    return max(1, round(_VALIDATION_SHARE * n_initial))


def _pool_moments(X_pool: np.ndarray, seed: int, settings: Settings) -> Any:
    """Moments of a random part of the pool, from which the prior is learnt; None if it is fixed."""
    from parbals.posterior.closed.whitening import PoolMoments

    if settings.prior_scale != "auto":
        return None
    order = derive_generator(seed, "bench moments").permutation(len(X_pool))
    return PoolMoments.of(X_pool[np.sort(order[:_N_MOMENT_ROWS])])


def _parbals_messages(caught: Iterable[warnings.WarningMessage]) -> list[str]:
    """Texts of our own warnings, to be noted in the record; all others are issued again."""
    messages = []
    for warning in caught:
        if issubclass(warning.category, ParbalsWarning):
            messages.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return messages


def draw_initial(seed: int, n_pool: int, size: int) -> np.ndarray:
    """Pool positions of the initial set: uniform, without replacement, in random order."""
    return derive_generator(seed, "bench initial").permutation(n_pool)[:size]


def draw_candidates(
    seed: int, round_number: int, n_pool: int, labelled: np.ndarray, size: int | None
) -> np.ndarray:
    """Positions of the first ``size`` unlabelled points in this round's random order, ascending."""
    order = derive_generator(seed, "bench candidates", round_number).permutation(n_pool)
    is_free = np.ones(n_pool, bool)
    is_free[labelled] = False
    return np.sort(order[is_free[order]][:size])


def draw_targets(seed: int, round_number: int, n_source: int, size: int) -> np.ndarray:
    """Positions of at most ``size`` target points, ascending."""
    order = derive_generator(seed, "bench targets", round_number).permutation(n_source)
    return np.sort(order[:size])


def _rounded(values: list[float], digits: int) -> tuple[float, ...]:
    return tuple(round(value, digits) for value in values)


def _derived_seed(seed: int, *path: Any) -> int:
    return int(derive_generator(seed, "bench", *path).integers(2**62))


def data_digest(data: Data) -> str:
    """A fingerprint of the data: exact labels, features to a thousandth of their column's maximum.

    Features from a PCA differ in their last digits between machines and numbers of threads; runs
    on them belong together nevertheless.
    """
    blocks = [
        (table, slice(start, start + _DIGEST_BLOCK_ROWS))
        for table in (data.X_pool, data.X_target_source, data.X_test)
        for start in range(0, len(table), _DIGEST_BLOCK_ROWS)
    ]
    block_maxima = [np.abs(table[rows]).max(axis=0) for table, rows in blocks]
    column_maxima = np.max(block_maxima, axis=0).astype(np.float64)
    # A column of rounding errors, tiny compared with the others, must not count.
    floor = 2.0**-40 * column_maxima.max(initial=0.0)
    _, exponents = np.frexp(np.maximum(column_maxima, floor))
    steps = np.exp2(exponents - 10.0)
    rounded = (np.rint(np.asarray(table[rows]) / steps) + 0.0 for table, rows in blocks)
    labels = (np.asarray(data.y_pool), np.asarray(data.y_test))
    return table_digest(chain(labels, rounded))


def _versions() -> dict[str, str]:
    """Versions of Python, the libraries and the device.

    JAX is named only if the run has loaded it: asking for its device would start it.
    """
    from parbals import __version__

    libraries = {name: version(name) for name in ("numpy", "scikit-learn", "scipy")}
    device = "cpu"
    if (jax := sys.modules.get("jax")) is not None:
        libraries["jax"] = version("jax")
        device = f"{jax.default_backend()}: {jax.devices()[0].device_kind}"
    return {
        "parbals": __version__,
        "python": platform.python_version(),
        **libraries,
        "device": device,
    }
