"""The tables of the study: README.md, and a section of docs/explanation/coverage.md."""

from collections.abc import Iterator

import numpy as np
from error_estimates.statements.candidates import CANDIDATES
from error_estimates.statements.streams import STATEMENTS
from lib.records import Record

__all__ = ["page", "statement_table"]

KINDS = {
    "exact": "exact",
    "asymptotic": "asymptotic",
    "none": "no limit can hold",
}
GROUPS = {
    "sure of its mistakes": ("misses", "false alarms", "both"),
    "calibrated": ("calibrated",),
    "errors of a model": ("errors",),
}


def page(records: list[Record]) -> Iterator[str]:
    """README.md."""
    yield "# How often does each statement fail in made sessions that were chosen to break it?"
    yield ""
    yield "Written by `python studies error_estimates.statements`; do not edit."
    yield ""
    yield f"**{verdict(records)}**"
    yield ""
    yield from statement_table(records)
    yield ""
    yield from _comparison(records)


def verdict(records: list[Record]) -> str:
    """How many cells fail measurably more often than promised."""
    cells = [
        (record, STATEMENTS[record["run"][1]].may_fail)
        for record in records
        if record["run"][0] == "statement"
    ]
    promised = [(record, may_fail) for record, may_fail in cells if may_fail is not None]
    n_broken = sum(_is_broken(record, may_fail) for record, may_fail in promised)
    how_many = "No cell" if not n_broken else f"{n_broken} cells"
    fails = "fail" if n_broken > 1 else "fails"
    return (
        f"{how_many} of {len(promised)} {fails} more often than promised by more than two "
        f"Monte-Carlo errors, at {promised[0][0]['sessions']:,} sessions each."
    )


def statement_table(records: list[Record]) -> Iterator[str]:
    """A row for each statement: the cell that fails most often."""
    yield (
        "Failures in % of the sessions: the mean over all cells, the cell that fails most often, "
        "and the upper 95 % limit (Clopper–Pearson) of this cell's rate; the worst of many cells "
        "is also the unluckiest. *Exact*: the promise follows from a theorem for any number of "
        "labels. *Asymptotic*: two exact limits are combined by an approximation."
    )
    yield ""
    yield "| statement | kind | cells | may fail | mean | worst cell | its upper limit |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for key, statement in STATEMENTS.items():
        rows = [record for record in records if record["run"][:2] == ["statement", key]]
        if not rows:
            continue
        rates = [row["failed"] / row["sessions"] for row in rows]
        worst = rows[int(np.argmax(rates))]
        may_fail = "" if statement.may_fail is None else f"{100 * statement.may_fail:.3g}"
        rate = f"{100 * max(rates):.1f}"
        if _is_broken(worst, statement.may_fail):
            rate = f"**{rate}**"
        yield (
            f"| {statement.name} | {KINDS[statement.kind]} | {len(rows)} | {may_fail} | "
            f"{100 * np.mean(rates):.1f} | {rate} | {100 * _upper_limit(worst):.1f} |"
        )


def _is_broken(record: Record, may_fail: float | None) -> bool:
    """Whether a cell fails more often than promised by two Monte-Carlo errors."""
    if may_fail is None:
        return False
    monte_carlo_error = (may_fail * (1.0 - may_fail) / record["sessions"]) ** 0.5
    return bool(record["failed"] / record["sessions"] > may_fail + 2.0 * monte_carlo_error)


def _upper_limit(record: Record) -> float:
    """The upper 95 % limit of a failure rate."""
    from scipy.special import betaincinv

    failed = record["failed"]
    if failed == record["sessions"]:
        return 1.0
    return float(betaincinv(failed + 1, record["sessions"] - failed, 0.95))


def _comparison(records: list[Record]) -> Iterator[str]:
    yield "## Which limits, where predictions help?"
    yield ""
    yield (
        "One look. A limit may fail in 5 %, of the errors of a model in 3.5 %, and an interval in "
        "twice as many sessions. The worst rate over the cells, and the mean width as a share of "
        "that by labels alone (Clopper–Pearson). **Shares, kept samples and programs have two "
        "strata: they hold everywhere**, by exact limits in each stratum and without a constant. "
        "PPI++ with a = 2 is about as narrow, but its constant would have to depend on the risk."
    )
    yield ""
    yield "| predictions | labels | limits | interval fails, % | a limit fails, % | width |"
    yield "| --- | ---: | --- | ---: | ---: | ---: |"
    rows = [record for record in records if record["run"][0] == "candidates"]
    for group, kinds in GROUPS.items():
        for n in (20, 60, 200):
            cells = [row for row in rows if row["cell"][0] in kinds and row["cell"][-1] == n]
            for name in CANDIDATES if cells else ():
                yield _candidate_line(f"{group} | {n} | {name}", name, cells)


def _candidate_line(start: str, name: str, cells: list[Record]) -> str:
    """A line of the comparison."""
    counts = [cell["candidates"][name] for cell in cells]
    n = cells[0]["sessions"]
    interval = max(low + high for low, high, _ in counts) / n
    limit = max(max(low, high) for low, high, _ in counts) / n
    delta = cells[0]["delta"]
    widths = [
        count[2] / cell["candidates"]["labels alone"][2]
        for count, cell in zip(counts, cells, strict=True)
    ]
    bold = [
        f"**{100 * rate:.1f}**"
        if rate > promise + 2.0 * (promise * (1.0 - promise) / n) ** 0.5
        else f"{100 * rate:.1f}"
        for rate, promise in ((interval, 2.0 * delta), (limit, delta))
    ]
    return f"| {start} | {bold[0]} | {bold[1]} | {np.mean(widths):.2f} |"
