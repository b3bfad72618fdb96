"""The progress of labelling for the page; only reads the store, and loads no model."""

from dataclasses import replace

import numpy as np
from parbals.learner.evaluation.report import metric_line

from parbals_label.project.goal import advice, goal_parts, metric_lines
from parbals_label.project.program_report import ProgramReport, program_reports
from parbals_label.project.summary import overview
from parbals_label.project.summary_lines import audit_line, certificate_lines, strategy_line
from parbals_label.project.undo_sample import undoable_sample_size
from parbals_label.store.store import Store
from parbals_label.web.schemas import CurvePoint, LiveOut, ProgramOut, QueueOut, ServerOut

__all__ = ["Curve", "live", "own_progress", "revision"]

_MAX_CURVE_POINTS = 200
_MAX_PAIRS = 200
_OVERVIEW_FIELDS = (
    "labelled", "answers", "queued", "class_balance", "annotators", "audit",
    "audit_labelled", "chosen_by", "confusion", "known_error", "measurable", "target",
)  # fmt: skip
"""Fields that are copied from the overview."""


class Curve:
    """The learning curve: the expected error of every stored report, updated incrementally.

    Its points are numbers of labels that the model had: while people label a random sample, which
    is held back, the curve does not go on.
    """

    def __init__(self) -> None:
        self.points: list[CurvePoint] = []
        self.last = 0

    def update(self, store: Store) -> list[CurvePoint]:
        """Return the latest point for each number of labels, thinned to 200 of them."""
        for report in store.reports(after=self.last):
            self.last = report.report
            error = report.body.get("expected_error") or report.body.get("expected_metric")
            if not isinstance(error, dict):
                continue
            try:
                n_labels = report.body["n_labelled"]
                point = CurvePoint(n_labels=n_labels, created=report.created, **error)
            except (KeyError, TypeError, ValueError):  # not a report of parbals
                continue
            if self.points and self.points[-1].n_labels == n_labels:
                self.points.pop()
            self.points.append(point)
        if len(self.points) <= _MAX_CURVE_POINTS:
            return list(self.points)
        indices = np.linspace(0, len(self.points) - 1, _MAX_CURVE_POINTS).round().astype(int)
        return [self.points[index] for index in indices.tolist()]


def revision(store: Store) -> str:
    """Return a text that changes whenever ``live`` would."""
    counts = store.queue_counts()
    return "-".join(map(str, (*store.revision(), counts.waiting, counts.assigned)))


def live(store: Store, curve: Curve, queue: QueueOut, server: ServerOut) -> LiveOut:
    """Return progress, class balance, annotators, the latest report, the curve and agreement."""
    current_revision = revision(store)  # read first, so that later changes count as newer
    state = overview(store)
    agreement = state.agreement
    value = [f"{line[0].upper()}{line[1:]}." for line in metric_line(state.report)]
    return LiveOut(
        **{name: getattr(state, name) for name in _OVERVIEW_FIELDS},
        is_measuring=state.is_measuring or store.settings.target_sample > 0,
        undoable=undoable_sample_size(store),
        out=state.assigned,
        passed=state.skipped,
        partly=state.partially_labelled,
        heard=state.annotator_errors,
        programs=[
            ProgramOut(
                name=report.annotator,
                n_labels=report.n_labels,
                lines=report.lines,
                paused=report.annotator in store.settings.paused,
                usage=None if report.usage is None else f"{report.usage.amounts}.",
                drift=None if report.drift is None else report.drift.sentence(report.annotator),
                n_unsure=_n_unsure(report),
            )
            for report in program_reports(store, state.llms)
        ],
        numbers=state.label_range,
        report=state.stored_report,
        revision=current_revision,
        unchanged=False,
        queue=queue,
        n_items=state.items,
        certificate=" ".join(
            [
                *certificate_lines(state.report, state.samples),
                *([audit_line(state)] if state.audit else []),
            ]
        ),
        judged=[*metric_lines(state.metric, state.report), *value],
        goal=list(goal_parts(state.goal, state.labelled, state.report, state.sample)),
        advice=advice(state.goal, state.labelled, state.report, state.sample),
        chosen=strategy_line(state),
        features=state.features,
        history=curve.update(store),
        agreement=agreement and replace(agreement, pairs=agreement.pairs[:_MAX_PAIRS]),
        server=server,
    )


def _n_unsure(report: ProgramReport) -> int:
    """How many answers that a program is least sure of people should label; 0 for none."""
    if report.mix is None or report.mix.threshold is None:
        return 0
    return report.mix.n_people


def own_progress(progress: LiveOut, name: str | None) -> LiveOut:
    """Reduce the progress to what an annotator may see: the total, and their own labels."""
    visible = {"revision", "queue", "unchanged", "labelled", "n_items", "goal", "server"}
    fields = {name: getattr(progress, name) for name in visible & progress.model_fields_set}
    if progress.annotators is not None:
        fields["annotators"] = [
            annotator for annotator in progress.annotators if annotator.name == name
        ]
    return LiveOut(**fields)
