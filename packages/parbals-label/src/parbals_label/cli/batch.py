"""The commands that choose a batch and take its labels: next, tell."""

from collections import Counter
from pathlib import Path

import click
from parbals.cli.output import JSON, progress, say, shown
from parbals.errors import InputError
from parbals.wording import PROGRAM, counted

from parbals_label.cli.options import (
    COST,
    FOLDER,
    FORCE,
    NO_REPORT,
    PATH,
    command,
    flag,
    opened,
    option,
    renewed,
)

__all__ = ["next_", "tell"]

_COUNTED = ("new", "repeated", "revised")


@click.command("next")
@FOLDER
@option("-n", "How many items.", click.IntRange(1), to="n_items", default=20)
@option("--out", "CSV to fill in; by default DIR/batch-NUMBER.csv.", PATH)
@option("--again NUMBER", "Write an earlier batch's file once more.", click.IntRange(1))
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
    """Choose the items worth labelling next and write them to a CSV; fill in its `label` column.

    Items stay out until they are answered; anyone who asks meanwhile gets different ones, chosen
    with these in mind. With --cost its column `annotator` says whom to ask, and `parbals tell`
    reads it.

    \b
    Examples:
      parbals next spam -n 20 --out batch.csv
      parbals next spam --cost ada=1,machine:llm=0.01
      parbals next spam --again 1
    """
    from parbals_label.project.exports import check_destination, write_batch_csv

    with opened(folder) as store:
        known = {record.batch: record for record in store.batches()}
        if again is not None and again not in known:
            raise InputError(f"There is no batch {again}; there are {len(known)} so far.")
        # Before anything is chosen: items that are out without a file are easily forgotten.
        expected = max(known, default=0) + 1 if again is None else again
        check_destination(folder, out or folder / f"batch-{expected}.csv", force=force)
        number: int | None = again
        asked: list[tuple[int, str]] = []
        notes: list[str] = []
        if again is not None:
            asked = known[again].settings.get("questions", [])
            positions = [item.position for item in known[again].items]
        else:
            from parbals_label.project.engine import choose_batch, choose_by_cost

            with progress("choosing"):
                if costs is not None:
                    number, asked = choose_by_cost(store, n_items, costs)
                else:
                    number, batch = choose_batch(store, n_items)
                    notes, positions = list(batch.notes), store.batch_positions(number)
        if asked:
            positions = [position for position, _ in asked]
        path = out or folder / f"batch-{'again' if number is None else number}.csv"
        rows = [(item.id, item.content) for item in store.items(positions)]
        try:
            if number != expected and out is None:  # another command came in between
                check_destination(folder, path, force=force)
            write_batch_csv(path, rows, store.settings.shown, [who for _, who in asked])
        except InputError as error:
            if number is None:  # second opinions alone: nothing is out
                raise
            raise InputError(
                f"{error} Batch {number} is chosen and waits: `parbals next {folder} --again "
                f"{number} --out FILE` writes its file."
            ) from error
        form = store.form
        n_audit = len(set(positions) & set(store.settings.audit))
    measure = [f"{n_audit} of them are random ones, to measure the error."] if n_audit else []
    title = "Second opinions" if number is None else f"Batch {number}"
    text = f"{title}: {counted(len(rows), 'item')} in {path}.\nFill in the column `label` "
    say(
        as_json,
        {"batch": number, "file": str(path), "ids": [name for name, _ in rows], "notes": notes},
        "\n".join([f"{text}({form.hint}), then: parbals tell {folder} {path}", *measure]),
    )


@command
@click.argument("file", type=PATH)
@option(
    "--annotator", "Whose labels these are; by default what a column `annotator` says, else me."
)
@flag(
    "--revise",
    "Let labels replace this annotator's earlier ones; history keeps both. Empty cells take "
    "nothing back: `parbals untell` does.",
)
@NO_REPORT
def tell(
    folder: Path, file: Path, annotator: str | None, revise: bool, no_report: bool, as_json: bool
) -> None:
    """Read labels from a filled-in CSV (also TSV, JSONL, Parquet).

    It may be partly filled, reordered, or have more columns. All labels are stored or, if one of
    them is wrong, none.

    \b
    Examples:
      parbals tell spam batch.csv
      parbals tell spam batch.csv --annotator kim --revise
    """
    from parbals_label.project.exports import positions_of_answers
    from parbals_label.project.summary import goal_of, newer_answers, report_lines
    from parbals_label.readers.answers import read_answers
    from parbals_label.store.records import Submission

    with opened(folder) as store:
        empty: list[str] = []
        answers = read_answers(file, store.form, store.former_classes, empty=empty)
        positions = positions_of_answers(store, answers, file.name)
        given: dict[str, list[Submission]] = {}
        for position, one in zip(positions, answers, strict=True):
            who = annotator or one.annotator or "me"
            given.setdefault(who, []).append(Submission(position, one.label))
        counts: Counter[str] = Counter()
        with store.together():
            for who, rows in given.items():
                source = "machine" if who.startswith(PROGRAM) else "person"
                done = store.submit(rows, annotator=who, source=source, revise=revise)
                counts.update({name: getattr(done, name) for name in _COUNTED})
        if not as_json:  # confirmed before anything slow begins
            new, repeated, revised = (counts[name] for name in _COUNTED)
            click.echo(f"{counted(new, 'new label')}, {revised} revised, {repeated} known already.")
            if revise and empty:
                click.echo(
                    f"{counted(len(empty), 'empty cell')} left what was there: to take labels "
                    f"back, say `parbals untell {folder} ID`."
                )
        report = None
        is_behind = store.latest_report() is None or newer_answers(store)
        if not no_report and store.n_labelled and (counts["new"] or counts["revised"] or is_behind):
            report = renewed(store)
        goal = goal_of(store)
    if as_json:
        record = {name: counts[name] for name in _COUNTED}
        say(True, {**record, "report": report and report.to_dict()}, "")
    elif report is not None:
        click.echo(shown("\n".join(report_lines(report, goal, report.n_labelled))))


@command
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@option("--annotator", "Whose labels these are.", default="me")
@NO_REPORT
def untell(
    folder: Path, ids: tuple[str, ...], annotator: str, no_report: bool, as_json: bool
) -> None:
    """Take back an annotator's labels of items; history keeps them, and they may be asked again.

    \b
    Examples:
      parbals untell spam 17
      parbals untell spam 17 42 --annotator kim
    """
    with opened(folder) as store:
        known = store.known_positions(list(ids))
        if missing := [item for item in ids if item not in known]:
            raise InputError(f"There is no item {missing[0]!r} in this project.")
        count = store.withdraw([known[item] for item in ids], annotator=annotator)
        say(as_json, {"taken_back": count}, f"Taken back: {count:,}, answered by {annotator}.")
        if count and store.n_labelled and not no_report:
            renewed(store)
