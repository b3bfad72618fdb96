"""Made sessions of each statement with a probability, at settings that were chosen to break it.

A stream is a function (cell, number of sessions, generator) → for every session whether the lower
and the upper limit failed, and the mean width of the interval. Somebody who reads a statement again
and again sees a failure where it fails at any of the readings, so a session has one if any does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

__all__ = ["STATEMENTS", "Cell", "Outcome", "Statement", "predicted_pool"]

Cell = tuple[Any, ...]
DELTA = 0.05
CHECKS = range(10, 201, 10)
"""Numbers of checked answers at which somebody reads a program's report."""


@dataclass(frozen=True)
class Outcome:
    """What happened in sessions of one cell.

    Attributes:
        low, high: (sessions,) whether the lower and the upper limit failed.
        width: mean width of the interval; NaN where there is none.
    """

    low: np.ndarray
    high: np.ndarray
    width: float = float("nan")


# -- pools with predictions


def predicted_pool(
    kind: str, n_items: int, share: float, mistakes: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Values (N,) and predictions (N,).

    Args:
        kind: "misses", "false alarms" or "both": a model that is sure of everything, and wrong
            about ``mistakes`` of all items; "calibrated", with ``mistakes`` as the precision of its
            beta distribution; "useless"; or "errors": of a model with a share of hard items, which
            it expects to get wrong, and ``mistakes`` of all its errors where it is sure.
    """
    uniform = generator.random(n_items)
    if kind == "useless":
        return (uniform < share).astype(float), generator.random(n_items)
    if kind == "calibrated":
        predictions = generator.beta(share * mistakes, (1.0 - share) * mistakes, n_items)
        return (uniform < predictions).astype(float), predictions
    if kind == "errors":
        is_hard = generator.random(n_items) < share
        sure_error = 0.9 * share * mistakes / (1.0 - mistakes) / (1.0 - share)
        values = (uniform < np.where(is_hard, 0.9, sure_error)).astype(float)
        noise = 0.02 * generator.random(n_items)
        return values, np.where(is_hard, 0.88, 0.005) + noise
    values = (uniform < share).astype(float)
    miss = {"misses": 1.0, "false alarms": 0.0, "both": 0.5}[kind] * mistakes
    flips = np.where(values == 1.0, min(0.6, miss / share), (mistakes - miss) / (1.0 - share))
    decided = np.where(generator.random(n_items) < flips, 1.0 - values, values)
    return values, np.abs(decided - generator.beta(0.5, 30.0, n_items))


# -- statements of a learner


def class_share(cell: Cell, n_sessions: int, generator: np.random.Generator) -> Outcome:
    """`parbals estimate`: a cell is (kind, items, share, mistakes, labels)."""
    from parbals.learner.evaluation.limits import stratified_limits

    kind, n_items, share, mistakes, n = cell
    values, predictions = predicted_pool(kind, n_items, share, mistakes, generator)
    limits = np.empty((n_sessions, 2))
    for session in range(n_sessions):
        order = generator.permutation(n_items)
        sampled = order[:n]
        others = predictions[order[n:]]
        limits[session] = stratified_limits(values[sampled], predictions[sampled], others, DELTA)[
            1:
        ]
    return _outcome(limits, values.mean())


def kept_sample(cell: Cell, n_sessions: int, generator: np.random.Generator) -> Outcome:
    """A kept sample at half, full, twice and four times the labels, with a new model at each.

    A cell is (size, items, share of hard items at first, share of errors where it is sure).
    """
    from parbals.learner.evaluation.limits import stratified_limits
    from parbals.learner.evaluation.looks import latest_look

    size, n_items, first_share, mistakes = cell
    order = np.arange(24 * size)
    is_audit = (order % 3 == 1) & (order // 3 < size)
    looks = []
    for n_labels in (3 * size // 2, 3 * size, 6 * size, 12 * size):
        look = latest_look(is_audit[:n_labels], size)
        if look is not None:
            looks.append(look)
    fails = np.zeros((2, n_sessions), bool)
    widths = []
    for session in range(n_sessions):
        positions = generator.permutation(n_items)
        for number, look in enumerate(looks):
            share = first_share * 0.6**number
            values, predictions = predicted_pool("errors", n_items, share, mistakes, generator)
            # Of any item of the source, not only of this pool.
            truth = 0.9 * share + 0.9 * share * mistakes / (1.0 - mistakes)
            n = int(is_audit[: look.n_labels].sum())
            sampled = positions[:n]
            _, low, high = stratified_limits(
                values[sampled], predictions[sampled], predictions[positions[n:]], look.delta
            )
            fails[:, session] |= (truth < low, truth > high)
            widths.append(high - low)
    return Outcome(fails[0], fails[1], float(np.mean(widths)))


def measured_now(cell: Cell, n_sessions: int, generator: np.random.Generator) -> Outcome:
    """A first measurement: a cell is (items, wrong ones, labels)."""
    from parbals.learner.evaluation.certify import hypergeometric_limits, sample_delta

    n_items, n_marked, n = cell
    counts = generator.hypergeometric(n_marked, n_items - n_marked, n, n_sessions)
    by_count = {
        int(count): hypergeometric_limits(int(count), n, n_items, sample_delta(1))
        for count in np.unique(counts)
    }
    limits = np.array([by_count[int(count)] for count in counts])
    return _outcome(limits, n_marked / n_items)


RESIDUALS: dict[str, tuple[Callable[[np.random.Generator, Any], np.ndarray], float, float]] = {
    "normal": (lambda g, shape: g.standard_normal(shape), 1.0, 0.674490),
    "Laplace": (lambda g, shape: g.laplace(size=shape), 2.0, 0.693147),
    "lognormal": (
        lambda g, shape: g.lognormal(size=shape) - np.exp(0.5),
        (np.e - 1.0) * np.e,
        float("nan"),
    ),
    "t with 3 degrees of freedom": (lambda g, shape: g.standard_t(3, shape), 3.0, 0.764892),
    "3 % gross errors": (
        lambda g, shape: g.standard_normal(shape) * np.where(g.random(shape) < 0.03, 20.0, 1.0),
        0.97 + 0.03 * 400.0,
        float("nan"),
    ),
}
"""Name → residuals, their mean square, and the median of their size (NaN: by a large draw)."""


def rmse(cell: Cell, n_sessions: int, generator: np.random.Generator) -> Outcome:
    """The RMSE of a kept sample when it is full: a cell is (residuals, labels)."""
    from parbals.learner.evaluation.rmse import chi_square_limits

    name, n = cell
    draw, mean_square, _ = RESIDUALS[name]
    squares = np.square(draw(generator, (n_sessions, n)))
    limits = np.array([chi_square_limits(row, 0.7 * DELTA) for row in squares])
    return _outcome(limits, mean_square**0.5)


def median_error(cell: Cell, n_sessions: int, generator: np.random.Generator) -> Outcome:
    """The median absolute error of a kept sample when it is full: a cell is (residuals, labels)."""
    from parbals.learner.evaluation.rmse import median_limit

    name, n = cell
    draw, _, median = RESIDUALS[name]
    if np.isnan(median):
        median = float(np.median(np.abs(draw(generator, 4_000_000))))
    errors = np.abs(draw(generator, (n_sessions, n)))
    limits = np.array([median_limit(row, 0.7 * DELTA) for row in errors], float)
    return Outcome(np.zeros(n_sessions, bool), limits < median)


# -- statements about a program, read after every ten checks


def program_error(cell: Cell, n_sessions: int, generator: np.random.Generator) -> Outcome:
    """A program's error: a cell is (error,)."""
    from parbals.learner.evaluation.limits import sequence_limits

    (error,) = cell
    counts = (generator.random((n_sessions, CHECKS[-1])) < error).cumsum(axis=1)
    fails = np.zeros((2, n_sessions), bool)
    for n in CHECKS:
        limits = np.array([sequence_limits(int(count), n, DELTA) for count in counts[:, n - 1]])
        fails |= (error < limits[:, 0], error > limits[:, 1])
    return Outcome(*fails, float((limits[:, 1] - limits[:, 0]).mean()))


def program_share(cell: Cell, n_sessions: int, generator: np.random.Generator) -> Outcome:
    """Class shares among a program's answers: a cell is (share, false alarms, misses)."""
    from parbals_label.project.program_shares import corrected_share

    share, false_alarms, misses = cell
    n_items = 2_000
    fails = np.zeros((2, n_sessions), bool)
    for session in range(n_sessions):
        is_class = (generator.random(n_items) < share).astype(float)
        chance = np.where(is_class == 1.0, 1.0 - misses, false_alarms)
        by_program = (generator.random(n_items) < chance).astype(float)
        for n in CHECKS:
            estimate = corrected_share(is_class[:n], by_program[:n], by_program[n:])
            truth = is_class.mean()
            fails[:, session] |= (truth < estimate.low, truth > estimate.high)
    return Outcome(*fails)


WRONG_BY_CONFIDENCE: dict[str, Callable[[float, np.ndarray], np.ndarray]] = {
    "none": lambda error, confidence: np.full(len(confidence), error),
    "informative": lambda error, confidence: 2 * error * (1 - confidence),
    "useless": lambda error, confidence: np.full(len(confidence), error),
    "reversed": lambda error, confidence: 2 * error * confidence,
    "few doubts": lambda error, confidence: np.where(confidence < 0.2, 4.5 * error, error / 8),
}


def program_mix(cell: Cell, n_sessions: int, generator: np.random.Generator) -> Outcome:
    """The mix for a goal, followed at the first reading that pleases: (confidence, error, goal)."""
    from parbals_label.project.program_mix import relabelling

    kind, error, goal = cell
    n_items = 2_000
    fails = np.zeros(n_sessions, bool)
    for session in range(n_sessions):
        confidence = generator.random(n_items)
        chance = WRONG_BY_CONFIDENCE[kind](error, confidence)
        is_wrong = generator.random(n_items) < chance
        confidences = [] if kind == "none" else confidence
        for n in CHECKS[::2]:
            checks = list(zip(confidence[:n].tolist(), is_wrong[:n].tolist(), strict=True))
            mix = relabelling(confidences, checks, goal)
            left = (1.0 - mix.share) * is_wrong.mean()
            if mix.threshold is not None:
                left = (is_wrong & (confidence > mix.threshold)).mean()
            fails[session] |= left > goal
    return Outcome(np.zeros(n_sessions, bool), fails)


def drift(cell: Cell, n_sessions: int, generator: np.random.Generator) -> Outcome:
    """False alarms of one of the two tests for drift, from 20 to 320 checks: a cell is (error,)."""
    from parbals_label.project.change_point import increase_at_look

    (error,) = cell
    looks = [20 * 2**k for k in range(5)]
    alarms = np.zeros(n_sessions, bool)
    for session in range(n_sessions):
        is_wrong = generator.random(looks[-1]) < error
        alarms[session] = any(
            increase_at_look(is_wrong[:n], n, 0.01, generator) is not None for n in looks
        )
    return Outcome(np.zeros(n_sessions, bool), alarms)


def _outcome(limits: np.ndarray, truth: float) -> Outcome:
    """Compare limits (sessions, 2) with the truth."""
    low, high = limits.T
    return Outcome(truth < low - 1e-12, truth > high + 1e-12, float((high - low).mean()))


# -- all of them


@dataclass(frozen=True)
class Statement:
    """A statement with a probability.

    Attributes:
        name: in the table.
        stream: its sessions.
        cells: settings.
        may_fail: share of sessions in which it may fail; None where that depends on what nobody
            knows, such as the distribution of errors.
        upper_alone: whether only the upper limit is stated.
        kind: "exact", or "asymptotic".
        worst: the cell that a test repeats.
    """

    name: str
    stream: Callable[[Cell, int, np.random.Generator], Outcome]
    cells: tuple[Cell, ...]
    may_fail: float | None
    upper_alone: bool
    kind: str
    worst: Cell


def _share_cells() -> Iterator[Cell]:
    for n_items, n in product((500, 5_000), (20, 60, 200)):
        for share, mistakes in product((0.02, 0.06, 0.2, 0.5), (0.01, 0.03)):
            for kind in ("misses", "false alarms", "both"):
                yield kind, n_items, share, mistakes, n
        for share, precision in product((0.06, 0.2, 0.5), (0.3, 1.0, 4.0)):
            yield "calibrated", n_items, share, precision, n
        for share in (0.06, 0.2, 0.5):
            yield "useless", n_items, share, 0.0, n


_KEPT_CELLS = tuple(product((60, 200), (600, 2_000), (0.2, 0.1, 0.05), (0.1, 0.25, 0.5)))
_NOW_CELLS = tuple(
    (n_items, max(1, round(n_items * share)), n)
    for n_items, share, n in product(
        (100, 500, 5_000), (0.01, 0.02, 0.05, 0.082, 0.1, 0.2, 0.4), (20, 60)
    )
)
_RESIDUAL_CELLS = tuple(product(RESIDUALS, (20, 60, 200)))
_SHARE_CELLS = (
    *((0.2, 0.0, 0.0), (0.2, 0.1, 0.1), (0.1, 0.3, 0.0), (0.05, 0.0, 0.6), (0.3, 0.5, 0.5)),
    *((0.06, 0.0, 0.3), (0.06, 0.02, 0.0), (0.5, 0.01, 0.01)),
)
_MIX_CELLS = (
    *(("none", 0.06, 0.05), ("none", 0.11, 0.10)),
    *((kind, 0.15, 0.05) for kind in WRONG_BY_CONFIDENCE if kind != "none"),
)
_ERRORS = ((0.02,), (0.05,), (0.1,), (0.25,), (0.5,))

STATEMENTS = {
    "now": Statement(
        "*The error is at most x %*: a first measurement",
        *(measured_now, _NOW_CELLS, 0.0375, True, "exact", (100, 8, 60)),
    ),
    "kept": Statement(
        "*The error is below x %*: kept sample, at all looks, with changing models",
        *(kept_sample, _KEPT_CELLS, 0.05, True, "asymptotic", (60, 2_000, 0.1, 0.25)),
    ),
    "share": Statement(
        "The 90 % interval holds a class's share: `parbals estimate`",
        *(class_share, tuple(_share_cells()), 0.1, False, "asymptotic"),
        worst=("misses", 5_000, 0.06, 0.03, 60),
    ),
    "rmse-normal": Statement(
        "The 90 % interval holds the RMSE: normal errors, full kept sample",
        *(rmse, _RESIDUAL_CELLS[:3], 0.07, False, "exact", ("normal", 60)),
    ),
    "rmse": Statement(
        "… other errors: *about*",
        *(rmse, _RESIDUAL_CELLS[3:], None, False, "none", ("Laplace", 60)),
    ),
    "median": Statement(
        "*Half of the errors are at most x*: full kept sample, any errors",
        *(median_error, _RESIDUAL_CELLS, 0.035, True, "exact", ("lognormal", 60)),
    ),
    "program": Statement(
        "The 90 % interval holds a program's error, read at 10, 20, … 200 checks",
        *(program_error, _ERRORS, 0.1, False, "exact", (0.1,)),
    ),
    "program-share": Statement(
        "… a class's share among its answers, likewise",
        *(program_share, _SHARE_CELLS, 0.1, False, "asymptotic", (0.06, 0.0, 0.3)),
    ),
    "mix": Statement(
        "*The goal is met with 95 % certainty*: a mix, read at 10, 30, … 190 checks",
        *(program_mix, _MIX_CELLS, 0.05, True, "exact", ("none", 0.06, 0.05)),
    ),
    "drift": Statement(
        "*Seems to have become worse*, one of two tests, from 20 to 320 checks",
        *(drift, ((0.1,), (0.25,)), 0.01, True, "exact", (0.1,)),
    ),
}
