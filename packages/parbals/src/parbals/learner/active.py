"""Ask, tell, and ask again: the loop an engineer calls from a pipeline."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from parbals.errors import InputError, ParbalsError
from parbals.features.frames import Encoding, learn_encoding
from parbals.learner.annotators import Annotator
from parbals.learner.archive import read_learner, write_learner
from parbals.learner.choosing import Question, check_costs, choose_items, choose_questions
from parbals.learner.described import described_rows
from parbals.learner.evaluation.audit import audit_positions
from parbals.learner.evaluation.certify import (
    Certificate,
    Sample,
    draw_certificate_sample,
    evaluate_sample,
)
from parbals.learner.evaluation.report import Report
from parbals.learner.features import FeatureTable, Preparation
from parbals.learner.ledger import Event, Ledger
from parbals.learner.models import SAMPLED_TARGETS, LogisticModel, as_sample_model, fresh_copy
from parbals.learner.pictures import as_figure, standing
from parbals.learner.reporting import make_report, predict, predict_proba
from parbals.learner.state import FitCache, Setup, State, check_held_out
from parbals.learner.tasks.base import Classification
from parbals.learner.tasks.table import task_named
from parbals.posterior.inference import INFERENCES
from parbals.randomness import Seed, seed_from
from parbals.strategies.table import DEFAULT
from parbals.types import TARGETS, Batch, BatchRecord
from parbals.validate import check_choice, check_positive_int, check_prior_scale

__all__ = ["ActiveLearner"]


class ActiveLearner:
    """Chooses what to label next, and learns from the answers.

    ``ask(n)`` returns items and marks them pending; later asks treat pending items as a batch that
    is already under way, so several people can be out with different items and nobody waits.
    ``tell`` takes any answers in any order, also for items never asked for.

    What is chosen is a function of the seed, the labels and the pending items alone: not of the
    order in which labels came, not of earlier asks that were given back, and not of saving and
    loading in between. An audit leaves the choice among the other items as it is.

    *The first batch.* Before any label strategies start with ``kmeans``, and so do models of your
    own until they have seen two classes. Where classes are described the model chooses at once.

    Args:
        X_pool: (N, D) features: NumPy, a memory map or the path of an ``.npy`` file, pandas,
            polars, Arrow, SciPy sparse, PyTorch, or a Dask array whose rows stay in their cluster.
            Or N texts, in a list or a column.
        classes: the class labels: strings, ints or bools, at least two; None where labels are
            numbers.
        X_target: (M, D) features from the distribution the model will be judged on; without a shift
            leave it out.
        strategy: a name from ``parbals strategies``.
        task: what a label is: ``"classes"``, one class an item; ``"many-labels"``, any number of
            them; ``"ordinal"``, one of classes in order, the lowest first; ``"regression"``, a
            number. See docs/howto/tasks.md.
        random_state: an integer makes every answer reproducible.
        ids: N distinct hashable names used instead of positions in ``ask``, ``tell`` and
            ``forget``.
        model: a model of your own (see :mod:`parbals.learner.models`); by default Bayesian logistic
            regression. It is copied for every fit and stays as it is.
        n_samples, prior_scale, inference: of the default model, as in
            :class:`parbals.BayesianLogisticRegression`; "auto" also learns the prior from how the
            pool's features vary. Strategies that need samples get draws of a closed form.
        metric: what the model is judged by, for strategies that ask what a label is worth on the
            targets (EPIG, ParBaLS): ``"accuracy"``, the default, ``"balanced-accuracy"``,
            ``"f1:CLASS"``, or ``"log-loss"`` where the probabilities themselves count. ``predict``
            decides for its sake, and the report says what it is expected to be
            (:mod:`parbals.learner.evaluation.metric`). It works with models of your own too. Other
            tasks have metrics of their own.
        n_universes, options: as in :func:`parbals.select_batch`.
        features: "auto" reads a data frame with gaps, categories, dates and yes/no as a table, and
            reduces sparse rows of more than 1,024 columns by truncated SVD; what it did is in
            ``pool.notes`` and in every batch's. "numbers" refuses the first and leaves the second.
        standardise: scale features to unit deviation first.
        n_candidates: at most this many free items are considered at a time, drawn again whenever
            labels change, and the batch says so. By default 10,000, and with a strategy in closed
            form as many as a CPU scores in a second or two (two classes, 300 features: 120,000); of
            a model of your own 1,000. A Dask array is always scored as a whole in closed form.
        n_targets: at most this many target points are used at a time, drawn again likewise; by
            default 1,000, of a model of your own 200.
        audit: so many items, drawn at random, measure the error instead of training the model;
            every third item asked for is one of them until all are labelled. Or the items
            themselves, if they were drawn elsewhere. See :mod:`parbals.learner.evaluation.audit`.
        find: a class that is rare, to be found: items likely to be of it are asked for, with some
            random ones in between, and the report says how much of it has been found. See
            :mod:`parbals.learner.evaluation.find`.
        held_out: where labels have taught what makes the features (an encoder that was fine-tuned):
            the items whose labels it saw, and predictions (n, C) for them by features that had not
            seen the label in question, such as of folds. Left-out predictions of features that saw
            the label are too good; the report believes these instead, and predictions are as
            sure as they allow. ``prior_scale="even"`` is made for such features.
        class_descriptions: {class: sentence}, of some classes or all; ``encoder`` makes rows (n, D)
            of sentences as it made ``X_pool`` of texts. Or {class: row (D,)}. The model then
            predicts before the first label, and lets descriptions go that labels contradict. See
            :mod:`parbals.learner.described`.
        class_scores: (N, C) how well each class fits each item, by a model that has seen no label:
            an LLM's probabilities, CLIP's similarities. They count as descriptions do.
        on_batch: is called with a :class:`~parbals.types.BatchRecord` whenever ``ask`` has chosen;
            for trackers. It is not saved: set ``learner.on_batch`` after loading.
        checked: the features are known to be finite numbers; a large file need not be read again to
            be sure.

    Attributes:
        setup: what the learner was made with; ``state`` adds labels and pending items.
        classes, task, metric, pool: as they were given; every probability is in the order of
            ``classes``.
        audit: positions of the items that measure the error, in the order they are asked for.
        last_batch: the batch that ``ask`` chose last; None before the first, and after loading.
        reports: every report that was made of this learner, for its curve in a notebook; those
            that were saved name the classes by texts.
    """

    def __init__(
        self,
        X_pool: Any,
        classes: Sequence[Hashable] | None = None,
        X_target: Any = None,
        strategy: str = DEFAULT,
        random_state: Seed = None,
        *,
        task: str = "classes",
        ids: Sequence[Hashable] | None = None,
        model: Any = None,
        n_samples: int = 400,
        prior_scale: float | str = "auto",
        inference: str = "auto",
        n_universes: int = 10,
        metric: str | None = None,
        options: Mapping[str, Any] | None = None,
        features: str | Encoding | None = "auto",
        standardise: bool = False,
        n_candidates: int | None = None,
        n_targets: int | None = None,
        audit: int | Sequence[Hashable] = 0,
        find: Hashable | None = None,
        held_out: tuple[Any, Any] | None = None,
        class_descriptions: Mapping[Any, Any] | None = None,
        encoder: Callable[[list[str]], Any] | None = None,
        class_scores: Any = None,
        on_batch: Callable[[BatchRecord], object] | None = None,
        checked: bool = False,
    ) -> None:
        kind = task_named(task, classes)
        kind.check_strategy(strategy)
        check_choice(inference, INFERENCES, "inference")
        kind.check_settings(
            inference,
            check_prior_scale(prior_scale),
            model=model,
            find=find,
            held_out=held_out,
            class_descriptions=class_descriptions,
            class_scores=class_scores,
        )
        if n_candidates is not None:
            check_positive_int(n_candidates, "n_candidates")
        seed = seed_from(random_state)
        if isinstance(features, str):
            features = learn_encoding(X_pool, "X_pool", features, seed)
        pool = FeatureTable(X_pool, checked=checked, encoding=features)
        if pool.is_distributed and not isinstance(kind, Classification):
            raise InputError('A pool that stays in its cluster needs task="classes".')
        self._ledger = ledger = Ledger(pool.n_rows, kind, ids)
        own = None if model is None else fresh_copy(as_sample_model(model, len(kind.classes)))
        if n_targets is None:
            n_targets = TARGETS if isinstance(own, LogisticModel | None) else SAMPLED_TARGETS
        self.setup = Setup(
            pool=pool,
            target=None if X_target is None else FeatureTable(X_target, "X_target", like=pool),
            standardise=standardise,
            preparation=Preparation.fit(pool, standardise, seed),
            task=kind,
            seed=seed,
            audit=audit_positions(audit, ledger, seed),
            strategy=strategy,
            options=dict(options or {}),
            metric=kind.check_metric(metric),
            find=None if find is None else kind.class_number(find, "find"),
            model=own,
            n_samples=check_positive_int(n_samples, "n_samples", least=2),
            prior_scale=prior_scale,
            inference=inference,
            n_universes=check_positive_int(n_universes, "n_universes"),
            n_candidates=n_candidates,
            n_targets=check_positive_int(n_targets, "n_targets"),
            held_out=None if held_out is None else check_held_out(held_out, ledger),
            described=described_rows(pool, kind.classes, class_descriptions, encoder, class_scores),
        )
        if self.setup.described is not None and (
            model is not None or inference not in ("auto", "ep")
        ):
            raise InputError("Descriptions of classes need the default model in closed form.")
        self.classes, self.task, self.metric = kind.classes, kind.name, self.setup.metric
        self.pool, self.audit = pool, self.setup.audit
        self._state: State | None = None
        self._cache = FitCache()
        self.last_batch: Batch | None = None
        self.on_batch = on_batch
        self.reports: list[Report] = []

    @property
    def state(self) -> State:
        """The setup with the labels and pending items of now, as a frozen record."""
        if self._state is None:
            ledger = self._ledger
            answers = {}
            if ledger.names:
                answers = {p: dict(by_annotator) for p, by_annotator in ledger.answers.items()}
            self._state = State(
                setup=self.setup,
                majority_labels=dict(ledger.labels),
                pending=tuple(ledger.pending),
                answers=answers,
                cache=self._cache,
            )
        return self._state

    # -- the loop

    def ask(
        self,
        n: int = 1,
        *,
        annotators: Sequence[str] | None = None,
        costs: Mapping[str, float] | None = None,
    ) -> Any:
        """Choose ``n`` items and mark them pending: an array of positions, or a list of ids.

        With ``annotators``, or ``costs`` of their answers, a list of (item, annotator): which item
        to ask whom, also items that others have answered where a second opinion is worth more
        (:mod:`parbals.learner.choosing`).
        """
        if annotators is not None or costs is not None:
            checked, size = check_costs(self.task, annotators, costs), check_positive_int(n, "n")
            questions = choose_questions(self.state, size, checked, self._ledger.asked_annotators)
            ledger = self._change()
            for position, annotator in questions:
                ledger.record(Event(position, "ask", None, annotator))
            return [Question(self._ledger.name(p), name) for p, name in questions]
        batch, state = self.choose(n), self.state
        positions = batch.indices.tolist()
        self._change().ask(positions)
        self.last_batch = batch
        if self.on_batch is not None:
            self.on_batch(BatchRecord(batch, len(state.labels), len(state.pending)))
        return batch.indices if self.ids is None else [self.ids[p] for p in positions]

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
        strategy = self.setup.strategy if strategy is None else strategy
        self.setup.task.check_strategy(strategy)
        size = check_positive_int(n, "n")
        return choose_items(self.state, size, strategy, leave_out, with_audit=with_audit)

    def mark_pending(self, items: Any) -> None:
        """Declare items as out for labelling that were chosen elsewhere."""
        self._change().ask(self._ledger.positions(items))

    def tell(self, items: Any, labels: Any, annotator: str | None = None) -> int:
        """Record labels of any items, in any order; returns how many are new.

        The same label again is no news; another label than before is refused, see :meth:`correct`.
        ``annotator``: who says so. Several may answer one item, and each counts by how often they
        are right (:mod:`parbals.learner.annotators`); a label that nobody signs is true. Where one
        annotator answers everything, labels are taken as they are.
        """
        return self._change().tell(items, labels, annotator)

    def correct(self, items: Any, labels: Any, annotator: str | None = None) -> int:
        """Change labels given before; the history keeps both. Returns how many changed."""
        return self._change().correct(items, labels, annotator)

    def forget(self, items: Any) -> None:
        """Give items back, pending or labelled: they can be asked for again."""
        self._change().forget(items)

    def _change(self) -> Ledger:
        self._state = None
        return self._ledger

    # -- what is known

    @property
    def ids(self) -> list[Any] | None:
        """The names of the items, if they have any."""
        return self._ledger.ids

    def name_items(self, ids: Sequence[Hashable]) -> None:
        """Call the items by these N distinct names from now on."""
        self._ledger.name_items(ids)

    @property
    def labelled(self) -> np.ndarray:
        """Positions that have a label, ascending."""
        return self.state.labelled

    @property
    def labels(self) -> dict[Any, Any]:
        """The label of every labelled item."""
        decoded = self.setup.task.decode
        return {self._ledger.name(p): decoded(c) for p, c in self.state.labels.items()}

    def annotators(self) -> tuple[Annotator, ...]:
        """Everybody who was named: how often they are wrong, with a 90 % interval; see ``tell``.

        Empty where there is nothing to compare one annotator with.
        """
        fit = self.state.annotator_fit
        return () if fit is None else fit.annotators

    def consensus(self) -> dict[Any, np.ndarray]:
        """Of every labelled item the probability (C,) of each class, given all answers to it.

        And what the model predicts without them, but for the audit's items. ``labels`` has the most
        probable of the classes that somebody named.
        """
        state, unit = self.state, np.eye(len(self.classes))
        fit = state.annotator_fit
        positions = state.labelled
        probs = unit[state.encoded_labels(positions)] if fit is None else fit.label_probs
        return {self._ledger.name(p): row for p, row in zip(positions.tolist(), probs, strict=True)}

    @property
    def pending(self) -> list[Any]:
        """Items that are out, in the order they were asked for."""
        return [self._ledger.name(p) for p in self.state.pending]

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything that happened, oldest first, by position and class number."""
        return tuple(self._ledger.events)

    def history(self, item: Any) -> list[tuple[str, Any]]:
        """What happened to one item, oldest first: (action, label)."""
        (position,) = self._ledger.positions([item])
        return [
            (e.action, None if e.label is None else self.setup.task.decode(e.label))
            for e in self._ledger.events
            if e.position == position
        ]

    # -- the model

    def fitted(self, *, with_audit: bool = False) -> Any:
        """The model given today's labels: a function of seed and labels, in any order of arrival.

        The audit's labels are left out unless asked for. A model of your own comes wrapped in one
        that checks what it returns; the model itself is ``fitted().model``.
        """
        return self.state.fitted(with_audit=with_audit)

    def predict_proba(self, X: Any, *, with_audit: bool = False) -> np.ndarray:
        """(N, C) probabilities in the order of ``classes``.

        ``with_audit``: by a model of all labels, the audit's too. What the audit measured is the
        model without them.
        """
        return predict_proba(self.state, X, with_audit=with_audit)

    def predict(
        self, X: Any, *, with_audit: bool = False, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """(N,) the class of every row: the most probable one, or what the metric asks for.

        Of numbers their means; with ``return_std`` also the deviations (N,) of new labels, noise
        included. Of several labels an item whether each (N, L) is one of them.
        """
        return predict(self.state, X, with_audit=with_audit, return_std=return_std)

    # -- how it stands

    def report(self, batch_size: int = 10) -> Report:
        """How good the model is on the target set, what more labels would gain, when to stop."""
        report = make_report(self.state, check_positive_int(batch_size, "batch_size"))
        self.reports.append(report)
        return report

    def certify(self, n: int = 100) -> Sample:
        """Draw ``n`` random items of those without a label, which are pending from now on.

        Their labels measure what the model decides today: ``tell`` them, then :meth:`certified`.
        """
        sample = draw_certificate_sample(self.state, check_positive_int(n, "n"), self._ledger.name)
        self._change().ask(sample.positions)
        return sample

    def certified(self, sample: Sample) -> Certificate | None:
        """What the sample says of the decisions of its time; None until all have a label."""
        return evaluate_sample(sample, self.state.labels)

    def __repr__(self) -> str:
        classes = ", ".join(map(str, self.classes[:5])) + (", …" if len(self.classes) > 5 else "")
        return f"<ActiveLearner by {self.setup.strategy}: {standing(self.state)}; {classes}>"

    def plot(self) -> Any:
        """A matplotlib figure: expected error after each report, and the pool with its labels."""
        return as_figure(self.state, self.last_batch, self.reports)

    def save(self, path: str | Path, *, include_features: bool = True) -> None:
        """One file without pickle, written whole or not at all: :mod:`parbals.learner.archive`."""
        write_learner(Path(path), self.setup, self.ids, self.events, self.reports, include_features)

    @classmethod
    def load(
        cls, path: str | Path, *, X_pool: Any = None, X_target: Any = None, model: Any = None
    ) -> Self:
        """The learner that was saved: the next ``ask`` is the one it would have answered."""
        saved = read_learner(Path(path), X_pool, X_target, model)
        try:
            learner = cls(**saved.arguments)
            saved.check(learner.setup)
            for event in saved.events:
                learner._ledger.record(event)
            learner.reports = saved.reports
        except ParbalsError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            # Values of kinds that no learner writes; who made the file may mean harm.
            raise InputError(f"{path} is not a saved learner as we write them ({error}).") from None
        return learner
