"""The group `parbals queue`: items that are assigned to annotators."""

from pathlib import Path

import click
from parbals.cli.base import Group
from parbals.cli.output import print_result
from parbals.wording import counted

from parbals_label.cli.options import command_in, open_store, option

__all__ = ["queue"]


@click.group(cls=Group)
def queue() -> None:
    """Release items that are assigned to annotators.

    \b
    Example:
      parbals queue release spam
    """


@command_in(queue)
@option("--annotator NAME", "Release only the items of this person or program.")
def release(folder: Path, annotator: str | None, as_json: bool) -> None:
    """Release assigned items, so that others can label them.

    Items of the page return to its queue; items in a batch file may be chosen again. An answer
    that still comes is stored. Works while the page is open.

    \b
    Examples:
      parbals queue release spam
      parbals queue release spam --annotator ann
    """
    from parbals_label.store.records import RELEASED

    with open_store(folder) as store, store.transaction():
        count = store.release_all(annotator)
        store.log(RELEASED, name=annotator, count=count)
    owner = f" of {annotator}" if annotator else ""
    verb = "is" if count == 1 else "are"
    print_result(
        as_json, {"released": count}, f"{counted(count, 'item')}{owner} {verb} free again."
    )
