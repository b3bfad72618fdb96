"""Commands that choose a batch and read its labels: next, tell."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
from parbals.cli.base import Command
from parbals.cli.output import JSON, print_result, printable, progress
from parbals.errors import InputError
from parbals.wording import PROGRAM_PREFIX, counted

from parbals_label.cli.options import (
    COST,
    FOLDER,
    FORCE,
    NO_REPORT,
    PATH,
    command,
    flag,
    open_store,
    option,
    update_report,
)

if TYPE_CHECKING:
    from parbals_label.readers.answers import Answer
    from parbals_label.store.records import BatchRecord
    from parbals_label.store.store import Store

__all__ = ["next_", "tell"]

_COUNTS = ("new", "repeated", "revised")


@dataclass
class _Batch:
    """A batch to write: its number (None for second opinions alone), items and annotators."""

    number: int | None
    positions: list[int]
    annotators: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@click.command("next", cls=Command)
@FOLDER
@option("-n N", "Choose this many items.", click.IntRange(1), argument="n_items", default=20)
@option("--out FILE", "Write this CSV file.  [default: DIR/batch-NUMBER.csv]", PATH)
@option("--again NUMBER", "Write the file of an earlier batch again.", click.IntRange(1))
@COST
@FORCE
@JSON
def next_(
    folder: Path,
    n_items: int,
    out: Path | None,
    again: int | None,
    costs: dict[str, float] | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the next items to label to a CSV file.

    Fill in its `label` column, then run `parbals tell`. The items stay assigned until they are
    answered; a further batch has different items, chosen with these in mind. With --cost the
    column `annotator` names whom to ask.

    \b
    Examples:
      parbals next spam -n 20 --out batch.csv
      parbals next spam --cost ada=1,machine:llm=0.01
      parbals next spam --again 1
    """
    from parbals_label.project.exports import check_destination

    with open_store(folder) as store:
        earlier = {record.batch: record for record in store.batches()}
        if again is not None and again not in earlier:
            raise InputError(f"There is no batch {again}; there are {len(earlier)} so far.")
        # Before items are chosen: assigned items without a file are easily forgotten.
        expected = max(earlier, default=0) + 1 if again is None else again
        check_destination(folder, out or folder / f"batch-{expected}.csv", force=force)
        earlier_batch = None if again is None else _earlier_batch(earlier[again])
        batch = earlier_batch or _choose(store, n_items, costs)
        name = "again" if batch.number is None else batch.number
        path = out or folder / f"batch-{name}.csv"
        try:
            if batch.number != expected and out is None:  # another command ran meanwhile
                check_destination(folder, path, force=force)
            ids = _write(store, batch, path)
        except InputError as error:
            if batch.number is None:  # second opinions alone: no item was assigned
                raise
            raise InputError(
                f"{error} Batch {batch.number} is chosen and waits: `parbals next {folder} "
                f"--again {batch.number} --out FILE` writes its file."
            ) from error
        hint = store.form.hint
        n_audit = len(set(batch.positions) & set(store.settings.audit))
    title = "Second opinions" if batch.number is None else f"Batch {batch.number}"
    lines = [
        f"{title}: {counted(len(ids), 'item')} in {path}.",
        f"Fill in the column `label` ({hint}), then: parbals tell {folder} {path}",
    ]
    if n_audit:
        lines.append(f"{n_audit} of them are random ones, to measure the error.")
    record = {"batch": batch.number, "file": str(path), "ids": ids, "notes": batch.notes}
    print_result(as_json, record, "\n".join(lines))


def _choose(store: "Store", n_items: int, costs: dict[str, float] | None) -> _Batch:
    """Choose a batch; with costs, the annotator of each item as well."""
    from parbals_label.project.choose import choose_batch, choose_by_cost

    with progress("choosing"):
        if costs is None:
            number, batch = choose_batch(store, n_items)
            return _Batch(number, store.batch_positions(number), notes=list(batch.notes))
        questions_number, questions = choose_by_cost(store, n_items, costs)
    return _batch_of_questions(questions_number, questions)


def _earlier_batch(record: "BatchRecord") -> _Batch:
    """A batch that was chosen before."""
    questions = record.settings.get("questions", [])
    if questions:
        return _batch_of_questions(record.batch, questions)
    return _Batch(record.batch, [item.position for item in record.items])


def _batch_of_questions(number: int | None, questions: Sequence[tuple[int, str]]) -> _Batch:
    return _Batch(
        number,
        positions=[position for position, _ in questions],
        annotators=[annotator for _, annotator in questions],
    )


def _write(store: "Store", batch: _Batch, path: Path) -> list[str]:
    """Write the file of a batch; the ids of its items."""
    from parbals_label.project.exports import write_batch_csv

    rows = [(item.id, item.content) for item in store.items(batch.positions)]
    write_batch_csv(path, rows, store.settings.visible_columns, batch.annotators)
    return [item_id for item_id, _ in rows]


@command
@click.argument("file", type=PATH)
@option(
    "--annotator NAME",
    "Store the labels under this name.  [default: the column `annotator`, else me]",
)
@flag(
    "--revise",
    "Replace this annotator's earlier labels; history keeps both. Empty cells change nothing: "
    "`parbals labels undo` does.",
)
@NO_REPORT
def tell(
    folder: Path, file: Path, annotator: str | None, revise: bool, no_report: bool, as_json: bool
) -> None:
    """Read labels from a filled-in file.

    FILE is CSV, TSV, JSONL or Parquet. It may be partly filled, reordered, or have more columns.
    Stores all labels or, if one of them is wrong, none.

    \b
    Examples:
      parbals tell spam batch.csv
      parbals tell spam batch.csv --annotator kim --revise
    """
    from parbals_label.project.exports import positions_of_answers
    from parbals_label.project.samples import random_samples
    from parbals_label.project.stored_predictions import newer_answers
    from parbals_label.project.summary import goal_of
    from parbals_label.project.summary_lines import report_lines
    from parbals_label.readers.answers import read_answers

    with open_store(folder) as store:
        empty_cells: list[str] = []
        answers = read_answers(file, store.form, store.former_classes, empty=empty_cells)
        positions = positions_of_answers(store, answers, file.name)
        counts = _store_answers(store, answers, positions, annotator, revise=revise)
        if not as_json:  # confirmed before anything slow begins
            if empty_cells and not answers:
                click.echo(
                    f"No labels: the column `label` of {file} is empty; fill it in "
                    f"({store.form.hint}) and repeat the command."
                )
            else:
                click.echo(
                    f"{counted(counts['new'], 'new label')}, {counts['revised']} revised, "
                    f"{counts['repeated']} known already."
                )
            if revise and empty_cells:
                click.echo(
                    f"{counted(len(empty_cells), 'empty cell')} changed nothing: to undo labels, "
                    f"say `parbals labels undo {folder} ID`."
                )
            for line in _not_counted_lines(store, answers, positions, annotator):
                click.echo(printable(line))
        report = None
        is_outdated = store.latest_report() is None or newer_answers(store)
        has_changed = counts["new"] or counts["revised"] or is_outdated
        if not no_report and store.n_labelled and has_changed:
            report = update_report(store)
        goal = goal_of(store)
        samples = random_samples(store)
        n_labelled = store.n_labelled
    if as_json:
        record = {name: counts[name] for name in _COUNTS}
        print_result(True, {**record, "report": report and report.to_dict()}, "")
    elif report is not None:
        lines = report_lines(report, goal, n_labelled, samples)
        click.echo(printable("\n".join(lines)))


def _store_answers(
    store: "Store",
    answers: Sequence["Answer"],
    positions: Sequence[int],
    annotator: str | None,
    *,
    revise: bool,
) -> Counter[str]:
    """Store all answers in one transaction; how many are new, repeated and revised."""
    from parbals_label.store.names import UNNAMED
    from parbals_label.store.records import Submission

    by_annotator: dict[str, list[Submission]] = {}
    for position, answer in zip(positions, answers, strict=True):
        name = annotator or answer.annotator or UNNAMED
        by_annotator.setdefault(name, []).append(Submission(position, answer.label))
    counts: Counter[str] = Counter()
    with store.transaction():
        for name, submissions in by_annotator.items():
            result = store.submit(submissions, annotator=name, source=_source(name), revise=revise)
            counts.update({key: getattr(result, key) for key in _COUNTS})
    return counts


def _not_counted_lines(
    store: "Store",
    answers: Sequence["Answer"],
    positions: Sequence[int],
    annotator: str | None,
) -> list[str]:
    """Whose labels of the measurements' items do not count, because nobody invited them."""
    from parbals_label.project.measured import sampled_positions
    from parbals_label.store.names import UNNAMED

    sampled = sampled_positions(store)
    counts = Counter(
        annotator or answer.annotator or UNNAMED
        for position, answer in zip(positions, answers, strict=True)
        if position in sampled
    )
    return [
        f"{counted(n, 'label')} by {name} of random items will not count when the error is "
        f"measured, because nobody of that name was invited: `parbals team invite {store.folder} "
        f"{name}`."
        for name, n in counts.items()
        if _source(name) == "person" and not store.is_counted(name)
    ]


def _source(name: str) -> str:
    """The source of labels that a file gives under a name: only a person's count when measuring."""
    from parbals_label.store.names import is_reserved

    if name.startswith(PROGRAM_PREFIX):
        return "machine"
    return "import" if is_reserved(name) else "person"
