"""The state of a project without a model: progress, report, and items with their labels."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError, ProjectError
from parbals.learner.evaluation import report as reports
from parbals.learner.evaluation.audit import AUDIT
from parbals.learner.evaluation.certify import CERTIFY
from parbals.learner.evaluation.metric import LOSS_OF_METRIC, class_weight_positions
from parbals.learner.tasks.table import task_named
from parbals.strategies.table import RANDOM_STRATEGY, strategy_title
from parbals.types import DEFAULT_N_TARGETS
from parbals.wording import counted, percent

from parbals_label.answer_form import NUMBERS, ORDERED, AnswerForm, in_words
from parbals_label.project.consensus import (
    Agreement,
    aggregate_labels,
    agreement,
    consensus_labels,
    tied_positions,
)
from parbals_label.project.features import (
    adaptation_record,
    is_adapted,
    predictions_of,
    uses_table_features,
)
from parbals_label.project.goal import Goal, advice, goal_parts, metric_lines, metric_of
from parbals_label.project.measured import unlabelled_measured_positions
from parbals_label.project.predicted import (
    PREDICTED,
    DecisionRule,
    decisions,
    predicted_columns,
    predicted_records,
)
from parbals_label.project.quick import QUICK, START
from parbals_label.project.samples import (
    LabelSources,
    RandomSample,
    counted_labels,
    earlier_samples_sentence,
    label_sources,
    random_samples,
)
from parbals_label.store.queue import SECOND_OPINION
from parbals_label.store.records import ADAPTED, Annotator
from parbals_label.store.replies import Usage, usage_of
from parbals_label.store.store import Store

__all__ = [
    "ADAPT_FROM",
    "AnnotatorErrorRate",
    "Overview",
    "audit_line",
    "certificate_lines",
    "decision_rule_of",
    "export_columns",
    "export_records",
    "goal_of",
    "newer_answers",
    "overview",
    "overview_lines",
    "report_lines",
    "strategy_line",
]

ADAPT_FROM = 100
"""Labels from which a fine-tuned encoder usually beats a frozen one (studies/adaptation)."""
_BAR_WIDTH = 30
_NO_STRATEGY = ("", AUDIT, CERTIFY, SECOND_OPINION)
"""Reasons for a label that are no strategy's choice."""
_AUDIT_COLUMN = "audit"
_EXPORT_COLUMNS = ("id", "label", "annotators", "votes", "agreement")
"""Columns that every export adds to those of the items."""
_MIN_CONFUSION_LABELS = 10
"""A confusion matrix of fewer audit labels would look more certain than it is."""


@dataclass(frozen=True)
class AnnotatorErrorRate:
    """An annotator's error rate with its 90 % interval (:mod:`parbals.learner.annotators`).

    >>> print(AnnotatorErrorRate("ann", 40, 0.05, 0.02, 0.1).sentence)
    ann is wrong in 5 % of 40 answers (90 % interval 2 % to 10 %)
    """

    name: str
    n_answers: int
    error: float
    low: float
    high: float

    @property
    def sentence(self) -> str:
        """The error rate in words."""
        interval = f"{percent(self.low)} to {percent(self.high)}"
        return (
            f"{self.name} is wrong in {percent(self.error)} of {self.n_answers:,} answers "
            f"(90 % interval {interval})"
        )


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
        annotator_errors: error rates from the latest report; empty for a single annotator.
        label_range: the least, the median and the greatest label, if labels are numbers.
        samples: all random samples that were drawn to measure the error once, oldest first.
        llms: requests, tokens and cost of every LLM that has labelled.
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
    ...         print(overview_lines(overview(store))[0])
    0 of 10 items labelled (0 %), 0 assigned
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
        audit_sources=label_sources(store, settings.audit, settings.answers_wanted),
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
        annotator_errors=[AnnotatorErrorRate(*row) for row in settings.heard],
        label_range=_label_range(labels.values()) if form.task == NUMBERS else None,
        samples=tuple(random_samples(store)),
        llms=_llm_usage(store),
    )


def _llm_usage(store: Store) -> list[Usage]:
    """What LLMs have used; nothing if the record is damaged, which `parbals label` reports."""
    with suppress(ProjectError):
        return usage_of(store.folder)
    return []


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
    attempts = [event.detail for event in store.events(ADAPTED)]
    if attempts and not attempts[-1]["used"]:
        attempt = "tree features trained" if has_table else "fine-tuning"
        n_tried = attempts[-1]["n_labels"]
        return f"{line}; {attempt} on {n_tried:,} labels did not improve held-out predictions."
    if n_labels < ADAPT_FROM or settings.encoder == "shapes":
        return f"{line}."
    suggestion = "add tree features" if has_table else "fine-tune it"
    return f"{line}; you have enough labels to {suggestion} (parbals adapt, or Settings)."


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


def overview_lines(overview: Overview) -> list[str]:
    """The state of a project in words: progress, goal, balance and report."""
    return [
        *_progress_lines(overview),
        *_goal_lines(overview),
        *_balance_lines(overview),
        *metric_lines(overview.metric, overview.report),
        *_latest_report_lines(overview),
    ]


def _progress_lines(overview: Overview) -> list[str]:
    """Counts of items by their state, annotators' error rates, strategies and features."""
    share = overview.labelled / overview.items if overview.items else 0.0
    lines = [
        f"{overview.labelled:,} of {overview.items:,} items labelled ({percent(share)}), "
        f"{overview.pending - overview.queued} assigned"
    ]
    if overview.partially_labelled:
        lines.append(f"{overview.partially_labelled:,} more have fewer answers than required")
    if overview.queued or overview.skipped:
        lines.append(
            f"{overview.queued:,} waiting on the labelling page, "
            f"{overview.skipped:,} skipped without a label"
        )
    if overview.audit:
        lines.append(audit_line(overview))
    if overview.ties:
        ties = counted(overview.ties, "item is", "items are")
        lines.append(f"{ties} tied: one more answer decides (Browse, Tied)")
    lines += [annotator.sentence for annotator in overview.annotator_errors]
    lines += [usage.sentence for usage in overview.llms]
    lines += filter(None, (strategy_line(overview), overview.features))
    return lines


def _goal_lines(overview: Overview) -> list[str]:
    """A progress bar for each part of the goal."""
    lines = []
    parts = goal_parts(overview.goal, overview.labelled, overview.report, overview.sample)
    for part in parts:
        n_filled = round(_BAR_WIDTH * part.share)
        bar = "█" * n_filled + "░" * (_BAR_WIDTH - n_filled)
        lines.append(f"goal  {bar}  {part.sentence}")
    return lines


def _balance_lines(overview: Overview) -> list[str]:
    """The range of numeric labels, or a bar for each class."""
    lines = []
    if overview.label_range:
        values = (f"{name} {in_words(value)}" for name, value in overview.label_range.items())
        lines.append(f"labels: {', '.join(values)}")
    max_count = max([*overview.class_balance.values(), 1])
    name_width = max((len(str(label)) for label in overview.class_balance), default=0)
    for label, count in overview.class_balance.items():
        bar = "█" * round(_BAR_WIDTH * count / max_count)
        lines.append(f"  {label:<{name_width}}  {bar:<{_BAR_WIDTH}}  {count:,}")
    return lines


def _latest_report_lines(overview: Overview) -> list[str]:
    """The latest report, and how to compute a new one where it is missing or older than labels."""
    if overview.report is None or overview.stored_report is None:
        command = f", or now by `parbals export {overview.folder} --renew`"
        now = command if overview.labelled else ""
        return [f"No report yet: it is computed when labels arrive (parbals tell){now}."]
    lines = report_lines(overview.report, overview.goal, overview.labelled, overview.samples)
    n_labels = overview.stored_report["n_labels"]
    if overview.labelled + overview.partially_labelled != n_labels:
        lines.append(
            f"The report was computed from {n_labels:,} labels; the next `parbals tell` or "
            f"`parbals export {overview.folder} --renew` updates it."
        )
    return lines


def strategy_line(overview: Overview) -> str | None:
    """How many of the labelled items each strategy chose; None if no strategy chose any."""
    counts = {name: n for name, n in overview.chosen_by.items() if name not in _NO_STRATEGY}
    total = sum(counts.values())
    if not total:
        return None
    n_by_strategy = counts.pop(overview.strategy, 0)
    title = strategy_title(overview.strategy)
    parts = [f"{n_by_strategy:,} of {total:,} labelled items were chosen by {title}"]
    n_cold_start = counts.pop(START, 0)
    if n_cold_start:
        parts.append(f"{n_cold_start:,} by k-means, before there was a model")
    n_fallback = sum(counts.pop(name, 0) for name in (QUICK, RANDOM_STRATEGY))
    if n_fallback:
        share = percent(n_fallback / total)
        parts.append(f"{n_fallback:,} by a quick fallback, so that nobody had to wait ({share})")
    parts += [f"{n:,} by {strategy_title(name)}" for name, n in counts.items()]
    return "; ".join(parts)


def audit_line(overview: Overview) -> str:
    """Progress of the audit, and whose labels it rests on."""
    line = f"{overview.audit_labelled:,} of the {overview.audit:,} test items are labelled."
    return f"{line} {overview.audit_sources.sentence}".strip()


def certificate_lines(
    report: reports.Report | None, samples: Sequence[RandomSample] = ()
) -> list[str]:
    """The errors measured by the test items and by random samples, in words."""
    measured = None if report is None else report.measured
    lines = []
    if measured is not None or not samples:
        lines.append(reports.measured_error_sentence(measured))
    if samples:
        lines.append(samples[-1].sentence)
    if len(samples) > 1:
        lines.append(earlier_samples_sentence(samples))
    return lines


def report_lines(
    report: reports.Report,
    goal: Goal,
    n_labelled: int,
    samples: Sequence[RandomSample] = (),
) -> list[str]:
    """The quality of the model, and what to do next, in words."""
    next_step = advice(goal, n_labelled, report, samples[-1] if samples else None)
    lines = [
        reports.error_line(report),
        *reports.metric_line(report),
        *certificate_lines(report, samples),
        *reports.class_lines(report.measured),
        *reports.label_lines(report),
        next_step.sentence,
    ]
    if next_step.measures:
        lines.append("Draw them: parbals certify DIR --labels 60 --page")
    return [*lines, *report.warnings]


def decision_rule_of(store: Store, probs: np.ndarray) -> DecisionRule:
    """The rule that turns stored predictions (N, C) into decisions.

    The class weights are those of the learner that made the predictions, from the same items.
    """
    settings = store.settings
    metric = metric_of(settings.loss)
    if metric in LOSS_OF_METRIC or settings.task == NUMBERS:
        return DecisionRule(metric)
    positions = class_weight_positions(settings.seed, len(probs), DEFAULT_N_TARGETS, settings.audit)
    task = task_named(settings.task, store.classes[: probs.shape[1]])
    return DecisionRule(metric, task.class_weights(metric, probs[positions].astype(np.float64)))


def newer_answers(store: Store) -> int:
    """Number of answers since the stored predictions; 0 where there are no predictions."""
    stored = store.settings.predictions
    return 0 if stored is None else store.revision()[0] - stored.answers


def export_columns(store: Store) -> list[str]:
    """Names of the columns of :func:`export_records`.

    id, the items' columns, label, annotators, votes (labels and how many gave them, such as
    spam:2;ham:1), agreement (the share of the most frequent one), whether the item belongs to the
    audit, the prediction, and the probability of each class; an item that is being measured has no
    prediction. A duplicate text has the label of the first one, and ``copy of`` its id as
    annotator.
    """
    settings = store.settings
    added = _added_columns(store)
    item_columns = [f"item.{name}" if name in added else name for name in settings.columns]
    predicted = predicted_columns(_predicted_form(store)) if settings.predictions else []
    return ["id", *item_columns, *added[1:], *predicted[1:]]


def export_records(store: Store, labelled_only: bool = False) -> Iterator[dict[str, Any]]:
    """One record for every item, in order."""
    form = store.form
    predicted_form = _predicted_form(store)
    added = _added_columns(store)
    audit = frozenset(store.settings.audit)
    answers = store.current_labels()
    votes = store.votes(decided=False)
    labels = consensus_labels(store)
    first_ids = _first_ids(store, labels)
    labels |= {
        duplicate: labels[first]
        for duplicate, first in store.settings.copies
        if duplicate in first_ids
    }
    predictions = predictions_of(store)
    decision_rule = None if predictions is None else decision_rule_of(store, predictions)
    hidden = unlabelled_measured_positions(store)
    no_prediction = dict.fromkeys(predicted_columns(predicted_form))
    for item in store.iter_items():
        position = item.position
        if labelled_only and position not in labels:
            continue
        annotators = ";".join(answers.get(position, {}))
        if position in first_ids:
            annotators = f"copy of {first_ids[position]}"
        item_labels = [*votes.get(position, {}).values()]
        record = {
            "id": item.id,
            **{f"item.{k}" if k in added else k: v for k, v in item.content.items()},
            "label": form.plain(labels[position]) if position in labels else None,
            "annotators": annotators,
            "votes": _votes_text(form, item_labels),
            "agreement": _majority_share(item_labels),
        }
        if audit:
            record[_AUDIT_COLUMN] = position in audit
        if predictions is not None:
            record |= no_prediction
        if predictions is not None and position not in hidden:
            row = predictions[position][None]
            record |= predicted_records(predicted_form, row, decision_rule)[0]
        yield record


def _first_ids(store: Store, labels: Mapping[int, str]) -> dict[int, str]:
    """Unlabelled duplicate → id of the first item, where that has a label."""
    firsts = {
        duplicate: first
        for duplicate, first in store.settings.copies
        if first in labels and duplicate not in labels
    }
    ids = [item.id for item in store.items(list(firsts.values()))]
    return dict(zip(firsts, ids, strict=True))


def _votes_text(form: AnswerForm, labels: list[str]) -> str:
    """Labels and how many gave them, such as spam:2;ham:1."""
    votes = Counter(name for label in labels for name in form.names(label) or [label])
    return ";".join(f"{name}:{n}" for name, n in votes.most_common())


def _majority_share(labels: list[str]) -> float | None:
    """The share of the most frequent label; None without labels."""
    if not labels:
        return None
    return round(max(Counter(labels).values()) / len(labels), 4)


def _added_columns(store: Store) -> tuple[str, ...]:
    """Columns of an export that are not the items'."""
    columns = list(_EXPORT_COLUMNS)
    if store.settings.audit:
        columns.append(_AUDIT_COLUMN)
    if store.settings.predictions:
        columns.append(PREDICTED)
    return tuple(columns)


def _predicted_form(store: Store) -> AnswerForm:
    """The classes that stored predictions have: a class that was added later has none."""
    stored = store.settings.predictions
    form = store.form
    return replace(form, classes=() if stored is None else form.classes[: stored.shape[1]])
