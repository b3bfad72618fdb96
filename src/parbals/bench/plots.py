"""Learning curves with 95 % bands. Lines differ in colour, dashes and marker, so that grey print is enough.

Figures are built without pyplot, so nothing global changes and no window system is needed.
"""

import io
import re
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parbals.bench.collect import Line, Setting
from parbals.bench.names import style_of
from parbals.bench.stats import mean_interval

__all__ = ["METRIC_NAMES", "curve_figure", "inline_svg", "to_png", "to_svg"]

METRIC_NAMES = {
    "accuracy": "Test accuracy, %",
    "log_loss": "Log loss, nats",
    "calibration_error": "Calibration error, %",
    "f1": "F1, %",
    "balanced_accuracy": "Balanced accuracy, %",
}
_INK, _FAINT = "#222222", "#d9d9d9"
_BANDED = ("random", "parbals-map-epig", "parbals-epig")
_FEW = 6
_ENOUGH_SEEDS = 5


def curve_figure(setting: Setting, strategies: Sequence[str], metric: str = "accuracy") -> Figure:
    """Mean over seeds against the number of labels; the band is the 95 % Student-t interval of the mean.

    With more than six lines only Random and ParBaLS keep their bands, and with fewer than five seeds, whose
    intervals are huge, ParBaLS EPIG alone: more would hide what they are to show.
    """
    figure = Figure(figsize=(7.0, 4.0), layout="constrained", facecolor="white")
    ax = figure.subplots()
    lines = setting.lines(strategies)
    n_labels = np.array(setting.budget.n_labels)
    scale = 1.0 if metric == "log_loss" else 100.0
    ends: dict[Line, float] = {}
    means: list[np.ndarray] = []
    for place, line in enumerate(lines):
        values = scale * setting.values(line, metric)
        means.append(values.mean(axis=0))
        ends[line] = float(means[-1][-1])
        _draw(ax, n_labels, values, line, place, len(lines))
    order = sorted(lines, key=lambda line: ends[line], reverse=metric not in ("log_loss", "calibration_error"))
    handles = {text.get_label(): text for text in ax.get_lines()}
    figure.legend(
        [handles[line.name] for line in order],
        [f"{line.name}  {ends[line]:.{3 if scale == 1.0 else 1}f}" for line in order],
        loc="outside right upper",
        frameon=False,
        fontsize=8.5,
        handlelength=3.4,
        labelspacing=0.55,
        title="at the end",
        title_fontsize=8.5,
        alignment="left",
    )
    n_seeds = sorted({len(setting.records[line]) for line in lines})
    seeds = f"{n_seeds[0]}" if len(n_seeds) == 1 else f"{n_seeds[0]} to {n_seeds[-1]}"
    ax.set_title(
        f"{setting.name}  ·  {setting.budget.spelt}  ·  {METRIC_NAMES[metric]}",
        loc="left",
        fontsize=10,
        color=_INK,
        pad=8,
    )
    ax.set_xlabel(f"labels  (mean of {seeds} seed{'' if seeds == '1' else 's'}, 95 % bands)", fontsize=9, color=_INK)
    ax.set_xlim(n_labels[0], n_labels[-1])
    # Wide bands may leave the picture; the lines fill it.
    least, most = float(np.min(means)), float(np.max(means))
    room = max(most - least, 1e-3 * scale)
    low, high = max(ax.dataLim.y0, least - 0.3 * room), min(ax.dataLim.y1, most + 0.3 * room)
    if scale == 100.0:
        high = min(100.0, high)
    ax.set_ylim(low - 0.05 * room, high + 0.05 * room)
    ax.tick_params(colors=_INK, labelsize=8.5, length=3)
    ax.grid(axis="y", color=_FAINT, linewidth=0.6)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("bottom", "left"))
        spine.set_color("#888888")
    return figure


def to_png(figure: Figure, dpi: int = 160) -> bytes:
    """The same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def to_svg(figure: Figure, *, text_as_text: bool = False) -> str:
    """Letters are drawn as shapes, so that print looks the same everywhere; ``text_as_text`` keeps them searchable."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "parbals", "svg.fonttype": "none" if text_as_text else "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue().decode("utf-8")


def inline_svg(figure: Figure, prefix: str, description: str) -> str:
    """For a page: no prolog, no metadata, names that no other picture on the page uses, and words for the blind."""
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


def _draw(ax: Axes, n_labels: np.ndarray, values: np.ndarray, line: Line, place: int, n_lines: int) -> None:
    style = style_of(line.strategy, place)
    mean = values.mean(axis=0)
    banded = n_lines <= _FEW or line.strategy in _BANDED
    if len(values) > 1 and banded and (len(values) >= _ENOUGH_SEEDS or line.strategy == "parbals-epig"):
        half = np.array([mean_interval(column).half_width for column in values.T])
        low, high = mean - half, mean + half
        ax.fill_between(n_labels, low, high, color=style.colour, alpha=0.10, linewidth=0)
        for edge in (low, high):
            ax.plot(n_labels, edge, color=style.colour, linewidth=0.6, alpha=0.55, linestyle=style.dashes)
    front = 4 if line.strategy == "parbals-epig" else 3
    ax.plot(
        n_labels,
        mean,
        label=line.name,
        color=style.colour,
        linestyle=style.dashes,
        linewidth=style.width,
        marker=style.marker,
        markersize=5,
        markerfacecolor="white" if style.dashes != "-" else style.colour,
        markeredgewidth=1.1,
        # Markers of different lines stand at different places, and not on every one of 200 rounds.
        markevery=(place % max(1, len(n_labels) // 11), max(1, len(n_labels) // 11)),
        zorder=front,
        clip_on=False,
    )
