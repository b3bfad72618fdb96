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

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from parbals.arrays import block_rows, bucket, effective_sample_size, pad_rows
from parbals.numerics import working_precision
from parbals.randomness import derive_generator
from parbals.scores.rows import class_rows
from parbals.scores.uncertainty import bald_scores, entropy_scores
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["Configurations", "select_batchbald"]

_TABLE_ENTRIES = 1 << 22
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
    with working_precision(probs.dtype):
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
        self._rows = class_rows(probs)

    def gains(
        self, indices: np.ndarray, probability: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Σ_y P(y) H(Y_x|y) - Σ_k w_k H(Y_x|θ_k) of the given points."""
        if len(probability) == 1:
            return self.bald[indices]
        dtype = self._rows.dtype
        n_rows, size = self._rows.shape[1], bucket(len(probability))
        block = (
            1 << int(np.clip(_TABLE_ENTRIES // (size * n_rows), 16, _CANDIDATES)).bit_length() - 1
        )
        padded_weights = jnp.asarray(pad_rows(weights.astype(dtype), size))
        padded_probability = jnp.asarray(pad_rows(probability.astype(dtype), size))
        parts = [
            _mean_entropy(
                pad_rows(self._rows[indices[rows]], block), padded_probability, padded_weights
            )
            for rows in block_rows(len(indices), block)
        ]
        entropies = np.concatenate([np.asarray(part, np.float64) for part in parts])[: len(indices)]
        return np.maximum(entropies - self._given[indices], 0.0)


@jax.jit
def _mean_entropy(
    rows: Float[Array, "n A K"], probability: Float[Array, " S"], weights: Float[Array, "S K"]
) -> Float[Array, " n"]:
    """Σ_y P(y) H(Y_x | y) of a block of points."""
    n_points, n_rows, n_samples = rows.shape
    flat = rows.reshape(n_points * n_rows, n_samples)
    predicted = jnp.matmul(weights, flat.T, precision=jax.lax.Precision.HIGHEST)  # (S, n·A)
    terms = -_xlogx(predicted)
    if n_rows == 1:
        terms -= _xlogx(1.0 - predicted)
    return (probability @ terms).reshape(n_points, n_rows).sum(axis=1)


def _xlogx(x: Array) -> Array:
    # A floor far below rounding stands in for 0 ln 0 = 0, and for what rounding leaves below zero.
    floored = jnp.maximum(x, 1e-30)
    return floored * jnp.log(floored)
