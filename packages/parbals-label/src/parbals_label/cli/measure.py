"""Commands that measure by labels of a random sample: measure, estimate."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import print_result, progress
from parbals.errors import InputError
from parbals.wording import counted

from parbals_label.cli.options import command, flag, open_store, option

if TYPE_CHECKING:
    from parbals_label.store.store import Store

__all__ = ["estimate", "measure"]


@command
@option(
    "-n N",
    "Draw a sample of N items.  [default: 60, or as many as are left]",
    click.IntRange(1),
    argument="n_items",
)
@click.option("--n", "--labels", "n_items_long", type=click.IntRange(1), hidden=True)
@flag(
    "--keep",
    "Keep the sample out of training for good, so that it measures every later model, too; every "
    "third item to label is one of it.",
)
@flag("--again", "Draw another sample, even if the latest one is not complete.")
@option(
    "--from",
    "Draw from the items of the project, or from its target set. Rows of a target file become "
    "items when they are drawn; the model never trains on them.",
    click.Choice(["pool", "target"]),
    argument="origin",
    default="pool",
)
@flag("--undo", "Undo the draw of a sample while nobody has answered one of its items.")
@flag("--page", "Put the sample into the queue of the labelling page, not into a file.")
def measure(
    folder: Path,
    n_items: int | None,
    n_items_long: int | None,
    keep: bool,
    again: bool,
    origin: str,
    undo: bool,
    page: bool,
    as_json: bool,
) -> None:
    """Measure the error on a random sample.

    Draws a random sample of the items without a label. The model does not train on its labels
    until all of it is labelled; nobody sees predictions for it. Then the command, run again, states
    with 95 % confidence how many of the model's predictions are wrong, and whose labels that rests
    on. If a sample exists, it shows its progress or result; --again or -n draws another.

    \b
    Examples:
      parbals measure spam                  # draw 60 items, or show the latest result
      parbals tell spam spam/batch-9.csv    # when they are labelled
      parbals measure spam -n 100 --page    # label them in the browser
      parbals measure spam --keep           # measure every later model, too
      parbals measure spam --from target    # measure it where the model will be used
    """
    from parbals_label.project.samples import latest_sample

    if undo:
        _undo(folder, as_json=as_json)
        return
    n_items = n_items or n_items_long
    from_target = origin == "target"
    if keep and from_target:
        raise InputError("--keep draws from the items of the project; leave --from target out.")
    if keep:
        _keep(folder, n_items, as_json=as_json)
        return
    with open_store(folder, read_only=True) as store:
        sample = latest_sample(store)
        is_other = sample is None or (from_target and sample.target is None)
        is_new = again or n_items is not None or is_other
    with open_store(folder, read_only=not is_new) as store:
        instruction = ""
        if is_new:
            instruction = _draw(store, n_items, again=again, page=page, from_target=from_target)
        record, text = _result(store)
    print_result(as_json, record, instruction or text)


def _keep(folder: Path, n_items: int | None, *, as_json: bool) -> None:
    """Draw a sample that is kept, and say so."""
    from parbals_label.project.measured import SAMPLE_SIZE, measurable_positions
    from parbals_label.project.measuring import keep_sample

    with open_store(folder) as store:
        n = n_items or min(SAMPLE_SIZE, len(measurable_positions(store)) // 2)
        keep_sample(store, n)
    text = (
        f"{n:,} random items are kept as test items: every third item to label is one of them, and "
        f"they measure the error of every later model. Next: parbals serve {folder}"
    )
    print_result(as_json, {"kept": n}, text)


def _undo(folder: Path, *, as_json: bool) -> None:
    """Undo the draw of a sample, and say so."""
    from parbals_label.project.undo_sample import undo_sample

    with open_store(folder) as store:
        n = undo_sample(store)
    text = f"The sample of {counted(n, 'item')} is undone: they measure nothing any more."
    print_result(as_json, {"undone": n}, text)


def _draw(
    store: "Store", n_items: int | None, *, again: bool, page: bool, from_target: bool
) -> str:
    """Draw a sample; what to do with its items, in words."""
    from parbals_label.project.exports import write_batch_csv
    from parbals_label.project.measured import SAMPLE_SIZE, measurable_positions
    from parbals_label.project.measuring import begin_measurement
    from parbals_label.project.target_sample import n_target_rows_left

    folder = store.folder
    n_left = n_target_rows_left(store) if from_target else len(measurable_positions(store))
    n = n_items or min(SAMPLE_SIZE, n_left)
    if not n:
        raise InputError("Every item is labelled, so there is nothing to draw from.")
    with progress("drawing the sample") as show:
        number = begin_measurement(
            store, n, queued=page, again=again, from_target=from_target, progress=show
        )
    drawn = f"{n} random items of the target set" if from_target else f"{n} random items"
    if page:
        return f"{drawn} wait on the page (parbals serve {folder}). Label all of them."
    path = folder / f"batch-{number}.csv"
    rows = [(item.id, item.content) for item in store.items(store.batch_positions(number))]
    write_batch_csv(path, rows, store.settings.visible_columns)
    return (
        f"{drawn} are in {path}. Label all of them, then: parbals tell {folder} {path}, "
        f"and parbals measure {folder}."
    )


def _result(store: "Store") -> tuple[dict[str, Any], str]:
    """The latest sample and the earlier ones, for programs and in words."""
    from parbals_label.project.samples import earlier_samples_sentence, random_samples

    samples = random_samples(store)
    sample = samples[-1]
    record = {**asdict(sample), "certificate": sample.result and asdict(sample.result)}
    del record["result"]
    record["earlier"] = [asdict(earlier) for earlier in samples[:-1]]
    sentences = (sample.sentence, earlier_samples_sentence(samples))
    return record, "\n".join(filter(None, sentences))


@command
@option("--share CLASS", "Estimate the share of this class.", argument="label", required=True)
@option("--by COLUMN", "Estimate it for each value of this column.", argument="column")
@option(
    "--from",
    "Estimate it among the items of the project, or in its target set.",
    click.Choice(["pool", "target"]),
    argument="origin",
    default="pool",
)
def estimate(folder: Path, label: str, column: str | None, origin: str, as_json: bool) -> None:
    """Estimate how common a class is, with a 90 % interval.

    Combines the labels of random items (`parbals measure`) with the predictions of all items:
    counting predictions alone would repeat the model's mistakes.

    \b
    Examples:
      parbals estimate spam --share spam
      parbals estimate spam --share spam --by country
      parbals estimate spam --share spam --from target
    """
    from parbals.learner.evaluation.report import with_interval

    from parbals_label.project.measuring import estimate_shares

    with open_store(folder, read_only=True) as store:
        groups = estimate_shares(store, label, column, from_target=origin == "target")
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
