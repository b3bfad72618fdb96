"""The ask-and-tell loop of pool-based active learning."""

import inspect
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from parbals.errors import InputError, ParbalsError
from parbals.features.frames import learn_encoding
from parbals.learner.annotators.answers import labels_by_people
from parbals.learner.annotators.fit import Annotator
from parbals.learner.archive import read_learner, write_learner
from parbals.learner.choosing import choose_items
from parbals.learner.descriptions import encode_descriptions
from parbals.learner.evaluation.audit import audit_positions, draw_audit
from parbals.learner.evaluation.certify import (
    Certificate,
    Sample,
    draw_certificate_sample,
    evaluate_sample,
)
from parbals.learner.evaluation.report import Report
from parbals.learner.evaluation.support import FarRows
from parbals.learner.features import FeatureTable, Preparation
from parbals.learner.fit_cache import FitCache
from parbals.learner.ledger import Event, Ledger
from parbals.learner.models import USER_MODEL_N_TARGETS, LogisticModel, as_sample_model, fresh_copy
from parbals.learner.pictures import as_figure, as_html, progress_sentence
from parbals.learner.questions import Question, check_costs, choose_questions
from parbals.learner.reporting import make_report, predict, predict_proba
from parbals.learner.settings import (
    InputSettings,
    PosteriorSettings,
    SearchSettings,
    apply_settings,
    check_setting_names,
)
from parbals.learner.setup import Setup, check_held_out
from parbals.learner.state import State
from parbals.learner.tasks.base import Classification
from parbals.learner.tasks.table import task_named
from parbals.posterior.inference import INFERENCES
from parbals.randomness import Seed, seed_from
from parbals.strategies.table import DEFAULT_STRATEGY
from parbals.types import DEFAULT_N_TARGETS, Batch, BatchRecord
from parbals.validate import check_choice, check_positive_int, check_prior_scale

__all__ = ["ActiveLearner"]

_MAX_CLASSES_IN_REPR = 5


class ActiveLearner:
    """Choose the items to label next, and learn from their labels.

    ``ask(n)`` returns items and marks them as pending; later calls treat pending items as a batch
    already under way, so several people can label at the same time. ``tell`` accepts labels of any
    items in any order.

    >>> import numpy as np
    >>> import parbals
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> y = np.where(X[:, 0] > 0, "spam", "ham")  # stands in for an annotator
    >>> learner = parbals.ActiveLearner(X, classes=["ham", "spam"], random_state=0)
    >>> for _ in range(2):
    ...     items = learner.ask(10)
    ...     n_new = learner.tell(items, y[items])
    >>> learner
    <ActiveLearner by parbals-epig: 20 of 200 labelled, 0 pending; ham, spam>
    >>> learner.report().expected_error.high < 0.2
    True
    >>> learner.predict([[2.0, 0.0], [-2.0, 0.0]])
    array(['spam', 'ham'], dtype='<U4')

    A choice is a function of the seed, the labels and the pending items alone. It does not depend
    on the order in which labels came, on items that were asked for and forgotten, or on saving and
    loading. Audit items and their labels have no influence on which other items are chosen.

    Until there is a label (with your own model: labels of two classes), ``kmeans`` chooses in place
    of strategies that need a model. With ``class_descriptions`` the model chooses from the start.

    Args:
        X_pool: (N, D) features: NumPy, a memory map or the path of an ``.npy`` file, pandas,
            polars, Arrow, SciPy sparse, PyTorch, or a Dask array, which is scored where its blocks
            are and never collected. Or N texts, in a list or a column.
        classes: the class labels: strings, ints or bools, at least two; None for regression.
        X_target: (M, D) features from the distribution on which the model will be used; leave it
            out if that is the pool's.
        strategy: a name from ``parbals strategies``.
        random_state: an integer makes every result reproducible.
        task: what a label is: ``"classes"``, one class per item; ``"many-labels"``, any number of
            them; ``"ordinal"``, one of ordered classes, the lowest first; ``"regression"``, a
            number.
        metric: the metric to optimise and report: ``"accuracy"`` (default),
            ``"balanced-accuracy"``, ``"f1:CLASS"`` or ``"log-loss"``; other tasks have their own
            (:mod:`parbals.learner.evaluation.metric`). It sets the loss of EPIG and ParBaLS
            strategies and the decisions of ``predict``, with your own model, too.
        model: your own model (see :mod:`parbals.learner.models`); by default Bayesian logistic
            regression. It is copied for every fit and is not changed.
        standardise: scale features to unit standard deviation first.
        class_descriptions: {class: sentence}, for some classes or all, with ``encoder=...``; or
            {class: features (D,)}. The model then predicts before the first label; descriptions
            that labels contradict are dropped (:mod:`parbals.learner.descriptions`).
        audit: number of random items that measure the error instead of training the model; every
            third item asked for is one of them until none is left. Or the items themselves, if you
            have drawn them at random (:mod:`parbals.learner.evaluation.audit`).
        audit_excluded: items that you did not draw them from, because they had a label before.
        find: a rare class to find: ``ask`` then returns the items that are most likely to be of
            this class, mixed with random ones, and the report estimates the recall
            (:mod:`parbals.learner.evaluation.find`).
        ids: N distinct hashable names of the items, used instead of positions.
        on_batch: called with a :class:`~parbals.types.BatchRecord` after each choice of ``ask``,
            for experiment trackers. It is not saved: set ``learner.on_batch`` after loading.
        posterior: the default model, see :class:`parbals.PosteriorSettings`.
        search: how thoroughly batches are searched for, see :class:`parbals.SearchSettings`.
        inputs: how the features were made, see :class:`parbals.InputSettings`.
        **settings: single fields of these three, such as ``n_samples=200`` or ``n_universes=4``.

    Attributes:
        setup: the checked arguments; ``state`` is the setup with labels and pending items.
        classes: the class labels; probabilities are in their order.
        task: name of the task.
        metric: name of the metric.
        pool: the features.
        audit: positions of the audit items, in the order in which they are asked for.
        n_measurements: number of samples drawn by :meth:`certify`.
        last_batch: the batch that ``ask`` chose last; None before the first, and after loading.
        reports: all reports so far, for ``plot``. In reports of a loaded learner the class labels
            are strings.
    """

    def __init__(
        self,
        X_pool: Any,
        classes: Sequence[Hashable] | None = None,
        X_target: Any = None,
        strategy: str = DEFAULT_STRATEGY,
        random_state: Seed = None,
        *,
        task: str = "classes",
        metric: str | None = None,
        model: Any = None,
        standardise: bool = False,
        class_descriptions: Mapping[Any, Any] | None = None,
        audit: int | Sequence[Hashable] = 0,
        audit_excluded: Sequence[Hashable] = (),
        find: Hashable | None = None,
        ids: Sequence[Hashable] | None = None,
        on_batch: Callable[[BatchRecord], object] | None = None,
        posterior: PosteriorSettings | None = None,
        search: SearchSettings | None = None,
        inputs: InputSettings | None = None,
        **settings: Any,
    ) -> None:
        check_setting_names(settings, inspect.signature(ActiveLearner).parameters)
        posterior = apply_settings(posterior, "posterior", settings)
        search = apply_settings(search, "search", settings)
        inputs = apply_settings(inputs, "inputs", settings)
        label_task = task_named(task, classes)
        label_task.check_strategy(strategy)
        check_choice(posterior.inference, INFERENCES, "inference")
        label_task.check_settings(
            posterior.inference,
            check_prior_scale(posterior.prior_scale),
            model=model,
            find=find,
            held_out=inputs.held_out,
            class_descriptions=class_descriptions,
            class_scores=inputs.class_scores,
        )
        if search.n_candidates is not None:
            check_positive_int(search.n_candidates, "n_candidates")
        seed = seed_from(random_state)
        pool = _encode_pool(X_pool, inputs, seed)
        if pool.is_distributed and not isinstance(label_task, Classification):
            raise InputError('A Dask array as X_pool needs task="classes".')
        ledger = Ledger(pool.n_rows, label_task, ids)
        users_model = None
        if model is not None:
            users_model = fresh_copy(as_sample_model(model, len(label_task.classes)))
        n_targets = search.n_targets
        if n_targets is None:
            n_targets = _default_n_targets(users_model)
        self.setup = Setup(
            pool=pool,
            target=None if X_target is None else FeatureTable(X_target, "X_target", like=pool),
            standardise=standardise,
            preparation=Preparation.fit(pool, standardise, seed),
            task=label_task,
            seed=seed,
            audit=audit_positions(audit, ledger, seed),
            strategy=strategy,
            options=dict(search.options or {}),
            metric=label_task.check_metric(metric),
            find=None if find is None else label_task.class_number(find, "find"),
            model=users_model,
            n_samples=check_positive_int(posterior.n_samples, "n_samples", minimum=2),
            prior_scale=posterior.prior_scale,
            inference=posterior.inference,
            n_universes=check_positive_int(search.n_universes, "n_universes"),
            n_candidates=search.n_candidates,
            n_targets=check_positive_int(n_targets, "n_targets"),
            held_out=None if inputs.held_out is None else check_held_out(inputs.held_out, ledger),
            class_descriptions=encode_descriptions(
                pool, label_task.classes, class_descriptions, inputs.encoder, inputs.class_scores
            ),
            audit_excluded=np.array(ledger.positions(audit_excluded), np.int64),
        )
        is_closed_form = model is None and posterior.inference in ("auto", "ep")
        if self.setup.class_descriptions is not None and not is_closed_form:
            raise InputError(
                "class_descriptions and class_scores need the default model in closed form, with "
                'inference="auto" or "ep".'
            )
        self.classes = label_task.classes
        self.task = label_task.name
        self.metric = self.setup.metric
        self.pool = pool
        self.audit = self.setup.audit
        self.last_batch: Batch | None = None
        self.on_batch = on_batch
        self.reports: list[Report] = []
        self.n_measurements = 0
        self._ledger = ledger
        self._cache = FitCache()
        self._state: State | None = None

    @property
    def state(self) -> State:
        """The setup with the current labels and pending items, as a frozen record."""
        if self._state is None:
            ledger = self._ledger
            answers = {}
            if ledger.annotators:
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
        """Choose ``n`` items and mark them as pending.

        Returns an array of positions, or a list of ids if the items have ids.

        With ``annotators`` (names), or ``costs`` (annotator → cost of one answer), returns a list
        of up to ``n`` questions (item, annotator) instead: those of highest information per cost.
        Some may ask for a second opinion on an item (:mod:`parbals.learner.questions`).

        >>> import parbals
        >>> X = np.random.default_rng(0).standard_normal((50, 2))
        >>> learner = parbals.ActiveLearner(X, ["ham", "spam"], random_state=0)
        >>> len(learner.ask(3)), len(learner.pending)
        (3, 3)
        >>> [question.annotator for question in learner.ask(2, costs={"ada": 1.0, "llm": 0.1})]
        ['llm', 'llm']
        """
        if annotators is not None or costs is not None:
            cost_of = check_costs(self.task, annotators, costs)
            return self._ask_annotators(check_positive_int(n, "n"), cost_of)
        batch = self.choose(n)
        state = self.state
        positions = batch.indices.tolist()
        self._ledger_for_change().ask(positions)
        self.last_batch = batch
        if self.on_batch is not None:
            self.on_batch(BatchRecord(batch, len(state.labels), len(state.pending)))
        return batch.indices if self.ids is None else [self.ids[p] for p in positions]

    def _ask_annotators(self, n: int, costs: Mapping[str, float]) -> list[Question]:
        questions = choose_questions(self.state, n, costs, self._ledger.asked_annotators)
        ledger = self._ledger_for_change()
        for position, annotator in questions:
            ledger.record(Event(position, "ask", None, annotator))
        return [Question(ledger.name(position), annotator) for position, annotator in questions]

    def choose(
        self,
        n: int = 1,
        *,
        strategy: str | None = None,
        leave_out: Collection[int] = (),
        with_audit: bool = True,
    ) -> Batch:
        """Return the batch that ``ask(n)`` would choose, without marking it as pending.

        Its ``indices`` are positions in the pool, also if the items have ids. Audit items are
        spread evenly over the batch, and their scores are NaN.

        Args:
            n: number of items.
            strategy: replaces the learner's strategy.
            leave_out: positions not to choose. Unlike pending items, they do not affect the choice
                among the others: no labels are expected for them.
            with_audit: False for a batch without audit items.
        """
        strategy = self.setup.strategy if strategy is None else strategy
        self.setup.task.check_strategy(strategy)
        size = check_positive_int(n, "n")
        return choose_items(self.state, size, strategy, leave_out, with_audit=with_audit)

    def mark_pending(self, items: Any) -> None:
        """Mark items as pending that something other than ``ask`` has chosen."""
        self._ledger_for_change().ask(self._ledger.positions(items))

    def tell(self, items: Any, labels: Any, annotator: str | None = None) -> int:
        """Record labels of any items, in any order, and return how many are new.

        Repeating a label changes nothing; a different label is refused, see :meth:`correct`. With
        ``annotator``, several may answer for an item, and each answer is weighted by the
        annotator's estimated error rate (:mod:`parbals.learner.annotators`). Labels without an
        annotator are treated as gold, and so are all labels of a single annotator.

        >>> import parbals
        >>> learner = parbals.ActiveLearner(np.eye(4), ["ham", "spam"], ids=["a", "b", "c", "d"])
        >>> learner.tell(["d", "a"], ["spam", "ham"])
        2
        >>> learner.labels
        {'d': 'spam', 'a': 'ham'}
        """
        return self._ledger_for_change().tell(items, labels, annotator)

    def correct(self, items: Any, labels: Any, annotator: str | None = None) -> int:
        """Change earlier labels, and return how many changed; the history keeps both."""
        return self._ledger_for_change().correct(items, labels, annotator)

    def forget(self, items: Any) -> None:
        """Return pending or labelled items to the pool: they can be asked for again."""
        self._ledger_for_change().forget(items)

    def _ledger_for_change(self) -> Ledger:
        """Return the ledger to change it; ``state`` will be computed anew from it."""
        self._state = None
        return self._ledger

    # -- labels

    @property
    def ids(self) -> list[Any] | None:
        """Names of the items, or None."""
        return self._ledger.ids

    def name_items(self, ids: Sequence[Hashable]) -> None:
        """Name the items by N distinct ids from now on."""
        self._ledger.name_items(ids)

    @property
    def labelled(self) -> np.ndarray:
        """Positions that have a label, ascending."""
        return self.state.labelled

    @property
    def labels(self) -> dict[Any, Any]:
        """The label of every labelled item."""
        labels = {}
        for position, encoded in self.state.labels.items():
            labels[self._ledger.name(position)] = self.setup.task.decode(encoded)
        return labels

    def annotators(self) -> tuple[Annotator, ...]:
        """Return all named annotators with their error rates (90 % interval); see ``tell``.

        Empty while there is nothing to compare an annotator with.
        """
        fit = self.state.annotator_fit
        return () if fit is None else fit.annotators

    def consensus(self) -> dict[Any, np.ndarray]:
        """Return class probabilities (C,) of every labelled item, given all answers to it.

        They also take the model's leave-one-out predictions into account, except for audit items.
        The item's label in ``labels`` is the most probable of the classes that somebody answered.
        """
        state = self.state
        fit = state.annotator_fit
        if fit is None:
            probs = np.eye(len(self.classes))[state.encoded_labels(state.labelled)]
        else:
            probs = fit.label_probs
        names = [self._ledger.name(position) for position in state.labelled.tolist()]
        return dict(zip(names, probs, strict=True))

    @property
    def pending(self) -> list[Any]:
        """Items that were asked for and have no label yet, in the order of asking."""
        return [self._ledger.name(position) for position in self.state.pending]

    @property
    def events(self) -> tuple[Event, ...]:
        """The history of all items, oldest first, by position and encoded label."""
        return tuple(self._ledger.events)

    def history(self, item: Any) -> list[tuple[str, Any]]:
        """Return the history of one item, oldest first: (action, label)."""
        (position,) = self._ledger.positions([item])
        history = []
        for event in self._ledger.events:
            if event.position == position:
                label = None if event.label is None else self.setup.task.decode(event.label)
                history.append((event.action, label))
        return history

    # -- the model

    def fitted(self, *, with_audit: bool = False) -> Any:
        """Return a model trained on the current labels; it depends on them and the seed alone.

        ``with_audit``: train on the audit's labels, too. Your own model is returned in a wrapper
        that checks its output, and is itself ``fitted().model``.
        """
        return self.state.fitted(with_audit=with_audit)

    def predict_proba(self, X: Any, *, with_audit: bool = False) -> np.ndarray:
        """Return probabilities (N, C) in the order of ``classes``.

        ``with_audit``: by a model that is trained on the audit's labels, too. The error that the
        audit measures is that of the model without them.
        """
        return predict_proba(self.state, X, with_audit=with_audit)

    def predict(
        self, X: Any, *, with_audit: bool = False, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return the class (N,) of every row that maximises the expected metric.

        Regression returns means (N,); with ``return_std`` also the standard deviations (N,) of new
        labels, noise included. The multi-label task returns a binary indicator matrix (N, L).
        """
        return predict(self.state, X, with_audit=with_audit, return_std=return_std)

    # -- evaluation

    def report(self, batch_size: int = 10) -> Report:
        """Estimate the error on the target set, and what ``batch_size`` more labels would gain."""
        report = make_report(self.state, check_positive_int(batch_size, "batch_size"))
        self.reports.append(report)
        return report

    def far_targets(self) -> FarRows | None:
        """Find target rows that are far from everything in the pool; None without a target set.

        Labels of the pool say little about them: collect more items like these
        (:mod:`parbals.learner.evaluation.support`).

        >>> import parbals
        >>> X = np.random.default_rng(0).standard_normal((640, 2))
        >>> target = np.append(X[:40], [[9.0, 9.0], [9.0, -9.0]], axis=0)
        >>> learner = parbals.ActiveLearner(X[40:], [0, 1], X_target=target, random_state=0)
        >>> sorted(learner.far_targets().positions.tolist())
        [40, 41]
        """
        return self.setup.far_targets

    def measure(self, n: int = 60, *, keep: bool = False) -> Sample | None:
        """Begin to measure the error by ``n`` random items that have no label, pending or not.

        Without ``keep`` this is :meth:`certify`: the sample measures the current predictions once.
        With ``keep`` its items become the learner's audit, and None is returned: ``ask`` mixes them
        in, their labels never train the model, and every later report has the measured error. Only
        one sample can be kept, and none that is more than half of the items left.

        >>> import parbals
        >>> X = np.random.default_rng(0).standard_normal((200, 2))
        >>> learner = parbals.ActiveLearner(X, [0, 1], random_state=0)
        >>> n_new = learner.tell(range(30), (X[:30, 0] > 0).astype(int))
        >>> learner.measure(20, keep=True)
        >>> len(learner.audit), bool(min(learner.audit) >= 30)
        (20, True)
        """
        if not keep:
            return self.certify(n)
        if len(self.audit):
            raise InputError(
                f"A sample of {len(self.audit)} items is kept already; it measures every later "
                "model."
            )
        taken = self.state.labelled
        drawn = draw_audit(
            self.pool.n_rows, check_positive_int(n, "n"), self.setup.seed, taken.tolist()
        )
        self.setup = replace(self.setup, audit=drawn, audit_excluded=taken)
        self.audit = drawn
        self._state = None
        return None

    def certify(self, n: int = 100) -> Sample:
        """Draw a random sample of ``n`` items without a label, and mark them as pending.

        Their labels measure the error of the model's current predictions for all items without a
        label, pending ones too: ``tell`` them, then call :meth:`certified`. All samples that are
        ever drawn share one failure probability, so it is valid to draw again and to show the best
        (:mod:`parbals.learner.evaluation.certify`).

        The draw follows from ``random_state``, the labels and the pending items. Whoever tries
        several of these and keeps one has chosen the sample, and the statement does not hold. A
        project draws with the operating system's randomness instead.

        >>> import parbals
        >>> X = np.random.default_rng(0).standard_normal((200, 2))
        >>> y = (X[:, 0] > 0).astype(int)
        >>> learner = parbals.ActiveLearner(X, [0, 1], random_state=0)
        >>> n_new = learner.tell(range(30), y[:30])
        >>> sample = learner.certify(20)
        >>> n_new = learner.tell(sample.items, y[sample.positions])
        >>> learner.certified(sample).n
        20
        """
        sample = draw_certificate_sample(
            self.state, check_positive_int(n, "n"), self._ledger.name, self.n_measurements + 1
        )
        self.n_measurements += 1
        self._ledger_for_change().ask(sample.positions)
        return sample

    def certified(self, sample: Sample) -> Certificate | None:
        """Return the measured error of a sample's decisions; None until people answered all items.

        Only answers of people count: a gold label (told without an annotator), else the most
        frequent answer, never one of ``machine:`` annotators. Where people are divided the label is
        not known: the lower limit takes the decision as right, the upper one as wrong.
        """
        return evaluate_sample(sample, labels_by_people(self._ledger.answers, sample.positions))

    # -- display

    def __repr__(self) -> str:
        classes = [str(label) for label in self.classes[:_MAX_CLASSES_IN_REPR]]
        if len(self.classes) > _MAX_CLASSES_IN_REPR:
            classes.append("…")
        progress = progress_sentence(self.state)
        ending = f"; {', '.join(classes)}" if classes else ""
        return f"<ActiveLearner by {self.setup.strategy}: {progress}{ending}>"

    def _repr_html_(self) -> str:
        """Return a table of the progress and the latest report, for notebooks; fits no model."""
        return as_html(self.state, self.reports)

    def plot(self) -> Any:
        """Return a matplotlib figure: the error in each report, and the pool with its labels.

        Before the first report it shows the pool alone.
        """
        return as_figure(self.state, self.last_batch, self.reports)

    # -- files

    def save(self, path: str | Path, *, include_features: bool = True) -> None:
        """Save to one file, without pickle and atomically (:mod:`parbals.learner.archive`).

        A file without features (``include_features=False``) is smaller, and ``load`` then needs
        ``X_pool`` and, if there was one, ``X_target``.
        """
        write_learner(
            Path(path),
            self.setup,
            self.ids,
            self.events,
            self.reports,
            self.n_measurements,
            include_features,
        )

    @classmethod
    def load(
        cls, path: str | Path, *, X_pool: Any = None, X_target: Any = None, model: Any = None
    ) -> Self:
        """Load a saved learner; its next ``ask`` is the one that the saved learner would make."""
        saved = read_learner(Path(path), X_pool, X_target, model)
        try:
            learner = cls(**saved.arguments)
            saved.check(learner.setup)
            for event in saved.events:
                learner._ledger.record(event)
            learner.reports = saved.reports
            learner.n_measurements = saved.n_measurements
        except ParbalsError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            # The file has values that `save` never writes: it is damaged, or forged to do harm.
            raise InputError(
                f"{path} is not a saved learner: it has values that save never writes ({error})."
            ) from None
        return learner


def _encode_pool(X_pool: Any, inputs: InputSettings, seed: int) -> FeatureTable:
    """Check the features of the pool; learn their encoding unless ``inputs`` brings one."""
    encoding = inputs.features
    if isinstance(encoding, str):
        encoding = learn_encoding(X_pool, "X_pool", encoding, seed)
    return FeatureTable(X_pool, checked=inputs.checked, encoding=encoding)


def _default_n_targets(users_model: Any) -> int:
    """Return how many target points are used by default: fewer with a user's own model."""
    is_logistic_model = users_model is None or isinstance(users_model, LogisticModel)
    return DEFAULT_N_TARGETS if is_logistic_model else USER_MODEL_N_TARGETS
