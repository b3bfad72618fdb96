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
from typing import Any

import numpy as np

from parbals.arrays import bucket, effective_sample_size, exact_products, pad_rows
from parbals.machine import on_host
from parbals.randomness import derive_generator
from parbals.scores.uncertainty import bald_scores, entropy_scores, map_points, times_log
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["Configurations", "select_batchbald"]

_CANDIDATES = 512
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
            self.exact = False
            self._resample()
        joint = self.weights[:, None, :] * probs.T.astype(np.float64)  # (S, C, K)
        chances = joint.sum(axis=2)  # P(Y_x = c | y)
        if self.exact:
            probability = (self.probability[:, None] * chances).reshape(-1)
            joint = joint.reshape(-1, joint.shape[2])
        else:
            cumulative = np.cumsum(chances, axis=1)
            drawn = (
                self._generator.random((len(chances), 1)) * cumulative[:, -1:] >= cumulative
            ).sum(axis=1)
            joint = joint[np.arange(len(joint)), np.minimum(drawn, n_classes - 1)]
            probability = self.probability
        possible = (probability > 0) & (joint.sum(axis=1) > 0)
        self.probability = probability[possible]
        self.probability = self.probability / self.probability.sum()
        self.weights = joint[possible] / joint[possible].sum(axis=1, keepdims=True)

    def _resample(self) -> None:
        """Draw configurations, equally probable from now on."""
        edges = np.cumsum(self.probability)
        places = (np.arange(self._most) + self._generator.random()) / self._most
        drawn = np.minimum(np.searchsorted(edges, places * edges[-1]), len(edges) - 1)
        self.weights = self.weights[drawn]
        self.probability = np.full(self._most, 1.0 / self._most)


def select_batchbald(problem: Problem) -> Batch:
    """The score of a point is what its label adds, in nats, to the labels of those before it."""
    probs = problem.require_probs()
    generator = derive_generator(problem.seed, "batchbald")
    configurations = Configurations(problem.weights, problem.n_configurations, generator)
    for index in problem.pending:
        configurations.extend(probs[index])
    table = _GainTable(probs, problem.weights)
    bounds = table.bald.copy()
    free = problem.candidates()
    chosen, scores, sample_sizes, n_exact = [], [], [], []
    start = configurations.probability, configurations.weights
    for step in range(problem.batch_size):
        gains, n_scored = _scored(table, configurations, bounds, free)
        problem.show(lambda: _all_gains(table, configurations))
        index = int(np.where(free, gains, -np.inf).argmax())
        bounds = np.minimum(bounds, gains) if configurations.exact else bounds
        chosen.append(index)
        scores.append(float(gains[index]))
        sample_sizes.append(
            float(configurations.probability @ effective_sample_size(configurations.weights))
        )
        n_exact.append(n_scored)
        free[index] = False
        if step < problem.batch_size - 1:
            configurations.extend(probs[index])
    initial = table.gains(np.array(chosen), *start)
    return batch_of(
        problem,
        np.array(chosen),
        np.array(scores),
        initial_scores=initial,
        effective_sample_size=np.array(sample_sizes),
        n_exact=np.array(n_exact),
    )


def _scored(
    table: "_GainTable", configurations: Configurations, bounds: np.ndarray, free: np.ndarray
) -> tuple[np.ndarray, int]:
    """Gains (N,) of points that can be the best, bounds of the others; how many were scored."""
    state = configurations.probability, configurations.weights
    order = np.flatnonzero(free)
    order = order[np.argsort(-bounds[order], kind="stable")]
    gains = np.full(len(bounds), -np.inf)
    best, done = -np.inf, 0
    while done < len(order) and (not configurations.exact or bounds[order[done]] >= best - _SLACK):
        part = order[done : done + _CANDIDATES]
        gains[part] = table.gains(part, *state)
        best = max(best, gains[part].max())
        done += len(part)
    rest = order[done:]
    gains[rest] = bounds[rest]
    return gains, done


def _all_gains(table: "_GainTable", configurations: Configurations) -> np.ndarray:
    every = np.arange(len(table.bald))
    return table.gains(every, configurations.probability, configurations.weights)


class _GainTable:
    """What a pool point adds under given configurations."""

    def __init__(self, probs: np.ndarray, weights: np.ndarray) -> None:
        self.bald = bald_scores(probs, weights).astype(np.float64)
        # Σ_k w_k H(Y_x|θ_k)
        self._given = entropy_scores(probs, weights).astype(np.float64) - self.bald
        self._probs = probs

    def gains(
        self, indices: np.ndarray, probability: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Σ_y P(y) H(Y_x|y) - Σ_k w_k H(Y_x|θ_k) of the given points."""
        if len(probability) == 1:
            return self.bald[indices]
        # A compiled program is for one number of configurations; NumPy takes any.
        size = len(probability) if on_host() else bucket(len(probability))
        entropies = map_points(
            _mean_entropy,
            self._probs[indices],
            pad_rows(probability, size),
            pad_rows(weights, size),
            entries=max(size, self._probs.shape[1]) * self._probs.shape[2],
        )
        return np.maximum(entropies - self._given[indices], 0.0)


def _mean_entropy(probs: Any, probability: Any, weights: Any, xp: ModuleType) -> Any:
    """Σ_y P(y) H(Y_x | y) of points (n, K, C), given P(y) (S,) and the weights w_k(y) (S, K)."""
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
