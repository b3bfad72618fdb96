"""Tables that sum up: leaderboard, agreement with the paper, labels saved, run time."""

from collections.abc import Sequence

from parbals.bench.collect import Setting
from parbals.bench.findings import savings, stage_times
from parbals.bench.measures import MEASURES
from parbals.bench.names import dataset_name
from parbals.bench.paper import Agreement, agreements
from parbals.bench.render import TextTable, number
from parbals.bench.tables import leaderboards

__all__ = ["agreement_tables", "leaderboard_tables", "savings_table", "seconds", "times_table"]

_MISSING = "–"


def leaderboard_tables(settings: Sequence[Setting], metric: str = "accuracy") -> list[TextTable]:
    """How often each strategy has the best mean, and how often it is among the top."""
    best = f"{MEASURES[metric].best} mean"
    return [
        TextTable(
            f"Leaderboard, {kind}",
            ("", best, "among the top"),
            tuple((place.name, str(place.n_best), f"{place.n_top} of {place.n_settings}") for place in board),
        )
        for kind, board in leaderboards(settings, metric).items()
    ]


def agreement_tables(settings: Sequence[Setting]) -> list[TextTable]:
    """For every dataset of which we ran anything: all the paper's figures beside ours."""
    found: dict[str, list[Agreement]] = {}
    for row in agreements(settings):
        found.setdefault(row.dataset, []).append(row)
    head = ("", "ours", "paper", "difference", "allowed", "agrees")
    return [
        TextTable(
            f"{dataset_name(dataset)}, budget {rows[0].budget.spelt}: final test accuracy, %",
            head,
            tuple(_beside(row) for row in rows),
        )
        for dataset, rows in found.items()
        if any(row.ours is not None for row in rows)
    ]


def _beside(row: Agreement) -> tuple[str, ...]:
    paper = f"{row.paper[0]:.2f} ± {row.paper[1]:.2f}"
    if row.ours is None:
        return row.line.name, _MISSING, paper, _MISSING, _MISSING, "not run"
    agrees = "yes" if row.agrees else "no"
    return row.line.name, number(row.ours, 2), paper, f"{row.difference:+.2f}", f"{row.room:.2f}", agrees


def savings_table(settings: Sequence[Setting], metric: str = "accuracy") -> list[TextTable]:
    """Labels fewer than Random at equal quality: one table per budget, strategies by datasets."""
    found = savings(settings, metric)
    tables = []
    for budget in dict.fromkeys(saving.setting.budget for saving in found):
        here = [saving for saving in found if saving.setting.budget == budget]
        columns = list({id(saving.setting): saving.setting for saving in here}.values())
        at = {(saving.line, id(saving.setting)): saving.found for saving in here}
        rows = []
        for line in dict.fromkeys(saving.line for saving in here):
            cells = [at.get((line, id(column))) for column in columns]
            rows.append((line.name, *(f"{c.saved:+.0f} of {c.reference:.0f}" if c else _MISSING for c in cells)))
        head = ("", *(column.name for column in columns))
        tables.append(TextTable(f"Labels saved against Random, budget {budget.spelt}", head, tuple(rows)))
    return tables


def times_table(settings: Sequence[Setting]) -> list[TextTable]:
    """Mean seconds of a run, by stage, the quickest strategy first."""
    rows = tuple(
        (
            times.line.name,
            seconds(times.select_once),
            seconds(times.select),
            seconds(times.fit),
            seconds(times.predict),
            f"{times.n_runs:,}",
        )
        for times in stage_times(settings)
    )
    return [TextTable("Run time", ("", "one batch", "all batches", "fitting", "predicting", "runs"), rows)]


def seconds(value: float) -> str:
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"
