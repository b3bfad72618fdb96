"""BatchBALD: the batch whose labels are jointly most informative about the parameters.

Kirsch et al., 2019.

Greedy on I(Y_S, Y_x ; θ) = H(Y_S, Y_x) - Σ_k w_k [H(Y_S|θ_k) + H(Y_x|θ_k)]. The gain of a point
given the batch S is

    I(Y_x ; θ | Y_S) = Σ_y P(Y_S = y) H(Y_x | Y_S = y) - Σ_k w_k H(Y_x|θ_k),

where P(Y_x | Y_S = y) is the prediction under the samples reweighted by the configuration of labels
y, w_k(y) ∝ w_k Π_{i∈S} p_k(y_i|x_i). The sum over y is exact while all C^|S| configurations number
no more than ``n_configurations``; beyond, that many configurations are drawn from P(Y_S), jointly
(the same configurations for every posterior sample), and each is extended by one label a step.
Pending points enter S first.

The gain of a point never grows as S grows (labels are independent given θ). While the sum is exact,
a gain from an earlier step is therefore an upper bound, and only points whose old gain exceeds the
best new one are scored again.
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
from parbals.strategies.greedy import Step, grow, stack_steps
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["Configurations", "select_batchbald"]

_N_LEADERS = 512
"""Points scored before upper bounds rule out others."""
_ROUNDING_NATS = 1e-5
"""More than float32 rounding can raise a gain above its bound from an earlier step."""


class Configurations:
    """Label configurations of the partial batch: probabilities (S,) and sample weights (S, K).

    All configurations are enumerated while there are at most ``max_configurations``; then this
    number of them is drawn.

    >>> configurations = Configurations(np.full(2, 0.5), 10, np.random.default_rng(0))
    >>> configurations.extend(np.array([[1.0, 0.0], [0.5, 0.5]]))
    >>> configurations.probability.tolist()
    [0.75, 0.25]
    """

    def __init__(
        self, weights: np.ndarray, max_configurations: int, generator: np.random.Generator
    ) -> None:
        self.probability = np.ones(1)
        self.weights = weights[None].astype(np.float64)
        self.exact = True
        self._max_configurations = max_configurations
        self._generator = generator

    def extend(self, probs: np.ndarray) -> None:
        """Add a point with predictive samples (K, C) to the partial batch."""
        n_classes = probs.shape[1]
        if self.exact and len(self.probability) * n_classes > self._max_configurations:
            self._draw_configurations()
        joint = self.weights[:, None, :] * probs.T.astype(np.float64)  # (S, C, K)
        class_probs = joint.sum(axis=2)  # P(Y_x = c | y)
        if self.exact:
            probability = (self.probability[:, None] * class_probs).reshape(-1)
            weights = joint.reshape(-1, joint.shape[2])
        else:
            labels = self._draw_labels(class_probs)
            probability = self.probability
            weights = joint[np.arange(len(joint)), labels]
        is_possible = (probability > 0) & (weights.sum(axis=1) > 0)
        probability = probability[is_possible]
        weights = weights[is_possible]
        self.probability = probability / probability.sum()
        self.weights = weights / weights.sum(axis=1, keepdims=True)

    def _draw_configurations(self) -> None:
        """Replace the configurations by equally probable draws (systematic resampling)."""
        size = self._max_configurations
        cumulative = np.cumsum(self.probability)
        quantiles = (np.arange(size) + self._generator.random()) / size
        drawn = np.searchsorted(cumulative, quantiles * cumulative[-1])
        drawn = np.minimum(drawn, len(cumulative) - 1)
        self.weights = self.weights[drawn]
        self.probability = np.full(size, 1.0 / size)
        self.exact = False

    def _draw_labels(self, class_probs: np.ndarray) -> np.ndarray:
        """A label (S,) for each configuration, from P(Y_x = c | y) (S, C)."""
        cumulative = np.cumsum(class_probs, axis=1)
        quantiles = self._generator.random((len(class_probs), 1)) * cumulative[:, -1:]
        labels = (quantiles >= cumulative).sum(axis=1)
        return np.minimum(labels, class_probs.shape[1] - 1)


def select_batchbald(problem: Problem) -> Batch:
    """The score of a point is the gain of its label, in nats, given the points before it."""
    search = _Search(problem)
    steps = stack_steps(grow(search, problem.candidates(), problem.pending, problem.batch_size))
    return batch_of(
        problem,
        steps.indices,
        steps.scores,
        initial_scores=search.initial_gains(steps.indices),
        effective_sample_size=steps.sample_sizes,
        n_exact=steps.n_scored,
    )


class _Search:
    """Label configurations of the partial batch and gains given them, for the greedy loop."""

    def __init__(self, problem: Problem) -> None:
        probs = problem.require_probs()
        weights = problem.weights
        generator = derive_generator(problem.seed, "batchbald")
        self._problem = problem
        self._probs = probs
        self._configurations = Configurations(weights, problem.n_configurations, generator)
        self._bald = bald_scores(probs, weights).astype(np.float64)
        # Σ_k w_k H(Y_x|θ_k)
        self._conditional_entropy = entropy_scores(probs, weights).astype(np.float64) - self._bald
        self._bounds = self._bald.copy()
        # Probability and weights of the configurations before the first choice.
        self._initial: tuple[np.ndarray, np.ndarray] | None = None

    def observe(self, index: int) -> None:
        """Add a pool point to the partial batch."""
        self._configurations.extend(self._probs[index])

    def best(self, free: np.ndarray) -> Step:
        """The free point with the largest gain."""
        configurations = self._configurations
        probability = configurations.probability
        weights = configurations.weights
        if self._initial is None:
            self._initial = (probability, weights)
        # Gains over drawn configurations do not bound later ones: then every point is scored.
        above_any_gain = np.log(self._probs.shape[2]) + 1.0
        bounds = self._bounds if configurations.exact else np.full(len(free), above_any_gain)

        def score(_: int, indices: np.ndarray) -> np.ndarray:
            gains = self._gains(indices, probability, weights)
            if configurations.exact:
                self._bounds[indices] = np.minimum(self._bounds[indices], gains)
            return gains

        best = argmax_certified(bounds[None] + _ROUNDING_NATS, np.ones(1), free, score, _N_LEADERS)
        self._problem.show(lambda: self._gains(np.arange(len(free)), probability, weights))
        size = float(probability @ effective_sample_size(weights))
        return Step(best.winner, best.score, best.n_scored, size)

    def initial_gains(self, indices: np.ndarray) -> np.ndarray:
        """Gains of some points before the first choice."""
        assert self._initial is not None
        probability, weights = self._initial
        return self._gains(indices, probability, weights)

    def _gains(
        self, indices: np.ndarray, probability: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Σ_y P(y) H(Y_x|y) - Σ_k w_k H(Y_x|θ_k) of some points."""
        if len(probability) == 1:
            return self._bald[indices]
        # A compiled program accepts one number of configurations only; NumPy any.
        size = len(probability) if on_host() else bucket(len(probability))
        entropies = map_points(
            _mean_entropy,
            self._probs[indices],
            pad_rows(probability, size).astype(self._probs.dtype),
            pad_rows(weights, size).astype(self._probs.dtype),
            entries=max(size, self._probs.shape[1]) * self._probs.shape[2],
        )
        return np.maximum(entropies - self._conditional_entropy[indices], 0.0)


def _mean_entropy(
    probs: Float[Array, "n K C"],
    probability: Float[Array, " S"],
    weights: Float[Array, "S K"],
    xp: ModuleType,
) -> Float[Array, " n"]:
    """Σ_y P(y) H(Y_x | y) of points, given P(y) and the weights w_k(y)."""
    n_points, n_samples, n_classes = probs.shape
    # With two classes the probability of the second determines that of the first.
    rows = probs[:, :, 1:] if n_classes == 2 else probs
    flat = rows.swapaxes(0, 1).reshape(n_samples, -1)
    with exact_products(xp):
        predicted = weights @ flat  # (S, n·C)
        terms = times_log(predicted, xp)
        if n_classes == 2:
            terms += times_log(xp.maximum(1.0 - predicted, 0.0), xp)
        return -(probability @ terms).reshape(n_points, -1).sum(axis=1)
