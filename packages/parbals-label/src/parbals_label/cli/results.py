"""Commands that show and write results: status, export."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import print_result
from parbals.errors import InputError
from parbals.wording import counted, percent

from parbals_label.cli.options import (
    FORCE,
    PATH,
    Share,
    command,
    flag,
    open_store,
    option,
    update_report,
)

if TYPE_CHECKING:
    from parbals_label.project.summary import Overview
    from parbals_label.store.store import Store

__all__ = ["export", "status"]

_NOT_YET = 4
"""Exit code of `status --until-error` while no error below the target was measured."""


@command
@option(
    "--until-error SHARE",
    "Tell by the exit code whether to stop: 0 if an error below this share (5% or 0.05) was "
    "measured with 95 % confidence, 4 if not yet.",
    Share(),
    argument="target_error",
)
@click.pass_context
def status(
    context: click.Context, /, folder: Path, target_error: float | None, as_json: bool
) -> None:
    """Show progress, estimated error and advice.

    Answers at once, from the latest report.

    \b
    Examples:
      parbals status spam
      parbals status spam --until-error 5%
    """
    from parbals_label.project.summary import overview
    from parbals_label.project.summary_lines import overview_lines

    with open_store(folder, read_only=True) as store:
        summary = overview(store)
    record = _status_record(summary)
    lines = overview_lines(summary)
    exit_code = 0
    if target_error is not None:
        is_certified, sentence = _certified_below(summary, target_error)
        record |= {"until_error": target_error, "may_stop": is_certified}
        lines.append(sentence)
        exit_code = 0 if is_certified else _NOT_YET
    print_result(as_json, record, "\n".join(lines))
    context.exit(exit_code)


def _status_record(summary: "Overview") -> dict[str, Any]:
    """The status for programs."""
    return {
        "folder": str(summary.folder),
        "items": summary.items,
        "labelled": summary.labelled,
        "pending": summary.pending,
        "queued": summary.queued,
        "passed": summary.skipped,
        "batches": summary.batches,
        "class_balance": summary.class_balance,
        "audit": summary.audit,
        "audit_labelled": summary.audit_labelled,
        "measured_by": summary.audit_sources.by,
        "measured_not_counted": summary.audit_sources.n_not_counted,
        "certified_by": summary.audit_sources.by,  # the earlier names of the two above
        "audit_by_programs": summary.audit_sources.n_not_counted,
        "samples": [asdict(sample) for sample in summary.samples],
        "strategy": summary.strategy,
        "target": summary.target,
        "metric": summary.metric,
        "report": summary.stored_report,
        "chosen_by": summary.chosen_by,
        "goal": asdict(summary.goal),
        "annotators": [asdict(annotator) for annotator in summary.annotator_errors],
        "llms": [asdict(usage) for usage in summary.llms],
    }


def _certified_below(summary: "Overview", target_error: float) -> tuple[bool, str]:
    """Whether an error below the target was measured, and a sentence that says so."""
    from parbals.learner.evaluation.report import Measurement

    from parbals_label.project.goal import may_stop
    from parbals_label.project.summary_lines import audit_line

    if summary.label_range is not None:
        raise InputError("--until-error is a share of wrong labels, and the labels are numbers.")
    sample = summary.sample
    if not summary.audit and sample is None:
        return False, (
            "May I stop? Not yet: no error was measured in this project; `parbals measure "
            f"{summary.folder}` measures that of the present model, and `parbals measure "
            f"{summary.folder} --keep` that of every later one."
        )
    if not summary.audit and sample is not None:
        is_below = sample.result is not None and sample.result.error.high < target_error
        answer = "Yes." if is_below else f"Not yet: the target is {percent(target_error)}."
        return is_below, f"May I stop? {answer} {sample.sentence}"
    unmeasured = Measurement(None, 0, 0, summary.audit, 0, {}, {})
    measured = unmeasured if summary.report is None else summary.report.measured
    is_certified, answer = may_stop(measured, target_error)
    return is_certified, f"May I stop? {answer} {audit_line(summary)}"


@command
@option(
    "--format",
    "Set the format of the file.",
    click.Choice(["csv", "jsonl", "parquet"]),
    argument="file_format",
    default="csv",
)
@option("--out FILE", "Write this file; - is standard output.  [default: DIR/export.FORMAT]", PATH)
@flag("--labelled-only", "Leave out items without a label.")
@flag("--renew", "Update the predictions first, from the labels there are now.")
@option(
    "--model FILE",
    "Write the model instead: arrays (FILE.npz) for parbals.load_model or, with a fine-tuned "
    "encoder, a new folder for transformers.",
    PATH,
)
@option(
    "--for-training OUT",
    "Write a new folder of training data for another model instead: every item with its label or "
    "soft label, weight and annotators; test items are the test split.",
    PATH,
)
@FORCE
def export(
    folder: Path,
    file_format: str,
    out: Path | None,
    labelled_only: bool,
    renew: bool,
    model: Path | None,
    for_training: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write labels and predictions, or the model, to a file.

    The file has a row for each item, and is safe to open in a spreadsheet. Predictions are those
    of the latest report; a message says if labels are newer.

    \b
    Examples:
      parbals export spam --format csv --out labels.csv
      parbals export spam --renew
      parbals export spam --format jsonl --out - --labelled-only
      parbals export spam --model spam.npz
      parbals export spam --for-training spam-data
    """
    from parbals_label.project.history import log_quietly
    from parbals_label.store.records import EXPORTED

    if model is not None:
        from parbals_label.cli.predict import export_model

        export_model(folder, model, force=force, as_json=as_json)
        log_quietly(folder, EXPORTED, format="model", labelled_only=False)
        return
    if for_training is not None:
        from parbals_label.cli.predict import export_training_data

        export_training_data(folder, for_training, as_json=as_json)
        log_quietly(folder, EXPORTED, format="for training", labelled_only=False)
        return
    from parbals_label.project.export_records import export_columns, export_records
    from parbals_label.project.exports import check_destination, write_export
    from parbals_label.project.stored_predictions import newer_answers

    path = out or folder / f"export.{file_format}"
    with open_store(folder, read_only=not renew) as store:
        # The export in the project's own folder is replaced without asking.
        check_destination(folder, path, force=force or out is None)
        if renew and (store.n_labelled or store.settings.described or store.settings.scores):
            update_report(store)
        n_newer = newer_answers(store)
        notes = [_outdated_note(store, n_newer, folder), _measured_note(store)]
        note = " ".join(filter(None, notes)) or None
        rows = export_records(store, labelled_only)
        count = write_export(path, rows, file_format, export_columns(store))
    log_quietly(folder, EXPORTED, format=file_format, labelled_only=labelled_only)
    if note is not None:
        click.echo(f"parbals: {note}", err=True)
    if str(path) != "-":
        record = {"file": str(path), "items": count, "newer_answers": n_newer, "note": note}
        print_result(as_json, record, f"{counted(count, 'item')} in {path}.")


def _measured_note(store: "Store") -> str | None:
    """A sentence where the export has no predictions for items that are being measured."""
    from parbals_label.project.measured import unlabelled_measured_positions

    n_hidden = len(unlabelled_measured_positions(store)) if store.settings.predictions else 0
    if not n_hidden:
        return None
    items = counted(n_hidden, "item that measures", "items that measure")
    return f"Predictions of {items} the error are left out until they are labelled."


def _outdated_note(store: "Store", n_newer: int, folder: Path) -> str | None:
    """A sentence where answers are newer than the predictions."""
    if not n_newer:
        return None
    report = store.latest_report()
    n_labels = 0 if report is None else report.n_labels
    return (
        f"The probabilities are from {n_labels:,} labels, and "
        f"{counted(n_newer, 'answer is', 'answers are')} newer: `parbals export {folder} "
        "--renew` predicts again first."
    )
