"""The group `parbals backup`, and the check that `parbals doctor DIR` runs."""

from dataclasses import asdict
from pathlib import Path

import click
from parbals.cli.base import Command, Group
from parbals.cli.output import JSON, print_result, progress

from parbals_label.cli.options import FOLDER, FORCE, PATH, command_in, flag, open_store, option

__all__ = ["backup", "check"]

_DAMAGED = 3
"""Exit code for a damaged project."""
_MAX_NAMES = 5
"""Names that a sentence lists; more are counted."""
_ANSWER_COLUMNS = ("position", "label", "annotator", "revision", "source", "comment", "created")


@click.group(cls=Group)
def backup() -> None:
    """Create, restore, test or salvage backups.

    \b
    Examples:
      parbals backup create spam spam-monday.zip
      parbals backup restore spam-monday.zip spam
    """


@command_in(backup)
@click.argument("file", type=PATH)
@FORCE
def create(folder: Path, file: Path, force: bool, as_json: bool) -> None:
    """Copy a project into one file, also while people label.

    FILE is a zip with the database, the journal, the features, the images in DIR, and their
    checksums; - is standard output. The links of the page are left out. With --force, an earlier
    backup of that name is replaced once the new one is complete.

    \b
    Examples:
      parbals backup create spam spam-monday.zip
      parbals backup create spam - | ssh elsewhere 'cat > spam.zip'
    """
    from parbals_label.project.backup import write_backup
    from parbals_label.project.exports import check_destination
    from parbals_label.project.history import log_quietly
    from parbals_label.store.records import BACKED_UP

    check_destination(folder, file, force=force)
    is_stdout = str(file) == "-"
    with progress("copying", quiet=is_stdout):
        contents = write_backup(folder, file)
    written = str(file if is_stdout else file.absolute())
    log_quietly(folder, BACKED_UP, file=written, answers=contents.answers)
    if contents.images_elsewhere:
        click.echo(
            f"parbals: {contents.images_elsewhere:,} images lie outside {folder} and are not in "
            "the backup; keep a copy of their folder as well.",
            err=True,
        )
    if is_stdout:
        return
    print_result(
        as_json,
        {"file": str(file), **asdict(contents)},
        f"{contents.items:,} items and {contents.answers:,} answers in {file}: "
        f"{contents.files:,} files, {contents.n_bytes:,} bytes.",
    )


@backup.command(cls=Command)
@click.argument("file", type=PATH)
@FOLDER
@flag(
    "--keep-links",
    "Keep personal links and the folder of images: for a backup of your own.",
)
@JSON
def restore(file: Path, folder: Path, keep_links: bool, as_json: bool) -> None:
    """Restore a project from a backup into a new or empty folder.

    FILE is checked before the folder gets its name. Nothing outside the folder changes, and
    nothing in FILE is run, whoever made it. The page gets a new link. Personal links end, since
    the maker of the file may know them; names and labels stay. Images are shown from DIR alone.

    \b
    Examples:
      parbals backup restore spam-monday.zip spam
      parbals backup restore spam-monday.zip spam --keep-links
    """
    from parbals_label.project.backup import restore_backup

    with progress("checking"):
        restored = restore_backup(file, folder, keep_links=keep_links)
    lines = [f"{restored.items:,} items and {restored.answers:,} answers in {folder}."]
    if restored.links_ended:
        n_links = len(restored.links_ended)
        names = ", ".join(restored.links_ended[:_MAX_NAMES])
        if n_links > _MAX_NAMES:
            names += ", …"
        lines.append(
            f"Personal links were ended ({n_links:,}: {names}); `parbals team invite {folder} "
            "NAME` gives a new one, and --keep-links keeps those of a backup of your own."
        )
    if restored.images_left is not None:
        lines.append(
            f"Images are looked for in {folder} alone, not in {restored.images_left} any more; "
            "--keep-links keeps the folder of a backup of your own."
        )
    print_result(as_json, {"folder": str(folder), **asdict(restored)}, "\n".join(lines))


@command_in(backup, "test")
@click.argument("file", required=False, type=PATH)
def test_backup(folder: Path, file: Path | None, as_json: bool) -> None:
    """Test the latest backup by restoring it to a temporary folder.

    FILE is by default the one that `parbals backup create` wrote last. Prints how many answers are
    newer than the backup. Exit code 2 or 3 if it cannot be restored.

    \b
    Example:
      parbals backup test spam
    """
    from parbals_label.project.backup import trial_restore

    with progress("restoring"):
        file, contents, n_newer = trial_restore(folder, file)
    print_result(
        as_json,
        {"file": str(file), "newer_answers": n_newer, **asdict(contents)},
        f"{file} opens: {contents.items:,} items, {contents.answers:,} answers; {n_newer:,} are "
        "newer.",
    )


@command_in(backup)
@option("--out FILE", "Write this CSV file; - is standard output.", PATH, required=True)
@FORCE
def salvage(folder: Path, out: Path, force: bool, as_json: bool) -> None:
    """Copy the readable answers of a damaged project to a CSV file.

    The file has a row for each answer in the order given, revisions included. They come from the
    journal, DIR/project.journal, which any editor can read as well. The project is not changed.

    \b
    Example:
      parbals backup salvage spam --out answers.csv
    """
    from parbals_label.project.exports import check_destination, write_export
    from parbals_label.readers.cells import without_nul
    from parbals_label.store.store import Store

    check_destination(folder, out, force=force)
    answers = list(Store.salvage(folder))
    rows = (
        {
            "id": answer.item_id,
            **{name: without_nul(getattr(answer, name)) for name in _ANSWER_COLUMNS},
        }
        for answer in answers
    )
    count = write_export(out, rows, "csv", ["id", *_ANSWER_COLUMNS])
    if str(out) != "-":
        print_result(as_json, {"file": str(out), "answers": count}, f"{count:,} answers in {out}.")


@click.command(cls=Command, hidden=True)
@click.argument("path", metavar="DIR|FILE", type=PATH)
@JSON
@click.pass_context
def check(context: click.Context, /, path: Path, as_json: bool) -> None:
    """Check a project or a backup, as `parbals doctor` does.

    Opening a project checks its answers; this also reads the items and the features, and looks for
    the images. Damaged rows of an interrupted run in your cache are named: they are made again.

    \b
    Examples:
      parbals doctor spam
      parbals doctor spam-monday.zip
    """
    from parbals_label.encoders.cache import damaged_files
    from parbals_label.project.backup import check_backup, check_project
    from parbals_label.project.media import missing_images

    problems: list[str] = []
    cached: list[str] = []
    with progress("reading"):
        if path.is_dir() or not path.exists():
            contents, problems = check_project(path)
            if not problems:
                with open_store(path, read_only=True) as store:
                    problems = missing_images(store)
            text = f"{path} is sound: {contents.items:,} items, {contents.answers:,} answers."
            cached = [str(file) for file in damaged_files()]
        else:
            contents = check_backup(path)
            text = f"{path} is complete: {contents.files:,} files, {contents.n_bytes:,} bytes."
    notes = [
        f"{file}, of an interrupted run, is not what was written: it is not used but made again, "
        "and you can remove it."
        for file in cached
    ]
    record = {"path": str(path), "problems": problems, "damaged_cache": cached, **asdict(contents)}
    print_result(as_json, record, "\n".join([*(problems or [text]), *notes]))
    context.exit(_DAMAGED if problems else 0)
