"""The commands that measure by random labels: certify, estimate."""

from dataclasses import asdict
from pathlib import Path

import click
from parbals.cli.output import progress, say
from parbals.errors import InputError

from parbals_label.cli.options import command, flag, opened, option

__all__ = ["certify", "estimate"]


@command
@option(
    "--labels N",
    "Draw a fresh sample of so many items; without it, read the latest one.",
    click.IntRange(1),
    to="n_items",
)
@flag("--page", "The sample waits on the labelling page, not in a file.")
def certify(folder: Path, n_items: int | None, page: bool, as_json: bool) -> None:
    """Measure the error of what is about to be exported, by a random sample of it.

    A sample of the items without a label is drawn, and what the model decides for them is fixed.
    When people have labelled all of it, the same command without --labels says with 95 %
    confidence how many of the decisions are wrong: one look, exact, with or without an audit.

    \b
    Examples:
      parbals certify spam --labels 100
      parbals tell spam spam/batch-9.csv --no-report
      parbals certify spam
    """
    from parbals_label.project.certified import latest_sample
    from parbals_label.project.exports import write_batch_csv
    from parbals_label.project.measuring import draw_certificate

    where = told = ""
    with opened(folder, read_only=n_items is None) as store:
        if n_items is not None:
            with progress() as show:
                number = draw_certificate(store, n_items, queued=page, progress=show)
            where = "wait on the page"
        if n_items is not None and not page:
            path = folder / f"batch-{number}.csv"
            rows = [(item.id, item.content) for item in store.items(store.batch_positions(number))]
            write_batch_csv(path, rows, store.settings.shown)
            where, told = f"are in {path}", f", then: parbals tell {folder} {path} --no-report"
        found = latest_sample(store)
    if found is None:
        raise InputError(
            f"No sample was drawn yet: `parbals certify {folder} --labels 100` draws one."
        )
    record = {**asdict(found), "certificate": found.result and asdict(found.result)}
    del record["result"]
    text = found.sentence
    if where:
        text = f"{found.n} random items {where}. Label all of them{told}."
    say(as_json, record, text)


@command
@option("--share CLASS", "Of which class.", to="label", required=True)
@option("--by COLUMN", "For every value of this column.", to="column")
def estimate(folder: Path, label: str, column: str | None, as_json: bool) -> None:
    """Estimate how much of the data is of a class, with a 90 % interval.

    From random labels, an audit's or those of `parbals certify`, and the predictions of all items:
    counting predictions alone would repeat the model's mistakes.

    \b
    Examples:
      parbals estimate spam --share spam
      parbals estimate spam --share spam --by country
    """
    from parbals.learner.evaluation.report import with_interval

    from parbals_label.project.measuring import estimate_shares

    with opened(folder, read_only=True) as store:
        groups = estimate_shares(store, label, column)

    lines = []
    for group in groups:
        line = f"{label} among {group.name} ({group.n_items:,} items, {group.n} random labels): "
        line += (
            "too few random labels to tell" if group.share is None else with_interval(group.share)
        )
        if group.difference is not None:
            line += f"; {with_interval(group.difference)} more than {groups[0].name}"
        lines.append(line)
    record = {"class": label, "by": column, "groups": [asdict(group) for group in groups]}
    say(as_json, record, "\n".join(lines))
