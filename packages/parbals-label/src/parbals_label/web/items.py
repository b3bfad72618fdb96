"""Items as the page shows them: what the page knows of all, tasks, lists, and one in full.

Reads only, and loads no model.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from parbals.errors import ProjectDamagedError
from parbals.learner.evaluation.audit import AUDIT
from parbals.learner.evaluation.certify import CERTIFY
from parbals.strategies.table import STRATEGIES, UNIFORM

from parbals_label.answer_form import MANY, NUMBERS
from parbals_label.project.consensus import consensus_labels, tied_positions
from parbals_label.project.features import predictions_of, uses_table_features
from parbals_label.project.label_issues import current_label_issues
from parbals_label.project.media import image_address, image_column
from parbals_label.project.predicted import DecisionRule, decisions
from parbals_label.project.quick import START
from parbals_label.project.summary import decision_rule_of
from parbals_label.store.records import Item, Lease, Why
from parbals_label.store.store import Store
from parbals_label.web import schemas
from parbals_label.web.ordering import Order, by_meaning, by_model
from parbals_label.web.reasons import why_words

__all__ = ["Predictions", "Tasks", "list_items", "project", "show_item"]

_SNIPPET = 200
_FEW_COLUMNS = 3
_SCANNED = 20_000
"""Items looked through for one answer; a search goes on from there."""
_SETTINGS = (
    "highlight", "guidelines", "answers_wanted", "lease_minutes", "goal_labels",
    "goal_error", "strategy", "adapt", "task",
)  # fmt: skip
_TOLD = ("answer", "annotator", "label", "source", "comment", "created", "revision")
"""What is told of an answer."""
_FOR_MEASURING = (
    "A random item, for measuring: the model does not learn from it, so its label tells how often "
    "the model is wrong."
)


def project(store: Store) -> schemas.ProjectOut:
    """What the page needs to know once."""
    settings = store.settings
    image = image_column(store)
    text: list[str] = []
    if image is None and store.n_items and not uses_table_features(settings):
        content = store.items([0])[0].content
        words = settings.encoded_columns or [
            name for name in settings.shown if isinstance(content.get(name), str)
        ]
        text = [name for name in words if name in settings.shown]
    return schemas.ProjectOut(
        **{name: getattr(settings, name) for name in _SETTINGS},
        # A folder's name may hold bytes that are not text.
        name=store.folder.resolve().name.encode("utf-8", "replace").decode(),
        identity=store.identity,
        n_items=store.n_items,
        columns=list(settings.shown),
        classes=list(store.classes),
        kind="image" if image else "text" if text else "table",
        text_columns=text,
        image_column=image,
        audit=len(settings.audit),
    )


class Predictions:
    """The stored predictions of all items, as they are now; nothing where there are none yet.

    Nor for the audit's items: a guess that is seen sways who labels, and the measurement with it.
    """

    def __init__(self, store: Store) -> None:
        self.form = store.form
        self.audit = frozenset(store.settings.audit)
        self.rows: np.ndarray | None = None
        self.judge: DecisionRule | None = None
        with suppress(ProjectDamagedError):  # the next report makes them again
            found = predictions_of(store)
            if found is not None and len(found) == store.n_items:
                self.rows, self.judge = found, decision_rule_of(store, found)

    def of(self, position: int) -> schemas.Probabilities:
        """Class → probability; of a number its mean and deviation."""
        if self.rows is None or position in self.audit:
            return None
        row = self.rows[position]
        if self.form.task == NUMBERS:
            return {"mean": float(f"{row[0]:.6g}"), "deviation": float(f"{row[1]:.4g}")}
        return {label: round(float(p), 4) for label, p in zip(self.form.classes, row, strict=False)}

    def classes_of(self, positions: Sequence[int]) -> list[int]:
        """The number of the class that is decided for each, -1 where nothing is shown."""
        if self.rows is None or self.form.task in (MANY, NUMBERS):
            return [-1] * len(positions)
        form = replace(self.form, classes=self.form.classes[: self.rows.shape[1]])
        best = map(form.classes.index, decisions(form, self.rows[positions], self.judge))
        return [-1 if p in self.audit else c for p, c in zip(positions, best, strict=True)]


class Tasks:
    """Turns leases into tasks; what they share is read once for each state of the settings."""

    def __init__(self, store: Store) -> None:
        self.mark = store.settings_mark()
        self.lease_seconds = 60.0 * store.settings.lease_minutes
        self._image, self._hidden = image_column(store), store.settings.hidden
        self._predictions = Predictions(store)

    def task(self, store: Store, lease: Lease) -> schemas.TaskOut:
        """An item on its way to an annotator."""
        item = store.items([lease.position])[0].without(self._hidden)
        is_sample = lease.why is not None and lease.why.strategy == CERTIFY
        is_audit = is_sample or item.position in self._predictions.audit
        return schemas.TaskOut(
            position=item.position,
            id=item.id,
            content=item.content,
            image=image_address(item.position, self._image),
            expires=lease.expires,
            why=_why(
                lease.why,
                self._predictions.of(item.position),
                is_audit,
                self._predictions.form.task,
            ),
        )


def _why(
    why: Why | None, predicted: schemas.Probabilities, is_audit: bool, task: str
) -> schemas.WhyOut:
    if is_audit:
        return schemas.WhyOut(strategy=AUDIT, sentence=_FOR_MEASURING, predicted=None)
    if why is None:
        sentence = "Nobody chose this item: it was picked from the list."
        return schemas.WhyOut(sentence=sentence, predicted=predicted)
    is_start = why.strategy == START or (predicted is None and why.strategy == UNIFORM)
    return schemas.WhyOut(
        strategy=why.strategy,
        sentence=why_words(predicted, task=task, is_start=is_start),
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


def list_items(
    store: Store,
    *,
    state: str,
    label: str | None,
    annotator: str | None,
    query: str | None,
    after: int,
    limit: int,
    only: str | None = None,
    order: Order = ("order", None, None),
) -> schemas.ItemsOut:
    """A part of the list, in order; a search may find nothing in a part and still go on.

    ``only`` leaves nothing but one person's own answers and passes; what comes ``after`` an item
    is what comes after its place.
    """
    rows = _Rows(store, only)
    if state == "doubted":  # few, and the most doubtful first
        found = [] if only else current_label_issues(store)
        part = [rows.row(item) for item in _read(store, [doubt.position for doubt in found])]
        for row, doubt in zip(part, found, strict=True):
            row.doubt = doubt.sentence
        return schemas.ItemsOut(items=part, next=None, total=len(part))
    places, predictions = np.arange(store.n_items), rows.predictions
    if order[0] == "meaning":
        places, query = by_meaning(store, order[2], query), None
    elif order[0] != "order":
        places = by_model(store, order, predictions.rows, predictions.judge, rows.labels)
    fitting = np.fromiter(rows.positions(state, label, only or annotator), np.int64)
    positions = fitting[np.argsort(places[fitting])]
    begin = places[after] if 0 <= after < len(places) else after
    first = int(np.searchsorted(places[positions], begin, side="right"))
    part = []
    last = None
    chosen = positions[first : first + (_SCANNED if query else limit)]
    for item in _read(store, chosen.tolist()):
        last = item.position
        if query is None or _matches(item, query):
            part.append(rows.row(item))
            if len(part) == limit:
                break
    more = last is not None and last != positions[-1]
    return schemas.ItemsOut(
        items=part, next=last if more else None, total=None if query else len(positions)
    )


class _Rows:
    """What the rows of a list are made of, read once."""

    def __init__(self, store: Store, only: str | None) -> None:
        self.store = store
        self.tied, self.partly = set[int](), set[int]()
        self.answers = store.current_labels()
        self.passes = store.passes()
        if only is None:
            self.labels, self.tied = (
                consensus_labels(store),
                tied_positions(store.votes(), store.form),
            )
            self.partly = store.unfinished()
        else:
            self.answers, self.passes = _of(only, self.answers), _of(only, self.passes)
            self.labels = {position: by[only] for position, by in self.answers.items()}
        self.predictions = Predictions(store)
        self.image = image_column(store)
        self.columns = store.settings.encoded_columns

    def row(self, item: Item) -> schemas.ItemRow:
        position = item.position
        return schemas.ItemRow(
            position=position,
            id=item.id,
            snippet=_snippet(item, self.columns),
            image=image_address(position, self.image),
            label=self.labels.get(position),
            answers=self.answers.get(position, {}),
            passes=self.passes.get(position, {}),
            predicted=self.predictions.of(position),
            tied=position in self.tied,
        )

    def positions(self, state: str, label: str | None, annotator: str | None) -> Iterable[int]:
        """Positions in a state."""
        positions = self._in_state(state)
        if label is not None:
            names = {p: self.predictions.form.names(given) for p, given in self.labels.items()}
            positions = (p for p in positions if label in names.get(p, ()))
        if annotator is not None:
            theirs = (self.answers, self.passes)
            positions = (p for p in positions if any(annotator in by.get(p, {}) for by in theirs))
        return positions

    def _in_state(self, state: str) -> Iterable[int]:
        everything = range(self.store.n_items)
        if state in ("queued", "out"):
            return self.store.queued()[state == "out"]
        if state == "labelled":
            return (p for p in self.labels if p not in self.partly)
        if state == "partly":
            return self.partly
        if state == "unlabelled":
            return (p for p in everything if p not in self.labels)
        if state in ("unsure", "skipped"):
            kind = "unsure" if state == "unsure" else "skip"
            return (p for p, by in self.passes.items() if kind in by.values())
        if state == "tied":
            return self.tied
        if state == "disagree":
            return (p for p, by in self.answers.items() if len(set(by.values())) > 1)
        return everything


def _of(name: str, said: dict[int, dict[str, str]]) -> dict[int, dict[str, str]]:
    """What one person said, of what everybody did."""
    return {position: {name: by[name]} for position, by in said.items() if name in by}


def show_item(store: Store, position: int, only: str | None = None) -> schemas.ItemOut:
    """Everything about an item; or what one person said of it."""
    (item,) = store.shown([position])
    history = [a for a in store.history(position) if only in (None, a.annotator)]
    return schemas.ItemOut(
        **_Rows(store, only).row(item).model_dump(),
        content=item.content,
        history=[{name: getattr(answer, name) for name in _TOLD} for answer in history],
    )


def _snippet(item: Item, columns: Sequence[str]) -> str:
    """The beginning of an item, on one line; of a row of many columns with their names."""
    names = [*columns] or [*item.content]
    filled = [(name, item.content.get(name)) for name in names]
    parts = [(name, " ".join(str(value).split())) for name, value in filled if value is not None]
    is_row = len(names) > _FEW_COLUMNS
    text = " · ".join(f"{name}: {part}" if is_row else part for name, part in parts if part)
    return text if len(text) <= _SNIPPET else f"{text[:_SNIPPET]}…"


def _read(store: Store, positions: list[int]) -> Iterator[Item]:
    for start in range(0, len(positions), 200):
        yield from store.shown(positions[start : start + 200])


def _matches(item: Item, query: str) -> bool:
    words = query.casefold()
    return any(words in str(value).casefold() for value in (item.id, *item.content.values()))
