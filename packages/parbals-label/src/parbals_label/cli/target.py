"""The group `parbals target`: rows like those that the model will be used on."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.base import Group
from parbals.cli.output import print_result, progress
from parbals.wording import counted, percent

from parbals_label.cli.options import (
    ENCODE_WITH,
    NO_REPORT,
    READING,
    SETTINGS,
    command_in,
    open_store,
    option,
    update_report,
)

if TYPE_CHECKING:
    from parbals_label.encoders.base import Options
    from parbals_label.store.store import Store

__all__ = ["target"]


@click.group(cls=Group)
def target() -> None:
    """Set the rows that the model is for.

    Items are then chosen for what their labels say about these rows, and the expected error is
    that on them. The rows need no labels and are shown to nobody.

    \b
    Examples:
      parbals target add flights next-year.csv
      parbals target show flights
    """


@command_in(target, "add")
@click.argument("rows", metavar="FILE|FILTER")
@option("--weights COL", "Weight the rows by this column.  [default: all count the same]")
@option(
    "--share S",
    "Keep the earlier rows, and give the new ones this share of all weight, such as 0.5.  "
    "[default: the earlier rows are removed]",
    click.FLOAT,
)
@option("--id COL", "Name the rows by this column.  [default: id, if there is one]", argument="id_")
@READING
@NO_REPORT
@SETTINGS
@ENCODE_WITH
def add_target_set(
    folder: Path,
    rows: str,
    weights: str | None,
    share: float | None,
    id_: str | None,
    reading: dict[str, Any],
    no_report: bool,
    encode_with: "Options",
    as_json: bool,
) -> None:
    """Add a target set, in place of an earlier one or beside it.

    FILE has the columns of the project's data, in any format that they may have. FILTER selects
    items of the project by their columns. Conditions can be joined by "and". With --share every
    week, the latest rows count most: at 0.5, each week counts half as much as the next.

    \b
    Examples:
      parbals target add flights next-year.csv
      parbals target add flights "age >= 58 and class = Business"
      parbals target add flights next-year.csv --weights passengers
      parbals target add flights week-2.csv --share 0.5
    """
    from parbals_label.project.target import add_target

    with open_store(folder) as store:
        with progress("encoding the target set") as show:
            added = add_target(
                store,
                rows,
                weights=weights,
                share=share,
                id_column=id_,
                reading=reading,
                encode_with=encode_with,
                progress=show,
            )
        text = f"Labels are chosen for {counted(added.n_rows, 'row')} of {added.name} from now on."
        print_result(as_json, asdict(added), "\n".join([text, *added.notes]))
        _update(store, no_report)


@command_in(target)
def show(folder: Path, as_json: bool) -> None:
    """Show the target set.

    \b
    Example:
      parbals target show flights
    """
    with open_store(folder, read_only=True) as store:
        stored = store.settings.target
    if stored is None:
        text = f"The model is for items like the project's; parbals target add {folder} FILE"
        print_result(as_json, {"target": None}, text)
        return
    names = ("name", "n_rows", "n_kept", "weights", "where", "created", "parts")
    record = {name: getattr(stored, name) for name in names}
    stored_part = "" if stored.n_kept == stored.n_rows else f", {stored.n_kept:,} of them stored"
    weights = f", weighted by {stored.weights}" if stored.weights else ""
    text = (
        f"{stored.name}: {counted(stored.n_rows, 'row')}{stored_part}{weights}, added on "
        f"{stored.created[:10]}."
    )
    shares = [f"{name}: {percent(share)} of all weight" for name, share in stored.parts]
    print_result(as_json, {"target": record}, "\n".join([text, *shares]))


@command_in(target)
@NO_REPORT
def remove(folder: Path, no_report: bool, as_json: bool) -> None:
    """Remove the target set.

    The model is then for items like the project's.

    \b
    Example:
      parbals target remove flights
    """
    from parbals_label.project.target import remove_target

    with open_store(folder) as store:
        name = store.settings.target and store.settings.target.name
        remove_target(store)
        print_result(as_json, {"removed": name}, f"{name} is no longer the target set.")
        _update(store, no_report)


def _update(store: "Store", no_report: bool) -> None:
    """Compute the report again: its expected error was on another target set."""
    if store.n_labelled and not no_report:
        update_report(store)
