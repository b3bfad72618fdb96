"""The command that teaches a project's features: adapt."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from parbals.cli.output import JSON, progress, say

from parbals_label.cli.options import ENCODE_WITH, FOLDER, flag, option

if TYPE_CHECKING:
    from parbals_label.encoders.base import Options

__all__ = ["adapt"]


@click.command()
@FOLDER
@option(
    "--encoder hf:FOLDER",
    "A model of transformers to start from; by default the project's own encoder, and "
    "all-MiniLM-L6-v2 where that is words or sentences.",
)
@flag("--force", "Take the adapted encoder even where held-out labels advise not.")
@ENCODE_WITH
@JSON
def adapt(
    folder: Path, encoder: str | None, force: bool, encode_with: "Options", as_json: bool
) -> None:
    """Fine-tune the project's encoder on its labels, and make the features again.

    Of a table, grow trees on the labels: what they say stands beside the columns. Best from about
    100 labels on. It is taken only where it predicts held-out labels better than the features that
    are there. The audit's items teach it nothing. An interrupted run goes on
    where it was. `parbals embed DIR --encoder auto` goes back.

    \b
    Examples:
      parbals adapt spam
      parbals adapt spam --encoder hf:models/mpnet
      parbals adapt birds --encoder hf:models/dinov2-small
    """
    from parbals.wording import percent

    from parbals_label.project.adapting import adapt_project
    from parbals_label.store.store import Store

    with Store.open(folder) as store, progress() as show:
        found = adapt_project(store, show, encoder=encoder, options=encode_with, force=force)
    text = (
        f"Of {found.n_labels:,} labels, each held out once, the adapted features get "
        f"{percent(found.error)} wrong (log loss {found.log_loss:.3f}), the frozen features "
        f"{percent(found.frozen_error)} ({found.frozen_log_loss:.3f}). "
    )
    text += (
        f"The project uses the adapted one now, {folder / found.encoder}; see parbals status "
        f"{folder}."
        if found.used
        else "So the features stay as they were; more labels may change that."
    )
    say(as_json, asdict(found), text)
