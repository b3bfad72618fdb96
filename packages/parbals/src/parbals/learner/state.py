"""The state of a learner: a frozen record from which everything else is computed.

:class:`State` adds labels and pending items to the checked arguments of a learner
(:class:`~parbals.learner.setup.Setup`). Choosing, the audit, the report and the plots are functions
of a state; the learner replaces its state whenever labels or pending items change. Fitted models
are kept in a :class:`~parbals.learner.fit_cache.FitCache`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import drawn_positions
from parbals.errors import InputError
from parbals.learner.annotators.answers import Answers, AnswersByItem, labels_by_people
from parbals.learner.annotators.fit import AnnotatorFit, fit_annotators
from parbals.learner.fit_cache import FitCache, LabelPredictions
from parbals.learner.setup import Setup
from parbals.posterior.closed import moments
from parbals.randomness import derive_generator
from parbals.wording import PROGRAM_PREFIX

__all__ = ["State", "TrainingLabels"]

_N_FOLDS = 5
_MIN_DECISIVENESS = 2.0 / 3.0
"""Probability of the likeliest class from which a program's answers train models of certain labels.
"""
_MIN_TARGETS = 100
"""A multi-label task divides the target points among its models, but uses at least so many."""


class TrainingLabels(NamedTuple):
    """Labels that the model is trained on.

    Attributes:
        positions: (n,) of the items, ascending.
        labels: (n,) their encoded labels.
    """

    positions: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class State:
    """A setup with its labels and pending items.

    Attributes:
        majority_labels: position → encoded label, in the order in which the labels came; the
            majority vote where several annotators answered.
        pending: positions that were asked for and have no label yet, in the order of asking.
        answers: position → {annotator: class number}; empty unless annotators were named.
        cache: fitted models, shared by all states of a learner.
    """

    setup: Setup
    majority_labels: Mapping[int, Any] = field(default_factory=dict)
    pending: tuple[int, ...] = ()
    answers: AnswersByItem = field(default_factory=dict)
    cache: FitCache = field(default_factory=FitCache, repr=False)

    # -- labels

    @cached_property
    def labelled(self) -> np.ndarray:
        """Positions that have a label, ascending."""
        return np.array(sorted(self.majority_labels), np.int64)

    @cached_property
    def labels(self) -> Mapping[int, Any]:
        """Position → encoded label; the most probable one where several annotators answered.

        Labels of audit items are those of people, where they agree on one.
        """
        fit = self.annotator_fit
        if fit is None:
            return {**self.majority_labels, **self.audit_labels}
        label_probs = dict(zip(self.labelled.tolist(), fit.label_probs, strict=True))
        consensus = {}
        for position, by_annotator in self.answers.items():
            answered_classes = list(dict.fromkeys(by_annotator.values()))
            most_probable = max(answered_classes, key=label_probs[position].__getitem__)
            consensus[position] = by_annotator.get(None, most_probable)  # a gold label wins
        labels = {position: consensus[position] for position in self.majority_labels}
        return labels | self.audit_labels

    @cached_property
    def audit_labels(self) -> dict[int, Any]:
        """Position → encoded label that people gave an audit item; ties are left out.

        What measures the error must depend on neither the model nor programs.
        """
        labelled = [p for p in self.setup.audit.tolist() if p in self.majority_labels]
        if not self.answers:
            return {position: self.majority_labels[position] for position in labelled}
        by_people = labels_by_people(self.answers, labelled)
        return {position: label for position, label in by_people.items() if label is not None}

    @cached_property
    def audited(self) -> np.ndarray:
        """Positions of audit items with a label of people, in the order they are asked for."""
        return np.array(list(self.audit_labels), np.int64)

    @cached_property
    def training_positions(self) -> np.ndarray:
        """Positions of labels that the model is trained on, ascending: none of the audit's."""
        positions = np.setdiff1d(self.labelled, self.setup.audit)
        # The whole pool is searched for duplicates only if an item with a label is one: it takes
        # time, and somebody may be waiting for the next item.
        if len(self.setup.pool.duplicates_of(self.setup.audit, positions)):
            positions = np.setdiff1d(positions, self.setup.audit_duplicates)
        return positions

    @cached_property
    def training_labels(self) -> TrainingLabels:
        """The labels that the model is trained on."""
        positions = self.training_positions
        return TrainingLabels(positions, self.encoded_labels(positions))

    def encoded_labels(self, positions: np.ndarray) -> np.ndarray:
        """Return the labels (n,) of labelled positions as numbers, such as class numbers."""
        return np.array([self.labels[p] for p in positions.tolist()], self.setup.task.dtype)

    def class_balance(self) -> dict[Any, int]:
        """Count the labels of each class."""
        task = self.setup.task
        return task.class_counts(np.array([*self.labels.values()], task.dtype))

    # -- annotators

    @cached_property
    def annotator_fit(self) -> AnnotatorFit | None:
        """Fitted annotators; None with one person alone (gold labels count as an annotator)."""
        if not self.answers:
            return None
        training_answers = [self.answers[p] for p in self.training_positions.tolist()]
        names = {name for by_annotator in training_answers for name in by_annotator}
        has_program = any(name and name.startswith(PROGRAM_PREFIX) for name in names)
        if len(names) < 2 and not has_program:
            return None
        answers = Answers.from_items(self.answers, self.labelled)
        digest = hashlib.blake2b(repr(answers.names).encode() + self.labelled.tobytes())
        for column in answers[1:]:
            digest.update(column.tobytes())
        key = digest.digest()
        fit = self.cache.annotator_fit(key)
        if fit is None:
            is_training = np.isin(self.labelled, self.training_positions)
            n_classes = len(self.setup.classes)
            fit = fit_annotators(answers, n_classes, is_training, self._leave_one_out_predictions)
            self.cache.set_annotator_fit(key, fit)
        return fit

    def _leave_one_out_predictions(self, rows: np.ndarray, likelihoods: np.ndarray) -> np.ndarray:
        """Return predictions (n, C) for labelled items by a model trained on some of them.

        The prediction for a training item is made without the answers to it. Only a Gaussian
        posterior can do so; for other models, all predictions are the class frequencies.

        Args:
            rows: (k,) indices of the training items among the labelled ones.
            likelihoods: (k, C) of the answers to them.
        """
        setup = self.setup
        positions = self.labelled
        normalised = likelihoods / likelihoods.sum(axis=1, keepdims=True)
        class_frequencies = normalised.mean(axis=0)
        if setup.model is not None:
            return np.tile(class_frequencies, (len(positions), 1))
        labels = likelihoods.argmax(axis=1)
        model = setup.fit(positions[rows], labels, setup.seed, None, likelihoods)
        if model.gaussian is None:
            return np.tile(class_frequencies, (len(positions), 1))
        fitted_rows, leave_one_out = model.gaussian.leave_one_out(all_labels=True)
        probs = setup.predictions(model, positions)
        is_item = fitted_rows < len(rows)  # class descriptions are fitted as rows after the items
        probs[rows[fitted_rows[is_item]]] = leave_one_out[is_item]
        return probs

    def is_answered_by_people(self, positions: np.ndarray) -> np.ndarray:
        """Return whether a person, or a gold label, answered each of these labelled items (n,)."""
        is_answered = [
            any(name is None or not name.startswith(PROGRAM_PREFIX) for name in names)
            for names in (self.answers.get(p, (None,)) for p in positions.tolist())
        ]
        return np.array(is_answered, bool)

    def likelihoods(self, positions: np.ndarray) -> np.ndarray | None:
        """Return the likelihoods (n, C) of answers to these items; None without annotators."""
        if self.annotator_fit is None:
            return None
        return self.annotator_fit.likelihoods[np.searchsorted(self.labelled, positions)]

    # -- candidates and targets

    def is_free(self) -> np.ndarray:
        """Return whether each item (N,) is neither labelled nor pending."""
        is_free = np.ones(self.setup.pool.n_rows, bool)
        is_free[list(self.majority_labels)] = False
        is_free[list(self.pending)] = False
        return is_free

    def choosable(self) -> np.ndarray:
        """Return free positions, ascending, without audit items and their duplicates."""
        is_choosable = self.is_free()
        is_choosable[self.setup.audit] = False
        is_choosable[self.setup.audit_duplicates] = False
        return np.flatnonzero(is_choosable)

    def pending_positions(self) -> np.ndarray:
        """Return pending positions, ascending, without audit items, which no choice depends on."""
        return np.setdiff1d(np.array(self.pending, np.int64), self.setup.audit)

    def target_rows(self) -> np.ndarray:
        """Return prepared rows (M, D) of the target set, or else of the pool.

        There are at most ``n_targets``, drawn again whenever labels change. Audit items are not
        among them: the model would be better on them than elsewhere, and the audit too optimistic.
        """
        setup = self.setup
        if setup.target is None:
            rows = setup.pool.rows_at(self.target_positions())
        else:
            rows = setup.target.rows_at(self.target_positions())
        return setup.preparation(rows)

    def target_positions(self) -> np.ndarray:
        """Return positions (M,) of the target rows in the target set, or else in the pool."""
        setup = self.setup
        generator = derive_generator(setup.seed, "targets", self.key(with_pending=False).hex())
        per_model = setup.n_targets // setup.task.n_models
        size = min(setup.n_targets, max(_MIN_TARGETS, per_model))
        if setup.target is None:
            return drawn_positions(generator, setup.pool.n_rows, size, setup.audit)
        return drawn_positions(generator, setup.target.n_rows, size)

    # -- the model

    @property
    def can_fit(self) -> bool:
        """Whether a model can be fitted: a user's needs labels of two classes, others need none."""
        return self._can_fit_to(self.training_labels.labels)

    def fitted(self, *, with_audit: bool = False, warm_start: bool = True) -> Any:
        """Return the model trained on the labels.

        Args:
            with_audit: train on the audit's labels, too.
            warm_start: with thousands of labels, start from the model fitted last, which changes
                predictions by up to 1e-3. A choice must depend on the labels alone, and so is made
                with ``warm_start=False``.
        """
        positions = self.labelled if with_audit else self.training_labels.positions
        model = self.model_of(positions, warm_start=warm_start)
        if model is None:
            raise InputError(
                "A model of your own needs labels of at least two classes first; tell some more."
            )
        return model

    def model_of(self, positions: np.ndarray, *, warm_start: bool = True) -> Any:
        """Return the model trained on these positions (ascending); None if they are too few."""
        labels = self.encoded_labels(positions)
        if not self._can_fit_to(labels):
            return None
        key = self._digest(positions)
        # A model fitted without a warm start depends on its labels alone, and is preferred.
        cold_start_key = key + b" alone"
        needs_cold_start = not warm_start or self.cache.model(cold_start_key) is not None
        if len(positions) >= moments.MANY_LABELS and needs_cold_start:
            key = cold_start_key
        model = self.cache.model(key)
        if model is None:
            positions = self._usable_positions(positions)
            model = self.setup.fit(
                positions,
                self.encoded_labels(positions),
                seed=int.from_bytes(key[:7], "little"),
                warm_start=None if key == cold_start_key else self.cache.latest_model(),
                likelihoods=self.likelihoods(positions),
            )
            self.cache.add_model(key, model)
        return model

    def _usable_positions(self, positions: np.ndarray) -> np.ndarray:
        """Leave out what only programs answered indecisively, if the model takes class numbers.

        Such a model would believe a program that guesses as much as a person. Answers are decisive
        if they leave a probability of less than a third to other classes.
        """
        fit = self.annotator_fit
        if fit is None or not self.setup.needs_certain_labels:
            return positions
        decisiveness = fit.decisiveness[np.searchsorted(self.labelled, positions)]
        is_by_person = self.is_answered_by_people(positions)
        usable = positions[is_by_person | (decisiveness >= _MIN_DECISIVENESS)]
        return usable if self._can_fit_to(self.encoded_labels(usable)) else positions

    def key(self, *, with_pending: bool) -> bytes:
        """Return a digest of the seed, the training labels and, on request, the pending items.

        A choice depends on nothing else that changes.
        """
        pending = b"|" + self.pending_positions().tobytes() if with_pending else b""
        return self._digest(self.training_positions, pending)

    def _digest(self, positions: np.ndarray, suffix: bytes = b"") -> bytes:
        """Return a digest of the labels, and of the answers' likelihoods, at these positions."""
        likelihoods = self.likelihoods(positions)
        answers = b"" if likelihoods is None else likelihoods.tobytes()
        return self.setup.digest(positions, self.encoded_labels(positions), answers + suffix)

    def cross_validated_predictions(self, model: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return cross-validated predictions (m, C) for training labels, and the labels (m,).

        All are flattened, as in :meth:`Task.flatten`. Labels that programs alone gave are left out:
        a model that agrees with a program is wrong where the program is.
        """
        training = self.training_labels
        rows, probs = self.out_of_sample_predictions(model, training)
        is_by_person = self.is_answered_by_people(training.positions)[rows]
        rows = rows[is_by_person]
        probs = probs[is_by_person]
        return self.setup.task.flatten(probs, training.labels[rows])

    def out_of_sample_predictions(self, model: Any, training: TrainingLabels) -> LabelPredictions:
        """Predict training labels without their own labels; computed once for each model.

        They are leave-one-out predictions in closed form where there is a Gaussian posterior, and
        otherwise five-fold predictions; for these, Laplace's approximation replaces particles and
        NUTS, which would take long. Items whose labels have trained the encoder of the features
        have the predictions in ``setup.held_out``. Many labels are represented by random ones.

        Args:
            model: fitted to these labels.
            training: the labels, with ascending positions.
        """
        predictions = self.cache.out_of_sample(model)
        if predictions is None:
            predictions = self._predict_out_of_sample(model, training)
            self.cache.add_out_of_sample(model, predictions)
        return predictions

    def _predict_out_of_sample(self, model: Any, training: TrainingLabels) -> LabelPredictions:
        positions = training.positions
        gaussian = getattr(model, "gaussian", None)
        if gaussian is None:
            rows, probs = self._five_fold_predictions(training)
        else:
            # Labels of people may be few among those of programs: none of them is left to chance.
            needs_all = not self.is_answered_by_people(positions).all()
            options = {"all_labels": True} if needs_all else {}
            rows, probs = gaussian.leave_one_out(**options)
            is_item = rows < len(positions)  # class descriptions are fitted as rows after the items
            rows = rows[is_item]
            probs = probs[is_item]
        held_out = self.setup.held_out
        if held_out is not None:
            is_not_held_out = ~np.isin(positions[rows], held_out.positions)
            is_training = np.isin(held_out.positions, positions)
            held_out_rows = np.searchsorted(positions, held_out.positions[is_training])
            rows = np.append(rows[is_not_held_out], held_out_rows)
            probs = np.concatenate([probs[is_not_held_out], held_out.probs[is_training]])
        return LabelPredictions(rows, probs)

    def _five_fold_predictions(self, training: TrainingLabels) -> tuple[np.ndarray, np.ndarray]:
        """Return indices (m,) of training labels, and predictions (m, C) by models without them."""
        setup = self.setup
        positions, labels = training
        quick_setup = setup if setup.model is not None else replace(setup, inference="laplace")
        shuffled = derive_generator(setup.seed, "folds").permutation(len(labels))
        folds = shuffled % _N_FOLDS
        is_predicted = np.zeros(len(labels), bool)
        probs = np.zeros((len(labels), len(setup.classes)))
        for fold in range(_N_FOLDS):
            test = folds == fold
            train = ~test
            if test.any() and self._can_fit_to(labels[train]):
                model = quick_setup.fit(positions[train], labels[train], setup.seed)
                probs[test] = setup.predictions(model, positions[test])
                is_predicted[test] = True
        return np.flatnonzero(is_predicted), probs[is_predicted]

    def _can_fit_to(self, labels: np.ndarray) -> bool:
        """Return whether the labels suffice to fit the model."""
        return self.setup.model is None or len(np.unique(labels)) >= 2
