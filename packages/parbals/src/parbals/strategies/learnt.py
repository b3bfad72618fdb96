"""What universes of a Gaussian posterior have learnt from their labels of the partial batch.

A label at point i changes mean, variance and covariance of every latent a by the covariance with
that point,

    m ← m + α_a c_a(·, i),   v ← v - β_a c_a(·, i)²,   c_a ← c_a - β_a c_a(·, i) c_a(i, ·),

α and β the derivatives of the logarithm of the label's probability. With b(x) the covariances of a
point, before the batch, with the R points labelled so far, a universe is therefore

    m(x) = m⁰(x) + s·b(x),      c(x, x') = c⁰(x, x') - b(x)ᵀ W b(x'),

a vector s and a matrix W (R, R) a latent: nothing of the pool's size, and the covariances of the
labelled points with the targets are the same in all universes. So little is learnt by NumPy,
whatever rows are scored by.
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np

from parbals.mixture import label_evidence
from parbals.race import GUMBEL_VARIANCE, class_evidence
from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.surface import Rows, Surface, covariance

__all__ = ["Learnt", "Seen", "begin", "branched", "is_moved", "learn", "looked_at", "seen_by"]

_MOVED = 0.1  # deviations


class Learnt(NamedTuple):
    """What U universes know after R labels."""

    points: Rows  # that were labelled (R)
    at_targets: Float[Array, "A R M"]  # b of the targets
    shift: Float[Array, "A U R"]  # s
    weights: Float[Array, "A U R R"]  # W
    target_mean: Float[Array, "A U M"]
    target_variance: Float[Array, "A U M"]
    looked_mean: Float[Array, "A U M"]  # when the softmax was last computed
    looked_variance: Float[Array, "A U M"]


class Seen(NamedTuple):
    """Some rows as the universes see them."""

    mean: Float[Array, "A U n"]
    variance: Float[Array, "A U n"]
    pull: Float[Array, "A U n R"]  # -bᵀW: covariances with the targets change by pull · at_targets


def begin(surface: Surface) -> Learnt:
    """One universe without a label."""
    mean, variance = surface.targets.mean[:, None], surface.targets.variance[:, None]
    across, *others = surface.target_rows
    none = Rows(across[:0], *(part[:, :0] for part in others))
    n_latents, n_targets = surface.targets.mean.shape
    at_targets, shift, weights = (
        np.zeros((n_latents, *size), np.float32) for size in ((0, n_targets), (1, 0), (1, 0, 0))
    )
    return Learnt(none, at_targets, shift, weights, mean, variance, mean, variance)


def branched(learnt: Learnt, parents: Int[Array, " U"]) -> Learnt:
    """A universe for each of the parents, which it is a copy of."""
    points, at_targets, *own = learnt
    return Learnt(points, at_targets, *(part[:, parents] for part in own))


def learn(surface: Surface, learnt: Learnt, row: Rows, labels: Int[Array, " U"]) -> Learnt:
    """Condition every universe on its label of one row."""
    seen = seen_by(row, learnt.points, learnt.shift, learnt.weights)
    slope, curvature = _evidence(seen.mean[:, :, 0], seen.variance[:, :, 0], labels)
    # What is new of the covariance with this row: with it before, less what others explain.
    new = np.concatenate([seen.pull[:, :, 0], np.ones((*slope.shape, 1), np.float32)], axis=2)
    at_targets = np.concatenate([learnt.at_targets, covariance(row, surface.target_rows)], axis=1)
    moved = new @ at_targets  # (A, U, M)
    across = np.concatenate([learnt.points.across, row.across])
    others = zip(learnt.points[1:], row[1:], strict=True)
    shift, weights = (_wider(part) for part in (learnt.shift, learnt.weights))
    lowered = learnt.target_variance - curvature[:, :, None] * np.square(moved)
    return learnt._replace(
        points=Rows(across, *(np.concatenate(pair, axis=1) for pair in others)),
        at_targets=at_targets,
        shift=shift + slope[:, :, None] * new,
        weights=weights + curvature[:, :, None, None] * new[..., None] * new[..., None, :],
        target_mean=learnt.target_mean + slope[:, :, None] * moved,
        target_variance=np.maximum(lowered, 0.0),
    )


def _wider(array: Float[Array, "A U *R"]) -> Float[Array, "A U *S"]:
    """Zeros for one more label along the last axes."""
    sizes = *array.shape[:2], *(size + 1 for size in array.shape[2:])
    wider = np.zeros(sizes, array.dtype)  # np.pad takes twenty times as long
    wider[tuple(map(slice, array.shape))] = array
    return wider


def _evidence(
    mean: Float[Array, "A U"], variance: Float[Array, "A U"], labels: Int[Array, " U"]
) -> tuple[Float[Array, "A U"], Float[Array, "A U"]]:
    """α and β of every universe's label of a row with these moments."""
    if len(mean) > 1:
        _, slope, curvature = class_evidence(mean.T, variance.T, labels)
        return slope.T, np.maximum(curvature.T, 0.0)
    signs = (2.0 * labels - 1.0).astype(mean.dtype)[None]
    _, slope, curvature = label_evidence(mean, variance, signs)
    return slope, np.maximum(curvature, 0.0)


@np.errstate(invalid="ignore")  # as in the surface
def seen_by(
    rows: Rows,
    points: Rows,
    shift: Float[Array, "A U R"],
    weights: Float[Array, "A U R R"],
    xp: ModuleType = np,
) -> Seen:
    """Rows with all that universes know from their labels of these points."""
    before = covariance(rows, points)[:, None]  # b (A, 1, n, R)
    pull = -(before @ weights)
    less = (pull * before).sum(axis=3)
    moved = shift @ before[:, 0].swapaxes(1, 2)
    variance = xp.maximum(rows.variance[:, None] + less, 0.0)
    return Seen(rows.mean[:, None] + moved, variance, pull)


def is_moved(learnt: Learnt) -> Bool[Array, "U M"]:
    """Whether the softmax of a target is to be looked at again; with two classes always.

    What it gives, probabilities and gains, costs the most and moves little: it is computed again
    where a logit has moved by a tenth of its deviation since. All points are compared by the same
    targets, so that their order hardly feels it.
    """
    mean, variance = learnt.target_mean, learnt.target_variance
    if len(mean) == 1:
        return np.ones(mean.shape[1:], bool)
    spread = variance + GUMBEL_VARIANCE
    is_far = np.abs(mean - learnt.looked_mean) > _MOVED * np.sqrt(spread)
    is_narrow = learnt.looked_variance - variance > 2.0 * _MOVED * spread
    return (is_far | is_narrow).any(axis=0)


def looked_at(learnt: Learnt, moved: Bool[Array, "U M"]) -> Learnt:
    """With the softmax of these targets computed anew."""
    mean, variance = (
        np.where(moved, now, before)
        for now, before in (
            (learnt.target_mean, learnt.looked_mean),
            (learnt.target_variance, learnt.looked_variance),
        )
    )
    return learnt._replace(looked_mean=mean, looked_variance=variance)
