"""The table and the figure of the growth study, for one or several devices."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from lib.report import seconds
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    EngFormatter,
    FixedLocator,
    LogLocator,
    NullLocator,
    StrMethodFormatter,
)

__all__ = ["slope", "write_growth"]

EXPECTED = {"N": 1.0, "B": 1.0, "C": 2.0}
"""Growth that needs no explanation; steeper slopes are marked."""
TOLERANCE = 0.15
WHY_STEEP = (
    "Steep in B: a step corrects the covariances of every row that it looks at for the labels of "
    "all points before it, so its own work grows with them."
)
TITLES = {
    "N": "pool points N",
    "C": "classes C",
    "B": "batch size B",
    "U": "universes U",
    "K": "samples K",
    "n": "labelled points n",
}
GOALS = {"next": 3.0, "tell": 1.0}
"""Seconds beyond start-up, for at most ten classes and 10,000 items."""
COMMANDS = {
    "start": "start-up",
    "next_first": "`next`, the very first",
    "next": "`next`",
    "next_cpu": "`next`, CPU time",
    "tell_first": "`tell`, the very first",
    "tell": "`tell`",
    "tell_cpu": "`tell`, CPU time",
    "status": "`status`",
    "status_cpu": "`status`, CPU time",
    "step_first": "worker's first batch",
    "step": "worker's batch",
    "step_report": "worker's report",
}
INK = "#222222"
FAINT = "#d9d9d9"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
DASHES = ("-", "--", ":", "-.")
Lines = dict[tuple[str, str, int], list[dict[str, Any]]]
"""(axis, device, classes at the base; 0 on the axis C) → points, ascending."""


def write_growth(results: dict[str, Any], folder: Path) -> str:
    """README.md and growth.svg in ``folder``; returns the tables."""
    lines = lines_of(results)
    slopes = [*slope_table(lines)]
    why = ["", WHY_STEEP] if any("B^" in row and "(steep)" in row for row in slopes) else []
    tables = "\n".join([*axis_table(lines), "", *slopes, *why, *project_tables(results)])
    heads = [
        f"* {name}: {facts['date']}, {facts['system']}, Python {facts['python']}, JAX "
        f"{facts['versions'].get('jax', '?')}, commit {facts['commit']}{facts.get('remark', '')}"
        for name, facts in ((name, device["machine"]) for name, device in results.items())
    ]
    text = [
        "# How do time and memory grow?",
        "",
        "![Time and memory against each size](growth.svg)",
        "",
    ]
    text += [
        "Written by `python studies speed.growth`; do not edit.",
        "",
        *heads,
        "",
        tables,
        "",
    ]
    (folder / "README.md").write_text("\n".join(text), encoding="utf-8")
    drawn = {group: line for group, line in lines.items() if any(map(time_of, line))}
    if drawn:
        with matplotlib.rc_context({"svg.hashsalt": "parbals"}):
            growth_figure(drawn).savefig(
                folder / "growth.svg", metadata={"Date": None, "Creator": None}
            )
    return tables


def lines_of(results: dict[str, Any]) -> Lines:
    lines: Lines = {}
    for device, record in results.items():
        for point in record["points"].values():
            if point["kind"] == "batch":
                axis = point["axis"]
                group = axis, device, 0 if axis == "C" else point["sizes"]["C"]
                lines.setdefault(group, []).append(point)
    for (axis, _, _), line in lines.items():
        line.sort(key=lambda point, axis=axis: point["sizes"][axis])
    return lines


def time_of(point: dict[str, Any]) -> float | None:
    """Seconds of a fit and a batch once all is compiled."""
    return point["fit"] + point["batch"] if "batch" in point else None


def memory_of(point: dict[str, Any]) -> float | None:
    """Bytes beyond the inputs: of the device where it has memory of its own."""
    return point.get("device_peak") or point.get("peak")


def slope(values: list[float], costs: list[float]) -> float:
    """The exponent of costs ∝ valuesˢ, by least squares in logarithms; NaN for fewer than two."""
    if len(set(values)) < 2:
        return math.nan
    return float(np.polyfit(np.log(values), np.log(costs), 1)[0])


def measured(line: list[dict[str, Any]], axis: str, cost: Any) -> tuple[list[float], list[float]]:
    pairs = [(point["sizes"][axis], cost(point)) for point in line]
    pairs = [(value, paid) for value, paid in pairs if paid]
    return [value for value, _ in pairs], [paid for _, paid in pairs]


def axis_table(lines: Lines) -> Iterator[str]:
    yield "| varied | classes | value | device | fit | batch | first fit and batch | memory |"
    yield "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |"
    for (axis, device, _), line in sorted(lines.items(), key=lambda item: _order(item[0])):
        for point in line:
            first = "batch_first" in point and point["fit_first"] + point["batch_first"]
            cells = [
                seconds(point["fit"]) if "fit" in point else "",
                seconds(point["batch"]) if "batch" in point else point.get("failed", ""),
                seconds(first) if first else "",
                _memory(memory_of(point)),
            ]
            sizes = point["sizes"]
            yield f"| {axis} | {sizes['C']} | {sizes[axis]:,} | {device} | {' | '.join(cells)} |"


def slope_table(lines: Lines) -> Iterator[str]:
    """Exponents over all values, and between the last two, where fixed costs no longer flatten."""
    yield "| varied | classes | device | time ∝ | at the end | memory ∝ | at the end |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: |"
    for (axis, device, n_classes), line in sorted(lines.items(), key=lambda item: _order(item[0])):
        cells = []
        for cost in (time_of, memory_of):
            values, costs = measured(line, axis, cost)
            for window in (slice(None), slice(-2, None)):
                cells.append(_power(axis, slope(values[window], costs[window])))
        yield f"| {axis} | {n_classes or 'varied'} | {device} | {' | '.join(cells)} |"


def project_tables(results: dict[str, Any]) -> Iterator[str]:
    for device, record in results.items():
        project_points = [
            point for point in record["points"].values() if point["kind"] == "project"
        ]
        if not project_points:
            continue
        yield from ("", f"Commands in fresh processes on {device}; goals are beyond start-up:", "")
        heads = [f"{p['sizes']['N']:,} items, {p['sizes']['C']} classes" for p in project_points]
        yield f"| command | {' | '.join(heads)} |"
        yield f"| --- |{' ---: |' * len(heads)}"
        for name, title in COMMANDS.items():
            yield f"| {title} | {' | '.join(_command(point, name) for point in project_points)} |"
        memory = (_memory(point.get("peak")) for point in project_points)
        yield f"| memory of `next` | {' | '.join(memory)} |"
        strategies = (point.get("step_strategy", "") for point in project_points)
        yield f"| the worker chose by | {' | '.join(strategies)} |"


def _command(point: dict[str, Any], name: str) -> str:
    if name not in point:
        return point.get("failed", "")
    text = seconds(point[name])
    if name in GOALS and point["sizes"]["N"] <= 10_000 and point["sizes"]["C"] <= 10:
        met = point[name] - point["start"] <= GOALS[name]
        text += f" (≤ {GOALS[name]:g} s {'met' if met else 'MISSED'})"
    return text


def _order(group: tuple[str, str, int]) -> tuple[int, int, str]:
    axis, device, n_classes = group
    return list(TITLES).index(axis), n_classes, device


def _power(axis: str, exponent: float) -> str:
    if math.isnan(exponent):
        return ""
    steep = exponent > EXPECTED.get(axis, math.inf) + TOLERANCE
    # Rounded first: no size has the power -0.00.
    return f"{axis}^{round(exponent, 2) + 0.0:.2f}{' (steep)' if steep else ''}"


def _memory(n_bytes: float | None) -> str:
    return "" if n_bytes is None else f"{n_bytes / 1e6:,.0f} MB"


def growth_figure(lines: Lines) -> Figure:
    """Time above, memory below, one column for each size; both scales are logarithmic."""
    axes_shown = [axis for axis in TITLES if any(group[0] == axis for group in lines)]
    devices = list(dict.fromkeys(device for _, device, _ in lines))
    figure = Figure(figsize=(2.1 * len(axes_shown) + 0.8, 5.0), layout="constrained")
    grid = figure.subplots(2, len(axes_shown), sharey="row", squeeze=False)
    handles = {}
    for (axis, device, n_classes), line in sorted(lines.items(), key=lambda item: _order(item[0])):
        column = axes_shown.index(axis)
        style = {
            "color": COLOURS[devices.index(device) % len(COLOURS)],
            "linestyle": DASHES[(n_classes // 2 - 1) % len(DASHES)] if n_classes else "-",
            "marker": "os^D"[devices.index(device) % 4],
        }
        for row, (cost, scale) in enumerate(((time_of, 1.0), (memory_of, 1e-9))):
            values, costs = measured(line, axis, cost)
            (drawn,) = grid[row, column].plot(
                values, [scale * paid for paid in costs], markersize=3.5, linewidth=1.4, **style
            )
            if n_classes or len(axes_shown) == 1:
                words = f", {n_classes} classes" if n_classes else ""
                handles.setdefault(device + words, drawn)
    for column, axis in enumerate(axes_shown):
        sizes = {
            p["sizes"][axis] for group, line in lines.items() if group[0] == axis for p in line
        }
        for ax in grid[:, column]:
            _plain(ax, sorted(sizes))
        grid[1, column].set_xlabel(TITLES[axis], fontsize=9, color=INK)
    grid[0, 0].set_ylabel("fit and batch, s", fontsize=9, color=INK)
    grid[1, 0].set_ylabel("memory beyond\ninputs, GB", fontsize=9, color=INK)
    figure.align_ylabels(grid[:, 0])
    figure.legend(
        handles.values(),
        handles,
        loc="outside upper center",
        ncols=4,
        frameon=False,
        fontsize=8.5,
        handlelength=3.0,
    )
    return figure


def _plain(ax: Axes, values: list[float]) -> None:
    ax.set(xscale="log", yscale="log")
    ax.xaxis.set_major_locator(FixedLocator(values))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300.0 * low else (1.0,)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    ax.grid(color=FAINT, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(colors=INK, labelsize=8)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("bottom", "left"))
        spine.set_color("#888888")
