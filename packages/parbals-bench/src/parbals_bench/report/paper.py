"""Every cell of the paper's tables, and those of them that our records can be set beside."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import isnan

from parbals_bench.report.stats import Interval, mean_interval, welch
from parbals_bench.report.tasks import Line, Task
from parbals_bench.run.spec import PAPER, Budget, split_reference

__all__ = ["KINDS", "Agreement", "PaperCell", "agreements", "paper_cells", "paper_figures"]

KINDS = {
    "main": "",
    "one-vs-all": "one class against the others",
    "universes": "number of universes",
}
"""The paper's kinds of table and what is said of them; the main tables need no word."""
_ROUNDING = 1e-9
"""Figures with two decimals that lie exactly on the edge agree, whatever binary makes of them."""


@dataclass(frozen=True)
class PaperCell:
    """One printed cell: a mean final accuracy in % and the half-width of its 95 % interval.

    ``reference`` names the data as suites do ("cifar10", "cifar10:bird"). ``is_best`` is printed as
    the highest mean of its column, ``is_top`` as not told from it by Welch's test.
    """

    table: str
    kind: str
    budget: Budget
    reference: str
    strategy: str
    n_universes: int
    interval: Interval
    is_best: bool
    is_top: bool

    @property
    def line(self) -> Line:
        """The line of our tables that it belongs beside."""
        varied = self.n_universes != PAPER.n_universes
        return Line(self.strategy, f"m = {self.n_universes}" if varied else "")

    @property
    def subject(self) -> tuple[str, Budget, str, Line]:
        """What it is a figure of; ParBaLS is printed twice, in both tables of a budget."""
        return self.kind, self.budget, self.reference, self.line


@dataclass(frozen=True)
class Agreement:
    """A cell of the paper and our figure in per cent; ``ours`` is None where we ran nothing."""

    cell: PaperCell
    ours: Interval | None

    @property
    def difference(self) -> float | None:
        return None if self.ours is None else self.ours.mean - self.cell.interval.mean

    @property
    def room(self) -> float:
        """Both half-widths together; one seed has no interval, and adds nothing."""
        ours = 0.0 if self.ours is None or isnan(self.ours.half_width) else self.ours.half_width
        return self.cell.interval.half_width + ours

    @property
    def agrees(self) -> bool | None:
        """The intervals overlap: the means differ by at most both half-widths."""
        return None if self.difference is None else abs(self.difference) <= self.room + _ROUNDING

    @property
    def p(self) -> float | None:
        """p of Welch's test that both means are equal; None for a single seed."""
        if self.ours is None or self.ours.n < 2:
            return None
        return welch(self.ours, self.cell.interval)


@cache
def paper_cells() -> tuple[PaperCell, ...]:
    """All cells as printed, in the order of the paper's tables."""
    file = resources.files("parbals_bench.report").joinpath("paper.toml")
    tables = tomllib.loads(file.read_text("utf-8"))
    cells: list[PaperCell] = []
    for name, table in tables.items():
        if isinstance(table, dict):
            cells += _cells(name, table)
    return tuple(cells)


def paper_figures() -> Mapping[tuple[str, str, str], tuple[float, float]]:
    """The main tables: (budget, strategy, dataset) → mean and half-width."""
    return {
        (str(cell.budget), cell.strategy, cell.reference): (
            cell.interval.mean,
            cell.interval.half_width,
        )
        for cell in paper_cells()
        if cell.kind == "main"
    }


def agreements(tasks: Sequence[Task]) -> list[Agreement]:
    """Every distinct figure of the paper's tables and data of which we ran anything.

    Of a figure that is printed twice the first counts.
    """
    by_reference = dict(_by_reference(tasks))
    distinct: dict[object, Agreement] = {}
    for cell in paper_cells():
        distinct.setdefault(cell.subject, Agreement(cell, _ours(cell, by_reference)))
    rows = list(distinct.values())
    groups = {_group(row) for row in rows if row.ours is not None}
    return [row for row in rows if _group(row) in groups]


def _cells(name: str, table: Mapping[str, object]) -> Iterable[PaperCell]:
    """A row of the file is a strategy, perhaps with its number of universes, and a text."""
    head = dict(table)
    kind = str(head.pop("kind"))
    budget = Budget.parse(str(head.pop("budget")))
    n_seeds = int(str(head.pop("seeds")))
    columns = head.pop("columns")
    assert isinstance(columns, list)
    for row_name, row in head.items():
        strategy, _, universes = row_name.partition(" m=")
        for reference, text in zip(columns, str(row).split(", "), strict=True):
            mean, half_width = text.rstrip("*").split()
            yield PaperCell(
                table=name,
                kind=kind,
                budget=budget,
                reference=reference,
                strategy=strategy,
                n_universes=int(universes or PAPER.n_universes),
                interval=Interval(float(mean), float(half_width), n_seeds),
                is_best=text.endswith("**"),
                is_top=text.endswith("*"),
            )


@cache
def _first_classes() -> frozenset[str]:
    """The first class of every one-vs-all table: the positive class of the main tables."""
    references = (cell.reference for cell in paper_cells() if cell.kind == "one-vs-all")
    first: dict[str, str] = {}
    for reference in references:
        first.setdefault(split_reference(reference)[0], reference)
    return frozenset(first.values())


def _by_reference(tasks: Sequence[Task]) -> Iterable[tuple[tuple[str, Budget], Task]]:
    """Tasks by the name and budget under which the paper's cells look for them.

    The authors' code counts the initial set as the first batch: its ten batches are nine of ours.
    """
    for task in sorted(tasks, key=lambda task: task.budget.rounds):
        reference = task.dataset if task.positive is None else f"{task.dataset}:{task.positive}"
        budget = task.budget
        if budget.rounds == 9:
            budget = Budget(budget.initial, 10, budget.batch)
        yield (reference, budget), task


def _ours(cell: PaperCell, tasks: Mapping[tuple[str, Budget], Task]) -> Interval | None:
    task = tasks.get((cell.reference, cell.budget))
    if task is None and cell.reference in _first_classes():
        task = tasks.get((split_reference(cell.reference)[0], cell.budget))
    if task is None or cell.line not in task.records:
        return None
    return mean_interval(100.0 * task.final(cell.line))


def _group(row: Agreement) -> tuple[str, Budget, str]:
    kind, budget, reference, _ = row.cell.subject
    return kind, budget, reference
