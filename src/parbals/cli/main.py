"""The command line. Heavy imports wait inside the commands, so that --help answers at once."""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import click

from parbals import __version__
from parbals.cli.bench import bench
from parbals.cli.data import data
from parbals.cli.doctor import doctor
from parbals.cli.label import label
from parbals.cli.project import COMMANDS
from parbals.cli.serve import serve
from parbals.cli.strategies import strategies
from parbals.errors import ParbalsError, ProjectDamagedError, ProjectError

__all__ = ["main", "program"]

_REFUSED = 2
_NO_PROJECT = 3
_INTERRUPTED = 130  # what a shell reports for a program ended by Ctrl-C


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="parbals", message="%(prog)s %(version)s")
def parbals() -> None:
    """Choose the batch of items whose labels will improve a model most.

    \b
    Example:
      parbals demo        see it work on real text messages
      parbals strategies  what batches can be chosen by
      parbals init spam messages.csv --text message --classes ham,spam
      parbals serve spam  label in the browser
    """


@parbals.command()
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
@click.option(
    "--rounds", default=4, show_default=True, type=click.IntRange(1), help="Batches per run."
)
@click.option(
    "--batch-size",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    help="Messages per batch.",
)
def demo(out: Path, seeds: int, rounds: int, batch_size: int) -> None:
    """Random, top-B EPIG and ParBaLS side by side on real text messages.

    Runs on data that ships with the package and writes one page, report.html, that explains what
    was chosen, why the batch is not redundant, and how accuracy grew. About a minute on two cores.

    \b
    Examples:
      parbals demo
      parbals demo --seeds 10 --out results
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(highlight=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starting", total=None)
        from parbals.demo.names import name_of
        from parbals.demo.run import Settings
        from parbals.demo.story import make_demo
        from parbals.demo.summary import curve_sentences, worth_sentences

        settings = Settings(n_seeds=seeds, n_rounds=rounds, batch_size=batch_size)
        progress.update(task, total=settings.n_batches)
        result = make_demo(
            out,
            settings,
            on_batch=lambda strategy: progress.update(
                task, advance=1, description=f"batches by {name_of(strategy)}"
            ),
            on_stage=lambda stage: progress.update(task, description=stage),
        )
    console.print("\n[bold]The first batch[/]")
    console.print(*worth_sentences(result.first), sep="\n")
    console.print("\n[bold]The learning curves[/]")
    console.print(*curve_sentences(result), sep="\n")
    for note in result.notes:
        console.print(f"[yellow]The model warned:[/] {note}", markup=True)
    click.echo(f"\nThe report: {out / 'report.html'}")


for _command in (*COMMANDS, serve, label, data, bench, doctor, strategies):
    parbals.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Exit codes: 0 done, 2 refused, 3 no usable project there, 130 Ctrl-C.

    Our own errors are one sentence on the error stream.
    """
    try:
        code = parbals.main(arguments, prog_name="parbals", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (ProjectError, ProjectDamagedError) as error:
        click.echo(f"parbals: {error}", err=True)
        code = _NO_PROJECT
    except ParbalsError as error:
        click.echo(f"parbals: {error}", err=True)
        code = _REFUSED
    except (KeyboardInterrupt, click.Abort):
        click.echo("parbals: interrupted; nothing was left half-written.", err=True)
        code = _INTERRUPTED
    sys.exit(code or 0)


def _keep_interrupts(ignored: "sys.UnraisableHookArgs") -> None:
    """Ctrl-C where Python can only ignore it, as in a callback of the garbage collector, is pressed
    once more.

    A moment later and from another thread: the hook itself may still run inside that callback.
    """
    if not isinstance(ignored.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    again = threading.Timer(0.02, _interrupt)
    again.daemon = True
    again.start()


def _interrupt() -> None:
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:  # wakes the main thread even where it waits
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def program() -> None:
    """What the shell starts."""
    sys.unraisablehook = _keep_interrupts
    try:
        main()
    except SystemExit as end:
        if end.code == _INTERRUPTED and "jax" in sys.modules:
            # A tidy exit would take the compiler's threads down with a crash of their own.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(_INTERRUPTED)
        raise
