"""What there is to see of a project without a model: progress, balance, report, items' labels."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.learner.evaluation import report as reports
from parbals.learner.evaluation.audit import AUDIT
from parbals.learner.evaluation.certify import CERTIFY
from parbals.learner.evaluation.metric import METRICS, class_weight_positions
from parbals.learner.tasks.table import task_named
from parbals.strategies.table import UNIFORM, strategy_title
from parbals.types import TARGETS
from parbals.wording import counted, percent

from parbals_label.answer_form import NUMBERS, ORDERED, AnswerForm, in_words
from parbals_label.project.certified import CertificateSample, latest_sample
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
from parbals_label.project.predicted import (
    PREDICTED,
    DecisionRule,
    decisions,
    predicted_columns,
    predicted_records,
)
from parbals_label.project.quick import QUICK, START
from parbals_label.store.queue import SECOND_OPINION
from parbals_label.store.records import ADAPTED, Annotator
from parbals_label.store.store import Store

__all__ = [
    "ADAPT_FROM",
    "AnnotatorErrorRate",
    "Overview",
    "audit_line",
    "certificate_lines",
    "strategy_line",
]
__all__ += ["decision_rule_of", "export_columns", "export_records", "goal_of", "newer_answers"]
__all__ += ["overview", "overview_lines", "report_lines"]

ADAPT_FROM = 100
"""Labels from which an encoder that learns from them is mostly the better one (studies/adapt)."""
_BAR = 30
_NO_CHOICE = ("", AUDIT, CERTIFY, SECOND_OPINION)
_OWN = ("id", "label", "annotators", "votes", "agreement")
_AUDIT = "audit"
_FEWEST_MEASURED = 10
"""Labels of the audit below which a table of them would be read as more than it is."""
_NAMED = 5
"""People whom a line names; the others are counted."""


@dataclass(frozen=True)
class AnnotatorErrorRate:
    """How often an annotator is wrong, with a 90 % interval (:mod:`parbals.learner.annotators`)."""

    name: str
    n_answers: int
    error: float
    low: float
    high: float

    @property
    def sentence(self) -> str:
        """For people."""
        interval = f"{percent(self.low)} to {percent(self.high)}"
        return (
            f"{self.name} is wrong in {percent(self.error)} of {self.n_answers:,} answers "
            f"(90 % interval {interval})"
        )


@dataclass(frozen=True)
class Overview:
    """Where a project stands.

    Attributes:
        metric: what the model is judged by.
        labelled: items with as many answers as are wanted; partly: with fewer; answers: labels
            given, those of several people counted each.
        queued, out: items that wait on the page, and those that are with somebody.
        pending: both, without leases that have run out; passed: without a label.
        class_balance: items of each class, by the label of the majority.
        audit: random items that measure the error; audit_labelled: those that people labelled;
            certified_by: how many of them each person did; audit_by_programs: those that programs
            alone have labelled, which measures nothing.
        report: the latest one; None also where it is not as we write them: it is made again with
            labels. ``stored_report`` is the same as plain values, ``created`` and ``n_labels``
            (labels that there were then) added.
        agreement: of people, not machines; None if no item has two labels.
        goal: what people set out for.
        features: which are in use and what adapting gained, where items are texts.
        heard: how often each annotator is wrong, as the latest report found; empty where there is
            nobody to compare with.
        ties: labelled items whose most frequent labels are equally frequent.
        numbers: where labels are numbers, the least, the median and the greatest.
        sample: the latest random sample of `parbals certify`.
        chosen_by: how many of the labelled items each strategy chose; "" are those nobody chose.
        confusion: the audit's labels, a row a class, by what the model that has not seen them
            decides, a column a class; None where there are too few of them, or no such model.
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
    certified_by: dict[str, int]
    audit_by_programs: int
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
    sample: CertificateSample | None = None


def overview(store: Store) -> Overview:
    """What there is to see now, read once."""
    votes = store.votes()
    form = store.form
    labels = aggregate_labels(votes, form, store.settings.judged)
    balance = dict.fromkeys(form.classes, 0)
    for name in (name for label in labels.values() for name in form.names(label)):
        balance[name] += 1
    audit, uncounted = set(store.settings.audit), store.uncounted()
    measuring = audit.intersection(labels) - uncounted
    certified_by = Counter(name for position in measuring for name in votes[position])
    waiting, out = store.queued()
    latest, annotators = store.latest_report(), store.annotators()
    report = None
    with suppress(InputError):
        report = None if latest is None else reports.Report.from_dict(latest.body)
    machines = {annotator.name for annotator in annotators if annotator.source == "machine"}
    people = store.votes(decided=False)  # a decision does not end a disagreement
    if machines:
        people = {p: {a: v for a, v in by.items() if a not in machines} for p, by in people.items()}
    partly = len(store.unfinished())
    return Overview(
        folder=store.folder,
        strategy=store.settings.strategy,
        metric=metric_of(store.settings.loss),
        items=store.n_items,
        labelled=len(labels) - partly,
        partially_labelled=partly,
        answers=sum(map(len, votes.values())),
        pending=len(store.pending()),
        queued=len(waiting),
        assigned=len(out),
        skipped=len(store.passes().keys() - labels.keys()),
        batches=store.n_batches,
        audit=len(audit),
        audit_labelled=len(measuring),
        certified_by=dict(certified_by.most_common()),
        audit_by_programs=len(uncounted),
        class_balance=balance,
        annotators=annotators,
        report=report,
        stored_report=None
        if report is None or latest is None
        else {**latest.body, "created": latest.created, "n_labels": latest.n_labels},
        agreement=agreement(people, form),
        goal=goal_of(store),
        chosen_by={name or "": n for name, n in store.chosen_by().items()},
        ties=len(tied_positions(votes, form)),
        features=_features_line(store, len(labels)),
        confusion=_confusion(store, {p: labels[p] for p in measuring}),
        annotator_errors=[AnnotatorErrorRate(*one) for one in store.settings.heard],
        label_range=_numbers(labels.values()) if form.task == NUMBERS else None,
        sample=latest_sample(store),
    )


def _features_line(store: Store, n_labels: int) -> str | None:
    """Which features are in use and what adapting them gained, or that it can be tried."""
    settings, is_one = store.settings, uses_table_features(store.settings)
    if settings.task != "classes" or (settings.encoded_kind is None and not is_one):
        return None
    if is_adapted(settings.encoder):
        found, who = adaptation_record(store), "Trees have" if is_one else "The encoder has"
        return (
            f"{who} learnt from {found['n_labels']:,} labels: of those held out "
            f"{percent(found['error'])} are wrong, {percent(found['frozen_error'])} before."
        )
    line = "The features are the table's" if is_one else f"The encoder is {settings.encoder}"
    tried = [event.detail for event in store.events(ADAPTED)][-1:]
    if tried and not tried[0]["used"]:
        n_tried = tried[0]["n_labels"]
        return f"{line}; adapted to {n_tried:,} labels it was no better for those held out."
    if n_labels < ADAPT_FROM or settings.encoder == "shapes":
        return f"{line}."
    who = "trees" if is_one else "it"
    return f"{line}; from {ADAPT_FROM} labels on {who} can learn (parbals adapt, Settings)."


def _confusion(store: Store, measured: Mapping[int, str]) -> list[list[int]] | None:
    """How often each label (C,) of the audit meets each decision (C,)."""
    form = store.form
    if len(measured) < _FEWEST_MEASURED or form.task not in ("classes", ORDERED):
        return None
    probs, shape = predictions_of(store), (store.n_items, len(form.classes))
    if probs is None or probs.shape != shape:
        return None
    said = decisions(form, probs[list(measured)], decision_rule_of(store, probs))
    table = np.zeros((shape[1], shape[1]), int)
    for label, found in zip(measured.values(), said, strict=True):
        table[form.classes.index(label), form.classes.index(str(found))] += 1
    return table.tolist()


def _numbers(labels: Iterable[str]) -> dict[str, float] | None:
    values = np.array([float(label) for label in labels])
    if not len(values):
        return None
    least, median, greatest = np.quantile(values, (0.0, 0.5, 1.0)).tolist()
    return {"least": least, "median": median, "greatest": greatest}


def goal_of(store: Store) -> Goal:
    """What people set out for."""
    settings = store.settings
    return Goal(settings.goal_labels or None, settings.goal_error or None)


def overview_lines(seen: Overview) -> list[str]:
    """The same for people."""
    share = seen.labelled / seen.items if seen.items else 0.0
    lines = [
        f"{seen.labelled:,} of {seen.items:,} items labelled ({percent(share)}), "
        f"{seen.pending - seen.queued} out"
    ]
    if seen.partially_labelled:
        lines.append(f"{seen.partially_labelled:,} more have answers, but fewer than are wanted")
    if seen.queued or seen.skipped:
        lines.append(
            f"{seen.queued:,} waiting on the labelling page, "
            f"{seen.skipped:,} passed without a label"
        )
    if seen.audit:
        lines.append(audit_line(seen))
    if seen.ties:
        tied = counted(seen.ties, "item is", "items are")
        lines.append(f"{tied} tied: one more answer decides (Browse, Tied)")
    lines += [one.sentence for one in seen.annotator_errors]
    lines += filter(None, (strategy_line(seen), seen.features))
    for part in goal_parts(seen.goal, seen.labelled, seen.report, seen.sample):
        done = round(_BAR * part.share)
        lines.append(f"goal  {'█' * done}{'░' * (_BAR - done)}  {part.sentence}")
    if seen.label_range:
        parts = (f"{name} {in_words(value)}" for name, value in seen.label_range.items())
        lines.append(f"labels: {', '.join(parts)}")
    most = max([*seen.class_balance.values(), 1])
    width = max((len(str(label)) for label in seen.class_balance), default=0)
    for label, count in seen.class_balance.items():
        lines.append(f"  {label:<{width}}  {'█' * round(_BAR * count / most):<{_BAR}}  {count:,}")
    lines += metric_lines(seen.metric, seen.report)
    if seen.report is None or seen.stored_report is None:
        now = f", or now by `parbals export {seen.folder} --renew`" if seen.labelled else ""
        return [*lines, f"No report yet: it is made when labels arrive (parbals tell){now}."]
    lines += report_lines(seen.report, seen.goal, seen.labelled, seen.sample)
    n_labels = seen.stored_report["n_labels"]
    if seen.labelled + seen.partially_labelled != n_labels:
        lines.append(
            f"The report was made with {n_labels:,} labels; the next `parbals tell` or "
            f"`parbals export {seen.folder} --renew` renews it."
        )
    return lines


def strategy_line(seen: Overview) -> str | None:
    """Who chose what people labelled: the project's strategy, or who stood in for it."""
    counts = {name: n for name, n in seen.chosen_by.items() if name not in _NO_CHOICE}
    total, own = sum(counts.values()), counts.pop(seen.strategy, 0)
    if not total:
        return None
    line = f"{own:,} of {total:,} labelled items were chosen by {strategy_title(seen.strategy)}"
    start = counts.pop(START, 0)
    parts = [f"{start:,} to begin with, before there was a model"] if start else []
    hasty = sum(counts.pop(name, 0) for name in (QUICK, UNIFORM))
    if hasty:
        share = f"because nobody waits ({percent(hasty / total)})"
        parts.append(f"{hasty:,} in its stead by {strategy_title(QUICK)}, {share}")
    parts += [f"{n:,} by {strategy_title(name)}" for name, n in counts.items()]
    return "; ".join([line, *parts])


def audit_line(seen: Overview) -> str:
    """How far the audit is, and whose labels a certificate rests on."""
    line = f"{seen.audit_labelled:,} of the audit's {seen.audit:,} random items labelled"
    people = [f"{name} ({n:,})" for name, n in seen.certified_by.items()]
    if people:
        more = f" and {len(people) - _NAMED} more" if len(people) > _NAMED else ""
        line += f", by {', '.join(people[:_NAMED])}{more}"
    if seen.audit_by_programs:
        line += (
            f"; {seen.audit_by_programs:,} by programs alone, which certifies nothing until people "
            "label them"
        )
    return line


def certificate_lines(report: reports.Report | None, sample: CertificateSample | None) -> list[str]:
    """What has been measured, by an audit and by the latest sample."""
    measured = None if report is None else report.measured
    lines = [] if sample is None else [sample.sentence]
    return (
        lines if lines and measured is None else [reports.measured_error_sentence(measured), *lines]
    )


def report_lines(
    report: reports.Report, goal: Goal, n_labelled: int, sample: CertificateSample | None = None
) -> list[str]:
    """How good the model is and what to do next."""
    next_step = advice(goal, n_labelled, report, sample)
    return [
        reports.error_line(report),
        *reports.metric_line(report),
        *certificate_lines(report, sample),
        *reports.class_lines(report.measured),
        *reports.label_lines(report),
        next_step.sentence,
        *(["Draw them: parbals certify DIR --labels 60 --page"] if next_step.measures else []),
        *report.warnings,
    ]


def decision_rule_of(store: Store, probs: np.ndarray) -> DecisionRule:
    """What decides by stored predictions (N, C).

    The class weights are those of the learner that made the predictions, from the same items.
    """
    settings = store.settings
    metric = metric_of(settings.loss)
    if metric in METRICS or settings.task == NUMBERS:
        return DecisionRule(metric)
    judged = class_weight_positions(settings.seed, len(probs), TARGETS, settings.audit)
    kind = task_named(settings.task, store.classes[: probs.shape[1]])
    return DecisionRule(metric, kind.class_weights(metric, probs[judged].astype(np.float64)))


def newer_answers(store: Store) -> int:
    """How many answers came after the stored predictions were made; 0 where there are none."""
    stored = store.settings.predictions
    return 0 if stored is None else store.revision()[0] - stored.answers


def export_columns(store: Store) -> list[str]:
    """id, the items' own columns, label, annotators, what is predicted, each class's probability.

    ``votes`` are labels and how many gave them, as spam:2;ham:1, ``agreement`` the share of the
    most frequent one. A text that repeats another has its label, by ``copy of`` it. With an audit
    also whether the item is one of its random ones.
    """
    settings, ours = store.settings, _ours(store)
    own = [f"item.{name}" if name in ours else name for name in settings.columns]
    predicted = predicted_columns(_predicted_form(store)) if settings.predictions else []
    return ["id", *own, *ours[1:], *predicted[1:]]


def export_records(store: Store, labelled_only: bool = False) -> Iterator[dict[str, Any]]:
    """One record for every item, in order."""
    answers, votes = store.current_labels(), store.votes(decided=False)
    labels = consensus_labels(store)
    same = {p: first for p, first in store.settings.copies if first in labels and p not in labels}
    labels |= {p: labels[first] for p, first in same.items()}
    named = [item.id for item in store.items(list(same.values()))]
    copies = dict(zip(same, named, strict=True))
    form, shown = store.form, _predicted_form(store)
    ours, audit = _ours(store), frozenset(store.settings.audit)
    predictions = predictions_of(store)
    decision_rule = None if predictions is None else decision_rule_of(store, predictions)
    for item in store.iter_items():
        if labelled_only and item.position not in labels:
            continue
        own = {f"item.{k}" if k in ours else k: v for k, v in item.content.items()}
        given = [*votes.get(item.position, {}).values()]
        voted = Counter(name for label in given for name in form.names(label) or [label])
        label = labels.get(item.position)
        record = {"id": item.id, **own, "label": None if label is None else form.plain(label)}
        record["annotators"] = ";".join(answers.get(item.position, {}))
        if item.position in copies:
            record["annotators"] = f"copy of {copies[item.position]}"
        record["votes"] = ";".join(f"{name}:{n}" for name, n in voted.most_common())
        most = max(Counter(given).values(), default=0)
        record["agreement"] = round(most / len(given), 4) if given else None
        if audit:
            record[_AUDIT] = item.position in audit
        if predictions is not None:
            record |= predicted_records(shown, predictions[item.position][None], decision_rule)[0]
        yield record


def _ours(store: Store) -> tuple[str, ...]:
    """Columns of an export that are not the items' own."""
    settings = store.settings
    there = {_AUDIT: settings.audit, PREDICTED: settings.predictions}
    return (*_OWN, *(name for name, value in there.items() if value))


def _predicted_form(store: Store) -> AnswerForm:
    """What stored predictions are of: a class that was added since has none."""
    stored, form = store.settings.predictions, store.form
    return replace(form, classes=() if stored is None else form.classes[: stored.shape[1]])
