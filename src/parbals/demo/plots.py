"""Pictures of a demo run: how accuracy grew, and where in the pool each first batch lies.

Figures are built without pyplot, so nothing global changes and no window system is needed.
"""

import io
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from parbals.demo.names import LIGHT, METRIC_NAMES, Theme, colour_of, name_of
from parbals.demo.run import DemoResult, FirstRound
from parbals.demo.summary import SIMILAR, standard_error, worth_of
from parbals.randomness import derive_generator

__all__ = ["curve_png", "learning_curve_png", "map_png", "pool_map", "pool_map_png"]

_CURVES = ("accuracy", "spam_f1")
_DPI = 160


def learning_curve_png(result: DemoResult, theme: Theme = LIGHT) -> bytes:
    """Both learning curves side by side."""
    return _png(
        (11.5, 4.4),
        theme,
        [partial(_draw_curve, result=result, metric=metric, theme=theme) for metric in _CURVES],
    )


def curve_png(result: DemoResult, metric: str, theme: Theme = LIGHT) -> bytes:
    """One learning curve: mean over seeds ± one standard error."""
    return _png(
        (6.4, 4.4), theme, [partial(_draw_curve, result=result, metric=metric, theme=theme)]
    )


def pool_map_png(result: DemoResult, places: dict[int, np.ndarray], theme: Theme = LIGHT) -> bytes:
    """The map with every strategy's first batch, side by side."""
    draws = [
        partial(_draw_map, first=result.first, places=places, strategy=s, theme=theme)
        for s in result.first.batches
    ]
    return _png((4.2 * len(draws), 4.6), theme, draws)


def map_png(
    result: DemoResult, places: dict[int, np.ndarray], strategy: str, theme: Theme = LIGHT
) -> bytes:
    """The map with one strategy's first batch."""
    return _png(
        (4.4, 4.8),
        theme,
        [partial(_draw_map, first=result.first, places=places, strategy=strategy, theme=theme)],
    )


def pool_map(result: DemoResult, seed: int = 0) -> dict[int, np.ndarray]:
    """Places in the plane of a random part of the pool and of every batch, {pool position: (x, y)}.

    t-SNE keeps neighbours together: messages that read alike to the model become one clump.
    """
    first = result.first
    drawn = derive_generator(seed, "map").permutation(len(first.X_pool))[: result.settings.n_shown]
    rows = np.unique(np.concatenate([drawn, *(batch.indices for batch in first.batches.values())]))
    neighbours = min(30.0, (len(rows) - 1) / 3)
    tsne = TSNE(init="pca", metric="cosine", perplexity=neighbours, max_iter=600, random_state=seed)
    # One thread, for the same reason as in the features: at this size several mostly wait for each
    # other.
    with threadpool_limits(1):
        return dict(zip(rows.tolist(), tsne.fit_transform(first.X_pool[rows]), strict=True))


def _png(size: tuple[float, float], theme: Theme, draws: Sequence[Callable[[Axes], None]]) -> bytes:
    figure = Figure(figsize=size, layout="constrained", facecolor=theme.page)
    for ax, draw in zip(figure.subplots(1, len(draws), squeeze=False)[0], draws, strict=True):
        ax.set_facecolor(theme.page)
        draw(ax)
    buffer = io.BytesIO()
    # No software version in the file: the same run gives the same bytes.
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()


def _draw_curve(ax: Axes, result: DemoResult, metric: str, theme: Theme) -> None:
    n_labels = result.settings.n_labels
    ends: dict[str, float] = {}
    for strategy in result.settings.strategies:
        values = 100 * result.metric(metric, strategy)
        colour = colour_of(strategy, theme)
        mean, error = values.mean(axis=0), standard_error(values)
        ax.fill_between(n_labels, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
        ax.plot(n_labels, mean, color=colour, linewidth=2.2, marker="o", markersize=4)
        ends[strategy] = float(values[:, -1].mean())
    low, high = ax.get_ylim()
    for strategy, height in _spread(ends, 0.065 * (high - low)).items():
        ax.annotate(
            f"{name_of(strategy)} {ends[strategy]:.1f}",
            (n_labels[-1], height),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=colour_of(strategy, theme),
            fontweight="bold",
            annotation_clip=False,
        )
    ax.set_xticks(n_labels)
    ax.set_xlim(n_labels[0], n_labels[-1] + 0.34 * (n_labels[-1] - n_labels[0]))
    ax.set_xlabel("messages labelled", color=theme.ink)
    ax.set_title(
        f"{METRIC_NAMES[metric]} on unseen messages, %", loc="left", color=theme.ink, fontsize=11
    )
    ax.tick_params(colors=theme.ink, labelsize=9)
    ax.grid(axis="y", color=theme.faint, linewidth=0.6, alpha=0.6)
    for side, spine in ax.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(theme.faint)


def _draw_map(
    ax: Axes, first: FirstRound, places: dict[int, np.ndarray], strategy: str, theme: Theme
) -> None:
    rows = np.array(list(places))
    at = np.array([places[row] for row in rows])
    spam = first.pool.labels[rows] == "spam"
    ax.scatter(at[~spam, 0], at[~spam, 1], s=6, color=theme.ham, linewidths=0)
    ax.scatter(at[spam, 0], at[spam, 1], s=6, color=theme.spam, linewidths=0)
    chosen = np.array([places[row] for row in first.batches[strategy].indices.tolist()])
    for i, j in np.argwhere(np.triu(first.similarity[strategy], 1) >= SIMILAR):
        ax.plot(
            chosen[[i, j], 0], chosen[[i, j], 1], color=colour_of(strategy, theme), linewidth=1.2
        )
    ax.scatter(
        chosen[:, 0],
        chosen[:, 1],
        s=95,
        color=colour_of(strategy, theme),
        edgecolors=theme.page,
        linewidths=1.2,
        alpha=0.9,
    )
    worth = worth_of(first, strategy)
    ax.set_title(
        name_of(strategy),
        loc="left",
        color=colour_of(strategy, theme),
        fontweight="bold",
        fontsize=12,
        pad=22,
    )
    line = f"joint information {worth.joint:.0f} mnat, {worth.redundancy_text} redundant"
    ax.text(0, 1.02, line, transform=ax.transAxes, color=theme.ink, fontsize=9)
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_color(theme.faint)


def _spread(heights: dict[str, float], gap: float) -> dict[str, float]:
    """The same heights, pushed apart where two labels would overlap."""
    order = sorted(heights, key=lambda name: heights[name])
    placed = [heights[name] for name in order]
    for _ in range(50):
        for low in range(len(placed) - 1):
            missing = gap - (placed[low + 1] - placed[low])
            if missing > 1e-9:
                placed[low] -= missing / 2
                placed[low + 1] += missing / 2
    return dict(zip(order, placed, strict=True))
