"""What there is to see of a project without a model: progress, balance, report, items' labels."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.learner.numbers.audit import AUDIT
from parbals.learner.numbers.certify import CERTIFY
from parbals.learner.numbers.metric import (
    METRICS,
    decided,
    judged_positions,
    metric_of,
    stakes_for,
)
from parbals.learner.numbers.report import (
    Goal,
    Report,
    advice,
    certificate,
    class_lines,
    error_line,
    goal_parts,
    judged_line,
    metric_line,
)
from parbals.strategies.table import QUICK, UNIFORM, strategy_title
from parbals.types import TARGETS, Stakes
from parbals.wording import percent

from parbals_label.project.consensus import Agreement, agreement, combined_labels, tied
from parbals_label.project.features import predictions_of
from parbals_label.project.quick import START
from parbals_label.store.queue import SECOND_OPINION
from parbals_label.store.records import Annotator
from parbals_label.store.store import Store

__all__ = [
    "Overview",
    "audit_line",
    "chosen_line",
    "export_columns",
    "export_records",
    "goal_of",
    "newer_answers",
    "overview",
    "overview_lines",
    "report_lines",
    "stakes_of",
]

_BAR = 30
_NO_CHOICE = ("", AUDIT, CERTIFY, SECOND_OPINION)
_OWN = ("id", "label", "annotators", "votes", "agreement")
_AUDIT, _DECIDED = "audit", "predicted"
_NAMED = 5
"""People whom a line names; the others are counted."""


@dataclass(frozen=True)
class Overview:
    """Where a project stands.

    Attributes:
        metric: what the model is judged by.
        labelled: items with a label; answers: labels given, those of several people counted each.
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
        ties: labelled items whose most frequent labels are equally frequent.
        chosen_by: how many of the labelled items each strategy chose; "" are those nobody chose.
    """

    folder: Path
    strategy: str
    metric: str
    items: int
    labelled: int
    answers: int
    pending: int
    queued: int
    out: int
    passed: int
    batches: int
    audit: int
    audit_labelled: int
    certified_by: dict[str, int]
    audit_by_programs: int
    class_balance: dict[str, int]
    annotators: list[Annotator]
    report: Report | None
    stored_report: dict[str, Any] | None
    agreement: Agreement | None
    goal: Goal
    chosen_by: dict[str, int]
    ties: int


def overview(store: Store) -> Overview:
    """What there is to see now, read once."""
    votes = store.votes()
    labels = combined_labels(votes)
    balance = dict.fromkeys(store.classes, 0)
    for label in labels.values():
        balance[label] += 1
    audit, uncounted = set(store.settings.audit), store.uncounted()
    measuring = audit.intersection(labels) - uncounted
    certified_by = Counter(name for position in measuring for name in votes[position])
    waiting, out = store.queued()
    latest, annotators = store.latest_report(), store.annotators()
    report = None
    with suppress(InputError):
        report = None if latest is None else Report.from_dict(latest.body)
    machines = {annotator.name for annotator in annotators if annotator.source == "machine"}
    people = votes
    if machines:
        people = {p: {a: v for a, v in by.items() if a not in machines} for p, by in votes.items()}
    return Overview(
        folder=store.folder,
        strategy=store.settings.strategy,
        metric=metric_of(store.settings.loss),
        items=store.n_items,
        labelled=len(labels),
        answers=sum(map(len, votes.values())),
        pending=len(store.pending()),
        queued=len(waiting),
        out=len(out),
        passed=len(store.passes().keys() - labels.keys()),
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
        agreement=agreement(people),
        goal=goal_of(store),
        chosen_by={name or "": n for name, n in store.chosen_by().items()},
        ties=len(tied(votes)),
    )


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
    if seen.queued or seen.passed:
        lines.append(
            f"{seen.queued:,} waiting on the labelling page, {seen.passed:,} passed without a label"
        )
    if seen.audit:
        lines.append(audit_line(seen))
    if seen.ties:
        lines.append(f"{seen.ties:,} items are tied: one more answer decides (Browse, Tied)")
    if chosen := chosen_line(seen):
        lines.append(chosen)
    for part in goal_parts(seen.goal, seen.labelled, seen.report):
        done = round(_BAR * part.share)
        lines.append(f"goal  {'█' * done}{'░' * (_BAR - done)}  {part.sentence}")
    most = max([*seen.class_balance.values(), 1])
    width = max(len(str(label)) for label in seen.class_balance)
    for label, count in seen.class_balance.items():
        lines.append(f"  {label:<{width}}  {'█' * round(_BAR * count / most):<{_BAR}}  {count:,}")
    lines += judged_line(seen.metric, seen.report)
    if seen.report is None or seen.stored_report is None:
        now = f", or now by `parbals export {seen.folder} --renew`" if seen.labelled else ""
        return [*lines, f"No report yet: it is made when labels arrive (parbals tell){now}."]
    lines += report_lines(seen.report, seen.goal, seen.labelled)
    n_labels = seen.stored_report["n_labels"]
    if seen.labelled != n_labels:
        lines.append(
            f"The report was made with {n_labels:,} labels; the next `parbals tell` or "
            f"`parbals export {seen.folder} --renew` renews it."
        )
    return lines


def chosen_line(seen: Overview) -> str | None:
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


def report_lines(report: Report, goal: Goal, n_labelled: int) -> list[str]:
    """How good the model is and what to do next."""
    return [
        error_line(report),
        *metric_line(report),
        certificate(report.measured),
        *class_lines(report.measured),
        advice(goal, n_labelled, report).sentence,
        *report.warnings,
    ]


def stakes_of(store: Store, probs: np.ndarray) -> Stakes | None:
    """What decisions by stored predictions (N, C) are worth; None where all classes count alike.

    The stakes are those of the learner that made the predictions: it judges by the same items.
    """
    settings = store.settings
    metric = metric_of(settings.loss)
    if metric in METRICS:
        return None
    judged = judged_positions(settings.seed, len(probs), TARGETS, settings.audit)
    return stakes_for(metric, probs[judged].astype(np.float64), store.classes[: probs.shape[1]])


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
    return ["id", *own, *ours[1:], *(f"p_{label}" for label in _predicted(store))]


def export_records(store: Store, labelled_only: bool = False) -> Iterator[dict[str, Any]]:
    """One record for every item, in order."""
    answers, votes = store.current_labels(), store.votes()
    labels = combined_labels(votes)
    same = {p: first for p, first in store.settings.copies if first in labels and p not in labels}
    labels |= {p: labels[first] for p, first in same.items()}
    named = [item.id for item in store.items(list(same.values()))]
    copies = dict(zip(same, named, strict=True))
    predicted = _predicted(store)
    ours, audit = _ours(store), frozenset(store.settings.audit)
    predictions = predictions_of(store)
    stakes = None if predictions is None else stakes_of(store, predictions)
    for item in store.iter_items():
        if labelled_only and item.position not in labels:
            continue
        own = {f"item.{k}" if k in ours else k: v for k, v in item.content.items()}
        voted = Counter(votes.get(item.position, {}).values()).most_common()
        record = {"id": item.id, **own, "label": labels.get(item.position)}
        record["annotators"] = ";".join(answers.get(item.position, {}))
        if item.position in copies:
            record["annotators"] = f"copy of {copies[item.position]}"
        record["votes"] = ";".join(f"{label}:{n}" for label, n in voted)
        total = sum(n for _, n in voted)
        record["agreement"] = round(voted[0][1] / total, 4) if voted else None
        if audit:
            record[_AUDIT] = item.position in audit
        if predictions is not None:
            row = predictions[item.position]
            record[_DECIDED] = predicted[decided(row[None], stakes)[0]]
            record |= {
                f"p_{label}": round(float(p), 6) for label, p in zip(predicted, row, strict=True)
            }
        yield record


def _ours(store: Store) -> tuple[str, ...]:
    """Columns of an export that are not the items' own."""
    settings = store.settings
    there = {_AUDIT: settings.audit, _DECIDED: settings.predictions}
    return (*_OWN, *(name for name, value in there.items() if value))


def _predicted(store: Store) -> tuple[str, ...]:
    """The classes that stored predictions have."""
    stored = store.settings.predictions
    return () if stored is None else store.classes[: stored.shape[1]]
