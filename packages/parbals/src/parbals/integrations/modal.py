"""modAL: strategies as a query function for its learners and committees.

    from modAL.models import ActiveLearner
    from parbals.integrations.modal import parbals_sampling

    learner = ActiveLearner(RandomForestClassifier(), parbals_sampling, X_start, y_start)
    positions, rows = learner.query(X_pool, n_instances=10)

Settings go through ``learner.query(X_pool, n_instances=10, strategy="bald")``, or once and for all
through ``functools.partial(parbals_sampling, strategy="bald")``.
"""

from typing import Any

import numpy as np

from parbals.errors import InputError
from parbals.learner.models import as_sample_model
from parbals.posterior.estimator import LogisticModel
from parbals.randomness import Seed
from parbals.select import select_batch_from_model
from parbals.strategies.table import COLD_START, DEFAULT, Strategy, strategy_named

__all__ = ["parbals_sampling"]


def parbals_sampling(
    classifier: Any,
    X: Any,
    n_instances: int = 1,
    strategy: str = DEFAULT,
    X_target: Any = None,
    random_state: Seed = None,
    **settings: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions (B,) of the chosen rows of X, and their scores (B,).

    Args:
        classifier: a fitted ``ActiveLearner`` whose estimator gives samples of its predictions:
            :class:`parbals.BayesianLogisticRegression`, a forest, bagging or soft voting, alone or
            at the end of a pipeline; or a ``Committee``. Strategies that look at averages alone
            (entropy, margin, ...) take any estimator with ``predict_proba``. Before the first
            labels, and until they are of two classes, ``coreset`` chooses.
        X: (N, D) the pool.
        n_instances: B.
        strategy: a name from ``parbals strategies``.
        X_target: (M, D) rows from the distribution the model will be judged on; without a shift
            leave it out.
        random_state: an integer makes the choice reproducible.
        **settings: further arguments of :func:`parbals.select_batch_from_model`.
    """
    entry = strategy_named(strategy)
    prepare, model = _samples(classifier, entry)
    known = getattr(classifier, "X_training", None)
    if known is not None and model is not None:
        settings |= {"X_labelled": prepare(known), "y_labelled": classifier.y_training}
    elif known is not None:
        settings |= {"X_labelled": prepare(known)}
    batch = select_batch_from_model(
        model or _Nothing(),
        prepare(X),
        None if X_target is None else prepare(X_target),
        n_instances,
        strategy if model is not None or not entry.uses_predictions else COLD_START,
        random_state=random_state,
        **settings,
    )
    return batch.indices, batch.scores


def _samples(classifier: Any, entry: Strategy) -> tuple[Any, Any]:
    """What makes features of rows, and a model with ``sample_proba``: None before two classes."""
    if hasattr(classifier, "vote_proba"):
        is_known = classifier.n_classes_ >= 2
        return _as_they_are, _Votes(classifier) if is_known else None
    estimator, prepare = classifier.estimator, _as_they_are
    if hasattr(estimator, "named_steps"):
        first, estimator = estimator[:-1], estimator[-1]
        if len(first):
            prepare = first.transform
    classes: Any = getattr(estimator, "classes_", ())  # scikit-learn's sign of a fitted classifier
    if not entry.uses_predictions or len(classes) < 2:
        return (prepare if len(classes) else _as_they_are), None
    if isinstance(estimator, LogisticModel):
        return prepare, estimator
    if getattr(estimator, "estimators_", None) is not None:
        model: Any = as_sample_model(estimator, len(classes))
        model.labels, model.classes_ = classes.tolist(), classes
        return prepare, model
    if entry.averages and hasattr(estimator, "predict_proba"):
        return prepare, _One(estimator)
    raise InputError(
        f"{type(estimator).__name__} gives one prediction for a row, and {entry.title} compares "
        "several; take an ensemble such as BaggingClassifier, a Committee, or "
        "parbals.BayesianLogisticRegression."
    )


def _as_they_are(X: Any) -> Any:
    return X


class _Nothing:
    """For strategies that look at no prediction."""

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        raise AssertionError("no prediction is looked at")


class _Votes:
    """The members of a committee as samples (N, K, C)."""

    def __init__(self, committee: Any) -> None:
        self.committee, self.classes_ = committee, committee.classes_

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        probs = self.committee.vote_proba(X)
        return probs / probs.sum(axis=2, keepdims=True)


class _One:
    """A classifier that predicts once: a single sample."""

    def __init__(self, estimator: Any) -> None:
        self.estimator, self.classes_ = estimator, estimator.classes_

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        return self.estimator.predict_proba(X)[:, None]
