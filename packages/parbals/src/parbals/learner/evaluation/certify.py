"""A certificate at the end: how many predictions of a pile are wrong, by a fresh random sample.

An audit is drawn at the beginning and looked at often. This is one look, at any time, also without
an audit: of the R items that have no label, n are drawn at random, what the model decides for all
of them is fixed, and people label the n. If M of the R decisions are wrong, the number K of wrong
ones in the sample is hypergeometric, and

    U = max {M : P(K ≤ k | M) > δ},    L = min {M : P(K ≥ k | M) > δ}

fail with probability δ = 5 % at most, each, exactly, whatever the model is and however the other
labels were chosen. It is a statement about these R decisions: the draw alone is random.
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

__all__ = ["CERTIFY", "Certificate", "Sample", "draw_certificate_sample", "draw_sample"]
__all__ += ["evaluate_sample", "hypergeometric_limits"]

CERTIFY = "certify"
"""What chose an item of such a sample, beside the names of strategies."""


@dataclass(frozen=True)
class Sample:
    """Random items of a pile, and what was decided for them before they had labels.

    Attributes:
        items: (n,) the items as the learner names them; positions: (n,) in the pool.
        decided: (n,) class numbers; n_pile: R; n_labels: how many labels the model knew.
    """

    items: list[Any]
    positions: list[int]
    decided: list[int]
    n_pile: int
    n_labels: int


@dataclass(frozen=True)
class Certificate:
    """What a sample found: ``n_wrong`` of ``n``, and the error of the whole pile's decisions."""

    n: int
    n_wrong: int
    n_pile: int
    n_labels: int
    error: Estimate

    def __str__(self) -> str:
        return (
            f"With 95 % confidence the error is below {percent(self.error.high)}: of {self.n} "
            f"random items among the {self.n_pile:,} without a label the model of "
            f"{self.n_labels:,} labels got {self.n_wrong} wrong, {with_interval(self.error)}."
        )


def draw_sample(pile: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """(n,) of the positions of a pile, in random order."""
    if n > len(pile):
        raise InputError(
            f"A sample of {n} items was asked for and {len(pile)} have no label and are not out; "
            "ask for fewer."
        )
    return generator.choice(pile, n, replace=False)


def draw_certificate_sample(state: "State", n: int, name: Callable[[int], Any]) -> Sample:
    """``n`` of a learner's free items, which it calls by ``name``, and what its model decides."""
    setup = state.setup
    if not setup.classes:
        raise InputError("A certificate counts mistakes, and numbers have none; use an audit.")
    pile, key = np.flatnonzero(state.is_free()), state.key(with_pending=True).hex()
    drawn = draw_sample(pile, n, derive_generator(setup.seed, CERTIFY, len(state.pending), key))
    model = state.fitted()
    said = setup.decide(model, setup.predicted(model, drawn)).tolist()
    positions = drawn.tolist()
    return Sample([*map(name, positions)], positions, said, len(pile), len(state.labels))


def evaluate_sample(sample: Sample, labels: Mapping[int, int]) -> Certificate | None:
    """What labels (position → class number) say; None while one of the sample's is missing."""
    if any(position not in labels for position in sample.positions):
        return None
    pairs = zip(sample.positions, sample.decided, strict=True)
    n, n_wrong = len(sample.positions), sum(labels[p] != said for p, said in pairs)
    error = Estimate(n_wrong / n, *hypergeometric_limits(n_wrong, n, sample.n_pile))
    return Certificate(n, n_wrong, sample.n_pile, sample.n_labels, error)


def hypergeometric_limits(n_wrong: int, n: int, n_pile: int) -> tuple[float, float]:
    """Limits of the share of a pile that is wrong, of which a sample found ``n_wrong`` of n."""
    every = range(n_pile + 1)
    # Both tails are monotonous in M.
    too_few = bisect_right(every, DELTA, key=lambda m: 1.0 - _at_most(n_wrong - 1, n, m, n_pile))
    too_many = bisect_left(every, -DELTA, key=lambda m: -_at_most(n_wrong, n, m, n_pile))
    return too_few / n_pile, (too_many - 1) / n_pile


def _at_most(k: int, n: int, n_marked: int, n_pile: int) -> float:
    """P(K ≤ k) of the marked ones in n draws without replacement."""
    from scipy.special import gammaln  # scipy.stats takes seconds to load

    def ln_choose(of: int, some: np.ndarray | int) -> Any:
        return gammaln(of + 1) - gammaln(np.add(some, 1)) - gammaln(of - np.asarray(some) + 1)

    counts = np.arange(max(0, n - (n_pile - n_marked)), min(k, n_marked) + 1)
    ways = ln_choose(n_marked, counts) + ln_choose(n_pile - n_marked, n - counts)
    return float(np.exp(ways - ln_choose(n_pile, n)).sum())
