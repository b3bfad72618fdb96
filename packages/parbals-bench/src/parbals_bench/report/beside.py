"""Our figures beside the paper's: counts of agreement, signs of differences, every cell."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from parbals_bench.datasets.table import dataset_title
from parbals_bench.report.paper import KINDS, Agreement
from parbals_bench.report.stats import SIGNIFICANCE_LEVEL
from parbals_bench.report.tables import MISSING, Table, number, text_table
from parbals_bench.report.tasks import OURS, Line, task_title
from parbals_bench.run.spec import split_reference

__all__ = ["Contrast", "beside_paper", "cell_tables", "contrasts", "count_table", "sign_table"]

_RIVALS = (Line("confidence"), Line("epig"))
_CELL_COLUMNS = ("ours", "paper", "difference", "allowed", "intervals overlap", "Welch p")


@dataclass(frozen=True)
class Contrast:
    """ParBaLS EPIG less another strategy on one task, in points: the paper's and ours."""

    subject: str
    rival: Line
    paper: float
    ours: float

    @property
    def same_sign(self) -> bool:
        return (self.paper > 0) == (self.ours > 0)


def beside_paper(rows: Sequence[Agreement]) -> list[Table]:
    """Counts, signs, then every cell; nothing where we ran nothing that the paper has."""
    return [count_table(rows), sign_table(rows), *cell_tables(rows)] if rows else []


def count_table(rows: Sequence[Agreement]) -> Table:
    """For every dataset and kind of table: how many figures agree by either rule."""
    groups: dict[str, list[Agreement]] = {}
    for row in rows:
        if row.ours is not None:
            groups.setdefault(_subject(row), []).append(row)
            groups.setdefault("all", []).append(row)
    groups["all"] = groups.pop("all")  # at the end
    counts = {subject: _counts(group) for subject, group in groups.items()}
    columns = ("figures", "intervals overlap", "Welch p ≥ 0.05")
    return text_table("Figures that agree with the paper's", columns, counts)


def sign_table(rows: Sequence[Agreement]) -> Table:
    """Mean differences of ParBaLS EPIG by dataset and budget, and how many signs are the same."""
    groups: dict[tuple[str, Line], list[Contrast]] = {}
    for contrast in contrasts(rows):
        groups.setdefault((contrast.subject, contrast.rival), []).append(contrast)
    texts = {}
    for (subject, rival), group in groups.items():
        paper = sum(contrast.paper for contrast in group) / len(group)
        ours = sum(contrast.ours for contrast in group) / len(group)
        n_same = sum(contrast.same_sign for contrast in group)
        name = f"{subject}: less {rival.title}"
        texts[name] = (f"{paper:+.2f}", f"{ours:+.2f}", f"{n_same} of {len(group)}")
    columns = ("paper, points", "ours, points", "same sign")
    return text_table("ParBaLS EPIG less another strategy", columns, texts)


def contrasts(rows: Sequence[Agreement]) -> list[Contrast]:
    """ParBaLS EPIG less Confidence and less EPIG, for every task that has both."""
    differences = []
    for _, group in _by_task(rows):
        of_line = {row.cell.line: row for row in group if row.ours is not None}
        for rival in _RIVALS:
            if OURS in of_line and rival in of_line:
                differences.append(_contrast(of_line[OURS], of_line[rival]))
    return differences


def cell_tables(rows: Sequence[Agreement]) -> list[Table]:
    """For every dataset, class and budget of which we ran anything: all the paper's figures."""
    tables = []
    for _, group in _by_task(rows):
        cell = group[0].cell
        title = ", ".join(
            text
            for text in (
                task_title(*split_reference(cell.reference)),
                KINDS[cell.kind],
                f"budget {cell.budget.spelt}: final test accuracy, %",
            )
            if text
        )
        texts = {row.cell.line.title: _cell(row) for row in group}
        tables.append(text_table(title, _CELL_COLUMNS, texts))
    return tables


def _by_task(rows: Sequence[Agreement]) -> Iterable[tuple[object, list[Agreement]]]:
    def key(row: Agreement) -> tuple[int, str, str, str]:
        cell = row.cell
        dataset, _ = split_reference(cell.reference)
        return list(KINDS).index(cell.kind), dataset, str(cell.budget), cell.reference

    for name, group in groupby(sorted(rows, key=key), key):
        yield name, list(group)


def _subject(row: Agreement) -> str:
    title = dataset_title(split_reference(row.cell.reference)[0])
    kind = KINDS[row.cell.kind]
    return f"{title}, {kind}" if kind else title


def _counts(rows: Sequence[Agreement]) -> tuple[str, ...]:
    ps = [row.p for row in rows if row.p is not None]
    n_alike = sum(p >= SIGNIFICANCE_LEVEL for p in ps)
    n_overlapping = sum(bool(row.agrees) for row in rows)
    return str(len(rows)), str(n_overlapping), f"{n_alike} of {len(ps)}" if ps else MISSING


def _contrast(ours: Agreement, rival: Agreement) -> Contrast:
    assert ours.ours is not None
    assert rival.ours is not None
    return Contrast(
        subject=f"{_subject(ours)}, {ours.cell.budget.spelt}",
        rival=rival.cell.line,
        paper=ours.cell.interval.mean - rival.cell.interval.mean,
        ours=ours.ours.mean - rival.ours.mean,
    )


def _cell(row: Agreement) -> tuple[str, ...]:
    paper = number(row.cell.interval)
    if row.ours is None:
        return MISSING, paper, MISSING, MISSING, "not run", MISSING
    agrees = "yes" if row.agrees else "no"
    return number(row.ours), paper, f"{row.difference:+.2f}", f"{row.room:.2f}", agrees, _p(row.p)


def _p(p: float | None) -> str:
    if p is None:
        return MISSING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
