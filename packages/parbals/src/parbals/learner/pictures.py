"""The progress of a learner as a matplotlib figure, and as HTML for notebooks.

Neither fits a model. The HTML has no scripts and loads nothing; names and labels are escaped.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from parbals.features.pca import principal_components
from parbals.files import need
from parbals.learner.evaluation.report import Estimate, Report, expected_error, with_interval
from parbals.learner.state import State
from parbals.randomness import derive_generator
from parbals.types import Batch

__all__ = ["PoolMap", "as_figure", "as_html", "map_of", "progress_sentence"]

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#767676")
"""Okabe and Ito's palette for colour-blind readers; further classes start again."""
_N_BACKGROUND_ITEMS = 600
_MAX_CLASSES_IN_TABLE = 10


class PoolMap(NamedTuple):
    """Items along the first two principal components.

    Attributes:
        coordinates: (n, 2).
        classes: (n,) class numbers, -1 without a label; 0 for every label of a task without class
            numbers.
        is_in_batch: (n,) whether the item is in the last batch.
    """

    coordinates: np.ndarray
    classes: np.ndarray
    is_in_batch: np.ndarray


def as_figure(state: State, batch: Batch | None, reports: Sequence[Report]) -> Any:
    """Draw a matplotlib figure: the error in each report, and the pool with its labels.

    ``batch`` is the last batch, which is marked; if it is None, all pending items are. Before the
    first report there is the pool alone.
    """
    figures = need("matplotlib.figure", "Plotting", "parbals[plot]")
    if not reports:
        figure = figures.Figure(figsize=(4.5, 3.6), layout="constrained")
        _draw_map(figure.subplots(), state, batch)
        figure.suptitle(progress_sentence(state), fontsize="medium")
        return figure
    figure = figures.Figure(figsize=(9, 3.6), layout="constrained")
    error_axes, map_axes = figure.subplots(1, 2)
    _draw_errors(error_axes, reports)
    error_axes.set(
        xlabel="labels",
        ylabel="error",
        title=progress_sentence(state),
        xlim=(0, None),
        ylim=(0, None),
    )
    _draw_map(map_axes, state, batch)
    return figure


def _draw_errors(axes: Any, reports: Sequence[Report]) -> None:
    """Draw expected and measured errors over the number of labels, with their intervals."""
    expected = [(report.n_labelled, expected_error(report)) for report in reports]
    measured = [(report.n_labelled, report.measured_error) for report in reports]
    _draw_curve(axes, expected, _COLOURS[0], "expected")
    _draw_curve(axes, measured, _COLOURS[3], "measured")
    if axes.lines:
        axes.legend(frameon=False)


def _draw_curve(
    axes: Any, points: Sequence[tuple[int, Estimate | None]], colour: str, name: str
) -> None:
    estimates = [(n_labels, estimate) for n_labels, estimate in points if estimate is not None]
    if not estimates:
        return
    n_labels = [n for n, _ in estimates]
    means = [estimate.mean for _, estimate in estimates]
    lows = [estimate.low for _, estimate in estimates]
    highs = [estimate.high for _, estimate in estimates]
    axes.plot(n_labels, means, "o-", color=colour, label=name)
    axes.fill_between(n_labels, lows, highs, color=colour, alpha=0.15, linewidth=0)
    if len(estimates) == 1:  # a band of one point has no width
        axes.vlines(n_labels, lows, highs, color=colour, alpha=0.4)


def _draw_map(axes: Any, state: State, batch: Batch | None) -> None:
    """Draw the pool, the labelled items by class, and the last batch."""
    coordinates, classes, is_in_batch = map_of(state, batch)
    axes.scatter(*coordinates[classes < 0].T, s=5, color="#9a9a9a", alpha=0.5)
    names = state.setup.classes if state.setup.task.has_samples else ("labelled",)
    for number, label in enumerate(names):
        text = str(label).replace("$", r"\$")  # matplotlib reads text between dollars as a formula
        colour = _COLOURS[number % len(_COLOURS)]
        axes.scatter(*coordinates[classes == number].T, s=18, color=colour, label=text)
    outline = {"facecolors": "none", "edgecolors": "black"}
    axes.scatter(*coordinates[is_in_batch].T, s=45, label="batch", **outline)
    axes.set(xticks=[], yticks=[], title="the pool")
    axes.legend(frameon=False, fontsize="small")


def map_of(state: State, batch: Batch | None) -> PoolMap:
    """Project items to the first two principal components.

    The components and the background are those of 600 items drawn by the seed, so the map does not
    move while labels come. All items that are labelled or in the batch are shown as well.
    """
    setup = state.setup
    n_items = setup.pool.n_rows
    if setup.pool.is_distributed:
        return PoolMap(np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros(0, bool))
    batch_positions = np.array(state.pending, np.int64) if batch is None else batch.indices
    generator = derive_generator(setup.seed, "map")
    n_background = min(n_items, _N_BACKGROUND_ITEMS)
    background = np.sort(generator.choice(n_items, n_background, replace=False))
    mean, components, _ = principal_components(setup.pool_rows(background), 2)
    foreground = np.concatenate([state.labelled, batch_positions]).astype(np.int64)
    positions = np.union1d(background, foreground)
    coordinates = np.zeros((len(positions), 2))
    centred = setup.pool_rows(positions).astype(np.float64) - mean
    coordinates[:, : len(components)] = centred @ components.T
    is_labelled = np.isin(positions, state.labelled)
    classes = np.full(len(positions), -1)
    if setup.task.has_samples:
        classes[is_labelled] = state.encoded_labels(positions[is_labelled])
    else:  # numbers and sets of labels are no mutually exclusive classes
        classes[is_labelled] = 0
    return PoolMap(coordinates, classes, np.isin(positions, batch_positions))


def progress_sentence(state: State) -> str:
    """Say how many items are labelled and pending."""
    n_items = state.setup.pool.n_rows
    n_labelled = len(state.majority_labels)
    return f"{n_labelled:,} of {n_items:,} labelled, {len(state.pending):,} pending"


def as_html(state: State, reports: Sequence[Report]) -> str:
    """Return a table of the progress and of the latest report, as HTML for notebooks."""
    from html import escape

    rows = {"Progress": progress_sentence(state)}
    counts = _majority_class_counts(state)
    if counts:
        rows["Labels"] = _counts_text(counts)
    n_audit = len(state.setup.audit)
    if n_audit:
        rows["Audit"] = f"{len(state.audited):,} of {n_audit:,} labelled"
    rows |= _report_rows(reports[-1]) if reports else {"Error": "Call report() to estimate it."}
    table = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items()
    )
    title = f"ActiveLearner by {state.setup.strategy}"
    return f"<div><b>{escape(title)}</b><table>{table}</table></div>"


def _majority_class_counts(state: State) -> dict[Any, int]:
    """Count the labels of each class by majority vote, which needs no annotator model."""
    task = state.setup.task
    return task.class_counts(np.array([*state.majority_labels.values()], task.dtype))


def _counts_text(counts: Mapping[Any, int]) -> str:
    """Write the labels of each class, or of the first ten."""
    texts = [f"{label} {count:,}" for label, count in counts.items()]
    if len(texts) > _MAX_CLASSES_IN_TABLE:
        n_more = len(texts) - _MAX_CLASSES_IN_TABLE
        texts = [*texts[:_MAX_CLASSES_IN_TABLE], f"… ({n_more} more classes)"]
    return ", ".join(texts)


def _report_rows(report: Report) -> dict[str, str]:
    """Return the error and the advice of a report, by the names of their rows."""
    rows = {}
    error_name = {"regression": "RMSE", "many-labels": "Hamming loss"}.get(report.task, "error")
    after = f"after {report.n_labelled:,} labels"
    expected = expected_error(report)
    if expected is not None:
        rows[f"Expected {error_name} {after}"] = _estimate_text(expected, report.task)
    if report.measured_error is not None:
        measured = _estimate_text(report.measured_error, report.task)
        rows[f"Measured {error_name} {after}"] = measured
    rows["Advice"] = report.advice
    return rows


def _estimate_text(estimate: Estimate, task: str) -> str:
    """Write an error: a share in percent, a number for regression."""
    return str(estimate) if task == "regression" else with_interval(estimate)
