"""`parbals demo`: the whole story on real text messages."""

from pathlib import Path

import click
from parbals.cli.output import progress

__all__ = ["demo"]


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("parbals-demo"),
    show_default=True,
    help="Folder for the report and the pictures.",
)
@click.option(
    "--seeds",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="How often to repeat it all.",
)
def demo(out: Path, seeds: int) -> None:
    """Random, EPIG and ParBaLS side by side on real text messages.

    Runs on data that ships with the package and writes one page, report.html, that explains what
    was chosen, why the batch is not redundant, and how accuracy grew. About a minute on two cores.

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
