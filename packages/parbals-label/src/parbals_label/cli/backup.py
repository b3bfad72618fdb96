"""The commands of whoever runs a project for others: backup, restore, check."""

from dataclasses import asdict
from pathlib import Path

import click
from parbals.cli.output import JSON, progress, say

from parbals_label.cli.options import FOLDER, FORCE, PATH, command, flag, opened

__all__ = ["COMMANDS"]

_DAMAGED = 3
_FEW = 5


@command
@click.argument("file", type=PATH)
@FORCE
def backup(folder: Path, file: Path, force: bool, as_json: bool) -> None:
    """Copy a project into one file, also while people label.

    FILE is a zip with the database, the journal, the features, the images that lie in DIR, and
    their checksums; - is standard output. The page's links are not in it. With --force an earlier
    backup under that name is replaced when the new one is whole.

    \b
    Examples:
      parbals backup spam spam-monday.zip
      parbals backup spam - | ssh elsewhere 'cat > spam.zip'
    """
    from parbals_label.project.backup import write_backup
    from parbals_label.project.exports import check_destination
    from parbals_label.project.history import log_quietly
    from parbals_label.store.records import BACKED_UP

    check_destination(folder, file, force=force)
    with progress("copying", quiet=str(file) == "-"):
        found = write_backup(folder, file)
    written = str(file if str(file) == "-" else file.absolute())
    log_quietly(folder, BACKED_UP, file=written, answers=found.answers)
    record = {"file": str(file), **asdict(found)}
    text = (
        f"{found.items:,} items and {found.answers:,} answers in {file}: {found.files:,} files, "
        f"{found.n_bytes:,} bytes."
    )
    if found.images_elsewhere:
        click.echo(
            f"parbals: {found.images_elsewhere:,} images lie outside {folder} and are not in the "
            "backup; keep a copy of their folder as well.",
            err=True,
        )
    if str(file) != "-":
        say(as_json, record, text)


@click.command()
@click.argument("file", type=PATH)
@FOLDER
@flag(
    "--keep-links",
    "Personal links go on working, and images are still looked for where they were: for a "
    "backup of your own.",
)
@JSON
def restore(file: Path, folder: Path, keep_links: bool, as_json: bool) -> None:
    """Make a project of a backup, in a folder that is new or empty.

    Everything is checked before the folder gets its name; nothing outside it is touched, and
    nothing in the file is run, whoever made it. The page gets a new link. Whoever made the file may
    know the links of the people in it, so that these are ended; their names and labels stay.
    Images are then shown from DIR alone.

    \b
    Examples:
      parbals restore spam-monday.zip spam
      parbals restore spam-monday.zip spam --keep-links
    """
    from parbals_label.project.backup import restore_backup

    with progress("checking"):
        found = restore_backup(file, folder, keep_links=keep_links)
    lines = [f"{found.items:,} items and {found.answers:,} answers in {folder}."]
    if found.links_ended:
        names, n = ", ".join(found.links_ended[:_FEW]), len(found.links_ended)
        lines.append(
            f"Personal links were ended ({n:,}: {names}{', …' if n > _FEW else ''}); `parbals "
            f"invite {folder} NAME` gives a new one, and --keep-links keeps those of a backup of "
            "your own."
        )
    if found.images_left is not None:
        lines.append(
            f"Images are looked for in {folder} alone, not in {found.images_left} any more; "
            "--keep-links keeps the folder of a backup of your own."
        )
    say(as_json, {"folder": str(folder), **asdict(found)}, "\n".join(lines))


@click.command()
@click.argument("path", metavar="DIR|FILE", type=PATH)
@JSON
@click.pass_context
def check(context: click.Context, /, path: Path, as_json: bool) -> None:
    """Read every byte of a project, or of a backup, and say what is wrong; exit code 3 if anything.

    Opening a project checks its answers; this also reads the items and the features, and looks for
    the images.

    \b
    Examples:
      parbals check spam
      parbals check spam-monday.zip
    """
    from parbals_label.project.backup import check_backup, check_project
    from parbals_label.project.media import missing_images

    faults: list[str] = []
    with progress("reading"):
        if path.is_dir() or not path.exists():
            found, faults = check_project(path)
            if not faults:
                with opened(path, read_only=True) as store:
                    faults = missing_images(store)
            text = f"{path} is sound: {found.items:,} items, {found.answers:,} answers."
        else:
            found = check_backup(path)
            text = f"{path} is whole: {found.files:,} files, {found.n_bytes:,} bytes."
    say(
        as_json, {"path": str(path), "problems": faults, **asdict(found)}, "\n".join(faults) or text
    )
    context.exit(_DAMAGED if faults else 0)


@command
@click.argument("file", required=False, type=PATH)
def drill(folder: Path, file: Path | None, as_json: bool) -> None:
    """Would the last backup of a project open? Restores it into a folder that is then removed.

    FILE is by default the one that `parbals backup` wrote last. Says how many answers are newer
    than it; exit code 2 or 3 where it would not open.

    \b
    Example:
      parbals drill spam
    """
    from parbals_label.project.backup import rehearse

    with progress("restoring"):
        file, found, newer = rehearse(folder, file)
    record = {"file": str(file), "newer_answers": newer, **asdict(found)}
    text = f"{file} opens: {found.items:,} items, {found.answers:,} answers; {newer:,} are newer."
    say(as_json, record, text)


COMMANDS = (backup, restore, check, drill)
