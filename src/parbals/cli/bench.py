"""`parbals bench` and its `run`, the only one of its commands that loads the model; the others are
in reading.py."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parbals.bench.spec import Run
from parbals.cli.bench_results import READING, duration
from parbals.cli.options import JSON, comma_list
from parbals.errors import InputError

if TYPE_CHECKING:
    from parbals.bench.executors import Executor, Progress

__all__ = ["bench"]

_INCOMPLETE = 1


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


for _command in READING:
    bench.add_command(_command)


@bench.command("run")
@click.option(
    "--suite",
    default="quick",
    show_default=True,
    metavar="NAME",
    help="paper, quick or a TOML file.",
)
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
@click.option(
    "--datasets", callback=comma_list, metavar="A,B,..", help="Only these datasets of the suite."
)
@click.option(
    "--budgets",
    callback=comma_list,
    metavar="A,B,..",
    help="Only these budgets, for example 100+10x20.",
)
@click.option("--strategies", callback=comma_list, metavar="A,B,..", help="Only these strategies.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="Only the first N seeds.")
@click.option(
    "--workers", type=click.IntRange(1), help="Processes on this machine; by default one per core."
)
@click.option(
    "--scheduler", metavar="ADDRESS", help="A Dask scheduler to run on instead of this machine."
)
@click.option(
    "--slurm",
    is_flag=True,
    help="Run in Slurm jobs that are started, replaced and ended as needed.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="How many Slurm jobs; each computes one run at a time.  [4]",
)
@click.option(
    "--slurm-option",
    "slurm_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of sbatch by its long name; or interface, python, local-directory, log-directory.",
)
@JSON
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
    slurm: bool,
    jobs: int | None,
    slurm_options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compute the runs of a suite that are still missing.

    Stop it whenever you like, however roughly, and start it again: finished runs are never computed
    twice, and the results are the same as if it had not been stopped.

    \b
    Examples:
      parbals bench run --suite quick
      parbals bench run --suite paper --data ~/data --datasets airline --seeds 3
      parbals bench run --suite mine.toml --out results --workers 8
      parbals bench run --suite paper --scheduler tcp://10.0.0.1:8786
      parbals bench run --suite paper --data ~/data --slurm --jobs 20 --slurm-option partition=long
    """
    from parbals.bench.folder import ResultsFolder
    from parbals.bench.grid import load_suite, run_grid
    from parbals.bench.loading import load_data, resolved_tables

    _check_place(workers, scheduler, slurm, jobs, slurm_options)
    chosen = load_suite(suite)
    runs = chosen.only(datasets, budgets, strategies, seeds)
    _check_strategies(runs)
    tables = resolved_tables(chosen.data, Path(suite).parent)
    folder = ResultsFolder(out)
    folder.save_suite(chosen.text)
    damages = folder.damages()
    if damages and not as_json:
        click.echo(
            f"{len(damages)} damaged line(s) will be computed again, first {damages[0]}", err=True
        )
    held = {record.key for record in folder.records()}
    n_missing = sum(run.key not in held for run in runs)
    n_others = len(held - {run.key for run in chosen.runs})
    if n_others and not as_json:
        click.echo(
            f"{n_others:,} results in {out} belong to no run of this suite, and reports leave them "
            "out; use another --out to keep suites apart.",
            err=True,
        )
    executor = _executor(workers, scheduler, slurm, jobs, slurm_options, out) if n_missing else None
    failures = []
    if executor is not None:
        with _bar(quiet=as_json) as show:
            loader = partial(load_data, folder=data and data.absolute(), tables=tables)
            failures = run_grid(runs, folder, loader, executor, show)
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
            "of_other_suites": n_others,
            "reasons": reasons,
        }
        click.echo(json.dumps(told, indent=2))
    else:
        click.echo(
            f"{done:,} of {len(runs):,} runs are done, {n_missing - len(failures):,} of them "
            "computed now."
        )
        for reason in reasons:
            click.echo(f"Not done: {reason}", err=True)
        if done:
            click.echo(f"Next: parbals bench report {out}")
    if failures:
        sys.exit(_INCOMPLETE)


def _check_strategies(runs: Sequence[Run]) -> None:
    from parbals.strategies.table import strategy_named

    if not runs:
        raise InputError(
            "Nothing in the suite matches; loosen --datasets, --budgets, --strategies or --seeds."
        )
    for name in dict.fromkeys(run.strategy for run in runs):
        strategy_named(name)


def _check_place(
    workers: int | None,
    scheduler: str | None,
    slurm: bool,
    jobs: int | None,
    options: Sequence[str],
) -> None:
    if bool(workers) + bool(scheduler) + slurm > 1:
        raise InputError(
            "--workers is for this machine, --scheduler for a Dask cluster and --slurm for jobs; "
            "give one of them."
        )
    if (jobs or options) and not slurm:
        raise InputError("--jobs and --slurm-option describe Slurm jobs; add --slurm.")
    if slurm:
        from parbals.bench.dask_cluster import read_slurm_options

        read_slurm_options(options)


def _executor(
    workers: int | None,
    scheduler: str | None,
    slurm: bool,
    jobs: int | None,
    options: Sequence[str],
    out: Path,
) -> "Executor":
    if slurm or scheduler is not None:
        from parbals.bench.dask_cluster import DaskCluster, SlurmJobs, read_slurm_options

        return (
            SlurmJobs(jobs or 4, read_slurm_options(options), out)
            if slurm
            else DaskCluster(str(scheduler))
        )
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
                parts.append(f"about {duration(progress.seconds_left)} left")
            if progress.last is not None:
                parts.append(
                    f"{progress.last.reference} {progress.last.budget} {progress.last.strategy}"
                )
            if progress.failed:
                parts.append(f"{progress.failed} failed")
            bar.update(
                task,
                total=progress.total,
                completed=progress.done,
                description=" · ".join(parts) or "starting",
            )

        yield show
