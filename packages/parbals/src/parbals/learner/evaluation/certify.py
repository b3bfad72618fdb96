"""A certificate: the error of decisions for a finite population, by a fresh random sample.

An audit is drawn at the beginning and evaluated at several looks. A certificate is a single look,
at any time, also without an audit. From the R items without a label, n are drawn at random. The
model's decisions for all R items are fixed, and people label the n. If M of the R decisions are
wrong, the number K of wrong ones in the sample is hypergeometric, and

    U = max {M : P(K ≤ k | M) > δ},    L = min {M : P(K ≥ k | M) > δ}

each fail with probability δ = 5 % at most, exactly, whatever the model is and however the other
labels were chosen. The statement is about these R decisions: only the draw is random.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parbals.errors import InputError
from parbals.learner.evaluation.looks import DELTA
from parbals.learner.evaluation.report import with_interval
from parbals.randomness import derive_generator
from parbals.types import Estimate
from parbals.wording import percent

if TYPE_CHECKING:  # a project draws its sample without loading a model
    from parbals.learner.state import State

__all__ = [
    "CERTIFY",
    "Certificate",
    "Sample",
    "draw_certificate_sample",
    "draw_sample",
    "evaluate_sample",
    "hypergeometric_limits",
]

CERTIFY = "certify"
"""The name, in place of a strategy's, under which items of a certificate's sample are chosen."""


@dataclass(frozen=True)
class Sample:
    """A random sample of items without a label, with the decisions made before they were labelled.

    Attributes:
        items: (n,) the items as the learner names them.
        positions: (n,) their positions in the pool.
        decided: (n,) class numbers that the model decided for them.
        n_population: R, the number of items that the sample was drawn from.
        n_labels: number of labels that the model was trained with.
    """

    items: list[Any]
    positions: list[int]
    decided: list[int]
    n_population: int
    n_labels: int


@dataclass(frozen=True)
class Certificate:
    """The error of a model's decisions for the items without a label, measured by a sample.

    Attributes:
        n: size of the sample.
        n_wrong: number of wrong decisions in the sample.
        n_population: R, the number of items that the sample was drawn from.
        n_labels: number of labels that the model was trained with.
        error: share of wrong decisions among the R items, with a 90 % interval.
    """

    n: int
    n_wrong: int
    n_population: int
    n_labels: int
    error: Estimate

    def __str__(self) -> str:
        return (
            f"With 95 % confidence the error is below {percent(self.error.high)}: of {self.n} "
            f"random items among the {self.n_population:,} without a label the model trained on "
            f"{self.n_labels:,} labels got {self.n_wrong} wrong, {with_interval(self.error)}."
        )


def draw_sample(population: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """Draw (n,) of the positions in a population, in random order."""
    if n > len(population):
        raise InputError(
            f"A sample of {n} items was requested, but only {len(population)} items are neither "
            "labelled nor pending; request fewer."
        )
    return generator.choice(population, n, replace=False)


def draw_certificate_sample(state: "State", n: int, name: Callable[[int], Any]) -> Sample:
    """Draw ``n`` of a learner's free items, and fix the model's decisions for them.

    Args:
        n: size of the sample.
        name: returns the learner's name for the item at a position.
    """
    setup = state.setup
    if not setup.classes:
        raise InputError("A certificate counts wrong classes, not numbers; use an audit.")
    population = np.flatnonzero(state.is_free())
    key = state.key(with_pending=True).hex()
    generator = derive_generator(setup.seed, CERTIFY, len(state.pending), key)
    drawn = draw_sample(population, n, generator)
    model = state.fitted()
    decisions = setup.decide(model, setup.predictions(model, drawn))
    positions = drawn.tolist()
    return Sample(
        items=[name(position) for position in positions],
        positions=positions,
        decided=decisions.tolist(),
        n_population=len(population),
        n_labels=len(state.labels),
    )


def evaluate_sample(sample: Sample, labels: Mapping[int, int]) -> Certificate | None:
    """Compare a sample's decisions with its labels; None until every item has a label.

    Args:
        labels: position → class number.
    """
    if any(position not in labels for position in sample.positions):
        return None
    decisions = zip(sample.positions, sample.decided, strict=True)
    n_wrong = sum(labels[position] != decision for position, decision in decisions)
    n = len(sample.positions)
    low, high = hypergeometric_limits(n_wrong, n, sample.n_population)
    return Certificate(
        n=n,
        n_wrong=n_wrong,
        n_population=sample.n_population,
        n_labels=sample.n_labels,
        error=Estimate(n_wrong / n, low, high),
    )


def hypergeometric_limits(n_wrong: int, n: int, n_population: int) -> tuple[float, float]:
    """Compute exact limits of the share of a finite population that is wrong.

    >>> hypergeometric_limits(0, 100, 200)
    (0.0, 0.02)

    Args:
        n_wrong: number of wrong items in the sample.
        n: size of the sample, drawn without replacement.
        n_population: size of the population.
    """
    candidates = range(n_population + 1)

    def upper_tail(n_marked: int) -> float:
        return 1.0 - _hypergeometric_cdf(n_wrong - 1, n, n_marked, n_population)

    def negative_lower_tail(n_marked: int) -> float:
        return -_hypergeometric_cdf(n_wrong, n, n_marked, n_population)

    # Both tails increase with the number of wrong items, so bisection finds the limits.
    lowest_possible = bisect_right(candidates, DELTA, key=upper_tail)
    first_impossible = bisect_left(candidates, -DELTA, key=negative_lower_tail)
    return lowest_possible / n_population, (first_impossible - 1) / n_population


def _hypergeometric_cdf(k: int, n: int, n_marked: int, n_population: int) -> float:
    """Compute P(K ≤ k), K the number of marked items in n draws without replacement."""
    from scipy.special import gammaln  # scipy.stats takes seconds to load

    def log_choose(total: int, chosen: np.ndarray | int) -> Any:
        log_orders = gammaln(np.add(chosen, 1))
        return gammaln(total + 1) - log_orders - gammaln(total - np.asarray(chosen) + 1)

    counts = np.arange(max(0, n - (n_population - n_marked)), min(k, n_marked) + 1)
    log_ways = log_choose(n_marked, counts) + log_choose(n_population - n_marked, n - counts)
    return float(np.exp(log_ways - log_choose(n_population, n)).sum())
