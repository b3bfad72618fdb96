"""Tables that sum up: leaderboard, agreement with the paper, labels saved, run time."""

from collections.abc import Sequence

from parbals.bench.report.collect import Setting
from parbals.bench.report.findings import StageTimes, savings, stage_times
from parbals.bench.report.measures import MEASURES
from parbals.bench.report.names import dataset_name
from parbals.bench.report.paper import Agreement, agreements
from parbals.bench.report.render import TextTable, number
from parbals.bench.report.stats import LabelsSaved
from parbals.bench.report.tables import leaderboards

__all__ = [
    "TIMES_HEAD",
    "agreement_tables",
    "leaderboard_tables",
    "savings_table",
    "times_cells",
    "times_table",
]

TIMES_HEAD = ("one batch", "all batches", "fitting", "predicting", "runs")
_MISSING = "–"


def leaderboard_tables(settings: Sequence[Setting], metric: str = "accuracy") -> list[TextTable]:
    """How often each strategy has the best mean, and how often it is among the top."""
    best = f"{MEASURES[metric].best} mean"
    return [
        TextTable(
            f"Leaderboard, {kind}",
            ("", best, "among the top"),
            tuple(
                (place.name, str(place.n_best), f"{place.n_top} of {place.n_settings}")
                for place in board
            ),
        )
        for kind, board in leaderboards(settings, metric).items()
    ]


def agreement_tables(settings: Sequence[Setting]) -> list[TextTable]:
    """For every dataset of which we ran anything: all the paper's figures beside ours."""
    found: dict[str, list[Agreement]] = {}
    for row in agreements(settings):
        found.setdefault(row.dataset, []).append(row)
    head = ("", "ours", "paper", "difference", "allowed", "agrees", "Welch p")
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
        return row.line.name, _MISSING, paper, _MISSING, _MISSING, "not run", _MISSING
    agrees = "yes" if row.agrees else "no"
    p = _MISSING if row.p is None else "< 0.001" if row.p < 0.001 else f"{row.p:.3f}"
    return (
        row.line.name,
        number(row.ours, 2),
        paper,
        f"{row.difference:+.2f}",
        f"{row.room:.2f}",
        agrees,
        p,
    )


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
            rows.append((line.name, *(_saved(cell) for cell in cells)))
        head = ("", *(column.name for column in columns))
        tables.append(
            TextTable(f"Labels saved against Random, budget {budget.spelt}", head, tuple(rows))
        )
    return tables


def _saved(found: LabelsSaved | None) -> str:
    if found is None:
        return _MISSING
    return f"{found.saved:+.0f} of {found.reference:.0f}" if found.reached else "not reached"


def times_table(settings: Sequence[Setting]) -> list[TextTable]:
    """Seconds by stage, the quickest strategy first; a table for each device."""
    return [
        TextTable(
            f"Run time on {device}",
            ("", *TIMES_HEAD),
            tuple((t.line.name, *times_cells(t)) for t in found),
        )
        for device, found in stage_times(settings).items()
    ]


def times_cells(times: StageTimes) -> tuple[str, ...]:
    stages = (times.select_once, times.select, times.fit, times.predict)
    return (*(_seconds(stage) for stage in stages), f"{times.n_runs:,}")


def _seconds(value: float) -> str:
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"
