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
from parbals.scores.gaussian import quadratic_gain, screen
from parbals.strategies.host import walk_on_host
from parbals.strategies.surface import Surface, covariance_between, surface_of

__all__ = ["expected_gain"]

_LEADERS = 64
_BLOCK = 64  # candidates scored at a time
_NEARLY = 0.99
"""A label leaves at least a hundredth of the variance of its own point."""


def expected_gain(
    channels: Channels, pool: np.ndarray, target: np.ndarray, pending: np.ndarray, n: int
) -> float:
    """Nats a target point that ``n`` labels chosen greedily are expected to gain.

    Args:
        channels: the posterior.
        pool, target: features (N, D) of the candidates and (M, D) of the target set.
        pending: (P, D) features of points whose labels are out; the gain is beyond theirs.
        n: how many labels, at most N.
    """
    there, here = (surface_of(channels, X) for X in (target, pool))
    gains, start = np.asarray(here.gains)[:, : len(pool)], np.empty(len(pool))
    if len(pending):
        out = surface_of(channels, pending)
        seen = slice(len(pending))
        inside, cross = (
            covariance_between(out, out, seen)[:, :, seen],
            covariance_between(out, there, seen),
        )
        sideways = covariance_between(out, here, seen)[:, :, : len(pool)]
        weights = _explained(inside, np.asarray(out.gains)[:, seen], sideways)

    def covariances(rows: slice | np.ndarray) -> np.ndarray:
        """(A, n, M) of candidates with the targets, given what is out."""
        table = covariance_between(here, there, rows)
        return table - weights[:, :, rows].swapaxes(1, 2) @ cross if len(pending) else table

    def score(rows: slice) -> None:
        start[rows] = screen(covariances(rows), gains[:, rows], there.gains, there.share)

    if len(pending):
        with several_threads() as workers:  # the whole table would leave the cache
            workers.map(score, block_rows(len(pool), _BLOCK))
    else:
        start[:] = walk_on_host(there, pool, score="screen")
    leaders = np.argsort(-start, kind="stable")[: max(_LEADERS, n)]
    few = here._replace(
        target=here.target._replace(across=here.target.across[leaders]),
        factor=here.factor[:, :, leaders],
    )
    among = covariance_between(few, few, slice(None))
    if len(pending):
        among = among - weights[:, :, leaders].swapaxes(1, 2) @ sideways[:, :, leaders]
    return _greedy(covariances(leaders), among, gains[:, leaders], there, n)


def _greedy(
    table: np.ndarray, among: np.ndarray, gains: np.ndarray, there: Surface, n: int
) -> float:
    """The sum of the best scores, one after the other; both tables (A, L, M), (A, L, L) change."""
    free, total = np.ones(table.shape[1], bool), 0.0
    for _ in range(n):
        scores = np.where(free, quadratic_gain(table, gains, there.gains, there.share, np), -np.inf)
        best = int(scores.argmax())
        free[best], total = False, total + float(scores[best])
        column, row = among[:, :, best].copy(), table[:, best].copy()
        share = np.minimum(gains[:, best], _NEARLY / np.maximum(column[:, best], 1e-30))
        learnt = (share[:, None] * column)[:, :, None]
        table -= learnt * row[:, None]
        among -= learnt * column[:, None]
    return total


def _explained(inside: np.ndarray, gains: np.ndarray, sideways: np.ndarray) -> np.ndarray:
    """W (A, P, L) of points P that are labelled: all covariances lose Wᵀ cov(P, ·).

    A label that takes the share b v of its own variance v is an observation of precision
    λ = b / (1 - b v), and W = (K + diag(1/λ))⁻¹ cov(P, L).
    """
    variance = np.einsum("app->ap", inside)
    taken = np.minimum(gains * variance, _NEARLY)
    root = np.sqrt(taken / np.maximum(variance * (1.0 - taken), 1e-30))
    system = np.eye(root.shape[1]) + root[:, :, None] * inside * root[:, None]
    return root[:, :, None] * np.linalg.solve(system, root[:, :, None] * sideways)
