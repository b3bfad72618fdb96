"""The state of a project in words: progress, goal, balance, report, and what to do next."""

from collections.abc import Sequence

from parbals.learner.evaluation import report as reports
from parbals.learner.evaluation.audit import AUDIT
from parbals.learner.evaluation.certify import CERTIFY
from parbals.learner.evaluation.looks import labels_at_next_look
from parbals.strategies.table import RANDOM_STRATEGY, strategy_title
from parbals.wording import counted, percent

from parbals_label.answer_form import in_words
from parbals_label.project.goal import Goal, advice, goal_parts, metric_lines
from parbals_label.project.known_error import known_error_line
from parbals_label.project.measured import SAMPLE_SIZE
from parbals_label.project.quick import QUICK, START
from parbals_label.project.samples import RandomSample, earlier_samples_sentence
from parbals_label.project.summary import Overview
from parbals_label.store.queue import SECOND_OPINION

__all__ = ["audit_line", "certificate_lines", "overview_lines", "report_lines", "strategy_line"]

_BAR_WIDTH = 30
_MAX_BALANCE_LINES = 20
"""Classes up to which each has a line."""
_N_LARGEST_CLASSES = 10


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
    if overview.target is not None:
        lines.append(f"labels are chosen for the target set {overview.target}")
    if overview.audit:
        lines.append(audit_line(overview))
    if overview.ties:
        ties = counted(overview.ties, "item is", "items are")
        lines.append(f"{ties} tied: one more answer decides (Browse, Tied)")
    lines += [annotator.sentence for annotator in overview.annotator_errors]
    lines += [usage.sentence for usage in overview.llms]
    lines += overview.drifts
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
    counts = overview.class_balance
    shown = counts
    if len(counts) > _MAX_BALANCE_LINES:
        most_labels = sorted(counts, key=lambda label: -counts[label])[:_N_LARGEST_CLASSES]
        shown = {label: counts[label] for label in most_labels}
    max_count = max([*shown.values(), 1])
    name_width = max((len(str(label)) for label in shown), default=0)
    for label, count in shown.items():
        bar = "█" * round(_BAR_WIDTH * count / max_count)
        lines.append(f"  {label:<{name_width}}  {bar:<{_BAR_WIDTH}}  {count:,}")
    if len(shown) < len(counts):
        n_empty = sum(not count for count in counts.values())
        more = f"and {len(counts) - len(shown)} more classes"
        lines.append(f"  {more}; {n_empty} of all {len(counts)} have no label yet")
    return lines


def _latest_report_lines(overview: Overview) -> list[str]:
    """The latest report, and how to compute a new one where it is missing or older than labels."""
    if overview.report is None or overview.stored_report is None:
        command = f", or now by `parbals export {overview.folder} --renew`"
        now = command if overview.labelled else ""
        lines = certificate_lines(None, overview.samples) if overview.samples else []
        return [*lines, f"No report yet: it is computed when labels arrive (parbals tell){now}."]
    lines = report_lines(overview.report, overview.goal, overview.labelled, overview.samples)
    lines += measure_line(overview)
    n_learnt = overview.report.n_labelled
    n_measuring = overview.stored_report["n_labels"] - n_learnt
    n_newer = overview.n_labels - overview.stored_report["n_labels"]
    if n_measuring > 0 or n_newer:
        lines.append(f"The model has learnt from {counted(n_learnt, 'label')}.")
    if n_measuring > 0:
        lines.append(f"{counted(n_measuring, 'label')} that measure the error are not among them.")
    if n_newer:
        lines.append(
            f"{counted(n_newer, 'label is', 'labels are')} newer: the next `parbals tell` or "
            f"`parbals export {overview.folder} --renew` includes them."
        )
    return lines


def strategy_line(overview: Overview) -> str | None:
    """How many of the labelled items each strategy chose; None if no strategy chose any."""
    counts = dict(overview.chosen_by)
    n_random = counts.pop(AUDIT, 0) + counts.pop(CERTIFY, 0)
    n_by_nobody = counts.pop("", 0) + counts.pop(SECOND_OPINION, 0)
    n_by_strategies = sum(counts.values())
    if not n_by_strategies:
        return None
    total = n_by_strategies + n_random + n_by_nobody
    n_by_strategy = counts.pop(overview.strategy, 0)
    title = strategy_title(overview.strategy)
    parts = [f"{n_by_strategy:,} of {total:,} labelled items were chosen by {title}"]
    n_cold_start = counts.pop(START, 0)
    if n_cold_start:
        parts.append(f"{n_cold_start:,} by k-means, before there was a model")
    n_fallback = sum(counts.pop(name, 0) for name in (QUICK, RANDOM_STRATEGY))
    if n_fallback:
        share = percent(n_fallback / n_by_strategies)
        parts.append(f"{n_fallback:,} by a quick fallback, so that nobody had to wait ({share})")
    parts += [f"{n:,} by {strategy_title(name)}" for name, n in counts.items()]
    if n_random:
        parts.append(f"{n_random:,} at random, to measure the error")
    if n_by_nobody:
        parts.append(
            f"{n_by_nobody:,} by nobody: they came with a label or were opened from a list"
        )
    return "; ".join(parts)


def audit_line(overview: Overview) -> str:
    """Progress of the audit, and whose labels it rests on."""
    line = f"{overview.audit_labelled:,} of the {overview.audit:,} test items are labelled"
    n_at_next_look = labels_at_next_look(overview.audit_labelled, overview.audit)
    next_look = f"; the error is measured at {n_at_next_look:,}" if n_at_next_look else ""
    return f"{line}{next_look}. {overview.audit_sources.sentence}".strip()


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
        *known_error_line(report, samples, n_labelled),
        reports.error_line(report),
        *_alike_lines(report),
        *reports.metric_line(report),
        *certificate_lines(report, samples),
        *reports.class_lines(report.measured),
        *reports.label_lines(report),
        next_step.sentence,
    ]
    return [*lines, *report.warnings]


def _alike_lines(report: reports.Report) -> list[str]:
    """That the target set is like the pool; where it differs, the report warns."""
    shift = report.shift
    return [shift.sentence] if shift is not None and not shift.is_notable else []


def measure_line(overview: Overview) -> list[str]:
    """How to measure the error, unless that has been done or has begun."""
    if overview.audit or overview.sample is not None or not overview.measurable:
        return []
    option = " --keep" if overview.label_range is not None else ""
    origin = "" if overview.target is None or option else " --from target"
    n_items = min(SAMPLE_SIZE, overview.measurable)
    left = "" if n_items == SAMPLE_SIZE else ", all that are left"
    return [
        f"To measure the error, label {n_items} random items{left}: parbals measure "
        f"{overview.folder}{option}{origin}"
    ]
