"""Learning curves with 95 % bands.

Lines differ in colour, dashes and marker, so that grey print is enough.

Figures are built without pyplot, so nothing global changes and no window system is needed.
"""

import io
import re
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parbals.bench.report.collect import Line, Setting
from parbals.bench.report.findings import Saving
from parbals.bench.report.measures import MEASURES
from parbals.bench.report.names import Style, style_of, styles_of
from parbals.bench.report.stats import mean_interval

__all__ = ["curve_figure", "inline_svg", "savings_figure", "to_png", "to_svg"]

_INK, _FAINT = "#222222", "#d9d9d9"
_BANDED = ("random", "parbals-map-epig", "parbals-epig")
_FEW = 6
_ENOUGH_SEEDS = 5
_FRONT = Line("parbals-epig").name
_LEFT, _MARGIN = -102.0, 28.0
_literally = matplotlib.rc_context({"text.parse_math": False})
"""Names come from data: a class may be called "$5", and no dollar begins a formula."""


@_literally
def curve_figure(
    setting: Setting,
    strategies: Sequence[str],
    metric: str = "accuracy",
    beside: Sequence[tuple[Setting, Line]] = (),
) -> Figure:
    """Mean over seeds against the number of labels; the band is the 95 % Student-t interval of the
    mean.

    With more than six lines only Random and ParBaLS keep their bands, and with fewer than five
    seeds, whose intervals are huge, ParBaLS EPIG alone: more would hide what they are to show.
    ``beside`` are lines of other budgets, drawn thinly and with the same seeds, so that all start
    from the same labels.
    """
    figure, ax = _canvas((6.0, 3.8))
    measure = MEASURES[metric]
    lines = setting.lines(strategies)
    ends: dict[str, float] = {}
    means: list[np.ndarray] = []
    drawn = [(setting, line, line.name) for line in lines]
    drawn += [
        (other, line, f"{line.name}, {other.budget.batch} at a time") for other, line in beside
    ]
    shared = {seed for line in lines for seed in setting.records[line]}
    styles = styles_of([line.strategy for line in lines])
    for place, (source, line, name) in enumerate(drawn):
        values = measure.scale * source.values(line, metric, shared)
        means.append(values.mean(axis=0))
        ends[name] = float(means[-1][-1])
        if source is setting:
            style = styles[place]
        else:
            own = style_of(line.strategy)
            style = Style(own.colour, ":", own.marker, 1.3)
        banded = source is setting and (len(lines) <= _FEW or line.strategy in _BANDED)
        banded = banded and (len(values) >= _ENOUGH_SEEDS or line.strategy == "parbals-epig")
        _draw(ax, np.array(source.budget.n_labels), values, name, style, place, banded=banded)
    order = sorted(ends, key=lambda name: ends[name], reverse=not measure.lower_is_better)
    handles = {text.get_label(): text for text in ax.get_lines()}
    figure.legend(
        [handles[name] for name in order],
        [f"{name}  {ends[name]:.{3 if measure.scale == 1.0 else 1}f}" for name in order],
        loc="outside right upper",
        frameon=False,
        fontsize=8.5,
        handlelength=3.0,
        labelspacing=0.55,
        title="at the end",
        title_fontsize=8.5,
        alignment="left",
    )
    n_seeds = sorted({len(setting.records[line]) for line in lines})
    seeds = f"{n_seeds[0]}" if len(n_seeds) == 1 else f"{n_seeds[0]} to {n_seeds[-1]}"
    _title(figure, f"{setting.name}  ·  {setting.budget.spelt}  ·  {measure.title}, {measure.unit}")
    ax.set_xlabel(
        f"labels  (mean of {seeds} seed{'' if seeds == '1' else 's'}, 95 % bands)",
        fontsize=9,
        color=_INK,
    )
    n_labels = setting.budget.n_labels
    ax.set_xlim(n_labels[0], n_labels[-1])
    # Wide bands may leave the picture; the lines fill it.
    least, most = min(float(m.min()) for m in means), max(float(m.max()) for m in means)
    room = max(most - least, 1e-3 * measure.scale)
    low, high = max(ax.dataLim.y0, least - 0.3 * room), min(ax.dataLim.y1, most + 0.3 * room)
    if measure.scale == 100.0:
        high = min(100.0, high)
    ax.set_ylim(low - 0.05 * room, high + 0.05 * room)
    ax.grid(axis="y", color=_FAINT, linewidth=0.6)
    return _settled(figure)


@_literally
def savings_figure(savings: Sequence[Saving]) -> Figure:
    """The share of Random's labels that each strategy saves: a dot a setting, a bar for the median.

    Dots end just below -100 %; an arrow in the margin says how many lie further left. Who has fewer
    settings than others has their number in brackets.
    """
    shares: dict[Line, list[float]] = {}
    for saving in savings:
        shares.setdefault(saving.line, []).append(100.0 * saving.share)
    order = sorted(shares, key=lambda line: float(np.median(shares[line])))
    figure, ax = _canvas((9.0, 0.9 + 0.27 * len(order)))
    least = min(min(values) for values in shares.values())
    # A few hopeless settings must not squeeze all others together.
    edge = max(least - 4.0, _LEFT)
    left = edge - _MARGIN if least < edge else edge
    styles = styles_of([line.strategy for line in order])
    for height, (line, style) in enumerate(zip(order, styles, strict=True)):
        values = shares[line]
        middle = float(np.median(values))
        shown = [value for value in values if value >= edge]
        ax.plot(
            shown,
            [height] * len(shown),
            style.marker,
            color=style.colour,
            markersize=5,
            alpha=0.6,
            mew=0,
        )
        if middle >= edge:
            ax.plot(
                [middle] * 2,
                [height - 0.36, height + 0.36],
                color=_INK,
                linewidth=2.2,
                solid_capstyle="butt",
            )
        ax.annotate(
            f"{middle:+.0f} %",
            (1.01, height),
            xycoords=("axes fraction", "data"),
            fontsize=8.5,
            va="center",
            color=_INK,
        )
        hidden = len(values) - len(shown)
        if hidden:
            ax.plot(
                left, height, "<", color=style.colour, markersize=6, mew=0, clip_on=False, zorder=5
            )
            ax.annotate(
                f"{hidden} further left",
                (left, height),
                xytext=(6, 0),
                textcoords="offset points",
                fontsize=8.5,
                va="center",
                color=_INK,
            )
    ax.axvline(0.0, color="#888888", linewidth=0.9, zorder=0)
    ax.set_xlim(left=left)
    right = ax.get_xlim()[1]
    # No numbers on the margin, where the counts stand.
    ax.set_xticks([x for x in ax.get_xticks() if edge <= x <= right])
    most = max(len(values) for values in shares.values())
    few = {line: f" ({len(values)})" for line, values in shares.items() if len(values) < most}
    ax.set_yticks(range(len(order)), [f"{line.name}{few.get(line, '')}" for line in order])
    if few:
        ax.set_xlabel(
            f"in brackets: the number of settings, where it is not {most}", fontsize=9, color=_INK
        )
    ax.set_ylim(-0.7, len(order) - 0.3)
    _title(
        figure,
        "Labels saved against Random at equal quality, %  ·  a dot is a dataset with a budget, the "
        "bar the median",
    )
    ax.grid(axis="x", color=_FAINT, linewidth=0.6)
    return _settled(figure)


def to_png(figure: Figure, dpi: int = 160) -> bytes:
    """The same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def to_svg(figure: Figure, *, text_as_text: bool = False) -> str:
    """Letters are drawn as shapes, so that print looks the same everywhere; ``text_as_text`` keeps
    them searchable."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(
        {"svg.hashsalt": "parbals", "svg.fonttype": "none" if text_as_text else "path"}
    ):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue().decode("utf-8")


def inline_svg(figure: Figure, prefix: str, description: str) -> str:
    """For a page: no prolog, no metadata, names that no other picture on the page uses, and words
    for the blind."""
    svg = to_svg(figure, text_as_text=True)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    described = description.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg", f'<svg role="img" aria-label="{described}"', 1)


def _canvas(size: tuple[float, float]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    ax = figure.subplots()
    ax.tick_params(colors=_INK, labelsize=8.5, length=3)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("bottom", "left"))
        spine.set_color("#888888")
    return figure, ax


def _settled(figure: Figure) -> Figure:
    """Places are found once and not again for every file."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def _title(figure: Figure, text: str) -> None:
    """Above everything: a title of the axes alone would run into the legend beside them."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=10, color=_INK)


def _draw(
    ax: Axes,
    n_labels: np.ndarray,
    values: np.ndarray,
    name: str,
    style: Style,
    place: int,
    *,
    banded: bool,
) -> None:
    mean = values.mean(axis=0)
    if len(values) > 1 and banded:
        half = np.array([mean_interval(column).half_width for column in values.T])
        low, high = mean - half, mean + half
        ax.fill_between(n_labels, low, high, color=style.colour, alpha=0.10, linewidth=0)
        for edge in (low, high):
            ax.plot(
                n_labels,
                edge,
                color=style.colour,
                linewidth=0.6,
                alpha=0.55,
                linestyle=style.dashes,
            )
    ax.plot(
        n_labels,
        mean,
        label=name,
        color=style.colour,
        linestyle=style.dashes,
        linewidth=style.width,
        marker=style.marker,
        markersize=5,
        markerfacecolor="white" if style.dashes != "-" else style.colour,
        markeredgewidth=1.1,
        # Markers of different lines stand at different places, and not on every one of 200 rounds.
        markevery=(place % max(1, len(n_labels) // 11), max(1, len(n_labels) // 11)),
        zorder=4 if name == _FRONT else 3,
        clip_on=False,
    )
