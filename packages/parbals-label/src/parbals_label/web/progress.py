"""How the labelling stands, as the page shows it: reads only, and loads no model."""

from dataclasses import replace

import numpy as np
from parbals.learner.evaluation.report import metric_line

from parbals_label.project.goal import advice, goal_parts, metric_lines
from parbals_label.project.summary import audit_line, certificate_lines, overview, strategy_line
from parbals_label.store.store import Store
from parbals_label.web.schemas import CurvePoint, LiveOut, QueueOut, ServerOut

__all__ = ["Curve", "live", "own_progress", "revision"]

_MOST_CURVE = 200
_MOST_PAIRS = 200
_SEEN = (
    "labelled", "answers", "queued", "class_balance", "annotators", "audit",
    "audit_labelled", "chosen_by", "confusion",
)  # fmt: skip
"""Fields that are shown as the overview has them."""


class Curve:
    """The expected error of every stored report, kept up to date at little cost."""

    def __init__(self) -> None:
        self.points: list[CurvePoint] = []
        self.last = 0

    def renew(self, store: Store) -> list[CurvePoint]:
        """One point for each number of labels, the latest; at most 200 of them, both ends kept."""
        for report in store.reports(after=self.last):
            self.last = report.report
            error = report.body.get("expected_error") or report.body.get("expected_metric")
            if not isinstance(error, dict):
                continue
            try:
                point = CurvePoint(n_labels=report.n_labels, created=report.created, **error)
            except (TypeError, ValueError):  # not as we write them
                continue
            if self.points and self.points[-1].n_labels == report.n_labels:
                self.points.pop()
            self.points.append(point)
        if len(self.points) <= _MOST_CURVE:
            return list(self.points)
        places = np.linspace(0, len(self.points) - 1, _MOST_CURVE).round().astype(int)
        return [self.points[place] for place in places.tolist()]


def revision(store: Store) -> str:
    """Changes whenever ``live`` would."""
    counts = store.queue_counts()
    return "-".join(map(str, (*store.revision(), counts.waiting, counts.assigned)))


def live(store: Store, curve: Curve, queue: QueueOut, server: ServerOut) -> LiveOut:
    """Progress, class balance, annotators, the latest report, the curve and agreement."""
    now = revision(store)  # first: what comes in between is then newer
    seen = overview(store)
    agreement = seen.agreement
    value = [f"{line[0].upper()}{line[1:]}." for line in metric_line(seen.report)]
    return LiveOut(
        **{name: getattr(seen, name) for name in _SEEN},
        out=seen.assigned,
        passed=seen.skipped,
        partly=seen.partially_labelled,
        heard=seen.annotator_errors,
        numbers=seen.label_range,
        report=seen.stored_report,
        revision=now,
        unchanged=False,
        queue=queue,
        n_items=seen.items,
        certificate=" ".join(
            [
                *certificate_lines(seen.report, seen.sample),
                *([f"{audit_line(seen)}."] if seen.audit else []),
            ]
        ),
        judged=[*metric_lines(seen.metric, seen.report), *value],
        goal=list(goal_parts(seen.goal, seen.labelled, seen.report, seen.sample)),
        advice=advice(seen.goal, seen.labelled, seen.report, seen.sample),
        chosen=strategy_line(seen),
        features=seen.features,
        history=curve.renew(store),
        agreement=agreement and replace(agreement, pairs=agreement.pairs[:_MOST_PAIRS]),
        server=server,
    )


def own_progress(progress: LiveOut, name: str | None) -> LiveOut:
    """What an annotator sees of it: how far everybody is together, and their own part."""
    shown = {"revision", "queue", "unchanged", "labelled", "n_items", "goal", "server"}
    parts = {field: getattr(progress, field) for field in shown & progress.model_fields_set}
    if progress.annotators is not None:
        parts["annotators"] = [one for one in progress.annotators if one.name == name]
    return LiveOut(**parts)
