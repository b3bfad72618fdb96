"""The command `parbals demo`: three strategies on real text messages."""

from pathlib import Path

import click
from parbals.cli.base import Command
from parbals.cli.output import progress

__all__ = ["demo"]


@click.command(cls=Command)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("parbals-demo"),
    show_default=True,
    metavar="DIR",
    help="Write the report and its pictures into this folder.",
)
@click.option(
    "--seeds",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Repeat the experiment with N seeds.",
)
def demo(out: Path, seeds: int) -> None:
    """Compare Random, EPIG and ParBaLS on text messages.

    Runs on data that ships with the package, about a minute on two cores, and writes a page,
    report.html: which items were chosen, why they complement each other, and how accuracy grew.

    \b
    Examples:
      parbals demo
      parbals demo --seeds 10 --out results
    """
    with progress("starting") as show:
        from parbals_bench.demo import report, story

        result = story.make_demo(out, seeds, show)
    for title, sentences in (
        ("The first batch", report.worth_sentences(result)),
        ("The learning curves", report.curve_sentences(result)),
    ):
        click.echo("\n".join(["", click.style(title, bold=True), *sentences]))
    for note in result.notes:
        click.echo(f"The model warned: {note}")
    click.echo(f"\nThe report: {out / 'report.html'}")
