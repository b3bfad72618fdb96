"""Items for the page: the project's facts, tasks to label, lists, and one item in full.

Only reads the store, and loads no model.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import numpy as np
from parbals.errors import ProjectDamagedError
from parbals.learner.evaluation.audit import AUDIT
from parbals.strategies.table import RANDOM_STRATEGY, STRATEGIES

from parbals_label.answer_form import MANY, NUMBERS
from parbals_label.project.consensus import consensus_labels, tied_positions
from parbals_label.project.features import predictions_of, uses_table_features
from parbals_label.project.label_issues import current_label_issues
from parbals_label.project.measured import measured_positions
from parbals_label.project.media import image_address, image_column
from parbals_label.project.predicted import DecisionRule, decisions
from parbals_label.project.quick import START
from parbals_label.project.stored_predictions import decision_rule_of
from parbals_label.store.records import Item, Lease, Why
from parbals_label.store.store import Store
from parbals_label.web import schemas
from parbals_label.web.ordering import Order, by_meaning, by_model
from parbals_label.web.reasons import why_words

__all__ = ["Predictions", "Tasks", "list_items", "project", "show_item", "snippet"]

_SNIPPET_CHARACTERS = 200
_MAX_UNNAMED_COLUMNS = 3
"""Columns up to which a snippet omits their names."""
_MAX_SEARCHED = 20_000
"""Items that one request searches; the next request continues from there."""
_READ_AT_ONCE = 200
_PROJECT_SETTINGS = (
    "highlight", "guidelines", "answers_wanted", "lease_minutes", "goal_labels",
    "goal_error", "strategy", "adapt", "task",
)  # fmt: skip
"""Settings that the page needs."""
_HISTORY_FIELDS = ("answer", "annotator", "label", "source", "comment", "created", "revision")
"""Fields of an answer that an item's history shows."""
_BY_POSITION = Order()
_TEST_ITEM = "Test item: chosen at random to measure the error."
_NOT_TRAINED_ON = {
    True: "The model never trains on it.",
    False: "The model does not train on it until the whole sample is labelled.",
}
"""Whether the test item belongs to a sample that is kept → what its label is used for."""


def project(store: Store) -> schemas.ProjectOut:
    """Return what the page loads once: the project's name, task, classes and settings."""
    settings = store.settings
    image = image_column(store)
    text_columns = [] if image is not None else _text_columns(store)
    kind: Literal["text", "image", "table"] = "table"
    if image:
        kind = "image"
    elif text_columns:
        kind = "text"
    return schemas.ProjectOut(
        **{name: getattr(settings, name) for name in _PROJECT_SETTINGS},
        # A folder's name may contain bytes that are not valid UTF-8.
        name=store.folder.resolve().name.encode("utf-8", "replace").decode(),
        identity=store.identity,
        n_items=store.n_items,
        columns=list(settings.visible_columns),
        classes=list(store.classes),
        kind=kind,
        text_columns=text_columns,
        image_column=image,
        audit=len(settings.audit),
    )


def _text_columns(store: Store) -> list[str]:
    """Return the shown columns that hold texts; none in a table."""
    settings = store.settings
    if not store.n_items or uses_table_features(settings):
        return []
    first_content = store.items([0])[0].content
    texts = [name for name in settings.visible_columns if isinstance(first_content.get(name), str)]
    return [name for name in settings.encoded_columns or texts if name in settings.visible_columns]


class Predictions:
    """The latest stored predictions of all items; ``rows`` is None where there are none yet.

    Items that are being measured have no visible prediction.
    """

    def __init__(self, store: Store) -> None:
        self.form = store.form
        self.hidden = measured_positions(store)
        self.rows: np.ndarray | None = None
        self.decision_rule: DecisionRule | None = None
        with suppress(ProjectDamagedError):  # the next report stores them again
            stored = predictions_of(store)
            if stored is not None and len(stored) == store.n_items:
                self.rows = stored
                self.decision_rule = decision_rule_of(store, stored)

    def of(self, position: int) -> schemas.Probabilities:
        """Return class → probability; for regression the mean and the standard deviation."""
        if self.rows is None or position in self.hidden:
            return None
        row = self.rows[position]
        if self.form.task == NUMBERS:
            return {"mean": float(f"{row[0]:.6g}"), "deviation": float(f"{row[1]:.4g}")}
        return {
            label: round(float(prob), 4)
            for label, prob in zip(self.form.classes, row, strict=False)
        }

    def classes_of(self, positions: Sequence[int]) -> list[int]:
        """Return the index of each item's predicted class, -1 where none is shown."""
        if self.rows is None or self.form.task in (MANY, NUMBERS):
            return [-1] * len(positions)
        form = replace(self.form, classes=self.form.classes[: self.rows.shape[1]])
        predicted = decisions(form, self.rows[positions], self.decision_rule)
        return [
            -1 if position in self.hidden else form.classes.index(label)
            for position, label in zip(positions, predicted, strict=True)
        ]


class Tasks:
    """Turns leases into tasks. What they share is read once for each state of the settings."""

    def __init__(self, store: Store) -> None:
        self.mark = store.settings_mark()
        self.lease_seconds = 60.0 * store.settings.lease_minutes
        self._image_column = image_column(store)
        self._hidden_columns = store.settings.hidden
        self._audit = frozenset(store.settings.audit)
        self._revision = store.revision()
        self._predictions = Predictions(store)

    def tasks(self, store: Store, leases: Sequence[Lease]) -> list[schemas.TaskOut]:
        """Return the tasks of leased items, in the same order."""
        revision = store.revision()
        if revision != self._revision:  # answers may complete a sample, or open one again
            self._predictions.hidden = measured_positions(store)
            self._revision = revision
        items = store.items([lease.position for lease in leases])
        return [self._task(item, lease) for item, lease in zip(items, leases, strict=True)]

    def _task(self, item_with_hidden: Item, lease: Lease) -> schemas.TaskOut:
        """Return the task of a leased item."""
        item = item_with_hidden.without(self._hidden_columns)
        why = _why(
            lease.why,
            self._predictions.of(item.position),
            self._test_item(item.position),
            self._predictions.form.task,
        )
        return schemas.TaskOut(
            position=item.position,
            id=item.id,
            content=item.content,
            image=image_address(item.position, self._image_column),
            expires=lease.expires,
            why=why,
        )

    def _test_item(self, position: int) -> str:
        """Return what an item that measures the error is for; "" for any other item."""
        if position not in self._predictions.hidden:
            return ""
        return f"{_TEST_ITEM} {_NOT_TRAINED_ON[position in self._audit]}"


def _why(
    why: Why | None, predicted: schemas.Probabilities, test_item: str, task: str
) -> schemas.WhyOut:
    """Explain why an item was chosen; ``test_item`` is the sentence for an item that measures."""
    if test_item:
        return schemas.WhyOut(strategy=AUDIT, sentence=test_item, predicted=None)
    if why is None:
        sentence = "This item was not chosen by a strategy; it was opened from the list."
        return schemas.WhyOut(sentence=sentence, predicted=predicted)
    is_start = why.strategy == START or (predicted is None and why.strategy == RANDOM_STRATEGY)
    return schemas.WhyOut(
        strategy=why.strategy,
        sentence=why_words(predicted, task=task, is_start=is_start),
        details=_details(why),
        predicted=predicted,
    )


def _details(why: Why) -> str:
    """Name the batch, the strategy and its score."""
    rank = f"Item {why.rank + 1} of {why.size} in batch {why.batch}"
    strategy = STRATEGIES.get(why.strategy)
    if strategy is None:  # the cold start, or another package's strategy, which loads slowly
        return f"{rank}, chosen by {why.strategy}."
    sentence = f"{rank}, chosen by {strategy.title}: {strategy.about}"
    if why.score is None or not strategy.uses_predictions:
        return f"{sentence}."
    if not strategy.conditions_model:
        return f"{sentence}, with a score of {why.score:.3g}."
    gain = f"{why.score:.2g}"
    gain_alone = gain if why.initial_score is None else f"{why.initial_score:.2g}"
    if float(gain_alone) > float(gain) > 0:
        gain += f" ({gain_alone} if labelled alone)"
    return f"{sentence}. Expected reduction of the loss: {gain}."


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
    order: Order = _BY_POSITION,
) -> schemas.ItemsOut:
    """Return one page of the list of items.

    A page of a search may be empty although later ones are not: one request searches at most
    20,000 items.

    Args:
        store: the project.
        state: which items, as in the page's menu.
        label: only items with this label.
        annotator: only items that this person answered or skipped.
        query: only items that contain these words; sorted by meaning, the words to compare with.
        after: the last item of the previous page; -1 for the first page.
        limit: the size of a page.
        only: show nothing but this person's own answers and skips.
        order: the sort order.
    """
    rows = _Rows(store, only)
    if state == "doubted":
        return _likely_errors(store, rows, only)
    if order.sort == "meaning":
        ranks = by_meaning(store, order.near, query)
        query = None
    elif order.sort == "order":
        ranks = np.arange(store.n_items)
    else:
        predictions = rows.predictions
        ranks = by_model(store, order, predictions.rows, predictions.decision_rule, rows.labels)
    matching = np.fromiter(rows.positions(state, label, only or annotator), np.int64)
    positions = matching[np.argsort(ranks[matching])]
    after_rank = ranks[after] if 0 <= after < len(ranks) else after
    first = int(np.searchsorted(ranks[positions], after_rank, side="right"))
    n_searched = limit if query is None else _MAX_SEARCHED
    page: list[schemas.ItemRow] = []
    last = None
    for item in _read(store, positions[first : first + n_searched].tolist()):
        last = item.position
        if query is None or _matches(item, query):
            page.append(rows.row(item))
            if len(page) == limit:
                break
    has_more = last is not None and last != positions[-1]
    return schemas.ItemsOut(
        items=page,
        next=last if has_more else None,
        total=len(positions) if query is None else None,
    )


def _likely_errors(store: Store, rows: "_Rows", only: str | None) -> schemas.ItemsOut:
    """Return the likely label errors, the least probable label first; none for an annotator."""
    issues = [] if only else current_label_issues(store)
    items = _read(store, [issue.position for issue in issues])
    page = [rows.row(item) for item in items]
    for row, issue in zip(page, issues, strict=True):
        row.doubt = issue.sentence
    return schemas.ItemsOut(items=page, next=None, total=len(page))


class _Rows:
    """Labels, answers, skips and predictions for the rows of a list, read once."""

    def __init__(self, store: Store, only: str | None) -> None:
        self.store = store
        self.answers = store.current_labels()
        self.passes = store.passes()
        if only is None:
            self.labels = consensus_labels(store)
            self.tied = tied_positions(store.votes(), store.form)
            self.partly = store.unfinished()
        else:
            self.answers = _by_annotator(self.answers, only)
            self.passes = _by_annotator(self.passes, only)
            self.labels = {position: by[only] for position, by in self.answers.items()}
            self.tied = set()
            self.partly = set()
        self.predictions = Predictions(store)
        self.image_column = image_column(store)
        self.snippet_columns = store.settings.encoded_columns

    def row(self, item: Item) -> schemas.ItemRow:
        """Return the row of an item."""
        position = item.position
        return schemas.ItemRow(
            position=position,
            id=item.id,
            snippet=snippet(item, self.snippet_columns),
            image=image_address(position, self.image_column),
            label=self.labels.get(position),
            answers=self.answers.get(position, {}),
            passes=self.passes.get(position, {}),
            predicted=self.predictions.of(position),
            tied=position in self.tied,
        )

    def positions(self, state: str, label: str | None, annotator: str | None) -> Iterable[int]:
        """Return the positions in a state, with a label, and with an annotator's answer or skip."""
        positions = self._in_state(state)
        if label is not None:
            form = self.predictions.form
            names = {position: form.names(text) for position, text in self.labels.items()}
            positions = (p for p in positions if label in names.get(p, ()))
        if annotator is not None:
            positions = (
                p
                for p in positions
                if annotator in self.answers.get(p, {}) or annotator in self.passes.get(p, {})
            )
        return positions

    def _in_state(self, state: str) -> Iterable[int]:
        everything = range(self.store.n_items)
        if state in ("queued", "out"):
            waiting, assigned = self.store.queued()
            return assigned if state == "out" else waiting
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


def _by_annotator(values: dict[int, dict[str, str]], name: str) -> dict[int, dict[str, str]]:
    """Reduce position → annotator → value to one annotator."""
    return {position: {name: by[name]} for position, by in values.items() if name in by}


def show_item(store: Store, position: int, only: str | None = None) -> schemas.ItemOut:
    """Return an item with its history; ``only`` restricts both to one person's answers."""
    (item,) = store.visible_items([position])
    answers = [a for a in store.history(position) if only in (None, a.annotator)]
    history = [{name: getattr(answer, name) for name in _HISTORY_FIELDS} for answer in answers]
    return schemas.ItemOut(
        **_Rows(store, only).row(item).model_dump(), content=item.content, history=history
    )


def snippet(item: Item, columns: Sequence[str]) -> str:
    """Return the beginning of an item on one line; of many columns with their names."""
    names = [*columns] or [*item.content]
    has_names = len(names) > _MAX_UNNAMED_COLUMNS
    cells = []
    for name in names:
        value = item.content.get(name)
        text = "" if value is None else " ".join(str(value).split())
        if text:
            cells.append(f"{name}: {text}" if has_names else text)
    snippet = " · ".join(cells)
    if len(snippet) <= _SNIPPET_CHARACTERS:
        return snippet
    return f"{snippet[:_SNIPPET_CHARACTERS]}…"


def _read(store: Store, positions: list[int]) -> Iterator[Item]:
    for start in range(0, len(positions), _READ_AT_ONCE):
        yield from store.visible_items(positions[start : start + _READ_AT_ONCE])


def _matches(item: Item, query: str) -> bool:
    words = query.casefold()
    return any(words in str(value).casefold() for value in (item.id, *item.content.values()))
