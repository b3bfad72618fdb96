"""The group `parbals labels`: review, undo, remove and trace labels."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from parbals.cli.base import Group
from parbals.cli.output import print_result
from parbals.errors import InputError

from parbals_label.cli.options import NO_REPORT, command_in, open_store, option, update_report

if TYPE_CHECKING:
    from parbals_label.store.records import Item
    from parbals_label.store.store import Store

__all__ = ["labels"]

_EXCERPT_LENGTH = 100
"""Characters of an item that a list shows."""


@click.group(cls=Group)
def labels() -> None:
    """Review, undo, remove and trace labels.

    \b
    Examples:
      parbals labels review spam
      parbals labels undo spam 17
    """


@command_in(labels)
@option(
    "-n N",
    "List at most this many labels.",
    click.IntRange(1, 100),
    argument="n_labels",
    default=20,
)
@option("--ask-again ID", "Ask another annotator to label this item on the page.")
def review(folder: Path, n_labels: int, ask_again: str | None, as_json: bool) -> None:
    """List likely label errors, the most surprising first.

    A label surprises if the model, trained without it, expects another one. Duplicate texts with
    different labels come first. A surprising label need not be wrong: strategies choose hard items.

    \b
    Examples:
      parbals labels review spam
      parbals labels review spam --ask-again 17
    """
    from parbals_label.project.duplicates import contradictions
    from parbals_label.project.label_issues import current_label_issues
    from parbals_label.project.stored_predictions import newer_answers

    with open_store(folder) as store:
        if ask_again is not None:
            store.ask_again(store.position_of([ask_again])[0])
        if store.n_labelled and (newer_answers(store) or store.settings.predictions is None):
            update_report(store)
        suspects = current_label_issues(store)[:n_labels]
        items = store.items([suspect.position for suspect in suspects])
        texts = [_excerpt(item, store.settings.visible_columns) for item in items]
        duplicates = []
        for first, first_label, second, second_label in contradictions(store):
            first_item, second_item = store.items([first, second])
            duplicates.append(
                f"{first_item.id} is {first_label} and {second_item.id}, the same text, is "
                f"{second_label}"
            )
    records = []
    lines = list(duplicates)
    for item, text, suspect in zip(items, texts, suspects, strict=True):
        records.append({"id": item.id, **suspect._asdict(), "text": text})
        lines.append(f"{item.id}  {suspect.label}: {suspect.sentence}")
        if text:
            lines.append(f"    {text}")
    record = {"doubts": records, "same_text_other_label": duplicates}
    print_result(as_json, record, "\n".join(lines) or "There are no likely label errors.")


def _excerpt(item: "Item", columns: Sequence[str]) -> str:
    """The beginning of what annotators see of an item, on one line."""
    cells = [str(item.content[name]) for name in columns if item.content.get(name) is not None]
    text = " ".join(" · ".join(cells).split())
    return text if len(text) <= _EXCERPT_LENGTH else f"{text[:_EXCERPT_LENGTH]}…"


@command_in(labels)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@option("--annotator NAME", "Undo the labels of this annotator.", default="me")
@NO_REPORT
def undo(
    folder: Path, ids: tuple[str, ...], annotator: str, no_report: bool, as_json: bool
) -> None:
    """Undo an annotator's labels of some items.

    History keeps the labels, and the items may be asked again.

    \b
    Examples:
      parbals labels undo spam 17
      parbals labels undo spam 17 42 --annotator kim
    """
    with open_store(folder) as store:
        positions = store.known_positions(list(ids))
        missing = [item_id for item_id in ids if item_id not in positions]
        if missing:
            raise InputError(f"There is no item {missing[0]!r} in this project.")
        count = store.undo_labels([positions[item_id] for item_id in ids], annotator=annotator)
        print_result(
            as_json, {"taken_back": count}, f"{count:,} labels by {annotator} were undone."
        )
        if count and store.n_labelled and not no_report:
            update_report(store)


@command_in(labels)
@option("--annotator NAME", "Remove the labels and skips of this annotator.", required=True)
@option(
    "--since TIME",
    "Remove only labels since then: 2026-11-16, or 2026-11-16T14:30 by this machine's clock.",
)
@NO_REPORT
def remove(folder: Path, annotator: str, since: str | None, no_report: bool, as_json: bool) -> None:
    """Remove all labels and skips of one annotator.

    History keeps them. Their items may be chosen again, and report and predictions are computed
    without them. `parbals team revoke` ends the annotator's link, and an open page
    stops within a second.

    \b
    Examples:
      parbals labels remove spam --annotator eve
      parbals labels remove spam --annotator eve --since 2026-11-16T14:30
    """
    start = "" if since is None else _utc_time(since)
    with open_store(folder) as store:
        name = _annotator_named(store, annotator)
        n_labels, n_skips = store.remove_labels(name, start)
        if store.n_labelled and not no_report:
            update_report(store)
        elif not store.n_labelled:  # report and predictions came from labels that are gone
            store.update_settings(predictions=None)
            store.save_report({}, 0)
    record = {"annotator": name, "labels": n_labels, "passes": n_skips}
    print_result(
        as_json, record, f"{n_labels:,} labels and {n_skips:,} skips by {name} were removed."
    )


def _annotator_named(store: "Store", annotator: str) -> str:
    """The annotator of exactly this name or, without one, the first whose name looks like it."""
    from parbals_label.store.names import name_key

    names = store.annotator_names()
    if annotator in names:
        return annotator
    for name in names:
        if name_key(name) == name_key(annotator):
            return name
    raise InputError(f"{annotator!r} has neither labelled nor skipped anything.")


def _utc_time(text: str) -> str:
    """A time by this machine's clock as it is stored: in UTC."""
    try:
        local = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text!r} is not a time; say 2026-11-16 or 2026-11-16T14:30.") from None
    return local.astimezone(UTC).isoformat(timespec="milliseconds")


@command_in(labels)
@option("--item ID", "Show only the labels of this item.")
def history(folder: Path, item: str | None, as_json: bool) -> None:
    """List all labels and changes, oldest first.

    Classes have the names that they had at the time.

    \b
    Examples:
      parbals labels history spam
      parbals labels history spam --item 17
    """
    from parbals_label.project.history import history_rows, history_text

    with open_store(folder, read_only=True) as store:
        rows = history_rows(store, item)
    print_result(as_json, rows, "\n".join(map(history_text, rows)) or "Nothing has happened yet.")
