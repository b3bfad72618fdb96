"""Commands that measure by labels of a random sample: certify, estimate."""

from dataclasses import asdict
from pathlib import Path

import click
from parbals.cli.output import print_result, progress
from parbals.errors import InputError

from parbals_label.cli.options import command, flag, open_store, option

__all__ = ["certify", "estimate"]


@command
@option(
    "--labels N",
    "Draw a new sample of N items.  [default: read the latest sample]",
    click.IntRange(1),
    argument="n_items",
)
@flag("--page", "Put the sample into the queue of the labelling page, not into a file.")
def certify(folder: Path, n_items: int | None, page: bool, as_json: bool) -> None:
    """Measure the error on a random sample.

    With --labels, draw a sample of the unlabelled items and fix the model's predictions for them.
    When people have labelled all of it, run the command again without --labels: it states with 95 %
    confidence how many of the predictions are wrong. Works with or without an audit.

    \b
    Examples:
      parbals certify spam --labels 100
      parbals tell spam spam/batch-9.csv --no-report
      parbals certify spam
    """
    from parbals_label.project.exports import write_batch_csv
    from parbals_label.project.measuring import draw_certificate
    from parbals_label.project.samples import earlier_samples_sentence, random_samples

    instruction = ""
    with open_store(folder, read_only=n_items is None) as store:
        if n_items is not None:
            with progress() as show:
                number = draw_certificate(store, n_items, queued=page, progress=show)
            instruction = "wait on the page. Label all of them."
        if n_items is not None and not page:
            path = folder / f"batch-{number}.csv"
            rows = [(item.id, item.content) for item in store.items(store.batch_positions(number))]
            write_batch_csv(path, rows, store.settings.visible_columns)
            instruction = (
                f"are in {path}. Label all of them, then: parbals tell {folder} {path} --no-report."
            )
        samples = random_samples(store)
    if not samples:
        raise InputError(
            f"No sample was drawn yet: `parbals certify {folder} --labels 100` draws one."
        )
    sample = samples[-1]
    record = {**asdict(sample), "certificate": sample.result and asdict(sample.result)}
    del record["result"]
    record["earlier"] = [asdict(earlier) for earlier in samples[:-1]]
    text = f"{sample.n} random items {instruction}"
    if not instruction:
        text = "\n".join(filter(None, (sample.sentence, earlier_samples_sentence(samples))))
    print_result(as_json, record, text)


@command
@option("--share CLASS", "Estimate the share of this class.", argument="label", required=True)
@option("--by COLUMN", "Estimate it for each value of this column.", argument="column")
def estimate(folder: Path, label: str, column: str | None, as_json: bool) -> None:
    """Estimate how common a class is, with a 90 % interval.

    Combines the labels of random items (the audit, or `parbals certify`) with the predictions of
    all items by PPI++: counting predictions alone would repeat the model's mistakes.

    \b
    Examples:
      parbals estimate spam --share spam
      parbals estimate spam --share spam --by country
    """
    from parbals.learner.evaluation.report import with_interval

    from parbals_label.project.measuring import estimate_shares

    with open_store(folder, read_only=True) as store:
        groups = estimate_shares(store, label, column)
    lines = []
    for group in groups:
        share = "too few random labels to tell"
        if group.share is not None:
            share = with_interval(group.share)
        numbers = f"{group.n_items:,} items, {group.n} random labels"
        line = f"{label} among {group.name} ({numbers}): {share}"
        if group.difference is not None:
            line += f"; {with_interval(group.difference)} more than {groups[0].name}"
        lines.append(line)
    record = {"class": label, "by": column, "groups": [asdict(group) for group in groups]}
    print_result(as_json, record, "\n".join(lines))
