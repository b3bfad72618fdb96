"""Scores of a whole pool in closed form, under the posterior before a batch."""

from functools import partial

import numpy as np

from parbals.arrays import block_rows
from parbals.posterior.closed.channels import Channels
from parbals.posterior.predictive import add_bias
from parbals.scores.gaussian import closed_bald
from parbals.shapes import Array, Float
from parbals.strategies.backends import chosen_backend
from parbals.strategies.backends.base import Module
from parbals.strategies.distributed import DistributedRows, PoolFeatures, each_row
from parbals.strategies.problem import GaussianView
from parbals.strategies.surface import Score, Surface, surface_of, walk_operations
from parbals.types import Loss, Stakes

__all__ = ["bald_in_closed_form", "gain_in_closed_form", "score_under", "start_scores"]


def start_scores(
    surface: Surface,
    X: PoolFeatures,
    score: Score = "screen",
    module: Module | None = None,
) -> Float[Array, " N"]:
    """A score of every row of X (N, D), by a backend or by the one for so many rows.

    Rows in a cluster are scored by their workers, each of which has its own.
    """
    if module is not None and not isinstance(X, DistributedRows):
        return module.walk(surface, X, score=score)
    return each_row(X, partial(_walk, surface, score=score))


def _walk(surface: Surface, X: PoolFeatures, *, score: Score) -> Float[Array, " n"]:
    return chosen_backend(walk_operations(surface, len(X))).walk(surface, X, score=score)


def gain_in_closed_form(
    view: GaussianView, loss: Loss, stakes: Stakes | None = None
) -> Float[Array, " N"]:
    """Of every pool point: EPIG (first order with more than two classes), or accuracy."""
    surface = surface_of(view.channels, view.target, stakes)
    return start_scores(surface, view.pool, score_under(loss, view.n_classes))


def score_under(loss: Loss, n_classes: int) -> Score:
    """What points are compared by."""
    if loss == "error":
        return "decision"
    return "epig" if n_classes == 2 else "form"


def bald_in_closed_form(view: GaussianView) -> Float[Array, " N"]:
    """BALD of every pool point, two classes."""
    return each_row(view.pool, partial(_bald_of_rows, view.channels))


def _bald_of_rows(channels: Channels, X: PoolFeatures) -> Float[Array, " n"]:
    scores = np.empty(len(X))
    for rows in block_rows(len(X), 8192):
        mean, variance = channels.marginals(add_bias(X[rows]))
        scores[rows] = closed_bald(mean[:, 0], variance[:, 0])
    return scores
