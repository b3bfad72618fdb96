"""Learning curves with 95 % bands, and labels saved; grey print is enough to tell lines apart.

Figures are built without pyplot, so nothing global changes and no window system is needed.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from parbals.strategies.table import DEFAULT_STRATEGY

from parbals_bench.report.stats import half_width
from parbals_bench.report.tasks import Line, table_row
from parbals_bench.run.metrics import METRICS, Metric

__all__ = ["Curve", "curve_figure", "inline_svg", "savings_figure", "styles_of", "to_png", "to_svg"]

_INK = "#222222"
_GRID_COLOUR = "#d9d9d9"
_MAX_BANDED_LINES = 6
_MIN_BANDED_SEEDS = 5
_LOWEST_SHARE_PERCENT = -100.0
_LABEL_STYLE: dict[str, Any] = {"fontsize": 8.5, "va": "center", "color": _INK}
Style = tuple[str, str, str, float]
"""Colour, dashes, marker and width of a line."""
_SPARE_STYLES: tuple[Style, ...] = (
    ("#56b4e9", "-", "8", 1.6),
    ("#cc79a7", "-", "H", 1.6),
    ("#0072b2", "-.", "4", 1.6),
    ("#d55e00", ":", "1", 1.6),
)
_without_formulas = matplotlib.rc_context({"text.parse_math": False})
"""Names come from data: a class may be called "$5", and no dollar begins a formula."""


@dataclass(frozen=True)
class Curve:
    """A line of a picture: ``values`` (seeds, rounds + 1) of a metric at ``n_labels`` (rounds + 1).

    ``strategy`` decides how it is drawn; ``faint`` curves stand beside the others to compare.
    """

    title: str
    strategy: str
    n_labels: Sequence[int]
    values: np.ndarray
    faint: bool = False


@_without_formulas
def curve_figure(
    curves: Sequence[Curve], title: str, metric: Metric = METRICS["accuracy"]
) -> Figure:
    """Mean over seeds against the number of labels; the band is the mean's 95 % Student-t interval.

    With more than six lines only those that stand in every table of the paper (Random and ParBaLS)
    keep their bands, and with fewer than five seeds, whose intervals are huge, the default strategy
    alone: more would hide what they are to show.
    """
    figure, ax = _canvas((6.0, 3.8))
    main = [curve for curve in curves if not curve.faint]
    styles = iter(styles_of([curve.strategy for curve in main]))
    means = {}
    for index, curve in enumerate(curves):
        values = metric.scale * np.asarray(curve.values)
        means[curve.title] = values.mean(axis=0)
        if curve.faint:
            colour, _, marker, _ = styles_of([curve.strategy])[0]
            _draw(ax, curve, values, (colour, ":", marker, 1.3), index, banded=False)
            continue
        row = table_row(curve.strategy)
        banded = len(main) <= _MAX_BANDED_LINES or (row is not None and len(row.tables) > 1)
        banded &= len(values) >= _MIN_BANDED_SEEDS or curve.strategy == DEFAULT_STRATEGY
        _draw(ax, curve, values, next(styles), index, banded=banded and len(values) > 1)
    order = sorted(means, key=lambda name: means[name][-1], reverse=not metric.lower_is_better)
    handles = {line.get_label(): line for line in ax.get_lines()}
    figure.legend(
        [handles[name] for name in order],
        [f"{name}  {means[name][-1]:.{3 if metric.scale == 1.0 else 1}f}" for name in order],
        loc="outside right upper",
        frameon=False,
        fontsize=8.5,
        handlelength=3.0,
        labelspacing=0.55,
        title="at the end",
        title_fontsize=8.5,
        alignment="left",
    )
    _title(figure, f"{title}  ·  {metric.title}, {metric.unit}")
    counts = sorted({len(curve.values) for curve in main})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    label = f"labels  (mean of {seeds} seed{'' if seeds == '1' else 's'}, 95 % bands)"
    ax.set_xlabel(label, fontsize=9, color=_INK)
    ax.set_xlim(main[0].n_labels[0], main[0].n_labels[-1])
    # Wide bands may leave the picture; the lines fill it.
    lowest_mean = min(mean.min() for mean in means.values())
    highest_mean = max(mean.max() for mean in means.values())
    span = max(highest_mean - lowest_mean, 1e-3 * metric.scale)
    low = max(ax.dataLim.y0, lowest_mean - 0.3 * span)
    high = min(ax.dataLim.y1, highest_mean + 0.3 * span)
    if metric.scale == 100.0:
        high = min(100.0, high)
    ax.set_ylim(low - 0.05 * span, high + 0.05 * span)
    ax.grid(axis="y", color=_GRID_COLOUR, linewidth=0.6)
    return _with_fixed_layout(figure)


@_without_formulas
def savings_figure(shares: Mapping[Line, Sequence[float]]) -> Figure:
    """The share of Random's labels that each line saves: a dot a setting, a bar for the median.

    What is below -100 % stands at the left edge: a few hopeless settings must not squeeze all
    others together. A strategy with fewer settings than others has their number in brackets.
    """
    in_percent = {
        line: [max(100.0 * share, _LOWEST_SHARE_PERCENT) for share in shares[line]]
        for line in shares
    }
    medians = {line: float(np.median(values)) for line, values in in_percent.items()}
    order = sorted(medians, key=lambda line: medians[line])
    figure, ax = _canvas((9.0, 1.1 + 0.27 * len(order)))
    styles = styles_of([line.strategy for line in order])
    for height, (line, (colour, _, marker, _)) in enumerate(zip(order, styles, strict=True)):
        values = in_percent[line]
        median = medians[line]
        dots: dict[str, Any] = {"color": colour, "mew": 0, "clip_on": False}
        ax.plot(values, [height] * len(values), marker, markersize=5, alpha=0.6, **dots)
        ends = [height - 0.36, height + 0.36]
        ax.plot([median] * 2, ends, color=_INK, linewidth=2.2, solid_capstyle="butt")
        at_the_right = ("axes fraction", "data")
        ax.annotate(f"{median:+.0f} %", (1.01, height), xycoords=at_the_right, **_LABEL_STYLE)
    ax.axvline(0.0, color="#888888", linewidth=0.9, zorder=0)
    ax.set_xlim(left=min(map(min, in_percent.values())) - 4.0)
    n_settings = max(len(values) for values in in_percent.values())
    counts = {
        line: f" ({len(values)})" for line, values in in_percent.items() if len(values) < n_settings
    }
    ax.set_yticks(range(len(order)), [f"{line.title}{counts.get(line, '')}" for line in order])
    label = "a dot is a dataset with a budget (left edge: -100 % or below), a bar the median"
    if counts:
        label += f"\nin brackets: the number of settings, where it is not {n_settings}"
    ax.set_xlabel(label, fontsize=9, color=_INK)
    ax.set_ylim(-0.7, len(order) - 0.3)
    _title(figure, "Labels saved against Random at equal quality, %")
    ax.grid(axis="x", color=_GRID_COLOUR, linewidth=0.6)
    return _with_fixed_layout(figure)


def styles_of(strategies: Sequence[str]) -> list[Style]:
    """A style for each line of a picture, from the table of strategies.

    Strategies without one, and a strategy's second line (another variant), take spare ones.
    """
    styles: list[Style] = []
    n_spare = 0
    for index, name in enumerate(strategies):
        row = table_row(name)
        is_first_line = name not in strategies[:index]
        style = row.style if row is not None and is_first_line else None
        styles.append(style or _SPARE_STYLES[n_spare % len(_SPARE_STYLES)])
        n_spare += style is None
    return styles


def to_png(figure: Figure, dpi: int = 160) -> bytes:
    """The figure as PNG; equal figures give equal bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def to_svg(figure: Figure, *, text_as_text: bool = False) -> str:
    """The figure as SVG; letters are shapes, which look alike everywhere, or searchable text."""
    buffer = io.BytesIO()
    letters = "none" if text_as_text else "path"
    with matplotlib.rc_context({"svg.hashsalt": "parbals", "svg.fonttype": letters}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue().decode("utf-8")


def inline_svg(figure: Figure, prefix: str, description: str) -> str:
    """The figure as SVG inside a page: without a prolog, with unique ids and a description."""
    svg = to_svg(figure, text_as_text=True)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)


def _canvas(size: tuple[float, float]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    ax = figure.subplots()
    ax.tick_params(colors=_INK, labelsize=8.5, length=3)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("bottom", "left"))
        spine.set_color("#888888")
    return figure, ax


def _with_fixed_layout(figure: Figure) -> Figure:
    """Compute the layout once, not again for every file format."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def _title(figure: Figure, text: str) -> None:
    """Above everything: a title of the axes alone would run into the legend beside them."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=10, color=_INK)


def _draw(
    ax: Axes, curve: Curve, values: np.ndarray, style: Style, index: int, *, banded: bool
) -> None:
    colour, dashes, marker, width = style
    mean = values.mean(axis=0)
    if banded:
        half = half_width(values)
        edges = (mean - half, mean + half)
        ax.fill_between(curve.n_labels, *edges, color=colour, alpha=0.10, linewidth=0)
        for edge in edges:
            faint: dict[str, Any] = {"linewidth": 0.6, "alpha": 0.55, "linestyle": dashes}
            ax.plot(curve.n_labels, edge, color=colour, **faint)
    # Markers of different lines stand at different places, and not on every one of 200 rounds.
    step = max(1, len(curve.n_labels) // 11)
    ax.plot(
        curve.n_labels,
        mean,
        label=curve.title,
        color=colour,
        linestyle=dashes,
        linewidth=width,
        marker=marker,
        markersize=5,
        markerfacecolor=colour if dashes == "-" else "white",
        markeredgewidth=1.1,
        markevery=(index % step, step),
        zorder=4 if curve.strategy == DEFAULT_STRATEGY and not curve.faint else 3,
        clip_on=False,
    )
