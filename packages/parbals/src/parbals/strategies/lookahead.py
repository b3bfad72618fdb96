"""What the next labels would gain, without choosing them in earnest: no universe, no label drawn.

Averaged over the label of one point, the mean prediction and the mean slope E[σ'(f)] at any other
stay what they are, so to first order the gains of :mod:`parbals.scores.gaussian` do too, and the
precision that a label adds is the gain of its own point: E_y[-∂² ln Z_y / ∂m²] = M. What labels
change is the covariances. With the gains held, a greedy batch is linear algebra over a short list
of candidates: no program is compiled, which in a fresh process is what takes the time.
"""

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import several_threads
from parbals.posterior.closed.channels import Channels
from parbals.posterior.predictive import add_bias
from parbals.scores.gaussian import Covariances, quadratic_gain, screen, target_gains
from parbals.shapes import Array, Bool, Float
from parbals.strategies.backends.numpy import walk
from parbals.strategies.greedy import Step, grow
from parbals.strategies.surface import Rows, Surface, covariance, rows_of, surface_of

__all__ = ["expected_gain"]

_LEADERS = 64
_BLOCK = 64  # candidates scored at a time
_NEARLY = 0.99
"""A label leaves at least a hundredth of the variance of its own point."""


def expected_gain(
    channels: Channels,
    pool: Float[Array, "N D"],
    target: Float[Array, "M D"],
    pending: Float[Array, "P D"],
    n: int,
) -> float:
    """Nats a target point that ``n`` labels, at most N, chosen greedily are expected to gain.

    The gain is beyond that of pending points, whose labels are out.
    """
    surface = surface_of(channels, target)
    there, start = surface.target_rows, np.empty(len(pool))
    here, out = (rows_of(surface, add_bias(X, np.float32)) for X in (pool, pending))
    gains, weights = target_gains(here.mean, here.variance), _explained(out, here)
    cross = covariance(out, there)

    def score(some: slice) -> None:
        tables = covariance(_some(here, some), there) - weights[:, :, some].swapaxes(1, 2) @ cross
        given = Covariances.of_tables(tables), gains[:, some], surface.targets.gains
        start[some] = screen(*given, surface.share)

    if len(pending):
        with several_threads() as workers:  # the whole table would leave the cache
            workers.map(score, block_rows(len(pool), _BLOCK))
    else:
        start[:] = walk(surface, pool, score="screen")
    leaders = np.argsort(-start, kind="stable")[: max(_LEADERS, n)]
    few, learnt = _some(here, leaders), weights[:, :, leaders].swapaxes(1, 2)
    tables, among = (
        covariance(few, rows) - learnt @ covariance(out, rows) for rows in (there, few)
    )
    expected = _Expectation(surface, tables, among, gains[:, leaders])
    steps = grow(expected, np.ones(len(leaders), bool), (), n)
    return float(sum(step.score for step in steps))


def _some(rows: Rows, places: "slice | np.ndarray") -> Rows:
    across, *others = rows
    return Rows(across[places], *(part[:, places] for part in others))


class _Expectation:
    """What is expected of all labels at once, in place of universes that draw them."""

    def __init__(
        self,
        surface: Surface,
        tables: Float[Array, "A n M"],
        among: Float[Array, "A n n"],
        gains: Float[Array, "A n"],
    ) -> None:
        self._surface, self._gains = surface, gains
        self._tables, self._among = tables, among  # with the targets, and with each other

    def best(self, free: Bool[Array, " n"]) -> Step:
        given = Covariances.of_tables(self._tables), self._gains, self._surface.targets.gains
        scores = np.where(free, quadratic_gain(*given, self._surface.share), -np.inf)
        best = int(scores.argmax())
        return Step(best, float(scores[best]), len(scores))

    def observe(self, index: int) -> None:
        column, row = self._among[:, :, index].copy(), self._tables[:, index].copy()
        share = np.minimum(self._gains[:, index], _NEARLY / np.maximum(column[:, index], 1e-30))
        learnt = (share[:, None] * column)[:, :, None]
        self._tables -= learnt * row[:, None]
        self._among -= learnt * column[:, None]


def _explained(points: Rows, others: Rows) -> Float[Array, "A P L"]:
    """W of P points that are labelled: all covariances with L others lose Wᵀ cov(P, ·).

    A label that takes the share b v of its own variance v is an observation of precision
    λ = b / (1 - b v), and W = (K + diag(1/λ))⁻¹ cov(P, L).
    """
    inside, sideways = covariance(points, points), covariance(points, others)
    variance = np.einsum("app->ap", inside)
    taken = np.minimum(target_gains(points.mean, points.variance) * variance, _NEARLY)
    root = np.sqrt(taken / np.maximum(variance * (1.0 - taken), 1e-30))
    system = np.eye(root.shape[1]) + root[:, :, None] * inside * root[:, None]
    return root[:, :, None] * np.linalg.solve(system, root[:, :, None] * sideways)
