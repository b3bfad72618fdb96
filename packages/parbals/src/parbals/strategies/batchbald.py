"""BatchBALD: the batch whose labels together say most about the parameters (Kirsch et al., 2019).

Greedy on I(Y_S, Y_x ; θ) = H(Y_S, Y_x) - Σ_k w_k [H(Y_S|θ_k) + H(Y_x|θ_k)]. What a point adds to
the batch S is

    I(Y_x ; θ | Y_S) = Σ_y P(Y_S = y) H(Y_x | Y_S = y) - Σ_k w_k H(Y_x|θ_k),

where P(Y_x | Y_S = y) is the prediction under the samples reweighted by the configuration of labels
y, w_k(y) ∝ w_k Π_{i∈S} p_k(y_i|x_i). The sum over y is exact while all C^|S| configurations number
no more than ``n_configurations``; beyond, that many configurations are drawn from P(Y_S), jointly
(the same configurations for every posterior sample), and each is extended by one label a step.
Pending points enter S first.

What a point adds never grows as S grows (labels are independent given θ), so while the sum is exact
a value from an earlier step is an upper bound, and only points whose old value exceeds the best new
one are computed again.
"""

from types import ModuleType

import numpy as np

from parbals.arrays import bucket, effective_sample_size, exact_products, pad_rows, times_log
from parbals.machine import on_host
from parbals.randomness import derive_generator
from parbals.scores.bound import argmax_certified
from parbals.scores.rows import map_points
from parbals.scores.uncertainty import bald_scores, entropy_scores
from parbals.shapes import Array, Float
from parbals.strategies.greedy import Step, columns, grow
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["Configurations", "select_batchbald"]

_LEADERS = 512
"""Points that are scored before any is ruled out."""
_SLACK = 1e-5
"""Nats that float32 may lose between the bound of an earlier step and the value now, with room."""


class Configurations:
    """Labels the partial batch might get: probabilities (S,), sample weights given them (S, K)."""

    def __init__(self, weights: np.ndarray, most: int, generator: np.random.Generator) -> None:
        self.probability = np.ones(1)
        self.weights = weights[None].astype(np.float64)
        self.exact = True
        self._most = most
        self._generator = generator

    def extend(self, probs: np.ndarray) -> None:
        """Add a point with predictive samples (K, C) to the partial batch."""
        n_classes = probs.shape[1]
        if self.exact and len(self.probability) * n_classes > self._most:
            # Draw configurations, equally probable from now on.
            self.exact, edges = False, np.cumsum(self.probability)
            places = (np.arange(self._most) + self._generator.random()) / self._most
            drawn = np.minimum(np.searchsorted(edges, places * edges[-1]), len(edges) - 1)
            self.weights = self.weights[drawn]
            self.probability = np.full(self._most, 1.0 / self._most)
        joint = self.weights[:, None, :] * probs.T.astype(np.float64)  # (S, C, K)
        chances = joint.sum(axis=2)  # P(Y_x = c | y)
        if self.exact:
            probability = (self.probability[:, None] * chances).reshape(-1)
            joint = joint.reshape(-1, joint.shape[2])
        else:
            cumulative = np.cumsum(chances, axis=1)
            places = self._generator.random((len(chances), 1)) * cumulative[:, -1:]
            drawn = (places >= cumulative).sum(axis=1)
            joint = joint[np.arange(len(joint)), np.minimum(drawn, n_classes - 1)]
            probability = self.probability
        possible = (probability > 0) & (joint.sum(axis=1) > 0)
        self.probability = probability[possible]
        self.probability = self.probability / self.probability.sum()
        self.weights = joint[possible] / joint[possible].sum(axis=1, keepdims=True)


def select_batchbald(problem: Problem) -> Batch:
    """The score of a point is what its label adds, in nats, to the labels of those before it."""
    search = _Search(problem)
    steps = grow(search, problem.candidates(), problem.pending, problem.batch_size)
    chosen, scores, n_exact, sizes = columns(steps)
    return batch_of(
        problem,
        chosen,
        scores,
        initial_scores=search.gains(chosen, *search.start),
        effective_sample_size=sizes,
        n_exact=n_exact,
    )


class _Search:
    """Label configurations of the partial batch for the greedy loop, and what a point adds."""

    def __init__(self, problem: Problem) -> None:
        probs, weights = problem.require_probs(), problem.weights
        generator = derive_generator(problem.seed, "batchbald")
        self._problem, self._probs = problem, probs
        self._configurations = Configurations(weights, problem.n_configurations, generator)
        self._bald = bald_scores(probs, weights).astype(np.float64)
        # Σ_k w_k H(Y_x|θ_k)
        self._given = entropy_scores(probs, weights).astype(np.float64) - self._bald
        self._bounds = self._bald.copy()
        self.start: tuple[np.ndarray, ...] = ()  # configurations before the first choice

    def observe(self, index: int) -> None:
        self._configurations.extend(self._probs[index])

    def best(self, free: np.ndarray) -> Step:
        now = self._configurations
        state = now.probability, now.weights
        self.start = self.start or state
        # Drawn configurations do not bound each other: there every point is scored.
        most = np.log(self._probs.shape[2]) + 1.0
        bounds = self._bounds if now.exact else np.full(len(free), most)

        def score(_: int, indices: np.ndarray) -> np.ndarray:
            gains = self.gains(indices, *state)
            if now.exact:
                self._bounds[indices] = np.minimum(self._bounds[indices], gains)
            return gains

        best = argmax_certified(bounds[None] + _SLACK, np.ones(1), free, score, _LEADERS)
        self._problem.show(lambda: self.gains(np.arange(len(free)), *state))
        size = float(now.probability @ effective_sample_size(now.weights))
        return Step(best.winner, best.score, best.n_scored, size)

    def gains(
        self, indices: np.ndarray, probability: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Σ_y P(y) H(Y_x|y) - Σ_k w_k H(Y_x|θ_k) of the given points."""
        if len(probability) == 1:
            return self._bald[indices]
        # A compiled program is for one number of configurations; NumPy takes any.
        size = len(probability) if on_host() else bucket(len(probability))
        entropies = map_points(
            _mean_entropy,
            self._probs[indices],
            pad_rows(probability, size).astype(self._probs.dtype),
            pad_rows(weights, size).astype(self._probs.dtype),
            entries=max(size, self._probs.shape[1]) * self._probs.shape[2],
        )
        return np.maximum(entropies - self._given[indices], 0.0)


def _mean_entropy(
    probs: Float[Array, "n K C"],
    probability: Float[Array, " S"],
    weights: Float[Array, "S K"],
    xp: ModuleType,
) -> Float[Array, " n"]:
    """Σ_y P(y) H(Y_x | y) of points, given P(y) and the weights w_k(y)."""
    n_points, n_samples, n_classes = probs.shape
    # Of two classes one is enough: the other follows.
    rows = probs[:, :, 1:] if n_classes == 2 else probs
    flat = rows.swapaxes(0, 1).reshape(n_samples, -1)
    with exact_products(xp):
        predicted = weights @ flat  # (S, n·C)
        terms = times_log(predicted, xp)
        if n_classes == 2:
            terms += times_log(xp.maximum(1.0 - predicted, 0.0), xp)
        return -(probability @ terms).reshape(n_points, -1).sum(axis=1)
