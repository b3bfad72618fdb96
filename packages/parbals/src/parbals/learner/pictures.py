"""Pictures of a learner: where it stands as a matplotlib figure. No model is fitted for it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from parbals.features.pca import principal
from parbals.files import need
from parbals.learner.evaluation.report import Report, expected_error
from parbals.learner.state import State
from parbals.randomness import derive_generator
from parbals.types import Batch

__all__ = ["as_figure", "map_of", "standing"]

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#767676")
"""Okabe and Ito's, which the colour-blind can tell apart; further classes begin again."""
_POINTS = 600


def as_figure(state: State, batch: Batch | None, reports: Sequence[Report]) -> Any:
    """A matplotlib figure: errors after each report, and the pool with its labels.

    ``batch`` is the last one (None after loading: all that is out), ``reports`` those made so far.
    """
    figures = need("matplotlib.figure", "Plotting", "parbals[plot]")
    figure = figures.Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    expected = [(r.n_labelled, e) for r in reports if (e := expected_error(r)) is not None]
    measured = [(r.n_labelled, r.measured_error) for r in reports if r.measured_error]
    for points, colour, name in (
        (expected, _COLOURS[0], "expected"),
        (measured, _COLOURS[3], "measured"),
    ):
        if not points:
            continue
        labels = [n for n, _ in points]
        means, lows, highs = zip(*((e.mean, e.low, e.high) for _, e in points), strict=True)
        left.plot(labels, means, "o-", color=colour, label=name)
        left.fill_between(labels, lows, highs, color=colour, alpha=0.15, linewidth=0)
        if len(points) == 1:  # a band has no width yet
            left.vlines(labels, lows, highs, color=colour, alpha=0.4)
    left.set(xlabel="labels", ylabel="error", title=standing(state), xlim=(0, None), ylim=(0, None))
    if left.lines:
        left.legend(frameon=False)
    places, classes, is_out = map_of(state, batch)
    right.scatter(*places[classes < 0].T, s=5, color="#9a9a9a", alpha=0.5)
    names = state.setup.classes if state.setup.task.has_samples else ("labelled",)
    for number, label in enumerate(names):
        shown = str(label).replace("$", r"\$")  # formulas stand between dollars
        here = places[classes == number]
        right.scatter(*here.T, s=18, color=_COLOURS[number % len(_COLOURS)], label=shown)
    right.scatter(*places[is_out].T, s=45, facecolors="none", edgecolors="black", label="batch")
    right.set(xticks=[], yticks=[], title="the pool")
    right.legend(frameon=False, fontsize="small")
    return figure


def map_of(state: State, batch: Batch | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Items along the two directions in which they differ most.

    Places (n, 2), class numbers (n,), 0 of other labels and -1 without one, and whether an item is
    in the batch (n,). The background and the axes are those of 600 items drawn by the seed: the
    picture keeps still. All that are labelled or in the batch are there as well.
    """
    setup, n_items = state.setup, state.setup.pool.n_rows
    if setup.pool.is_distributed:
        return np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros(0, bool)
    out = np.array(state.pending, np.int64) if batch is None else batch.indices
    generator = derive_generator(setup.seed, "map")
    some = np.sort(generator.choice(n_items, min(n_items, _POINTS), replace=False))
    mean, axes, _ = principal(setup.pool_rows(some), 2)
    positions = np.union1d(some, np.concatenate([state.labelled, out]).astype(np.int64))
    places = np.zeros((len(positions), 2))
    places[:, : len(axes)] = (setup.pool_rows(positions).astype(np.float64) - mean) @ axes.T
    labelled = np.isin(positions, state.labelled)
    classes = np.full(len(positions), -1)
    # Numbers, and several labels an item, are no classes that exclude each other.
    classes[labelled] = state.encoded_labels(positions[labelled]) if setup.task.has_samples else 0
    return places, classes, np.isin(positions, out)


def standing(state: State) -> str:
    """How many items are labelled and out, in words."""
    n_items = state.setup.pool.n_rows
    return f"{len(state.labels):,} of {n_items:,} labelled, {len(state.pending):,} out"
