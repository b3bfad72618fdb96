"""The checked arguments of a learner: its rows, its decisions, and how it fits a model."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import drawn_positions, without_broken_rows
from parbals.errors import InputError
from parbals.learner.descriptions import ClassDescriptions, condition_on_descriptions
from parbals.learner.evaluation.metric import LOSS_OF_METRIC, class_weight_positions
from parbals.learner.evaluation.shift import Shift, compare_with_pool
from parbals.learner.evaluation.support import (
    MAX_REFERENCE_ROWS,
    MAX_SEARCHED_ROWS,
    FarRows,
    far_rows,
)
from parbals.learner.features import FeatureTable, LazyRows, Preparation
from parbals.learner.ledger import Ledger
from parbals.learner.models import accepts_sample_weight, fresh_copy, weighted_labels
from parbals.learner.structure import PoolStructure
from parbals.learner.tasks.base import Classification, FitSettings, Task
from parbals.machine import several_threads
from parbals.posterior.closed.whitening import PoolMoments
from parbals.posterior.estimator import LogisticModel
from parbals.randomness import derive_generator
from parbals.strategies.choose import CheckedModel
from parbals.strategies.distributed import DistributedRows

__all__ = ["HeldOut", "Setup", "check_held_out", "mean_proba"]

_MAX_MOMENT_ROWS = 4_096
"""Number of pool rows from which the prior's feature moments are estimated: enough."""
_BLOCK_ROWS = 4_096
_UNWEIGHTED_METRICS = (*LOSS_OF_METRIC, "hamming", "subset", "rank-error")
"""Metrics in which all classes have equal weights."""
_MIN_ROWS_PER_DUPLICATE = 5
"""Pool rows that equal an audit item's count as duplicates only if they are at most one in five."""


class HeldOut(NamedTuple):
    """Cross-validated predictions for items whose labels have trained the encoder of the features.

    Attributes:
        positions: (n,) of the items.
        probs: (n, C) predictions by an encoder that had not seen the item's label.
    """

    positions: np.ndarray
    probs: np.ndarray


@dataclass(frozen=True, eq=False)
class Setup:
    """The checked arguments of a learner, as described in :class:`parbals.ActiveLearner`.

    ``audit`` holds positions in the order in which they are asked for; ``audit_excluded`` those
    that it was not drawn from; ``find`` is a class number; ``model`` is the user's own model, or
    None for the task's.
    """

    pool: FeatureTable
    target: FeatureTable | None
    standardise: bool
    preparation: Preparation
    structure: PoolStructure | None
    task: Task
    seed: int
    audit: np.ndarray
    strategy: str
    options: Mapping[str, Any]
    metric: str
    find: int | None
    model: Any
    n_samples: int
    prior_scale: float | str
    inference: str
    n_universes: int
    n_candidates: int | None
    n_targets: int
    held_out: HeldOut | None = None
    class_descriptions: ClassDescriptions | None = None
    audit_excluded: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared classes, in order."""
        return self.task.classes

    # -- rows

    def pool_rows(self, positions: np.ndarray | slice) -> np.ndarray:
        """Return the prepared rows (n, D) of pool items."""
        rows = self.preparation(self.pool.rows(positions))
        return rows if self.structure is None else self.structure.pool_rows(rows, positions)

    def _pool_rows_at(self, positions: np.ndarray) -> np.ndarray:
        """Return the prepared rows at ascending positions; all of them without a copy."""
        return self.pool_rows(slice(None) if len(positions) == self.pool.n_rows else positions)

    def pool_rows_in_place(self, positions: np.ndarray) -> DistributedRows | LazyRows:
        """Return pool rows that are prepared where they are stored, block by block when read."""
        source = self.pool.source
        if isinstance(source, DistributedRows):
            is_identity = self.preparation.shift is None
            return source.take(positions, None if is_identity else self.preparation)
        n_columns = self.pool.n_columns + self.n_neighbourhood_columns
        return LazyRows(self.pool_rows, positions, n_columns)

    def target_rows(self, positions: np.ndarray) -> np.ndarray:
        """Return the prepared rows (n, D) at ascending positions of the target set, or the pool."""
        if self.target is None:
            return self._pool_rows_at(positions)
        rows = self.preparation(self.target.rows_at(positions))
        return rows if self.structure is None else self.structure.target_rows(rows, positions)

    def prepared(self, rows: np.ndarray) -> np.ndarray:
        """Prepare rows (n, D) that have the pool's columns."""
        rows = self.preparation(rows)
        return rows if self.structure is None else self.structure.new_rows(rows)

    def prepared_blocks(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the prepared rows of new features with the pool's columns, block by block."""
        table = FeatureTable(X, "X", like=self.pool)
        return (self.prepared(rows) for _, rows in table.blocks(_BLOCK_ROWS))

    @property
    def n_neighbourhood_columns(self) -> int:
        """How many of the last columns of prepared rows describe neighbourhoods."""
        return 0 if self.structure is None else self.structure.n_columns

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the features, for the notes of a batch."""
        return self.pool.notes + (() if self.structure is None else self.structure.notes)

    @cached_property
    def pool_moments(self) -> PoolMoments:
        """Mean and covariance of the pool's features, for the prior, from a sample of rows."""
        generator = derive_generator(self.seed, "prior")
        positions = drawn_positions(generator, self.pool.n_rows, _MAX_MOMENT_ROWS)
        prepared = self._pool_rows_at(positions).astype(np.float64)
        return PoolMoments.of(without_broken_rows(prepared), self.n_neighbourhood_columns)

    @cached_property
    def audit_duplicates(self) -> np.ndarray:
        """Positions of other items with the row of an audit item, ascending.

        The model is not trained on them. If they are more than a fifth of the pool, the features
        are too coarse for equal rows to mean equal items, and the result is empty.
        """
        duplicates = self.pool.duplicates_of(self.audit)
        if _MIN_ROWS_PER_DUPLICATE * len(duplicates) > self.pool.n_rows:
            return duplicates[:0]
        return duplicates

    @cached_property
    def weighting_rows(self) -> np.ndarray:
        """Prepared rows (n, D) of the target set, or else the pool, that set the class weights."""
        table = self.pool if self.target is None else self.target
        audit = self.audit.tolist() if self.target is None else []
        positions = class_weight_positions(self.seed, table.n_rows, self.n_targets, audit)
        return self.target_rows(positions)

    @property
    def n_rows_of_target(self) -> int:
        """Number of rows of the target set, or else of the pool without the audit's."""
        if self.target is not None:
            return self.target.n_rows
        return self.pool.n_rows - len(self.audit)

    @cached_property
    def shift(self) -> Shift | None:
        """How different the target set is from the pool; None if it is the pool."""
        if self.target is None:
            return None
        return compare_with_pool(self.pool, self.target, self.seed)

    @property
    def shift_auc(self) -> float | None:
        """AUC of the shift; 1 where too few rows were compared to know it; None without a target.

        Intervals of the expected error widen with it, so that the unknown counts as the worst.
        """
        if self.shift is None:
            return None
        return 1.0 if self.shift.auc is None else self.shift.auc

    @cached_property
    def far_targets(self) -> FarRows | None:
        """Rows of the target set that are far from the pool; None if the target is the pool."""
        if self.target is None:
            return None
        generator = derive_generator(self.seed, "support")
        pool_rows = self.preparation(self.pool.sample(generator, MAX_REFERENCE_ROWS))
        positions = drawn_positions(generator, self.target.n_rows, MAX_SEARCHED_ROWS)
        far = far_rows(pool_rows, self.preparation(self.target.rows_at(positions)))
        return far._replace(positions=positions[far.positions])

    # -- predictions and decisions

    def predictions(self, model: Any, positions: np.ndarray) -> np.ndarray:
        """Return a model's predictions (n, C) for pool items."""
        return mean_proba(model, self.pool_rows(positions))

    def class_weights(self, model: Any) -> Any:
        """Return the metric's class weights under a model, as ``Task.class_weights`` does."""
        if self.metric in _UNWEIGHTED_METRICS:
            return None
        return self.task.class_weights(self.metric, mean_proba(model, self.weighting_rows))

    def decide(self, model: Any, probs: np.ndarray) -> np.ndarray:
        """Return the decisions (n,), as encoded labels, for predictions (n, C) of a model."""
        return self.task.decide(probs, self.metric, self.class_weights(model))

    # -- fitting

    def digest(self, positions: np.ndarray, labels: np.ndarray, suffix: bytes = b"") -> bytes:
        """Return a digest of the seed and the labels of these positions (ascending)."""
        digest = hashlib.blake2b(repr(self.seed).encode(), digest_size=16)
        digest.update(positions.tobytes() + b"|" + labels.tobytes() + suffix)
        return digest.digest()

    @several_threads()  # BLAS threads would mostly wait for each other on these small matrices
    def fit(
        self,
        positions: np.ndarray,
        labels: np.ndarray,
        seed: int,
        warm_start: Any = None,
        likelihoods: np.ndarray | None = None,
    ) -> Any:
        """Fit the learner's model: the task's own, or a checked copy of the user's.

        Args:
            positions: (n,) pool items.
            labels: (n,) their encoded labels.
            seed: of draws from the posterior; a user's model has its own.
            warm_start: a model of nearly the same labels; with thousands of labels, the fit starts
                from it.
            likelihoods: (n, C) of the annotators' answers. A Gaussian posterior is fitted to them,
                a user's model to labels weighted by them if it accepts weights; particles and
                other models are fitted to ``labels`` (:attr:`needs_certain_labels`).
        """
        if not isinstance(self.task, Classification):
            settings = FitSettings(self.prior_scale, self.pool_moments, self.n_samples, seed)
            return self.task.fit(self.pool_rows(positions), labels, settings)
        if self.model is not None:
            return self._fit_users_model(positions, labels, likelihoods)
        model = self._fit_logistic_model(positions, labels, seed, warm_start, likelihoods)
        if self.class_descriptions is None:
            return model
        prepared_rows = self.prepared(self.class_descriptions.rows)
        prepared = self.class_descriptions._replace(rows=prepared_rows)
        return condition_on_descriptions(model, prepared, len(positions))

    @property
    def needs_certain_labels(self) -> bool:
        """Whether the model takes class numbers alone, not how probable each of them is."""
        if self.model is None or isinstance(self.model, LogisticModel):
            inference = self.inference if self.model is None else self.model.inference
            return inference not in ("auto", "ep")
        return not accepts_sample_weight(self.model)

    def _fit_users_model(
        self, positions: np.ndarray, labels: np.ndarray, likelihoods: np.ndarray | None
    ) -> CheckedModel:
        model = fresh_copy(self.model, warn=False)  # the learner's constructor has warned
        rows = self.pool_rows(positions)
        if isinstance(model, LogisticModel):
            is_learnt = isinstance(model.prior_scale, str)
            pool_moments = self.pool_moments if is_learnt else None
            model.fit(rows, labels, pool_moments, likelihoods=likelihoods)
        elif likelihoods is not None and accepts_sample_weight(model):
            items, classes, weights = weighted_labels(likelihoods)
            if len(np.unique(classes)) < 2:  # the answers tell too little to weight labels
                model.fit(rows, labels)
            else:
                model.fit(rows[items], classes, sample_weight=weights)
        else:
            model.fit(rows, labels)
        return CheckedModel(model, len(self.classes))

    def _fit_logistic_model(
        self,
        positions: np.ndarray,
        labels: np.ndarray,
        seed: int,
        warm_start: Any,
        likelihoods: np.ndarray | None,
    ) -> LogisticModel:
        model = LogisticModel(
            self.n_samples,
            self.prior_scale,
            self.inference,
            classes=np.arange(len(self.classes)),
            random_state=seed,
        )
        pool_moments = self.pool_moments if isinstance(self.prior_scale, str) else None
        if len(positions) == 0:
            n_columns = self.pool_rows(np.zeros(1, int)).shape[1]
            model.fit_prior(n_columns, pool_moments)
        else:
            model.fit(self.pool_rows(positions), labels, pool_moments, warm_start, likelihoods)
        return model


def check_held_out(held_out: tuple[Any, Any], ledger: Ledger) -> HeldOut:
    """Check items and their held-out predictions (n, C), as a user passed them."""
    items, predictions = held_out
    positions = np.array(ledger.positions(items), np.int64)
    probs = np.asarray(predictions, np.float64)
    shape = (len(positions), len(ledger.task.classes))
    if probs.shape != shape or not (np.isfinite(probs) & (probs >= 0)).all():
        raise InputError(
            f"held_out has predictions of shape {probs.shape}; give one probability for each of "
            f"{shape[0]} items and {shape[1]} classes."
        )
    return HeldOut(positions, probs)


def mean_proba(model: Any, rows: np.ndarray) -> np.ndarray:
    """Return the predictions (n, C) of a learner's model for prepared rows (n, D)."""
    return np.asarray(model.predict_proba(rows))
