"""What the page shows of a project: reads only, and loads no model."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from parbals import __version__
from parbals.errors import ProjectDamagedError
from parbals.learner.numbers.audit import AUDIT
from parbals.learner.numbers.metric import decided
from parbals.learner.numbers.report import (
    advice,
    certificate,
    goal_parts,
    judged_line,
    metric_line,
)
from parbals.strategies.table import STRATEGIES, UNIFORM
from parbals.types import Stakes
from parbals.wording import why_words

from parbals_label.project.decisions import stakes_of
from parbals_label.project.features import COLUMNS, TABLE, load_features
from parbals_label.project.media import image_address, image_column
from parbals_label.project.quick import START
from parbals_label.project.summary import overview
from parbals_label.store.records import Lease, Why
from parbals_label.store.store import Store
from parbals_label.web.schemas import (
    AdviceOut,
    CurvePoint,
    GoalOut,
    LiveOut,
    Probabilities,
    ProjectOut,
    QueueOut,
    ServerOut,
    TaskOut,
    WhyOut,
)

__all__ = [
    "Curve",
    "Predictions",
    "Tasks",
    "live",
    "own_progress",
    "project",
    "revision",
]

_MOST_CURVE = 200
_MOST_PAIRS = 200
_FOR_MEASURING = (
    "A random item, for measuring: the model does not learn from it, so its label tells how often "
    "the model is wrong."
)


def project(store: Store) -> ProjectOut:
    """What the page needs to know once."""
    settings = store.settings
    image = image_column(store)
    text: list[str] = []
    if image is None and store.n_items and settings.encoder not in (COLUMNS, TABLE):
        content = store.items([0])[0].content
        words = settings.encoded_columns or [
            name for name in settings.columns if isinstance(content.get(name), str)
        ]
        text = [name for name in words if name in settings.columns]
    return ProjectOut(
        # A folder's name may hold bytes that are not text.
        name=store.folder.resolve().name.encode("utf-8", "replace").decode(),
        identity=store.identity,
        n_items=store.n_items,
        classes=list(store.classes),
        kind="image" if image else "text" if text else "table",
        text_columns=text,
        image_column=image,
        columns=list(settings.columns),
        highlight=list(settings.highlight),
        guidelines=settings.guidelines,
        answers_wanted=settings.answers_wanted,
        lease_minutes=settings.lease_minutes,
        goal_labels=settings.goal_labels,
        goal_error=settings.goal_error,
        strategy=settings.strategy,
        audit=len(settings.audit),
        version=__version__,
    )


class Predictions:
    """The stored predictions of all items, as they are now; nothing where there are none yet.

    Nor for the audit's items: a guess that is seen sways who labels, and the measurement with it.
    """

    def __init__(self, store: Store) -> None:
        self.classes = store.classes
        self.audit = frozenset(store.settings.audit)
        self.rows: np.ndarray | None = None
        self.stakes: Stakes | None = None
        for _ in range(2):  # the worker may replace the file between the two reads
            stored = store.settings.predictions
            if stored is None or stored.shape[0] != store.n_items:
                return
            try:
                self.rows = load_features(store.folder, stored)
                self.stakes = stakes_of(store, self.rows)
                return
            except ProjectDamagedError:
                continue

    def of(self, position: int) -> Probabilities:
        """Class → probability."""
        if self.rows is None or position in self.audit:
            return None
        row = self.rows[position]
        return {label: round(float(p), 4) for label, p in zip(self.classes, row, strict=False)}

    def classes_of(self, positions: Sequence[int]) -> list[int]:
        """The number of the class that is decided for each, -1 where nothing is shown."""
        if self.rows is None:
            return [-1] * len(positions)
        best = decided(self.rows[positions], self.stakes).tolist()
        return [-1 if p in self.audit else c for p, c in zip(positions, best, strict=True)]


class Tasks:
    """Turns leases into tasks; what they share is read once for each state of the settings."""

    def __init__(self, store: Store) -> None:
        self.mark = store.settings_mark()
        self.lease_seconds = 60.0 * store.settings.lease_minutes
        self._image = image_column(store)
        self._predictions = Predictions(store)

    def task(self, store: Store, lease: Lease) -> TaskOut:
        """An item on its way to an annotator."""
        (item,) = store.items([lease.position])
        is_audit = item.position in self._predictions.audit
        return TaskOut(
            position=item.position,
            id=item.id,
            content=item.content,
            image=image_address(item.position, self._image),
            expires=lease.expires,
            why=_why(lease.why, self._predictions.of(item.position), is_audit),
        )


def _why(why: Why | None, predicted: Probabilities, is_audit: bool) -> WhyOut:
    if is_audit:
        batch = None if why is None else why.batch
        return WhyOut(batch=batch, strategy=AUDIT, sentence=_FOR_MEASURING, predicted=None)
    if why is None:
        sentence = "Nobody chose this item: it was picked from the list."
        return WhyOut(sentence=sentence, predicted=predicted)
    is_start = why.strategy == START or (predicted is None and why.strategy == UNIFORM)
    return WhyOut(
        batch=why.batch,
        rank=why.rank + 1,
        of=why.size,
        score=why.score,
        initial_score=why.initial_score,
        strategy=why.strategy,
        sentence=why_words(predicted, why.similar, is_start=is_start),
        details=_details(why),
        predicted=predicted,
    )


def _details(why: Why) -> str:
    """What chose the item, by its name and with its score."""
    place = f"Number {why.rank + 1} of {why.size} in batch {why.batch}"
    strategy = STRATEGIES.get(why.strategy)
    if strategy is None:  # the start, or another package's, which may take seconds to load
        return f"{place}, chosen by {why.strategy}."
    sentence = f"{place}, by {strategy.title}: {strategy.about}"
    if why.score is None or not strategy.uses_predictions:
        return f"{sentence}."
    if not strategy.conditions_model:
        return f"{sentence}, with a score of {why.score:.3g}."
    gain = f"{why.score:.2g}"
    alone = gain if why.initial_score is None else f"{why.initial_score:.2g}"
    if float(alone) > float(gain) > 0:
        gain += f" (alone by {alone})"
    return f"{sentence}. It is expected to lower the loss by {gain}."


class Curve:
    """The expected error of every stored report, kept up to date at little cost."""

    def __init__(self) -> None:
        self.points: list[CurvePoint] = []
        self.last = 0

    def renew(self, store: Store) -> list[CurvePoint]:
        """One point for each number of labels, the latest; at most 200 of them, both ends kept."""
        for report in store.reports(after=self.last):
            self.last = report.report
            error = report.body.get("expected_error")
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
    return "-".join(map(str, (*store.revision(), counts.free, counts.out)))


def live(store: Store, curve: Curve, queue: QueueOut, server: ServerOut) -> LiveOut:
    """Progress, class balance, annotators, the latest report, the curve and agreement."""
    now = revision(store)  # first: what comes in between is then newer
    seen = overview(store)
    agreement = seen.agreement
    value = [f"{line[0].upper()}{line[1:]}." for line in metric_line(seen.report)]
    advised = advice(seen.goal, seen.labelled, seen.report)
    return LiveOut(
        revision=now,
        unchanged=False,
        queue=queue,
        labelled=seen.labelled,
        n_items=seen.items,
        answers=seen.answers,
        out=seen.out,
        queued=seen.queued,
        passed=seen.passed,
        class_balance=seen.class_balance,
        annotators=seen.annotators,
        audit=seen.audit,
        audit_labelled=seen.audit_labelled,
        certificate=certificate(None if seen.report is None else seen.report.measured),
        judged=[*judged_line(seen.metric, seen.report), *value],
        goal=[
            GoalOut(share=part.share, sentence=part.sentence)
            for part in goal_parts(seen.goal, seen.labelled, seen.report)
        ],
        advice=AdviceOut(reached=advised.is_reached, sentence=advised.sentence),
        chosen_by=seen.chosen_by,
        report=seen.stored_report,
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
