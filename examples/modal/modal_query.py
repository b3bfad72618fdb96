"""modAL: our strategies as a query function for its learners and committees (needs modAL).

    learner = ActiveLearner(RandomForestClassifier(), parbals_sampling, X_start, y_start)
    positions, rows = learner.query(X_pool, n_instances=10, strategy="epig")

modAL 0.4.2 needs scikit-learn below 1.8.
"""

from typing import Any

import numpy as np
from parbals import BayesianLogisticRegression, EnsembleModel, select_batch_from_model


class CommitteeModel:
    """A model whose posterior samples (N, K, C) are the predictions of a committee's members."""

    def __init__(self, committee: Any) -> None:
        self.committee = committee
        self.classes_ = committee.classes_

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        probs = self.committee.vote_proba(X)
        return probs / probs.sum(axis=2, keepdims=True)


def parbals_sampling(
    classifier: Any, X: Any, n_instances: int = 1, strategy: str = "parbals-epig", **settings: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Positions (B,) of the chosen rows of X (N, D), and their scores (B,).

    Args:
        classifier: a ``Committee``, or an ``ActiveLearner`` of a forest, bagging, soft voting or
            ``parbals.BayesianLogisticRegression`` that has seen two classes.
        settings: further arguments of ``parbals.select_batch_from_model``, such as ``X_target``.
    """
    if hasattr(classifier, "vote_proba"):
        model: Any = CommitteeModel(classifier)
    elif isinstance(classifier.estimator, BayesianLogisticRegression):
        model = classifier.estimator
    else:
        classes = classifier.estimator.classes_
        model = EnsembleModel(classifier.estimator, len(classes), classes.tolist())
        model.classes_ = classes
    X_labelled, y_labelled = labelled_rows(classifier)
    batch = select_batch_from_model(
        model,
        X,
        batch_size=n_instances,
        strategy=strategy,
        X_labelled=X_labelled,
        y_labelled=y_labelled,
        **settings,
    )
    return batch.indices, batch.scores


def labelled_rows(classifier: Any) -> tuple[np.ndarray, np.ndarray]:
    """Training rows (n, D) and labels (n,) of a learner, or of all members of a committee.

    A committee keeps no training data of its own, and its members may share rows: each distinct
    row counts once.
    """
    if not hasattr(classifier, "learner_list"):
        return classifier.X_training, classifier.y_training
    X = np.concatenate([learner.X_training for learner in classifier.learner_list])
    y = np.concatenate([learner.y_training for learner in classifier.learner_list])
    _, first = np.unique(X, axis=0, return_index=True)
    return X[first], y[first]
