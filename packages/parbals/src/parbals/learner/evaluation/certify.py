"""One measurement: limits of the error of the model's current decisions, from a random sample.

It can begin at any time, and is evaluated once; :mod:`parbals.learner.evaluation.audit` measures
every later model as well. There are R items without a label, assigned to somebody or not: an active
learner assigns the hard ones, and without them the error would look smaller. The model's decisions
for all of them are fixed, n of the items are drawn at random, and people label these. If
M of the R decisions are wrong, the number K of wrong ones in the sample has a hypergeometric
distribution. Where k are observed, M lies between

    L = min {M : P(K ≥ k | M) > δ}    and    U = max {M : P(K ≤ k | M) > δ},

and each limit fails with a probability of at most δ: exactly, whatever the model is and however the
other labels were chosen. The statement is about these R decisions; only the draw is random. U
itself is possible, so the error is *at most* U / R.

*Items whose label is not known*, because nobody answered them or people were divided, count as
right in L and as wrong in U, so both limits hold whatever their labels are.

*Several samples.* Somebody who draws samples until one of them pleases would be wrong more often.
All samples of a learner or project therefore share δ = 5 %: the first has three quarters of it, and
sample k ≥ 2 has the share 6 / (π² (k - 1)²) of the last quarter. The shares add up to one, so by
the union bound all upper limits hold together with a probability of at least 95 %, and so do all
lower limits, however many samples are drawn and whichever of them is shown.
"""

import math
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
from parbals.wording import percent_above

if TYPE_CHECKING:  # so that a sample can be drawn without loading the models
    from parbals.learner.state import State

__all__ = [
    "CERTIFY",
    "Certificate",
    "Sample",
    "draw_certificate_sample",
    "draw_sample",
    "evaluate_sample",
    "hypergeometric_limits",
    "sample_delta",
]

CERTIFY = "certify"
"""Stands in place of a strategy's name for items that a certificate's sample contains."""
_FIRST_SHARE = 0.75
"""Share of δ that the first sample has."""


@dataclass(frozen=True)
class Sample:
    """A random sample of items without a label, with the decisions made before they were labelled.

    Attributes:
        items: (n,) the items as the learner names them.
        positions: (n,) their positions in the pool.
        decided: (n,) encoded labels that the model decided for them.
        n_population: R, the number of items that the sample was drawn from.
        n_labels: number of labels that the model was trained with.
        number: 1 for the first sample; later ones have less of δ.
    """

    items: list[Any]
    positions: list[int]
    decided: list[int]
    n_population: int
    n_labels: int
    number: int = 1


@dataclass(frozen=True)
class Certificate:
    """The error of a model's decisions for all items without a label, measured by a sample.

    Attributes:
        n: size of the sample.
        n_wrong: number of decisions in the sample that are known to be wrong.
        n_population: R, the number of items that the sample was drawn from.
        n_labels: number of labels that the model was trained with.
        error: share of wrong decisions among the R items, with a 90 % interval that holds together
            with those of all other samples. Its mean is the share among known labels.
        number: of the sample.
        n_unknown: items of the sample whose label is not known.
    """

    n: int
    n_wrong: int
    n_population: int
    n_labels: int
    error: Estimate
    number: int = 1
    n_unknown: int = 0

    def __str__(self) -> str:
        n_known = self.n - self.n_unknown
        drawn = f"{self.n} random items among the {self.n_population:,}"
        if not n_known:
            return (
                f"The error is not known: none of {drawn} that had no label at the draw has a "
                "label that people agree on."
            )
        counted = f": of {drawn}"
        if self.n_unknown:
            counted = f": of the {n_known} known labels of {drawn}"
        return (
            f"With 95 % confidence the error is at most {percent_above(self.error.high)}{counted} "
            f"that had no label at the draw the model trained on {self.n_labels:,} labels got "
            f"{self.n_wrong} wrong, {with_interval(self.error)}."
        )


def draw_sample(population: np.ndarray, n: int, generator: "np.random.Generator") -> np.ndarray:
    """Draw ``n`` of a population's positions, in random order."""
    if n > len(population):
        raise InputError(
            f"A sample of {n} items was requested, but only {len(population)} items have no label; "
            "request fewer."
        )
    return generator.choice(population, n, replace=False)


def draw_certificate_sample(
    state: "State", n: int, name_of: Callable[[int], Any], number: int = 1
) -> Sample:
    """Draw ``n`` of a learner's items without a label, and fix the model's decisions for them.

    Args:
        n: size of the sample.
        name_of: position → the item as the learner names it.
        number: of the sample, from 1.
    """
    setup = state.setup
    if not setup.classes:
        raise InputError(
            "A sample counts wrong decisions, and a number is never exactly right; keep a sample: "
            "measure(60, keep=True)."
        )
    population = np.setdiff1d(np.arange(setup.pool.n_rows), state.labelled)
    key = state.key(with_pending=True).hex()
    generator = derive_generator(setup.seed, CERTIFY, len(state.pending), key)
    drawn = draw_sample(population, n, generator)
    model = state.fitted()
    decisions = setup.decide(model, setup.predictions(model, drawn))
    positions = drawn.tolist()
    return Sample(
        items=[name_of(position) for position in positions],
        positions=positions,
        decided=decisions.tolist(),
        n_population=len(population),
        n_labels=len(state.labels),
        number=number,
    )


def evaluate_sample(sample: Sample, labels: Mapping[int, Any]) -> Certificate | None:
    """Compare a sample's decisions with its labels; None until every item was answered.

    Args:
        labels: position → encoded label, or None where it is not known.
    """
    if any(position not in labels for position in sample.positions):
        return None
    decisions = zip(sample.positions, sample.decided, strict=True)
    is_wrong = [
        labels[position] != decision
        for position, decision in decisions
        if labels[position] is not None
    ]
    n_wrong = sum(is_wrong)
    n = len(sample.positions)
    n_unknown = n - len(is_wrong)
    delta = sample_delta(sample.number)
    low, _ = hypergeometric_limits(n_wrong, n, sample.n_population, delta)
    _, high = hypergeometric_limits(n_wrong + n_unknown, n, sample.n_population, delta)
    return Certificate(
        n=n,
        n_wrong=n_wrong,
        n_population=sample.n_population,
        n_labels=sample.n_labels,
        error=Estimate(n_wrong / max(len(is_wrong), 1), low, high),
        number=sample.number,
        n_unknown=n_unknown,
    )


def sample_delta(number: int) -> float:
    """Compute the probability with which a limit of this sample may fail; over all samples Σ = δ.

    >>> round(sample_delta(1), 4)
    0.0375
    """
    if number == 1:
        return DELTA * _FIRST_SHARE
    return DELTA * (1.0 - _FIRST_SHARE) * 6.0 / (math.pi * (number - 1)) ** 2


def hypergeometric_limits(
    n_wrong: int, n: int, n_population: int, delta: float = DELTA
) -> tuple[float, float]:
    """Compute exact limits of the share of a finite population that is wrong.

    >>> hypergeometric_limits(0, 100, 200)
    (0.0, 0.02)

    Args:
        n_wrong: number of wrong items in the sample.
        n: size of the sample, drawn without replacement.
        n_population: size of the population.
        delta: probability with which each limit may fail.
    """
    possible_totals = range(n_population + 1)

    def upper_tail(total: int) -> float:
        """Compute P(K ≥ n_wrong) if ``total`` items of the population are wrong."""
        return 1.0 - _hypergeometric_cdf(n_wrong - 1, n, total, n_population)

    def negative_lower_tail(total: int) -> float:
        """Compute -P(K ≤ n_wrong) if ``total`` items of the population are wrong."""
        return -_hypergeometric_cdf(n_wrong, n, total, n_population)

    # Both functions increase with the total, so bisection finds where they cross ±δ.
    lowest_total = bisect_right(possible_totals, delta, key=upper_tail)
    first_total_too_high = bisect_left(possible_totals, -delta, key=negative_lower_tail)
    return lowest_total / n_population, (first_total_too_high - 1) / n_population


def _hypergeometric_cdf(k: int, n: int, n_marked: int, n_population: int) -> float:
    """Compute P(K ≤ k), K the number of marked items in n draws without replacement."""
    from scipy.special import gammaln  # scipy.stats takes seconds to load

    def log_choose(total: int, chosen: np.ndarray | int) -> Any:
        """Compute the logarithm of the binomial coefficient."""
        log_orders = gammaln(np.add(chosen, 1))
        return gammaln(total + 1) - log_orders - gammaln(total - np.asarray(chosen) + 1)

    counts = np.arange(max(0, n - (n_population - n_marked)), min(k, n_marked) + 1)
    log_ways = log_choose(n_marked, counts) + log_choose(n_population - n_marked, n - counts)
    return float(np.exp(log_ways - log_choose(n_population, n)).sum())
