"""Pictures of a demo run: how accuracy grew, and where in the pool each first batch lies."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from parbals.randomness import derive_generator
from parbals.strategies.table import strategy_title
from parbals.wording import percent
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from parbals_bench.datasets.sms_spam import CLASSES
from parbals_bench.datasets.table import dataset_title
from parbals_bench.demo.run import SIMILAR, STRATEGIES, Demo
from parbals_bench.report.plots import Curve, curve_figure, styles_of
from parbals_bench.run.metrics import METRICS

__all__ = ["COLOURS", "curves", "map_figure", "pool_map"]

COLOURS = {name: style[0] for name, style in zip(STRATEGIES, styles_of(STRATEGIES), strict=True)}
_INK, _FRAME, _HAM, _SPAM = "#222222", "#c9ced8", "#d3d7df", "#9aa2b1"


def curves(demo: Demo, metric: str) -> Figure:
    """The learning curves of one metric: mean over seeds with its 95 % interval."""
    lines = [
        Curve(strategy_title(name), name, demo.budget.n_labels, demo.values(name, metric) / 100)
        for name in STRATEGIES
    ]
    title = f"{dataset_title('sms-spam')}  ·  {demo.budget.spelt}"
    figure = curve_figure(lines, title, METRICS[metric])
    figure.axes[0].set_xticks(demo.budget.n_labels)
    return figure


def pool_map(demo: Demo, n_shown: int = 1_000, seed: int = 0) -> dict[int, np.ndarray]:
    """Places in the plane of a random part of the pool and of every batch, {pool position: (x, y)}.

    t-SNE keeps neighbours together: messages that read alike to the model become one clump.
    """
    drawn = derive_generator(seed, "map").permutation(len(demo.X_pool))[:n_shown]
    rows = np.unique(np.concatenate([drawn, *(batch.rows for batch in demo.first.values())]))
    neighbours = min(30.0, (len(rows) - 1) / 3)
    tsne = TSNE(init="pca", metric="cosine", perplexity=neighbours, max_iter=600, random_state=seed)
    # One thread: at this size several mostly wait for each other.
    with threadpool_limits(1):
        return dict(zip(rows.tolist(), tsne.fit_transform(demo.X_pool[rows]), strict=True))


def map_figure(
    demo: Demo, places: dict[int, np.ndarray], strategies: Sequence[str] = STRATEGIES
) -> Figure:
    """The map with the first batch of each strategy; lines join near-duplicates."""
    figure = Figure(figsize=(4.2 * len(strategies), 4.6), layout="constrained", facecolor="white")
    axes = figure.subplots(1, len(strategies), squeeze=False)[0]
    for ax, strategy in zip(axes, strategies, strict=True):
        _draw_map(ax, demo, places, strategy)
    return figure


def _draw_map(ax: Axes, demo: Demo, places: dict[int, np.ndarray], strategy: str) -> None:
    rows = np.array(list(places))
    at = np.array([places[row] for row in rows])
    is_spam = demo.pool.labels[rows] == CLASSES[1]
    for colour, group in ((_HAM, at[~is_spam]), (_SPAM, at[is_spam])):
        ax.scatter(group[:, 0], group[:, 1], s=6, color=colour, linewidths=0)
    batch, colour = demo.first[strategy], COLOURS[strategy]
    dots = np.array([places[row] for row in batch.rows.tolist()])
    for pair in np.argwhere(np.triu(batch.similarity, 1) >= SIMILAR):
        ax.plot(*dots[pair].T, color=colour, linewidth=1.2)
    edge: dict[str, Any] = {"edgecolors": "white", "linewidths": 1.2}
    ax.scatter(dots[:, 0], dots[:, 1], s=95, color=colour, alpha=0.9, **edge)
    title = strategy_title(strategy)
    ax.set_title(title, loc="left", color=colour, fontweight="bold", fontsize=12, pad=22)
    line = f"{percent(batch.redundancy)} of what these messages know is said twice"
    ax.text(0, 1.02, line, transform=ax.transAxes, color=_INK, fontsize=9)
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_color(_FRAME)
