"""What a learner knows at a moment: a frozen record that everything else is computed from.

:class:`Setup` is what a learner is made with; a :class:`State` adds its labels and the items that
are out. Choosing, the audit, the report and the pictures are functions of a state, and the learner
replaces its state whenever labels or pending items change.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from parbals.errors import InputError
from parbals.learner.annotators import AnnotatorFit, Answers, AnswersByItem, fit_annotators
from parbals.learner.described import Described, with_descriptions
from parbals.learner.evaluation.metric import METRICS, class_weight_positions
from parbals.learner.features import FeatureTable, Preparation
from parbals.learner.ledger import Ledger
from parbals.learner.models import fresh_copy
from parbals.learner.tasks.base import Classes, Task
from parbals.machine import several_threads
from parbals.posterior.closed import sites
from parbals.posterior.closed.prior import PoolMoments
from parbals.posterior.estimator import LogisticModel
from parbals.randomness import derive_generator
from parbals.strategies.choose import CheckedModel

__all__ = ["Setup", "State", "held_out_predictions", "mean_proba"]

_FOLDS = 5
_MOMENTS_OF = 4_096
"""Rows of the pool by which the prior learns how features vary: more hardly change it."""
_EVEN = (*METRICS, "hamming", "subset", "rank-error")
_FEWEST = 100  # targets, where each is looked at by many models
_COARSE = 5
"""One in so many items may be a copy of one of the audit's."""


@dataclass(frozen=True, eq=False)
class Setup:
    """What a learner is made with; see the arguments of :class:`parbals.ActiveLearner`.

    ``audit`` are positions in the order they are asked for; ``find`` is a class number;
    ``held_out`` are positions (n,) and predictions (n, C).
    """

    pool: FeatureTable
    target: FeatureTable | None
    standardise: bool
    preparation: Preparation
    kind: Task
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
    held_out: tuple[np.ndarray, np.ndarray] | None = None
    described: Described | None = None

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared classes, in order."""
        return self.kind.classes

    def pool_rows(self, positions: np.ndarray) -> np.ndarray:
        """Prepared rows (n, D) of pool items."""
        return self.preparation(self.pool.rows(positions))

    def rows_of(self, X: Any) -> Iterator[np.ndarray]:
        """Prepared rows of features like the pool's, some at a time."""
        table = FeatureTable(X, "X", like=self.pool)
        return (self.preparation(rows) for _, rows in table.blocks(4096))

    def predicted(self, model: Any, positions: np.ndarray) -> np.ndarray:
        """(n, C) a model's predictions for pool items."""
        return mean_proba(model, self.pool_rows(positions))

    @cached_property
    def pool_moments(self) -> PoolMoments:
        """How the pool's features vary, for the prior; of rows drawn by the seed."""
        rows = self.pool.sample(derive_generator(self.seed, "prior"), _MOMENTS_OF)
        return PoolMoments.of(self.preparation(rows).astype(np.float64))

    @cached_property
    def twins(self) -> np.ndarray:
        """Items that are copies of one of the audit's, ascending: they are not learnt from either.

        Where they are more than a fifth of the pool, its features are coarse, and equal rows need
        not be copies: then there are none.
        """
        found = self.pool.copies_of(self.audit)
        return found if _COARSE * len(found) <= self.pool.n_rows else found[:0]

    @cached_property
    def judged_rows(self) -> np.ndarray:
        """Prepared rows (n, D) of the target set, or else of the pool, which set class weights."""
        table = self.pool if self.target is None else self.target
        audit = self.audit.tolist() if self.target is None else []
        places = class_weight_positions(self.seed, table.n_rows, self.n_targets, audit)
        return self.preparation(table.rows(places))

    def class_weights(self, model: Any) -> Any:
        """What decisions of a model are worth; None where all count alike."""
        if self.metric in _EVEN:
            return None
        return self.kind.class_weights(self.metric, mean_proba(model, self.judged_rows))

    def digest(self, positions: np.ndarray, numbers: np.ndarray, more: bytes = b"") -> bytes:
        """Of the seed and labels; what is drawn from it does not depend on their order."""
        digest = hashlib.blake2b(repr(self.seed).encode(), digest_size=16)
        digest.update(positions.tobytes() + b"|" + numbers.tobytes() + more)
        return digest.digest()

    @several_threads()  # the library alone would spin more than it computes
    def fit(
        self,
        positions: np.ndarray,
        numbers: np.ndarray,
        seed: int,
        near: Any = None,
        likelihoods: np.ndarray | None = None,
    ) -> Any:
        """The model of labels: ours, or a copy of the user's own wrapped in its checks.

        Args:
            positions, numbers: (n,) pool items and their labels as they are kept.
            seed: of draws from the posterior; a model of the user's own has its own.
            near: a model of nearly the same labels, a start where there are thousands.
            likelihoods: (n, C) of what annotators answered; a model of the user's own, and
                particles, take the numbers.
        """
        if not isinstance(self.kind, Classes):
            return self.kind.fit(self, self.pool_rows(positions), numbers, seed)
        if self.model is not None:
            own = fresh_copy(self.model, warn=False)  # the warning came with the learner
            ours = isinstance(own, LogisticModel) and isinstance(own.prior_scale, str)
            more = (self.pool_moments,) if ours else ()
            own.fit(self.pool_rows(positions), numbers, *more)
            return CheckedModel(own, len(self.classes))
        model = LogisticModel(
            self.n_samples,
            self.prior_scale,
            self.inference,
            classes=np.arange(len(self.classes)),
            random_state=seed,
        )
        moments = self.pool_moments if isinstance(self.prior_scale, str) else None
        if len(positions) == 0:
            model.fit_prior(self.pool_rows(np.zeros(1, int)).shape[1], moments)
        else:
            model.fit(self.pool_rows(positions), numbers, moments, near, likelihoods)
        if self.described is None:
            return model
        told = self.described._replace(rows=self.preparation(self.described.rows))
        return with_descriptions(model, told, len(positions))


@dataclass(frozen=True, eq=False)
class State:
    """A setup, and what has been asked and told.

    Attributes:
        told: position → class number, or what the task keeps, in the order in which the labels
            came; of annotators' answers, what most say.
        pending: positions that are out, in the order they were asked for.
        fits: the latest two models by the digest of their labels; states of one learner share it.
        answers: who said what, where annotators were named; else nothing.
        annotator_fits: the latest annotator fit by the digest of the answers, likewise shared.
    """

    setup: Setup
    told: Mapping[int, Any] = field(default_factory=dict)
    pending: tuple[int, ...] = ()
    fits: dict[bytes, Any] = field(default_factory=dict, repr=False)
    answers: AnswersByItem = field(default_factory=dict)
    annotator_fits: dict[bytes, AnnotatorFit] = field(default_factory=dict, repr=False)

    @cached_property
    def labelled(self) -> np.ndarray:
        """Positions that have a label, ascending."""
        return np.array(sorted(self.told), np.int64)

    @cached_property
    def labels(self) -> Mapping[int, int]:
        """Position → class number: of the answers that were given, the one most likely true."""
        fit = self.annotator_fit
        if fit is None:
            return self.told
        label_probs = dict(zip(self.labelled.tolist(), fit.label_probs, strict=True))
        best = {}
        for position, said in self.answers.items():
            given = list(dict.fromkeys(said.values()))
            best[position] = said.get(None, max(given, key=label_probs[position].__getitem__))
        return {position: best[position] for position in self.told}

    @cached_property
    def annotator_fit(self) -> AnnotatorFit | None:
        """What annotators are worth; None without two of them, or one and labels that are true."""
        taught = [self.answers[p] for p in self.training_positions.tolist() if self.answers]
        if len({name for said in taught for name in said}) < 2:
            return None
        answers = Answers.from_items(self.answers, self.labelled)
        key = hashlib.blake2b(repr(answers.names).encode() + self.labelled.tobytes())
        for part in answers[1:]:
            key.update(part.tobytes())
        if key.digest() not in self.annotator_fits:
            self.annotator_fits.clear()
            trains = np.isin(self.labelled, self.training_positions)
            n_classes, predicted = len(self.setup.classes), self._without_own_answers
            fit = fit_annotators(answers, n_classes, trains, predicted)
            self.annotator_fits[key.digest()] = fit
        return self.annotator_fits[key.digest()]

    def _without_own_answers(self, rows: np.ndarray, likelihoods: np.ndarray) -> np.ndarray:
        """(n, C) predictions for labelled items, of a model that learnt from some rows of them.

        A model that cannot leave an answer out says how frequent the classes are.
        """
        setup, positions = self.setup, self.labelled
        shares = (likelihoods / likelihoods.sum(axis=1, keepdims=True)).mean(axis=0)
        probs = np.tile(shares, (len(positions), 1))
        if setup.model is not None:
            return probs
        numbers = likelihoods.argmax(axis=1)
        model = setup.fit(positions[rows], numbers, setup.seed, None, likelihoods)
        if model.gaussian is None:
            return probs
        places, found = model.gaussian.leave_one_out(all_labels=True)
        probs = setup.predicted(model, positions)
        real = places < len(rows)  # behind them are descriptions
        probs[rows[places[real]]] = found[real]
        return probs

    @cached_property
    def audited(self) -> np.ndarray:
        """Positions of the audit that have a label, in the order they are asked for."""
        return np.array([p for p in self.setup.audit.tolist() if p in self.told], np.int64)

    @cached_property
    def training_positions(self) -> np.ndarray:
        """Positions, ascending, of the labels that train: not the audit's."""
        positions = np.setdiff1d(self.labelled, self.setup.audit)
        # The whole pool is looked through for copies where a label is one, and not before a choice.
        if len(self.setup.pool.copies_of(self.setup.audit, positions)):
            positions = np.setdiff1d(positions, self.setup.twins)
        return positions

    @cached_property
    def training(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions, ascending, and class numbers of the labels that train."""
        return self.training_positions, self.numbers(self.training_positions)

    def likelihoods(self, positions: np.ndarray) -> np.ndarray | None:
        """(n, C) of what annotators answered, of labelled positions; None where labels are true."""
        if self.annotator_fit is None:
            return None
        return self.annotator_fit.likelihoods[np.searchsorted(self.labelled, positions)]

    def _digest(self, positions: np.ndarray, more: bytes = b"") -> bytes:
        """Of the labels of these positions, and of all that a model knows of them."""
        likelihoods = self.likelihoods(positions)
        said = b"" if likelihoods is None else likelihoods.tobytes()
        return self.setup.digest(positions, self.numbers(positions), said + more)

    def numbers(self, positions: np.ndarray) -> np.ndarray:
        """The labels (n,) of positions as they are kept: class numbers, or what the task says."""
        return np.array([self.labels[p] for p in positions.tolist()], self.setup.kind.dtype)

    def class_balance(self) -> dict[Any, int]:
        """How many labels each class has."""
        kind = self.setup.kind
        return kind.balance(np.array([*self.labels.values()], kind.dtype))

    def is_free(self) -> np.ndarray:
        """(N,) whether each item is neither labelled nor pending."""
        free = np.ones(self.setup.pool.n_rows, bool)
        free[list(self.told)] = False
        free[list(self.pending)] = False
        return free

    def choosable(self) -> np.ndarray:
        """Free positions that a strategy may choose from, ascending: no audit items or twins."""
        is_free = self.is_free()
        is_free[self.setup.audit] = is_free[self.setup.twins] = False
        return np.flatnonzero(is_free)

    def pending_positions(self) -> np.ndarray:
        """Positions that are out, ascending, without the audit's: no choice depends on those."""
        return np.setdiff1d(np.array(self.pending, np.int64), self.setup.audit)

    def key(self, *, with_pending: bool) -> bytes:
        """A digest of everything a choice may depend on."""
        pending = b"|" + self.pending_positions().tobytes() if with_pending else b""
        return self._digest(self.training_positions, pending)

    def target_rows(self) -> np.ndarray:
        """Prepared rows (M, D) of the target set, or else of the pool; at most ``n_targets``.

        Drawn again whenever labels change, and the same for every batch and report until then. The
        audit's items are not among them: labels chosen for their sake would make them easy.
        """
        setup = self.setup
        generator = derive_generator(setup.seed, "targets", self.key(with_pending=False).hex())
        table, out = (setup.pool, setup.audit) if setup.target is None else (setup.target, None)
        size = min(setup.n_targets, max(_FEWEST, setup.n_targets // setup.kind.n_models))
        return setup.preparation(table.sample(generator, size, leave_out=out))

    # -- the model

    @property
    def can_fit(self) -> bool:
        """Whether the labels are enough: a model of your own needs two classes, ours needs none."""
        return self._is_enough(self.training[1])

    def fitted(self, *, with_audit: bool = False, alone: bool = False) -> Any:
        """The model given these labels; the audit's are left out unless asked for.

        ``alone``: whatever was fitted before. With thousands of labels another start leaves
        predictions up to 1e-3 apart, and a choice must depend on the labels only.
        """
        model = self.model_of(self.labelled if with_audit else self.training[0], alone=alone)
        if model is None:
            raise InputError(
                "A model of your own needs labels of at least two classes first; tell some more."
            )
        return model

    def model_of(self, positions: np.ndarray, *, alone: bool = False) -> Any:
        """The model that knows these labels only (positions ascending); None if it needs more."""
        numbers = self.numbers(positions)
        if not self._is_enough(numbers):
            return None
        key = self._digest(positions)
        from_start = key + b" alone"
        if len(positions) >= sites.MANY_LABELS and (alone or from_start in self.fits):
            key = from_start
        if key not in self.fits:
            near = self.fits[[*self.fits][-1]] if self.fits and key != from_start else None
            seed = int.from_bytes(key[:7], "little")
            model = self.setup.fit(positions, numbers, seed, near, self.likelihoods(positions))
            for old in list(self.fits)[:-1]:  # the latest look's stays beside today's
                del self.fits[old]
            self.fits[key] = model
        return self.fits[key]

    def left_out(self, model: Any) -> tuple[np.ndarray, np.ndarray]:
        """Predictions (m, C) for labels it was fitted to, each without it, and their numbers (m,).

        Exactly where the posterior says so; of any other model by five fits, each without a fifth,
        in which Laplace's approximation stands in for particles and chains: those take long. Labels
        that the features have seen are predicted by ``setup.held_out``.
        """
        positions, numbers = self.training
        gaussian = getattr(model, "gaussian", None)
        places, probs = self._by_folds() if gaussian is None else gaussian.leave_one_out()
        real = places < len(positions)  # behind them are descriptions
        places, probs = places[real], probs[real]
        if self.setup.held_out is not None:
            seen, instead = self.setup.held_out
            unseen = ~np.isin(positions[places], seen)
            labelled = np.isin(seen, positions)
            places = np.append(places[unseen], np.searchsorted(positions, seen[labelled]))
            probs = np.concatenate([probs[unseen], instead[labelled]])
        return self.setup.kind.cells(probs, numbers[places])

    def _by_folds(self) -> tuple[np.ndarray, np.ndarray]:
        """Places (m,) of training labels, and predictions (m, C) of fits without them."""
        positions, numbers = self.training
        setup, known = self.setup, np.zeros(len(numbers), bool)
        probs = np.zeros((len(numbers), len(setup.classes)))
        quick = setup if setup.model is not None else replace(setup, inference="laplace")
        fold = derive_generator(setup.seed, "folds").permutation(len(numbers)) % _FOLDS
        for part in range(_FOLDS):
            here, rest = fold == part, fold != part
            if here.any() and self._is_enough(numbers[rest]):
                fit = quick.fit(positions[rest], numbers[rest], setup.seed)
                probs[here], known[here] = setup.predicted(fit, positions[here]), True
        return np.flatnonzero(known), probs[known]

    def _is_enough(self, numbers: np.ndarray) -> bool:
        return self.setup.model is None or len(np.unique(numbers)) >= 2


def held_out_predictions(given: tuple[Any, Any], ledger: Ledger) -> tuple[np.ndarray, np.ndarray]:
    """Positions (n,) and predictions (n, C), checked."""
    positions = np.array(ledger.positions(given[0]), np.int64)
    probs = np.asarray(given[1], np.float64)
    shape = len(positions), len(ledger.task.classes)
    if probs.shape != shape or not (np.isfinite(probs) & (probs >= 0)).all():
        raise InputError(
            f"held_out has predictions of shape {probs.shape}; give one probability for each of "
            f"{shape[0]} items and {shape[1]} classes."
        )
    return positions, probs


def mean_proba(model: Any, rows: np.ndarray) -> np.ndarray:
    """(n, C) predictions of a learner's model for prepared rows (n, D)."""
    if not isinstance(model, CheckedModel):
        return np.asarray(model.predict_proba(rows))
    mean: np.ndarray = np.average(model.sample_proba(rows), axis=1, weights=model.sample_weights)
    return mean
