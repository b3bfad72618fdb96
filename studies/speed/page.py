"""The page of the study: one table of all rows, and how they grow."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from speed.rows import GROUPS, ROWS, Goal, Row

__all__ = ["page", "slope"]

HEAD = """# How fast is it, before and after?

Written by `python studies speed`; do not edit. A row is a process of its own; *before* and *now*
took turns in one run. *products*: multiples of a matrix product of 10,000 × 400 × 1,000 numbers in
the same process. Seconds are CPU seconds with one thread and in commands, else wall-clock. *MB*:
peak memory over what was resident before; of the process without mapped files where N varies; on
accelerators of the device. *score*: the sum of the scores of the batch's points, each given the
ones before, as a share of that before. *same*: points in both batches.

Where no size is named, a batch of 20 is chosen from 10,000 candidates with 300 features for 1,000
targets with 200 labels and ten universes; in rows of growth with 64 features and four classes.

"""
COLUMNS = (
    *("rows", "row", "on", "s before", "s now", "ratio", "products before", "products now"),
    *("goal", "MB before", "MB now", "score", "same", "notes"),
)
GROWTH_HEAD = """
## Growth

Exponents of fit and batch together: over all values, and between the last two.

"""
GROWTH_COLUMNS = (
    *("size", "values", "on", "time ∝", "at the end", "memory ∝", "at the end", "stopped"),
)
REFITS_HEAD = """
## Refits

Wall-clock seconds of a batch of 20 of two classes. With a refit for every pseudo-label it takes 190
refits, and 191 predictions and scores of the pool in plain NumPy, multiplied out.

"""
REFITS_COLUMNS = ("method", "on", "a refit, s", "a batch, s")
N_REFITS = 190
PLAIN = ("predict pool and targets", "score the pool")


class Tree(NamedTuple):
    """One measure of one tree."""

    seconds: float | None
    product: float | None
    n_bytes: float | None
    measure: dict[str, Any]


def page(lines: list[dict[str, Any]]) -> str:
    """All of TABLE.md."""
    ordered = sorted(lines, key=lambda line: (_position(line), line["on"], line["processor"]))
    text = HEAD + table(COLUMNS, [cells for line in ordered for cells in line_cells(line)])
    growth = list(growth_cells(ordered))
    if growth:
        text += GROWTH_HEAD + table(GROWTH_COLUMNS, growth)
    refits = list(refit_cells(ordered))
    if refits:
        text += REFITS_HEAD + table(REFITS_COLUMNS, refits)
    return text + "\n" + "\n".join(sources_of(ordered)) + "\n"


def table(columns: Sequence[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def line_cells(line: dict[str, Any]) -> Iterator[list[str]]:
    """The cells of a line of the record: a row of the table for every measure."""
    names = list(
        dict.fromkeys(
            name
            for tree in ("before", "now")
            for name in line.get(tree, {}).get("measures", {})
            if not name.endswith("product")
        )
    )
    stopped = line["now"].get("stopped") or line.get("before", {}).get("stopped")
    if not names and stopped:
        names = [""]
    goals = next((row.goals for row in ROWS if _is_of(row, line)), {})
    for name in names:
        before = tree_of(line, "before", name)
        now = tree_of(line, "now", name)
        title = ": ".join(filter(None, (line["row"], name)))
        yield [
            line["group"],
            title,
            line["on"],
            *_pair(before.seconds, now.seconds, _number),
            _ratio(before.seconds, now.seconds),
            *_pair(before.product, now.product, _number),
            _goal(goals.get(name), now, line["threads"]),
            *_pair(before.n_bytes, now.n_bytes, lambda value: f"{1e-6 * value:,.0f}"),
            *_compared(before.measure, now.measure),
            _notes(before, now, line, is_last=name == names[-1]),
        ]


def tree_of(line: dict[str, Any], tree: str, name: str) -> Tree:
    """What was measured of a tree under a name."""
    result = line.get(tree, {"measures": {}})
    measure = result["measures"].get(name, {})
    is_cpu = line["group"] == "commands" or "commands" in _kind(line)
    clock = "cpu_seconds" if is_cpu or line["on"] == "1 thread" else "seconds"
    spent = measure.get(clock, measure.get("seconds"))
    product = result["measures"].get("product", {}).get(clock)
    n_bytes = measure.get("peak_bytes")
    if n_bytes is None and line["group"] in ("growth", "limits") and measure:
        n_bytes = result.get("own_bytes")
    products = spent / product if spent is not None and product else None
    return Tree(spent, products, n_bytes, measure)


def growth_cells(lines: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Exponents of every series on every machine."""
    axes = list(dict.fromkeys(row.axis for row in ROWS if row.axis))
    settings = list(dict.fromkeys((line["on"], line["processor"]) for line in lines))
    for axis in axes:
        rows = {row.name: row for row in ROWS if row.axis == axis}
        for on, processor in settings:
            points = [
                (rows[line["row"]].sizes[axis], line)
                for line in lines
                if line["row"] in rows and (line["on"], line["processor"]) == (on, processor)
            ]
            points.sort(key=lambda point: point[0])
            if points:
                yield [axis, _values(points), on, *_exponents(axis, points), _broken(points)]


def refit_cells(lines: list[dict[str, Any]]) -> Iterator[list[str]]:
    """What a batch takes by each method, on every machine."""
    refits = [line for line in lines if line["group"] == "refits"]
    for on, processor in dict.fromkeys((line["on"], line["processor"]) for line in refits):
        here = [line for line in refits if (line["on"], line["processor"]) == (on, processor)]
        spent = {
            (line["row"], name): measure["seconds"]
            for line in here
            for name, measure in line["now"]["measures"].items()
        }
        pieces = [spent.get(("plain NumPy", name)) for name in PLAIN]
        place = ", ".join(filter(None, (processor, on)))
        for (row, name), seconds in spent.items():
            if name == "batch":
                yield [row, place, "", f"{seconds:.3g}"]
            if name == "refit" and None not in pieces:
                batch = N_REFITS * seconds + (N_REFITS + 1) * sum(pieces)
                yield [row, place, f"{seconds:.3g}", f"{batch:,.0f}"]


def _exponents(axis: str, points: list[tuple[int, dict[str, Any]]]) -> list[str]:
    cells = []
    for cost in (_time, _memory):
        pairs = [(value, cost(line)) for value, line in points if "stopped" not in line["now"]]
        pairs = [(value, paid) for value, paid in pairs if paid]
        for window in (pairs, pairs[-2:]):
            exponent = slope([value for value, _ in window], [paid for _, paid in window])
            # Rounded first: no size has the power -0.00.
            text = "" if math.isnan(exponent) else f"{axis}^{round(exponent, 2) + 0.0:.2f}"
            cells.append(text)
    return cells


def slope(values: list[float], costs: list[float]) -> float:
    """The exponent of costs ∝ valuesˢ, by least squares in logarithms; NaN for fewer than two."""
    if len(set(values)) < 2:
        return math.nan
    return float(np.polyfit(np.log(values), np.log(costs), 1)[0])


def sources_of(lines: list[dict[str, Any]]) -> Iterator[str]:
    """Where and when the groups were measured."""
    facts: dict[tuple[str, ...], list[str]] = {}
    for line in lines:
        commits = line["commits"]["now"]
        if line["commits"]["before"]:
            commits += f" beside {line['commits']['before']}"
        groups = facts.setdefault((line["processor"], line["on"], line["date"], commits), [])
        if line["group"] not in groups:
            groups.append(line["group"])
    for (processor, on, date, commits), groups in facts.items():
        machine = ", ".join(filter(None, (processor, on)))
        yield f"* {', '.join(groups)}: {machine}, {date}, commit {commits}"


def _time(line: dict[str, Any]) -> float:
    names = [name for name in line["now"]["measures"] if name != "product"]
    return sum(tree_of(line, "now", name).seconds or 0.0 for name in names)


def _memory(line: dict[str, Any]) -> float:
    names = [name for name in line["now"]["measures"] if name != "product"]
    return max((tree_of(line, "now", name).n_bytes or 0.0 for name in names), default=0.0)


def _values(points: list[tuple[int, dict[str, Any]]]) -> str:
    return ", ".join(f"{value:,}" for value, _ in points)


def _broken(points: list[tuple[int, dict[str, Any]]]) -> str:
    """The first value whose row was stopped, and why."""
    for value, line in points:
        if "stopped" in line["now"]:
            return f"{value:,}: {line['now']['stopped']}"
    return "nothing"


def _notes(before: Tree, now: Tree, line: dict[str, Any], is_last: bool) -> str:
    notes = []
    if "compiled" in now.measure:
        earlier = before.measure.get("compiled")
        text = "" if earlier is None else f", {earlier} before"
        notes.append(f"{now.measure['compiled']} programs compiled{text}")
    if "same" in now.measure:
        notes.append(f"the first {now.measure['same']} points are the same")
    if is_last:
        for tree in ("before", "now"):
            stopped = line.get(tree, {}).get("stopped")
            notes += [f"{tree} stopped: {stopped}"] if stopped else []
    return "; ".join(notes)


def _compared(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    if "indices" not in before or "indices" not in now:
        return ["", ""]
    share = f"{now['score'] / before['score']:.4f}" if before.get("score") else ""
    common = set(now["indices"]) & set(before["indices"])
    return [share, f"{len(common)} of {len(now['indices'])}"]


def _goal(goal: Goal | None, now: Tree, threads: int) -> str:
    if goal is None or goal.threads not in (None, threads):
        return ""
    value = now.product if goal.unit == "products" else now.seconds
    met = ""
    if value is not None:
        met = " met" if value <= goal.limit else " MISSED"
    return f"≤ {goal.limit:g}{' s' if goal.unit == 's' else ''}{met}"


def _pair(before: float | None, now: float | None, text: Any) -> list[str]:
    return ["" if value is None else text(value) for value in (before, now)]


def _ratio(before: float | None, now: float | None) -> str:
    return f"{now / before:.2f}" if before and now else ""


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _is_of(row: Row, line: dict[str, Any]) -> bool:
    return (row.group, row.name) == (line["group"], line["row"])


def _kind(line: dict[str, Any]) -> str:
    return next((row.kind for row in ROWS if _is_of(row, line)), "")


def _position(line: dict[str, Any]) -> tuple[int, int]:
    position = next((i for i, row in enumerate(ROWS) if _is_of(row, line)), len(ROWS))
    return list(GROUPS).index(line["group"]), position
