"""`parbals bench`: run, status, report. Only `run` loads the model; the others read what was stored."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parbals.bench.runs import Run, split_reference
from parbals.errors import InputError

if TYPE_CHECKING:
    from parbals.bench.executors import Executor, Progress

__all__ = ["bench", "load_data"]

_RESULTS = click.argument("results", type=click.Path(path_type=Path), default=Path("bench-results"))
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts instead of text.")
_INCOMPLETE = 1


def _listed(context: Any, parameter: Any, value: str | None) -> tuple[str, ...]:
    return () if value is None else tuple(part.strip() for part in value.split(",") if part.strip())


@click.group()
def bench() -> None:
    """The paper's experiment: run it, look how far it is, read the results.

    \b
    Examples:
      parbals bench run --suite quick
      parbals bench run --suite paper --data ~/data --datasets airline,credit-card
      parbals bench status
      parbals bench report
    """


@bench.command("run")
@click.option("--suite", default="quick", show_default=True, metavar="NAME", help="paper, quick or a TOML file.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("bench-results"),
    show_default=True,
    help="Folder for the results.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder that holds airline/, credit_card/, ...; by default where `parbals data fetch` puts them.",
)
@click.option("--datasets", callback=_listed, metavar="A,B,..", help="Only these datasets of the suite.")
@click.option("--budgets", callback=_listed, metavar="A,B,..", help="Only these budgets, for example 100+10x20.")
@click.option("--strategies", callback=_listed, metavar="A,B,..", help="Only these strategies.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="Only the first N seeds.")
@click.option("--workers", type=click.IntRange(1), help="Processes on this machine; by default one per core.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler to run on instead of this machine.")
@_JSON
def run_(
    suite: str,
    out: Path,
    data: Path | None,
    datasets: tuple[str, ...],
    budgets: tuple[str, ...],
    strategies: tuple[str, ...],
    seeds: int | None,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Compute the runs of a suite that are still missing.

    Stop it whenever you like, however roughly, and start it again: finished runs are never computed twice, and the
    results are the same as if it had not been stopped.

    \b
    Examples:
      parbals bench run --suite quick
      parbals bench run --suite paper --data ~/data --datasets airline --seeds 3
      parbals bench run --suite mine.toml --out results --workers 8
      parbals bench run --suite paper --scheduler tcp://10.0.0.1:8786
    """
    from parbals.bench.folder import ResultsFolder
    from parbals.bench.grid import load_suite, run_grid

    if workers and scheduler:
        raise InputError("--workers is for this machine and --scheduler for a cluster; give one of them.")
    chosen = load_suite(suite)
    runs = chosen.only(datasets, budgets, strategies, seeds)
    _check_strategies(runs)
    folder = ResultsFolder(out)
    folder.save_suite(chosen.text)
    damages = folder.damages()
    if damages and not as_json:
        click.echo(f"{len(damages)} damaged line(s) will be computed again, first {damages[0]}", err=True)
    held = {record.key for record in folder.records()}
    n_missing = sum(run.key not in held for run in runs)
    executor = _executor(workers, scheduler) if n_missing else None
    failures = []
    if executor is not None:
        with _bar(quiet=as_json) as show:
            failures = run_grid(runs, folder, partial(load_data, folder=data), executor, show)
    reasons = list(dict.fromkeys(failure.reason for failure in failures))
    done = len(runs) - len(failures)
    if as_json:
        told = {
            "results": str(out),
            "runs": len(runs),
            "computed": n_missing - len(failures),
            "done": done,
            "failed": len(failures),
            "damaged_lines": len(damages),
            "reasons": reasons,
        }
        click.echo(json.dumps(told, indent=2))
    else:
        click.echo(f"{done:,} of {len(runs):,} runs are done, {n_missing - len(failures):,} of them computed now.")
        for reason in reasons:
            click.echo(f"Not done: {reason}", err=True)
        click.echo(f"Next: parbals bench report {out}")
    if failures:
        sys.exit(_INCOMPLETE)


@bench.command()
@_RESULTS
@_JSON
def status(results: Path, as_json: bool) -> None:
    """How many runs of the suite are done, by dataset and budget; also while it runs.

    \b
    Examples:
      parbals bench status
      parbals bench status results --json
    """
    from parbals.bench.executors import Clock
    from parbals.bench.folder import ResultsFolder
    from parbals.bench.grid import read_suite

    folder = ResultsFolder(results)
    suite = read_suite(folder.suite_text(), str(results / "suite.toml"))
    held = folder.seconds()
    damages = folder.damages()
    left = Clock(suite.runs, held, 1).now().seconds_left
    rows: dict[tuple[str, str], list[int]] = {}
    for run in suite.runs:
        counts = rows.setdefault((run.reference, str(run.budget)), [0, 0])
        counts[0] += run.key in held
        counts[1] += 1
    done = sum(counts[0] for counts in rows.values())
    if as_json:
        told = {
            "suite": suite.name,
            "runs": len(suite.runs),
            "done": done,
            "process_seconds_left": None if left is None else round(left, 1),
            "damaged_lines": len(damages),
            "settings": [
                {"dataset": name, "budget": budget, "done": counts[0], "runs": counts[1]}
                for (name, budget), counts in rows.items()
            ],
        }
        click.echo(json.dumps(told, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("dataset", "budget", "done", "runs", box=None, header_style="bold")
    for (name, budget), counts in rows.items():
        table.add_row(name, budget, f"{counts[0]:,}", f"{counts[1]:,}")
    Console(highlight=False).print(table)
    estimate = "" if not left else f", about {_duration(left)} of work for one process left"
    click.echo(f"\n{suite.title}: {done:,} of {len(suite.runs):,} runs are done{estimate}.")
    for damage in damages:
        click.echo(f"Damaged, will be computed again: {damage}", err=True)


@bench.command()
@_RESULTS
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the report; by default RESULTS/report.")
@click.option("--no-pictures", is_flag=True, help="Leave out the PNG and SVG files; the page keeps its pictures.")
@_JSON
def report(results: Path, out: Path | None, no_pictures: bool, as_json: bool) -> None:
    """Tables, leaderboard, curves and run times as one page, and as files for a paper.

    Writes report.html, tables.md, tables.tex and curves/ as PNG and SVG. Works while the grid still runs.

    \b
    Examples:
      parbals bench report
      parbals bench report results --out paper/figures
    """
    from parbals.bench.folder import ResultsFolder
    from parbals.bench.report import write_report

    target = out or results / "report"
    written = write_report(ResultsFolder(results), target, pictures=not no_pictures)
    if as_json:
        click.echo(json.dumps({"report": str(target / "report.html"), "files": [str(p) for p in written]}, indent=2))
    else:
        click.echo(f"{len(written)} files.\nThe report: {target / 'report.html'}")


def load_data(reference: str, folder: Path | None = None) -> Any:
    """The dataset behind a suite's name for it, from its place in the folder; the small ones need none.

    "airline"; "ag-news" (the first class against the others), "ag-news:Sports", or "ag-news:*" for all classes.
    """
    from parbals.bench.small import SMALL_SETS, load_small

    name, positive = split_reference(reference)
    if name in SMALL_SETS:
        return load_small(reference)
    from parbals.datasets.base import one_vs_all
    from parbals.datasets.table import load_dataset

    data = load_dataset(name, None if folder is None else folder / name.replace("-", "_"))
    if positive == "*" or (positive is None and len(data.classes) == 2):
        return data
    return one_vs_all(data, 0 if positive is None else positive)


def _check_strategies(runs: Sequence[Run]) -> None:
    from parbals.strategies.table import strategy_named

    if not runs:
        raise InputError("Nothing in the suite matches; loosen --datasets, --budgets, --strategies or --seeds.")
    for name in dict.fromkeys(run.strategy for run in runs):
        strategy_named(name)


def _executor(workers: int | None, scheduler: str | None) -> "Executor":
    if scheduler is not None:
        from parbals.bench.executors import DaskCluster

        return DaskCluster(scheduler)
    from parbals.bench.processes import LocalProcesses

    return LocalProcesses(workers)


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
    with Bar(*columns, console=Console(stderr=True), disable=quiet) as bar:
        task = bar.add_task("starting", total=None)

        def show(progress: "Progress") -> None:
            parts = []
            if progress.seconds_left is not None and progress.done < progress.total:
                parts.append(f"about {_duration(progress.seconds_left)} left")
            if progress.last is not None:
                parts.append(f"{progress.last.reference} {progress.last.budget} {progress.last.strategy}")
            if progress.failed:
                parts.append(f"{progress.failed} failed")
            bar.update(task, total=progress.total, completed=progress.done, description=" · ".join(parts) or "starting")

        yield show


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
