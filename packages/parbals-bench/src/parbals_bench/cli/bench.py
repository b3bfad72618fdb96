"""The group `parbals bench`: run the experiment of the paper and report its results."""

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.base import Group
from parbals.cli.output import JSON, print_result, progress, table
from parbals.errors import InputError
from parbals_label.shared_options import comma_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parbals_bench.run.executors import Executor
    from parbals_bench.run.folder import ResultsFiles
    from parbals_bench.run.spec import Run

__all__ = ["bench"]

_INCOMPLETE = 1
"""Exit code where runs failed."""
_PATH: Any = click.Path(path_type=Path)
_RESULTS = click.argument("results", type=_PATH, default="bench-results")


@click.group(cls=Group)
def bench() -> None:
    """Run the experiment of the ParBaLS paper.

    \b
    Examples:
      parbals bench run --suite quick
      parbals bench run --suite paper --data ~/data --datasets airline,credit-card
      parbals bench status
      parbals bench report
    """


def _only(name: str, subject: str) -> Any:
    """An option that restricts the runs of a suite to a list of names."""
    help_text = f"Run only these {subject}."
    return click.option(name, callback=comma_list, metavar="A,B,..", help=help_text)


@bench.command("run")
@click.option(
    "--suite",
    default="quick",
    show_default=True,
    metavar="NAME",
    help="Run this suite: authors, paper, quick or a TOML file.",
)
@click.option(
    "--out",
    type=_PATH,
    default="bench-results",
    show_default=True,
    metavar="DIR",
    help="Write the results into this folder.",
)
@click.option(
    "--data",
    type=_PATH,
    metavar="DIR",
    help="Read datasets from this folder (airline/, credit_card/, ...).  [default: $PARBALS_DATA]",
)
@_only("--datasets", "datasets of the suite")
@_only("--budgets", "budgets, for example 100+10x20")
@_only("--strategies", "strategies")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="Run only the first N seeds.")
@click.option(
    "--shard",
    metavar="I/N",
    help="Run only part I of N, as a job of a job array; all parts may share one folder.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    help="Use N processes on this machine.  [default: one per core]",
)
@click.option(
    "--scheduler", metavar="ADDRESS", help="Run on the cluster of this Dask scheduler instead."
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
    shard: str | None,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Compute the missing runs of a suite.

    It can be stopped and started again at any time: finished runs are not computed twice, and the
    results do not depend on interruptions.

    \b
    Examples:
      parbals bench run --suite quick
      parbals bench run --suite paper --data ~/data --datasets airline --seeds 3
      parbals bench run --suite mine.toml --out results --workers 8
      parbals bench run --suite paper --scheduler tcp://10.0.0.1:8786
      parbals bench run --suite paper --shard $SLURM_ARRAY_TASK_ID/20 --workers 4
    """
    from parbals_bench.run.folder import ResultsFolder
    from parbals_bench.run.grid import load_suite, run_grid
    from parbals_bench.run.loading import load_data, resolved_tables
    from parbals_bench.run.spec import Shard

    job = None if shard is None else Shard.parse(shard)
    if workers and scheduler:
        raise InputError(
            "--workers is for this machine and --scheduler for a Dask cluster; give one of them."
        )
    whole_suite = load_suite(suite)
    runs = whole_suite.only(datasets, budgets, strategies, seeds)
    _check_runs(runs)
    if job is not None:
        runs = job.of(runs)
    tables = resolved_tables(whole_suite.data, Path(suite).parent)
    folder = ResultsFolder(out, job)
    folder.save_suite(whole_suite.text)
    records, damages = folder.read()
    finished = {record.key for record in records}
    n_missing = sum(run.key not in finished for run in runs)
    n_others = len(finished - {run.key for run in whole_suite.runs})
    if not as_json:
        _warn(damages, n_others, out)
    failures = []
    if n_missing:
        loader = partial(load_data, folder=data and data.absolute(), tables=tables)
        with progress("runs", quiet=as_json) as show:
            failures = run_grid(runs, folder, loader, _executor(workers, scheduler), show)
    reasons = list(dict.fromkeys(failure.error for failure in failures))
    n_done = len(runs) - len(failures)
    n_computed = n_missing - len(failures)
    record = {
        "results": str(out),
        "runs": len(runs),
        "computed": n_computed,
        "done": n_done,
        "failed": len(failures),
        "damaged_lines": len(damages),
        "of_other_suites": n_others,
        "reasons": reasons,
    }
    text = f"{n_done:,} of {len(runs):,} runs are done, {n_computed:,} of them computed now."
    if n_done:
        text += f"\nNext: parbals bench report {out}"
    print_result(as_json, record, text)
    for reason in () if as_json else reasons:
        click.echo(f"Not done: {reason}", err=True)
    if failures:
        sys.exit(_INCOMPLETE)


def _check_runs(runs: "Sequence[Run]") -> None:
    """Refuse an empty selection, unknown strategies, models and metrics, before any computation."""
    from parbals.strategies.table import strategy_named

    if not runs:
        raise InputError(
            "Nothing in the suite matches; loosen --datasets, --budgets, --strategies or --seeds."
        )
    for name in dict.fromkeys(run.strategy for run in runs):
        strategy_named(name)
    models = {run.settings.model for run in runs} - {""}
    if models:
        from parbals_bench.run.own_models import load_model

        for model in sorted(models):
            load_model(model)
    metrics = {run.settings.metric for run in runs} - {""}
    if metrics:
        from parbals_bench.run.metrics import load_metric

        for metric in sorted(metrics):
            load_metric(metric)


def _warn(damages: "Sequence[object]", n_others: int, out: Path) -> None:
    """Warn of damaged results, and of results that belong to another suite."""
    if damages:
        click.echo(
            f"{len(damages)} damaged line(s) will be computed again, first {damages[0]}", err=True
        )
    if n_others:
        click.echo(
            f"{n_others:,} results in {out} belong to no run of this suite, and reports leave them "
            "out; use another --out to keep suites apart.",
            err=True,
        )


def _executor(workers: int | None, scheduler: str | None) -> "Executor":
    if scheduler is not None:
        from parbals_bench.run.executors import DaskCluster

        return DaskCluster(scheduler)
    from parbals_bench.run.processes import LocalProcesses

    return LocalProcesses(workers)


@bench.command()
@_RESULTS
@JSON
def status(results: Path, as_json: bool) -> None:
    """Show how many runs are done, by dataset and budget.

    Works while the suite runs.

    \b
    Examples:
      parbals bench status
      parbals bench status results --json
    """
    from parbals_bench.run.folder import ResultsFiles
    from parbals_bench.run.grid import read_suite

    stored = ResultsFiles(results)
    suite = read_suite(stored.suite_text(), str(results / "suite.toml"))
    records, damages = stored.read()
    finished = {record.key for record in records}
    rows: dict[tuple[str, str], list[int]] = {}
    for run in suite.runs:
        counts = rows.setdefault((run.reference, str(run.budget)), [0, 0])
        counts[0] += run.key in finished
        counts[1] += 1
    n_done = sum(counts[0] for counts in rows.values())
    record = {
        "suite": suite.name,
        "runs": len(suite.runs),
        "done": n_done,
        "damaged_lines": len(damages),
        "settings": [
            {"dataset": name, "budget": budget, "done": counts[0], "runs": counts[1]}
            for (name, budget), counts in rows.items()
        ],
    }
    lines: list[tuple[str, ...]] = [("dataset", "budget", "done", "runs")]
    lines += [(*names, *(f"{count:,}" for count in counts)) for names, counts in rows.items()]
    text = f"{table(lines)}\n\n{suite.title}: {n_done:,} of {len(suite.runs):,} runs are done."
    print_result(as_json, record, text)
    for damage in () if as_json else damages:
        click.echo(f"Damaged, will be computed again: {damage}", err=True)


@bench.command()
@_RESULTS
@click.option(
    "--out",
    type=_PATH,
    metavar="DIR",
    help="Write the report into this folder.  [default: RESULTS/report]",
)
@click.option(
    "--metric",
    default="accuracy",
    show_default=True,
    metavar="NAME",
    help="Draw curves of this metric: accuracy, log_loss, calibration_error, f1, "
    "balanced_accuracy, or own, the suite's.",
)
@click.option(
    "--paper", is_flag=True, help="Print every figure beside the paper's and write no files."
)
@JSON
def report(results: Path, out: Path | None, metric: str, paper: bool, as_json: bool) -> None:
    """Write tables and curves as a page and as files.

    Writes report.html, tables.tex and curves/ as PNG and SVG, with tables of all metrics. Works
    while the suite runs. RESULTS is a folder, or a tar archive of it.

    \b
    Examples:
      parbals bench report
      tar -cJf results.tar.xz -C bench-results suite.toml runs
      parbals bench report results.tar.xz --out report
      parbals bench report results --out paper/figures --metric log_loss
      parbals bench report results --paper
    """
    from parbals_bench.report.page import read_results, write_report
    from parbals_bench.run.folder import ResultsFiles

    stored = ResultsFiles(results)
    if paper:
        _print_beside_paper(stored, as_json)
        return
    packed = results.with_name(f"{stored.name}-report")
    folder = out or (packed if results.is_file() else results / "report")
    paths = write_report(read_results(stored, metric), folder)
    page = folder / "report.html"
    record = {"report": str(page), "files": [str(path) for path in paths]}
    print_result(as_json, record, f"{len(paths)} files.\nThe report: {page}")


def _print_beside_paper(stored: "ResultsFiles", as_json: bool) -> None:
    """Counts of agreement, signs of differences and every cell, as tables or as records."""
    from parbals_bench.report.beside import beside_paper
    from parbals_bench.report.page import read_results
    from parbals_bench.report.tables import to_rows

    rows = read_results(stored).agreements
    if not rows:
        raise InputError(
            f"{stored.path} has no run with data, budget and strategy of a table of the paper."
        )
    cells = [
        {
            "table": row.cell.table,
            "data": row.cell.reference,
            "budget": str(row.cell.budget),
            "strategy": row.cell.strategy,
            "n_universes": row.cell.n_universes,
            "paper": asdict(row.cell.interval),
            "ours": row.ours and asdict(row.ours),
            "overlap": row.agrees,
            "welch_p": row.p,
        }
        for row in rows
    ]
    texts = [
        f"{paper_table.title}\n{table(to_rows(paper_table))}" for paper_table in beside_paper(rows)
    ]
    print_result(as_json, {"cells": cells}, "\n\n".join(texts))
