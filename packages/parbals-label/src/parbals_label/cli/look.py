"""The commands that look at a project: status, doubts, export, salvage."""

from dataclasses import asdict
from pathlib import Path

import click
from parbals.cli.output import say
from parbals.errors import InputError
from parbals.wording import counted

from parbals_label.cli.options import FORCE, PATH, Share, command, flag, opened, option, renewed

__all__ = ["doubts", "export", "salvage", "status"]

_NOT_YET = 4


@command
@option("-n", "How many to list.", click.IntRange(1, 100), to="most", default=20)
@option("--ask-again ID", "Let somebody else label this item on the page.")
def doubts(folder: Path, most: int, ask_again: str | None, as_json: bool) -> None:
    """Labels that surprise the model when it has not seen them, the most surprising first.

    And texts that were labelled twice, differently. They are worth a second look, not wrong:
    strategies choose items that are hard.

    \b
    Examples:
      parbals doubts spam
      parbals doubts spam --ask-again 17
    """
    from parbals_label.project.copies import contradictions
    from parbals_label.project.label_issues import current_label_issues
    from parbals_label.project.summary import newer_answers

    with opened(folder) as store:
        if ask_again is not None:
            store.ask_again(store.position_of([ask_again])[0])
        if store.n_labelled and (newer_answers(store) or store.settings.predictions is None):
            renewed(store)
        found = current_label_issues(store)[:most]
        names = [item.id for item in store.items([doubt.position for doubt in found])]
        lines = []
        for a, label, b, other in contradictions(store):
            one, two = store.items([a, b])
            lines.append(f"{one.id} is {label} and {two.id}, the same text, is {other}")
    records = [{"id": name, **doubt._asdict()} for name, doubt in zip(names, found, strict=True)]
    record = {"doubts": records, "same_text_other_label": list(lines)}
    rows = zip(names, found, strict=True)
    lines += [f"{name}  {doubt.label}: {doubt.sentence}" for name, doubt in rows]
    say(as_json, record, "\n".join(lines) or "The model doubts no label.")


@command
@option(
    "--until-error SHARE",
    "May I stop? Exit code 0 where the audit certifies with 95 % confidence an error below "
    "this (5% or 0.05), 4 where it does not yet.",
    Share(),
    to="wanted",
)
@click.pass_context
def status(context: click.Context, /, folder: Path, wanted: float | None, as_json: bool) -> None:
    """Progress, class balance and the latest report; answers at once.

    \b
    Examples:
      parbals status spam
      parbals status spam --until-error 5%
    """
    from parbals.learner.evaluation.report import Measurement

    from parbals_label.project.goal import may_stop
    from parbals_label.project.summary import audit_line, overview, overview_lines

    with opened(folder, read_only=True) as store:
        seen = overview(store)
    if wanted is not None and seen.label_range is not None:
        raise InputError("--until-error is a share of wrong labels, and the labels are numbers.")
    if wanted is not None and not seen.audit:
        raise InputError(
            "This project has no audit, so no error is certified while it grows (`parbals init ... "
            "--audit 50`); a sample certifies it at the end: `parbals certify`."
        )
    names = ["items", "labelled", "pending", "queued", "batches", "class_balance"]
    names += ["audit", "audit_labelled", "certified_by", "audit_by_programs"]
    record = {"folder": str(seen.folder), **{name: getattr(seen, name) for name in names}}
    record["passed"] = seen.skipped
    record |= {"strategy": seen.strategy, "metric": seen.metric, "report": seen.stored_report}
    record |= {"chosen_by": seen.chosen_by, "goal": asdict(seen.goal)}
    record["annotators"] = [asdict(one) for one in seen.annotator_errors]
    lines = overview_lines(seen)
    is_certified = True
    if wanted is not None:
        nothing_yet = Measurement(None, 0, 0, seen.audit, 0, {}, {})
        measured = nothing_yet if seen.report is None else seen.report.measured
        is_certified, answer = may_stop(measured, wanted)
        record |= {"until_error": wanted, "may_stop": is_certified}
        lines.append(f"May I stop? {answer} {audit_line(seen)}.")
    say(as_json, record, "\n".join(lines))
    context.exit(0 if is_certified else _NOT_YET)


@command
@option(
    "--format", "Of the file.", click.Choice(["csv", "jsonl", "parquet"]), to="fmt", default="csv"
)
@option("--out", "File to write; by default DIR/export.FORMAT; - is the screen.", PATH)
@flag("--labelled-only", "Leave out items without a label.")
@flag("--renew", "First predict again, from the labels there are now.")
@option(
    "--model FILE",
    "Write the model instead: arrays (FILE.npz) that parbals.load_model reads or, with an "
    "adapted encoder, a new folder that transformers reads.",
    PATH,
)
@option(
    "--for-training OUT",
    "Write a new folder to train another model with instead: every item with its label or "
    "soft label, a weight, who labelled it; the audit's items are the test split.",
    PATH,
)
@FORCE
def export(
    folder: Path,
    fmt: str,
    out: Path | None,
    labelled_only: bool,
    renew: bool,
    model: Path | None,
    for_training: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Labels and predicted probabilities of every item, in a file safe to open in a spreadsheet.

    The probabilities are those of the latest report; it says so if labels are newer.

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
    from parbals_label.project.exports import check_destination, write_export
    from parbals_label.project.summary import export_columns, export_records, newer_answers

    path = out or folder / f"export.{fmt}"
    with opened(folder, read_only=not renew) as store:
        check_destination(folder, path, force=force or out is None)  # its own file is renewed
        if renew and (store.n_labelled or store.settings.described or store.settings.scores):
            renewed(store)
        newer, latest = newer_answers(store), store.latest_report()
        rows = export_records(store, labelled_only)
        count = write_export(path, rows, fmt, export_columns(store))
    log_quietly(folder, EXPORTED, format=fmt, labelled_only=labelled_only)
    note = None
    if newer:
        n_labels = 0 if latest is None else latest.n_labels
        note = (
            f"The probabilities are from {n_labels:,} labels, and "
            f"{counted(newer, 'answer is', 'answers are')} newer: `parbals export {folder} "
            "--renew` predicts again first."
        )
        click.echo(f"parbals: {note}", err=True)
    if str(path) != "-":
        record = {"file": str(path), "items": count, "newer_answers": newer, "note": note}
        say(as_json, record, f"{counted(count, 'item')} in {path}.")


@command
@option("--out", "CSV to write; - is the screen.", PATH, required=True)
@FORCE
def salvage(folder: Path, out: Path, force: bool, as_json: bool) -> None:
    """Take every answer that can be proved out of a damaged project; changes nothing in it.

    One row for each answer in the order given, revisions included. They come from the journal,
    DIR/project.journal, which any editor can read as well.

    \b
    Example:
      parbals salvage spam --out answers.csv
    """
    from parbals_label.project.exports import check_destination, write_export
    from parbals_label.readers.cells import without_nul
    from parbals_label.store.store import Store

    check_destination(folder, out, force=force)
    columns = ["id", "position", "label", "annotator", "revision", "source", "comment", "created"]
    answers = list(Store.salvage(folder))
    rows = (
        {"id": answer.item_id, **{name: without_nul(getattr(answer, name)) for name in columns[1:]}}
        for answer in answers
    )
    count = write_export(out, rows, "csv", columns)
    if str(out) != "-":
        say(as_json, {"file": str(out), "answers": count}, f"{count:,} answers in {out}.")
