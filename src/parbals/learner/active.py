"""Ask, tell, and ask again: the loop an engineer calls from a pipeline."""

import hashlib
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from parbals.errors import InputError
from parbals.learner.features import FeatureTable, Preparation
from parbals.learner.ledger import Event, Ledger
from parbals.learner.models import as_sample_model, fresh_copy
from parbals.learner.names import ClassNames, ItemNames
from parbals.learner.report import Report, make_report
from parbals.posterior.estimator import INFERENCES, LogisticModel
from parbals.randomness import Seed, derive_generator, seed_from
from parbals.scores.losses import LOSSES, Loss
from parbals.strategies.choose import CheckedModel, check_terms, choose_batch, has_closed_form
from parbals.strategies.problem import Labelled
from parbals.strategies.surface import affordable_rows
from parbals.strategies.table import COLD_START, DEFAULT, strategy_named
from parbals.types import Batch
from parbals.validate import check_choice, check_positive, check_positive_int

__all__ = ["ActiveLearner"]

_CANDIDATES = 10_000


class ActiveLearner:
    """Chooses what to label next, and learns from the answers.

    ``ask(n)`` returns items and marks them pending; later asks treat pending items as a batch that
    is already under way, so several people can be out with different items and nobody waits.
    ``tell`` takes any answers in any order, also for items never asked for.

    What is chosen is a function of the seed, the labels and the pending items alone: not of the
    order in which labels came, not of earlier asks that were given back, and not of saving and
    loading in between.

    *The first batch.* Before any label the model is its prior, and strategies that need no labels
    choose under it: for ParBaLS these are the items that would say most about the target set
    whatever the weights turn out to be. Strategies that need labels, and models of your own until
    they have seen two classes, start with ``coreset``.

    Args:
        X_pool: (N, D) features: NumPy, a memory map or the path of an ``.npy`` file, pandas,
            polars, SciPy sparse, PyTorch, or a Dask array whose rows stay in their cluster.
        classes: the class labels: strings, ints or bools, at least two.
        X_target: (M, D) features from the distribution the model will be judged on; without a shift
            leave it out.
        strategy: a name from ``parbals strategies``.
        random_state: an integer makes every answer reproducible.
        ids: N distinct hashable names used instead of positions in ``ask``, ``tell`` and
            ``forget``.
        model: a model of your own (see :mod:`parbals.learner.models`); by default Bayesian logistic
            regression. It is copied for every fit and stays as it is.
        n_samples, prior_scale, inference: of the default model. "auto" is a Gaussian posterior by
            expectation propagation, on which EPIG and ParBaLS (BALD with two classes) have closed
            forms; strategies that need samples get draws of it. Where it does not settle "auto" is
            "smc", particles. ``fitted().diagnostics_`` says which it was; docs/trust.md compares
            both with long chains.
        n_universes, loss, options: as in :func:`parbals.select_batch`.
        standardise: scale features to unit deviation first.
        pca: reduce features to this share of variance (0.99) or this many directions first.
        n_candidates: at most this many free items are considered at a time, drawn again whenever
            labels change, and the batch says so. By default 10,000, and with a strategy in closed
            form as many as a CPU scores in a second or two (two classes, 300 features: 120,000). A
            Dask array is then always scored as a whole.
        n_targets: at most this many target points are used at a time, drawn again likewise.
        checked: the features are known to be finite numbers; a large file need not be read again to
            be sure.
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
        prior_scale: float = 1.0,
        inference: str = "auto",
        n_universes: int = 10,
        loss: Loss = "log",
        options: Mapping[str, Any] | None = None,
        standardise: bool = False,
        pca: float | int | None = None,
        n_candidates: int | None = None,
        n_targets: int = 1_000,
        checked: bool = False,
    ) -> None:
        strategy_named(strategy)
        check_choice(loss, LOSSES, "loss")
        self._classes = ClassNames(classes)
        self.strategy, self.loss, self.options = strategy, loss, dict(options or {})
        self.n_samples = check_positive_int(n_samples, "n_samples", least=2)
        self.prior_scale = check_positive(prior_scale, "prior_scale")
        check_choice(inference, INFERENCES, "inference")
        self.inference = inference
        self.n_universes = check_positive_int(n_universes, "n_universes")
        self.n_candidates = (
            None if n_candidates is None else check_positive_int(n_candidates, "n_candidates")
        )
        self.n_targets = check_positive_int(n_targets, "n_targets")
        self.model = (
            None if model is None else fresh_copy(as_sample_model(model, len(self._classes)))
        )
        self.seed = seed_from(random_state)
        self.pool = FeatureTable(X_pool, checked=checked)
        self.target = (
            None if X_target is None else FeatureTable(X_target, "X_target", like=self.pool)
        )
        self.standardise, self.pca = standardise, pca
        self._prepare = Preparation.fit(self.pool, standardise, pca, self.seed)
        self._items = ItemNames(self.pool.n_rows, ids)
        self._ledger = Ledger(self._items, self._classes)
        self._fitted: tuple[bytes, Any] | None = None

    # -- the loop

    def ask(self, n: int = 1) -> Any:
        """Choose ``n`` items and mark them pending: an array of positions, or a list of ids."""
        batch = self.choose(n)
        positions = batch.indices.tolist()
        self._ledger.ask(positions)
        return batch.indices if self.ids is None else [self._items.of(p) for p in positions]

    def choose(
        self, n: int = 1, *, strategy: str | None = None, leave_out: Collection[int] = ()
    ) -> Batch:
        """The batch that ``ask(n)`` would return (indices are positions); nothing becomes pending.

        ``leave_out``: positions not to choose; unlike pending ones, no labels are expected of them.
        """
        n = check_positive_int(n, "n")
        strategy = self._usable(self.strategy if strategy is None else strategy)
        is_free = self._ledger.free()
        is_free[list(leave_out)] = False
        free = np.flatnonzero(is_free)
        if n > len(free):
            raise InputError(
                f"{n} items were asked for and {len(free)} are free ({len(self.labelled)} "
                f"labelled, {len(self._ledger.pending)} pending of {self.pool.n_rows}); ask for "
                "fewer or forget pending ones."
            )
        key = self._key(with_pending=True)
        candidates = free
        in_place = self._has_closed_form(strategy)
        most = max(n, len(free) if in_place and self.pool.is_distributed else self._most(strategy))
        if len(free) > most:
            drawn = derive_generator(self.seed, "candidates", key.hex())
            candidates = np.sort(drawn.choice(free, most, replace=False))
        # Pending items enter as a partial batch, so they stand in the pool as well.
        pending = self.pending_positions()
        positions = np.concatenate([candidates, pending])
        pool = (
            self.pool.rows_in_place(positions, self._prepare)
            if in_place
            else self.pool_rows(positions)
        )
        batch = self._select(strategy, pool, len(candidates), n, key)
        notes = batch.notes
        if len(candidates) < len(free):
            notes = (*notes, f"{len(candidates):,} of {len(free):,} free items were considered.")
        return replace(batch, indices=positions[batch.indices], notes=notes)

    def mark_pending(self, items: Any) -> None:
        """Declare items as out for labelling that were chosen elsewhere."""
        self._ledger.ask(self._items.positions(items))

    def tell(self, items: Any, labels: Any) -> int:
        """Record labels of any items, in any order; returns how many are new.

        The same label again is no news; another label than before is refused, see :meth:`correct`.
        """
        positions = self._items.positions(items)
        return self._ledger.tell(positions, self._classes.numbers(labels, len(positions)))

    def correct(self, items: Any, labels: Any) -> int:
        """Change labels given before; the history keeps both. Returns how many changed."""
        positions = self._items.positions(items)
        return self._ledger.correct(positions, self._classes.numbers(labels, len(positions)))

    def forget(self, items: Any) -> None:
        """Give items back, pending or labelled: they can be asked for again."""
        self._ledger.forget(self._items.positions(items))

    # -- what is known

    @property
    def classes(self) -> tuple[Any, ...]:
        """The class labels, in the order of every probability."""
        return self._classes.labels

    @property
    def ids(self) -> list[Any] | None:
        """The names of the items, if they have any."""
        return self._items.ids

    @property
    def labelled(self) -> np.ndarray:
        """Positions that have a label, ascending."""
        return np.array(sorted(self._ledger.labels), np.int64)

    @property
    def free_items(self) -> int:
        """How many items are neither labelled nor pending."""
        return int(self._ledger.free().sum())

    def free_positions(self) -> np.ndarray:
        """Positions that are neither labelled nor pending, ascending."""
        return np.flatnonzero(self._ledger.free())

    def pending_positions(self) -> np.ndarray:
        """Positions that are out, ascending."""
        return np.array(sorted(self._ledger.pending), np.int64)

    @property
    def pending(self) -> list[Any]:
        """Items that are out, in the order they were asked for."""
        return [self._items.of(p) for p in self._ledger.pending]

    @property
    def labels(self) -> dict[Any, Hashable]:
        """The label of every labelled item."""
        return {self._items.of(p): self.classes[c] for p, c in self._ledger.labels.items()}

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything that happened, oldest first, by position and class number."""
        return tuple(self._ledger.events)

    def history(self, item: Any) -> list[tuple[str, Hashable | None]]:
        """What happened to one item, oldest first: (action, label)."""
        (position,) = self._items.positions([item])
        return [
            (e.action, None if e.label is None else self.classes[e.label])
            for e in self._ledger.history(position)
        ]

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, C) probabilities in the order of ``classes``."""
        table = FeatureTable(X, "X", like=self.pool)
        model = self.fitted()
        parts = []
        for _, rows in table.blocks(4096):
            prepared = self._prepare(rows)
            if isinstance(model, LogisticModel):
                parts.append(model.predict_proba(prepared))
            else:
                parts.append(
                    np.average(model.sample_proba(prepared), axis=1, weights=model.sample_weights)
                )
        return np.concatenate(parts)

    def predict(self, X: Any) -> list[Hashable]:
        """The most probable class of every row."""
        return [self.classes[c] for c in self.predict_proba(X).argmax(axis=1)]

    def report(self, batch_size: int = 10) -> Report:
        """How good the model is on the target set, what more labels would gain, when to stop."""
        return make_report(self, check_positive_int(batch_size, "batch_size"))

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

    def fitted(self) -> Any:
        """The model given today's labels: a function of seed and labels, in any order of arrival.

        A model of your own comes wrapped in one that checks what it returns; the model itself is
        ``fitted().model``.
        """
        key = self._key(with_pending=False)
        if self._fitted is None or self._fitted[0] != key:
            self._fitted = key, self._fit(key)
        return self._fitted[1]

    @property
    def can_fit(self) -> bool:
        """Whether the labels are enough: a model of your own needs two classes, ours needs none."""
        return self.model is None or len(set(self._ledger.labels.values())) >= 2

    def pool_rows(self, positions: np.ndarray) -> np.ndarray:
        """Prepared rows (n, D') of pool items."""
        return self._prepare(self.pool.rows(positions))

    def target_rows(self) -> np.ndarray:
        """Prepared rows (M, D') of the target set, or else of the pool; at most ``n_targets``.

        Drawn again whenever labels change, and the same for every batch and report until then.
        """
        table = self.pool if self.target is None else self.target
        generator = derive_generator(self.seed, "targets", self._key(with_pending=False).hex())
        return self._prepare(table.sample(generator, self.n_targets))

    def _fit(self, key: bytes) -> Any:
        positions, numbers = self._training_set()
        if self.model is not None:
            if not self.can_fit:
                raise InputError(
                    "A model of your own needs labels of at least two classes first; tell some "
                    "more."
                )
            own = fresh_copy(self.model, warn=False)  # the warning came with the learner
            own.fit(self.pool_rows(positions), numbers)
            return CheckedModel(own, len(self._classes))
        model = LogisticModel(
            self.n_samples,
            self.prior_scale,
            self.inference,
            classes=np.arange(len(self._classes)),
            random_state=int.from_bytes(key[:7], "little"),
        )
        if len(positions) == 0:
            return model.fit_prior(self.pool_rows(np.zeros(1, int)).shape[1])
        return model.fit(self.pool_rows(positions), numbers)

    def _usable(self, strategy: str) -> str:
        """The strategy, or the one that stands in for it until there are labels."""
        entry = strategy_named(strategy)
        blind = not self.can_fit or (entry.needs_labels and not self._ledger.labels)
        return COLD_START if entry.uses_predictions and blind else strategy

    def _most(self, strategy: str) -> int:
        """How many candidates a choice looks at."""
        if self.n_candidates is not None:
            return self.n_candidates
        if not self._has_closed_form(strategy):
            return _CANDIDATES
        return max(_CANDIDATES, affordable_rows(self.fitted().gaussian.channels, self.n_targets))

    def _has_closed_form(self, strategy: str) -> bool:
        entry = strategy_named(strategy)
        return entry.closed_form and has_closed_form(entry, self.fitted())

    def _select(
        self,
        strategy: str,
        pool: Any,
        n_candidates: int,
        n: int,
        key: bytes,
    ) -> Batch:
        """A batch of rows of ``pool``: candidates, then pending items."""
        known, numbers = self._training_set()
        entry = strategy_named(strategy)
        terms = check_terms(
            strategy,
            len(pool),
            n,
            pending=np.arange(n_candidates, len(pool)),
            n_universes=self.n_universes,
            random_state=int.from_bytes(key[:7], "little"),
            loss=self.loss,
            options=self.options if strategy == self.strategy else None,
        )
        labelled = Labelled(numbers, self.pool_rows(known)) if len(known) else Labelled()
        if not entry.uses_predictions:
            return choose_batch(terms, None, pool, None, labelled)
        return choose_batch(terms, self.fitted(), pool, self.target_rows(), labelled)

    def _training_set(self) -> tuple[np.ndarray, np.ndarray]:
        positions = self.labelled
        return positions, np.array([self._ledger.labels[p] for p in positions.tolist()], np.int64)

    def _key(self, *, with_pending: bool) -> bytes:
        """A digest of everything a choice may depend on."""
        positions, numbers = self._training_set()
        digest = hashlib.blake2b(repr(self.seed).encode(), digest_size=16)
        digest.update(positions.tobytes() + b"|" + numbers.tobytes())
        if with_pending:
            digest.update(b"|" + np.array(sorted(self._ledger.pending), np.int64).tobytes())
        return digest.digest()
