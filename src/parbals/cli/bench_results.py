"""What reads results and loads no model: status, report, pack and unpack."""

import json
from pathlib import Path

import click

from parbals.cli.options import JSON
from parbals.errors import InputError

__all__ = ["READING", "duration"]

_RESULTS = click.argument("results", type=click.Path(path_type=Path), default=Path("bench-results"))


@click.command()
@_RESULTS
@JSON
def status(results: Path, as_json: bool) -> None:
    """How many runs of the suite are done, by dataset and budget; also while it runs.

    \b
    Examples:
      parbals bench status
      parbals bench status results --json
    """
    from parbals.bench.executors import Clock
    from parbals.bench.grid import read_suite
    from parbals.bench.packed import open_results

    folder = open_results(results)
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
    estimate = "" if not left else f", about {duration(left)} of work for one process left"
    click.echo(f"\n{suite.title}: {done:,} of {len(suite.runs):,} runs are done{estimate}.")
    for damage in damages:
        click.echo(f"Damaged, will be computed again: {damage}", err=True)


@click.command()
@_RESULTS
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the report; by default RESULTS/report.",
)
@click.option(
    "--metric",
    default="accuracy",
    show_default=True,
    metavar="NAME",
    help="accuracy, log_loss, calibration_error, f1 or balanced_accuracy.",
)
@click.option(
    "--no-pictures",
    is_flag=True,
    help="Leave out the PNG and SVG files; the page keeps its pictures.",
)
@JSON
def report(results: Path, out: Path | None, metric: str, no_pictures: bool, as_json: bool) -> None:
    """Tables, leaderboard, curves and run times as one page, and as files for a paper.

    Writes report.html, tables.md, tables.tex and curves/ as PNG and SVG. Works while the grid still
    runs. Tables of all metrics are always there; --metric decides which one the pictures and the
    findings are about.

    \b
    Examples:
      parbals bench report
      parbals bench report results --out paper/figures --metric log_loss
    """
    from parbals.bench.packed import SUFFIX, open_results
    from parbals.bench.report.page import read_results, write_report

    beside = results.with_name(f"{results.name.removesuffix(SUFFIX)}-report")
    target = out or (beside if results.is_file() else results / "report")
    written = write_report(
        read_results(open_results(results), metric), target, pictures=not no_pictures
    )
    if as_json:
        click.echo(
            json.dumps(
                {"report": str(target / "report.html"), "files": [str(p) for p in written]},
                indent=2,
            )
        )
    else:
        click.echo(f"{len(written)} files.\nThe report: {target / 'report.html'}")


@click.command()
@_RESULTS
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    help="The file; by default RESULTS.parbals.xz.",
)
@JSON
def pack(results: Path, target: Path | None, as_json: bool) -> None:
    """All results as one small file, to commit or to send; `status` and `report` read it like a
    folder.

    Nothing is lost: `unpack` gives back the same files. The format is described in
    parbals.bench.packed.

    \b
    Examples:
      parbals bench pack bench-results
      parbals bench pack results --to docs/results.parbals.xz
      parbals bench report docs/results.parbals.xz --out report
    """
    from parbals.bench import packed
    from parbals.bench.folder import ResultsFolder

    folder = ResultsFolder(results)
    if damages := folder.damages():
        raise InputError(
            f"{results} has a damaged line ({damages[0]}); `parbals bench run` heals it, then pack "
            "again."
        )
    file = target or results.parent / f"{results.resolve().name}{packed.SUFFIX}"
    n_runs, size = packed.pack(folder, file), file.stat().st_size
    if as_json:
        click.echo(json.dumps({"file": str(file), "runs": n_runs, "bytes": size}, indent=2))
    else:
        click.echo(f"{n_runs:,} runs in {file}, {size / 1000:,.0f} kB.")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("bench-results"), show_default=True
)
@JSON
def unpack(file: Path, out: Path, as_json: bool) -> None:
    """The folder that was packed into a file, for example to go on with its grid.

    \b
    Examples:
      parbals bench unpack results.parbals.xz parbals bench unpack results.parbals.xz --out results
      && parbals bench run --suite paper --out results
    """
    from parbals.bench import packed
    from parbals.bench.folder import ResultsFolder

    n_runs = packed.unpack(file, ResultsFolder(out))
    if as_json:
        click.echo(json.dumps({"folder": str(out), "runs": n_runs}, indent=2))
    else:
        click.echo(f"{n_runs:,} runs in {out}.")


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


READING = (status, report, pack, unpack)
