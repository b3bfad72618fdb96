"""Where the authors' code departs from the paper's text, each as an option of an experiment.

Facts about github.com/ADDAPT-ML/ParBaLS as of commit f34befe, written anew from the definitions.
BADGE and GALAXY are not in that commit: they are those of LabelBench, on which it is built
(github.com/EfficientTraining/LabelBench, commit 9e23393). None of them is what parbals itself does.
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

from parbals_bench.datasets.base import Data, halves
from parbals_bench.run.labelbench import labelbench_badge, labelbench_galaxy

__all__ = [
    "DEPARTURES",
    "BatchRequest",
    "candidate_limit",
    "check_departures",
    "choose_batch",
    "prepare_data",
]

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
    "badge-start": "BADGE starts at the longest gradient and has no bias column (LabelBench)",
    "galaxy-path": "GALAXY sees labels, extends cuts of one direction, else is random (LabelBench)",
    "split": "scikit-learn halves Airline's test file, with random_state 42",
}


_SPLIT_SEED = 42
Model = Any
"""With ``sample_proba``, ``predict_proba`` and ``condition``."""


@dataclass(frozen=True)
class BatchRequest:
    """One round: candidates (N, D) with true classes (N,), targets (M, D) and the labelled rows."""

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
    """Validate names separated by commas and put them into one order; "all" means every departure.

    >>> check_departures("map,badge")
    'badge,map'
    """
    requested = set(DEPARTURES) if names == "all" else {name for name in names.split(",") if name}
    unknown = sorted(requested - set(DEPARTURES))
    if unknown:
        raise InputError(
            f"There is no departure {unknown[0]!r}; choose from: {', '.join(DEPARTURES)}, or all."
        )
    return ",".join(name for name in DEPARTURES if name in requested)


def prepare_data(data: Data, departures: str) -> Data:
    """Whiten an encoder's features and split Airline's rows, if departures ask for it."""
    names = departures.split(",")
    is_table = np.isin(data.X_pool[:64], (0.0, 1.0)).all()
    if "split" in names and data.name == "airline":
        return _split_again(data)
    if "whitened" in names and not is_table:
        return _whitened(data)
    return data


def _whitened(data: Data) -> Data:
    mean = data.X_pool.mean(axis=0)
    deviation = data.X_pool.std(axis=0)
    deviation[deviation == 0] = 1.0
    whitened = {
        name: ((getattr(data, name) - mean) / deviation).astype(np.float32)
        for name in ("X_pool", "X_target_source", "X_test")
    }
    return replace(data, **whitened)


def _split_again(data: Data) -> Data:
    """The rows of test.csv in their order, halved as the authors halve them."""
    from sklearn.model_selection import train_test_split

    if data.y_target_source is None:
        raise InputError(f"{data.name}: the departure split needs the labels of the target source.")
    n_rows = len(data.y_target_source) + len(data.y_test)
    target_rows, test_rows = halves(n_rows, data.name)
    X = np.empty((n_rows, data.X_test.shape[1]), data.X_test.dtype)
    X[target_rows] = data.X_target_source
    X[test_rows] = data.X_test
    y = np.empty(n_rows, data.y_test.dtype)
    y[target_rows] = data.y_target_source
    y[test_rows] = data.y_test
    target, test = train_test_split(np.arange(n_rows), test_size=0.5, random_state=_SPLIT_SEED)
    return replace(
        data,
        X_target_source=X[target],
        y_target_source=y[target],
        X_test=X[test],
        y_test=y[test],
    )


def candidate_limit(strategy: str, departures: str, default: int) -> int | None:
    """The number of candidates of a round; None means the whole pool."""
    allows_whole_pool = "whole-pool" in departures.split(",")
    if allows_whole_pool and not strategy_named(strategy).needs_target:
        return None
    return default


def choose_batch(request: BatchRequest, departures: str) -> Batch | dict[str, Any]:
    """Choose as the authors' code does; a dict has options with which parbals chooses alike."""
    names = departures.split(",")
    strategy = request.strategy
    if strategy == "badge" and "badge-start" in names:
        softens = "badge" in names
        probs = _second_softmax(request) if softens else request.model.predict_proba(request.X)
        indices, scores = labelbench_badge(probs, request.X, request.batch_size, request.seed)
        return _batch(request, indices, scores)
    if strategy == "galaxy" and "galaxy-path" in names:
        return _galaxy_path(request)
    if strategy in ("badge", "galaxy", "power-epig") and strategy in names:
        return {"badge": _badge, "galaxy": _galaxy, "power-epig": _random}[strategy](request)
    if strategy == "parbals-epig" and {"pseudo-labels", "refit"} & set(names):
        return _parbals(request, "refit" in names, draws_labels="pseudo-labels" not in names)
    if strategy == "parbals-map-epig" and {"map", "refit"} & set(names):
        return _parbals_map(request, "refit" in names, updates_labels="map" in names)
    if "bits" in names and strategy == "softmax-epig":
        return {"beta": len(request.X_targets) / np.log(2.0)}
    if "bits" in names and strategy == "softmax-bald":
        return {"beta": 1.0 / np.log(2.0)}
    return {}


def _second_softmax(request: BatchRequest) -> np.ndarray:
    """(N, C) probabilities that went through a softmax as if they were logits."""
    exponentials = np.exp(request.model.predict_proba(request.X))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def _badge(request: BatchRequest) -> Batch:
    return select_batch(
        _second_softmax(request)[:, None],
        None,
        request.batch_size,
        "badge",
        pool_features=request.X,
        random_state=request.seed,
    )


def _galaxy_path(request: BatchRequest) -> Batch:
    p_first = request.model.predict_proba(request.X)[:, 0]
    p_first_labelled = request.model.predict_proba(request.X_labelled)[:, 0]
    indices = labelbench_galaxy(
        np.concatenate([p_first, p_first_labelled]),
        np.concatenate([request.y, request.y_labelled]) == 0,
        np.arange(len(p_first) + len(p_first_labelled)) >= len(p_first),
        request.batch_size,
        request.seed,
    )
    return _batch(request, indices, np.zeros(len(indices)))


def _random(request: BatchRequest) -> Batch:
    uniform = np.full((len(request.X), 1, 2), 0.5)
    return select_batch(uniform, None, request.batch_size, "random", random_state=request.seed)


def _galaxy(request: BatchRequest) -> Batch:
    """Choose one point at a time; its label is known before the next is chosen."""
    probs = request.model.predict_proba(request.X)[:, None]
    labelled_probs = request.model.predict_proba(request.X_labelled)[:, None]
    indices: list[int] = []
    for _ in range(request.batch_size):
        free = np.setdiff1d(np.arange(len(request.X)), indices)
        batch = select_batch(
            probs[free],
            None,
            1,
            "galaxy",
            labelled_probs=np.concatenate([labelled_probs, probs[indices]]),
            labels=np.concatenate([request.y_labelled, request.y[indices]]),
            random_state=request.seed,
        )
        indices.append(int(free[batch.indices[0]]))
    return _batch(request, indices, np.zeros(len(indices)))


def _parbals(request: BatchRequest, refits: bool, draws_labels: bool) -> Batch:
    """ParBaLS with all pseudo-labels set before the first choice, one set for each universe."""
    generator = derive_generator(request.seed, "authors")
    samples = request.model.sample_proba(request.X)
    draws = generator.choice(samples.shape[1], request.n_universes, replace=False)
    probs = samples[:, draws].transpose(1, 0, 2)  # (U, N, C)
    if draws_labels:
        is_below = np.cumsum(probs, axis=2) < generator.random((*probs.shape[:2], 1))
        labels = np.minimum(is_below.sum(axis=2), probs.shape[2] - 1)
    else:
        labels = probs.argmax(axis=2)

    def update_models(models: list[Model], indices: list[int]) -> list[Model]:
        universes = models * request.n_universes if len(models) == 1 else models
        return [
            _updated_model(request, model, indices, universe_labels[indices], refits)
            for model, universe_labels in zip(universes, labels, strict=True)
        ]

    return _greedy(request, update_models)


def _parbals_map(request: BatchRequest, refits: bool, updates_labels: bool) -> Batch:
    """ParBaLS with one universe, labelled with the likeliest classes."""
    initial_labels = request.model.predict_proba(request.X).argmax(axis=1)
    pseudo_labels: list[int] = []

    def update_models(models: list[Model], indices: list[int]) -> list[Model]:
        (model,) = models
        latest = indices[-1]
        label = initial_labels[latest]
        if updates_labels:
            label = model.predict_proba(request.X[[latest]]).argmax(axis=1)[0]
        pseudo_labels.append(int(label))
        return [_updated_model(request, model, indices, np.array(pseudo_labels), refits)]

    return _greedy(request, update_models)


def _greedy(
    request: BatchRequest, update_models: Callable[[list[Model], list[int]], list[Model]]
) -> Batch:
    """B times: choose the point with the highest mean EPIG of all models, and update these."""
    models: list[Model] = [request.model]
    indices: list[int] = []
    scores: list[float] = []
    for _ in range(request.batch_size):
        model_scores = [
            epig(model.sample_proba(request.X), model.sample_proba(request.X_targets))
            for model in models
        ]
        mean_scores = np.mean(model_scores, axis=0)
        mean_scores[indices] = -np.inf
        best = int(mean_scores.argmax())
        indices.append(best)
        scores.append(float(mean_scores[best]))
        if len(indices) < request.batch_size:
            models = update_models(models, indices)
    return _batch(request, indices, np.array(scores))


def _updated_model(
    request: BatchRequest, model: Model, indices: list[int], labels: np.ndarray, refits: bool
) -> Model:
    """A model that has learnt the labels (b,) of the points chosen so far."""
    if not refits:
        return model.condition(request.X[indices[-1:]], labels[-1:])
    X = np.concatenate([request.X_labelled, request.X[indices]])
    return request.fit(X, np.concatenate([request.y_labelled, labels]))


def _batch(request: BatchRequest, indices: list[int], scores: np.ndarray) -> Batch:
    n = len(indices)
    return Batch(
        indices=np.array(indices),
        scores=scores,
        initial_scores=scores,
        effective_sample_size=np.full(n, np.nan),
        strategy=request.strategy,
        n_exact=np.full(n, len(request.X)),
        n_samples=0,
        n_candidates=len(request.X),
    )
