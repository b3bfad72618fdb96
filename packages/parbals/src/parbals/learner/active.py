"""Ask, tell, and ask again: the loop an engineer calls from a pipeline."""

import hashlib
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from parbals.errors import InputError
from parbals.learner.audit import draw_audit
from parbals.learner.choosing import choose_items
from parbals.learner.encoding import Encoding, learn_encoding
from parbals.learner.features import FeatureTable, Preparation
from parbals.learner.fitting import fit_model
from parbals.learner.metric import (
    METRICS,
    TARGETS,
    check_metric,
    decided,
    judged_positions,
    loss_for,
    metric_of,
    stakes_for,
)
from parbals.learner.models import as_sample_model, fresh_copy
from parbals.learner.names import ClassNames, ItemNames
from parbals.learner.notebook import Shown
from parbals.learner.records import Records
from parbals.learner.report import Report, make_report
from parbals.posterior.closed.prior import PoolMoments
from parbals.posterior.estimator import LogisticModel
from parbals.posterior.inference import INFERENCES
from parbals.randomness import Seed, derive_generator, seed_from
from parbals.strategies.table import DEFAULT, strategy_named
from parbals.types import Batch, BatchRecord, Loss, Stakes
from parbals.validate import check_choice, check_positive_int, check_prior_scale

__all__ = ["ActiveLearner"]

_MOMENTS_OF = 4_096


class ActiveLearner(Records, Shown):
    """Chooses what to label next, and learns from the answers.

    ``ask(n)`` returns items and marks them pending; later asks treat pending items as a batch that
    is already under way, so several people can be out with different items and nobody waits.
    ``tell`` takes any answers in any order, also for items never asked for.

    What is chosen is a function of the seed, the labels and the pending items alone: not of the
    order in which labels came, not of earlier asks that were given back, and not of saving and
    loading in between. An audit leaves the choice among the other items as it is.

    *The first batch.* Before any label the model is its prior, and strategies that need no labels
    choose under it: for ParBaLS these are the items that would say most about the target set
    whatever the weights turn out to be. Strategies that need labels, and models of your own until
    they have seen two classes, start with ``coreset``.

    Args:
        X_pool: (N, D) features: NumPy, a memory map or the path of an ``.npy`` file, pandas,
            polars, Arrow, SciPy sparse, PyTorch, or a Dask array whose rows stay in their cluster.
        classes: the class labels: strings, ints or bools, at least two.
        X_target: (M, D) features from the distribution the model will be judged on; without a shift
            leave it out.
        strategy: a name from ``parbals strategies``.
        random_state: an integer makes every answer reproducible.
        ids: N distinct hashable names used instead of positions in ``ask``, ``tell`` and
            ``forget``.
        model: a model of your own (see :mod:`parbals.learner.models`); by default Bayesian logistic
            regression. It is copied for every fit and stays as it is.
        n_samples, prior_scale, inference: of the default model. ``prior_scale="auto"`` learns the
            prior from the labels and from how the pool's features vary
            (:mod:`parbals.posterior.closed.prior`). ``inference="auto"`` is a Gaussian posterior by
            expectation propagation, on which EPIG and ParBaLS (BALD with two classes) have closed
            forms whatever the metric; strategies that need samples get draws of it. Where it does
            not settle "auto" is "smc", particles, or without JAX "laplace" and a warning.
            ``fitted().diagnostics_`` says which; docs/trust.md compares them with long chains.
        metric: what the model is judged by, for strategies that ask what a label is worth on the
            targets (EPIG, ParBaLS): ``"accuracy"``, the default, ``"balanced-accuracy"``,
            ``"f1:CLASS"``, or ``"log-loss"`` where the probabilities themselves count. ``predict``
            decides for its sake, and the report says what it is expected to be
            (:mod:`parbals.learner.metric`). It works with models of your own too. ``loss`` says the
            same in the words of :func:`parbals.select_batch`, ``"error"`` and ``"log"``.
        n_universes, options: as in :func:`parbals.select_batch`.
        features: "auto" reads a data frame with gaps, categories, dates and yes/no as a table, and
            reduces sparse rows of more than 1,024 columns by truncated SVD; what it did is in
            ``pool.notes`` and in every batch's. "numbers" refuses the first and leaves the second.
        standardise: scale features to unit deviation first.
        pca: reduce features to this share of variance (0.99) or this many directions first.
        n_candidates: at most this many free items are considered at a time, drawn again whenever
            labels change, and the batch says so. By default 10,000, and with a strategy in closed
            form as many as a CPU scores in a second or two (two classes, 300 features: 120,000). A
            Dask array is then always scored as a whole.
        n_targets: at most this many target points are used at a time, drawn again likewise.
        audit: so many items, drawn at random, measure the error instead of training the model;
            every third item asked for is one of them until all are labelled. Or the items
            themselves, if they were drawn elsewhere. See :mod:`parbals.learner.audit`.
        find: a class that is rare, to be found: items likely to be of it are asked for, with some
            random ones in between, and the report says how much of it has been found. See
            :mod:`parbals.learner.find`.
        on_batch: is called with a :class:`~parbals.types.BatchRecord` whenever ``ask`` has chosen;
            for trackers. It is not saved: set ``learner.on_batch`` after loading.
        checked: the features are known to be finite numbers; a large file need not be read again to
            be sure.

    Attributes:
        last_batch: the batch that ``ask`` chose last; None before the first, and after loading.
        reports: every report that was made of this learner, for its curve in a notebook.
    """

    def __init__(
        self,
        X_pool: Any,
        classes: Sequence[Hashable],
        X_target: Any = None,
        strategy: str = DEFAULT,
        random_state: Seed = None,
        *,
        ids: Sequence[Hashable] | None = None,
        model: Any = None,
        n_samples: int = 400,
        prior_scale: float | str = "auto",
        inference: str = "auto",
        n_universes: int = 10,
        metric: str | None = None,
        loss: Loss | None = None,
        options: Mapping[str, Any] | None = None,
        features: str | Encoding | None = "auto",
        standardise: bool = False,
        pca: float | int | None = None,
        n_candidates: int | None = None,
        n_targets: int = TARGETS,
        audit: int | Sequence[Hashable] = 0,
        find: Hashable | None = None,
        on_batch: Callable[[BatchRecord], object] | None = None,
        checked: bool = False,
    ) -> None:
        strategy_named(strategy)
        names = ClassNames(classes)
        self.strategy, self.options = strategy, dict(options or {})
        self.find = find
        self.find_number = -1 if find is None else names.numbers(find, 1)[0]
        known = None if metric is None else check_metric(metric, names.labels)
        self.loss = loss_for(known, loss)
        self.metric = known or metric_of(self.loss)
        self.n_samples = check_positive_int(n_samples, "n_samples", least=2)
        self.prior_scale = check_prior_scale(prior_scale)
        check_choice(inference, INFERENCES, "inference")
        self.inference = inference
        self.n_universes = check_positive_int(n_universes, "n_universes")
        self.n_candidates = (
            None if n_candidates is None else check_positive_int(n_candidates, "n_candidates")
        )
        self.n_targets = check_positive_int(n_targets, "n_targets")
        self.model = None if model is None else fresh_copy(as_sample_model(model, len(names)))
        self.seed = seed_from(random_state)
        if isinstance(features, str):
            features = learn_encoding(X_pool, "X_pool", features, self.seed)
        self.pool = FeatureTable(X_pool, checked=checked, encoding=features)
        self.target = (
            None if X_target is None else FeatureTable(X_target, "X_target", like=self.pool)
        )
        self.standardise, self.pca = standardise, pca
        self.preparation = Preparation.fit(self.pool, standardise, pca, self.seed)
        super().__init__(ItemNames(self.pool.n_rows, ids), names)
        self.audit = self._audit(audit)
        self._fitted: dict[bytes, Any] = {}
        self.last_batch: Batch | None = None
        self.on_batch = on_batch
        self.reports: list[Report] = []

    # -- the loop

    def ask(self, n: int = 1) -> Any:
        """Choose ``n`` items and mark them pending: an array of positions, or a list of ids."""
        batch = self.choose(n)
        positions = batch.indices.tolist()
        n_pending = len(self._ledger.pending)
        self._ledger.ask(positions)
        self.last_batch = batch
        if self.on_batch is not None:
            self.on_batch(BatchRecord(batch, len(self._ledger.labels), n_pending))
        return batch.indices if self.ids is None else [self._items.of(p) for p in positions]

    def choose(
        self,
        n: int = 1,
        *,
        strategy: str | None = None,
        leave_out: Collection[int] = (),
        with_audit: bool = True,
    ) -> Batch:
        """The batch that ``ask(n)`` would return (indices are positions); nothing becomes pending.

        Items of the audit are spread over it and have no scores.

        Args:
            strategy: stands in for the learner's own.
            leave_out: positions not to choose; unlike pending ones, no labels are expected of them.
            with_audit: False for items that the strategy chooses alone.
        """
        strategy = self.strategy if strategy is None else strategy
        return choose_items(
            self, check_positive_int(n, "n"), strategy, leave_out, with_audit=with_audit
        )

    # -- what is known

    def choosable_positions(self) -> np.ndarray:
        """Free positions that a strategy may choose from, ascending: all but the audit's."""
        is_free = self.is_free()
        is_free[self.audit] = False
        return np.flatnonzero(is_free)

    def pending_positions(self) -> np.ndarray:
        """Positions that are out, ascending, without the audit's: no choice depends on those."""
        return np.setdiff1d(np.array(list(self._ledger.pending), np.int64), self.audit)

    @property
    def audit_items(self) -> list[Any]:
        """The items that measure the error, in the order they are asked for."""
        return [self._items.of(p) for p in self.audit.tolist()]

    def predict_proba(self, X: Any, *, with_audit: bool = False) -> np.ndarray:
        """(N, C) probabilities in the order of ``classes``.

        ``with_audit``: by a model of all labels, the audit's too. What the audit measured is the
        model without them.
        """
        table = FeatureTable(X, "X", like=self.pool)
        model = self.fitted(with_audit=with_audit)
        parts = [self.mean_proba(model, self.preparation(rows)) for _, rows in table.blocks(4096)]
        return np.concatenate(parts)

    def predict(self, X: Any, *, with_audit: bool = False) -> np.ndarray:
        """(N,) the class of every row: the most probable one, or what the metric asks for."""
        probs = self.predict_proba(X, with_audit=with_audit)
        best = decided(probs, self.stakes(self.fitted(with_audit=with_audit)))
        alike = len({type(label) for label in self.classes}) == 1
        return np.array(self.classes, None if alike else object)[best]

    def report(self, batch_size: int = 10) -> Report:
        """How good the model is on the target set, what more labels would gain, when to stop."""
        report = make_report(self, check_positive_int(batch_size, "batch_size"))
        self.reports.append(report)
        return report

    def save(self, path: str | Path, *, include_features: bool = True) -> None:
        """One file without pickle, written whole or not at all: :mod:`parbals.learner.archive`."""
        from parbals.learner.archive import save_learner

        save_learner(self, Path(path), include_features)

    @classmethod
    def load(
        cls, path: str | Path, *, X_pool: Any = None, X_target: Any = None, model: Any = None
    ) -> Self:
        """The learner that was saved: the next ``ask`` is the one it would have answered."""
        from parbals.learner.archive import load_learner

        return load_learner(cls, Path(path), X_pool, X_target, model)

    # -- the model

    def fitted(self, *, with_audit: bool = False) -> Any:
        """The model given today's labels: a function of seed and labels, in any order of arrival.

        The audit's labels are left out unless asked for. A model of your own comes wrapped in one
        that checks what it returns; the model itself is ``fitted().model``.
        """
        model = self.model_of(self.labelled if with_audit else self.training_set()[0])
        if model is None:
            raise InputError(
                "A model of your own needs labels of at least two classes first; tell some more."
            )
        return model

    def model_of(self, positions: np.ndarray) -> Any:
        """The model that knows these labels alone (positions ascending); None if it needs more."""
        numbers = self._numbers(positions)
        if not self._is_enough(numbers):
            return None
        key = self._digest(positions, numbers)
        if key not in self._fitted:
            kept = list(self._fitted.items())[-1:]  # the latest look's beside today's
            near = kept[0][1] if kept else None
            seed = int.from_bytes(key[:7], "little")
            model = fit_model(self, positions, numbers, seed, near)
            self._fitted = dict([*kept, (key, model)])
        return self._fitted[key]

    @property
    def can_fit(self) -> bool:
        """Whether the labels are enough: a model of your own needs two classes, ours needs none."""
        return self._is_enough(self.training_set()[1])

    def mean_proba(self, model: Any, rows: np.ndarray) -> np.ndarray:
        """(n, C) predictions of a model of this learner for prepared rows (n, D')."""
        if isinstance(model, LogisticModel):
            return model.predict_proba(rows)
        mean: np.ndarray = np.average(
            model.sample_proba(rows), axis=1, weights=model.sample_weights
        )
        return mean

    def pool_rows(self, positions: np.ndarray) -> np.ndarray:
        """Prepared rows (n, D') of pool items."""
        return self.preparation(self.pool.rows(positions))

    def target_rows(self) -> np.ndarray:
        """Prepared rows (M, D') of the target set, or else of the pool; at most ``n_targets``.

        Drawn again whenever labels change, and the same for every batch and report until then. The
        audit's items are not among them: labels chosen for their sake would make them easy.
        """
        generator = derive_generator(self.seed, "targets", self.state_key(with_pending=False).hex())
        if self.target is not None:
            return self.preparation(self.target.sample(generator, self.n_targets))
        return self.preparation(self.pool.sample(generator, self.n_targets, leave_out=self.audit))

    @cached_property
    def pool_moments(self) -> PoolMoments:
        """How the pool's features vary, for the prior; of rows drawn by the seed."""
        rows = self.pool.sample(derive_generator(self.seed, "prior"), _MOMENTS_OF)
        return PoolMoments.of(self.preparation(rows).astype(np.float64))

    def stakes(self, model: Any) -> Stakes | None:
        """What decisions of a model of this learner are worth; None where all count alike."""
        if self.metric in METRICS:
            return None
        return stakes_for(self.metric, self.mean_proba(model, self._judged_rows), self.classes)

    @cached_property
    def _judged_rows(self) -> np.ndarray:
        """Prepared rows (n, D') of the target set, or else of the pool, by which stakes are set."""
        table = self.pool if self.target is None else self.target
        audit = self.audit.tolist() if self.target is None else []
        places = judged_positions(self.seed, table.n_rows, self.n_targets, audit)
        return self.preparation(table.rows(places))

    def _audit(self, audit: int | Sequence[Hashable]) -> np.ndarray:
        """Positions of the audit's items, in the order they are asked for."""
        if isinstance(audit, int | float | np.integer):
            size = check_positive_int(audit, "audit", least=0)
            return draw_audit(self.pool.n_rows, size, self.seed)
        return np.array(list(dict.fromkeys(self._items.positions(audit))), np.int64)

    def training_set(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions, ascending, and class numbers of the labels that are not the audit's."""
        positions = np.setdiff1d(self.labelled, self.audit)
        return positions, self._numbers(positions)

    def _numbers(self, positions: np.ndarray) -> np.ndarray:
        return np.array([self._ledger.labels[p] for p in positions.tolist()], np.int64)

    def _is_enough(self, numbers: np.ndarray) -> bool:
        return self.model is None or len(np.unique(numbers)) >= 2

    def state_key(self, *, with_pending: bool) -> bytes:
        """A digest of everything a choice may depend on."""
        pending = b"|" + self.pending_positions().tobytes() if with_pending else b""
        return self._digest(*self.training_set(), pending)

    def _digest(self, positions: np.ndarray, numbers: np.ndarray, more: bytes = b"") -> bytes:
        digest = hashlib.blake2b(repr(self.seed).encode(), digest_size=16)
        digest.update(positions.tobytes() + b"|" + numbers.tobytes() + more)
        return digest.digest()
