"""The universes of one posterior, by one of two algorithms.

* :class:`BackendUniverses`: a backend stores the covariances of rows with the targets. A step takes
  longer, the more labels there are.
* :class:`LinearUniverses`: rows store three numbers for each latent and universe
  (:mod:`parbals.strategies.universes.linear`). A step always takes as long: large batches by NumPy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import several_threads
from parbals.scores.gaussian import Covariances, approximate_gains, screening_gains
from parbals.shapes import Array, Float, Int
from parbals.strategies.backends.base import Backend, BackendModule, PoolRows
from parbals.strategies.conditioning import (
    branch_state,
    condition_state,
    initial_state,
    is_softmax_stale,
    mark_softmax_fresh,
)
from parbals.strategies.forms import QuadraticScreen
from parbals.strategies.scoring import (
    ScoreName,
    ScoringContext,
    Targets,
    TargetTerms,
    combine_terms,
    point_terms,
    project_design,
    row_operations,
    target_terms,
)
from parbals.strategies.universes.labels import Labels
from parbals.strategies.universes.linear import LinearState
from parbals.strategies.universes.linear_rows import LinearRows
from parbals.strategies.universes.linear_shortlist import ShortlistCovariances

__all__ = ["BackendUniverses", "LinearUniverses", "PosteriorUniverses", "open_universes"]

OPERATIONS_PER_TABLE = 128
"""To keep a row's covariance with a target in one universe; calibrated on measured run times."""
MAX_TABLE_LABELS = 32
"""Labels of a batch, with pending ones, up to which a backend is faster than linear models."""
_ROWS_AT_ONCE = 128
"""Rows that catch up together, although a search may stop after fewer."""


@runtime_checkable
class PosteriorUniverses(Protocol):
    """Scores of pool rows, averaged over the universes of a posterior."""

    renewal_cost: float
    """Operations to screen a row in the mean universe, as a share of those in all universes."""

    def observe(self, design: Float[Array, "1 d"]) -> None:
        """Condition every universe on its pseudo-label of a design row."""

    def screen(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        """Screening scores of rows, ``chunk`` rows at a time."""

    def score(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        """Final scores of shortlisted rows, ``chunk`` rows at a time."""

    def mean_screen(self) -> QuadraticScreen:
        """The screen of the mean universe."""


@contextmanager
def open_universes(
    context: ScoringContext,
    labels: Labels,
    rows: PoolRows,
    score: ScoreName,
    n_labels: int,
    backend: BackendModule,
) -> Iterator[PosteriorUniverses]:
    """The universes of a posterior, for a batch of ``n_labels`` with the pending ones."""
    is_large = n_labels > MAX_TABLE_LABELS and LinearState.fits(context, labels.n_universes)
    if backend.has_linear_universes and is_large:
        with several_threads():  # BLAS has one thread here
            yield LinearUniverses(context, labels, rows, score, n_labels)
    else:
        with backend.open_backend(context, rows, score, n_labels) as opened:
            yield BackendUniverses(context, labels, opened)


class BackendUniverses:
    """Universes whose rows are scored by a backend."""

    def __init__(self, context: ScoringContext, labels: Labels, backend: Backend) -> None:
        self._context = context
        self._labels = labels
        self._backend = backend
        self._state = initial_state(context)
        self._members = np.zeros(labels.n_universes, int)  # the distinct universe of each
        self._has_new_labels = True
        n_columns, n_inside = context.basis.shape
        n_latents, n_targets = context.targets.gains.shape
        by_form = row_operations(n_columns, n_inside, n_latents, n_targets).by_form
        per_pair = 2 * n_columns + labels.n_universes * OPERATIONS_PER_TABLE
        self.renewal_cost = by_form / (n_latents * n_targets * per_pair)

    def observe(self, design: Float[Array, "1 d"]) -> None:
        pairs = np.stack([self._members, self._labels.label(design[0])])
        (parents, labels), members = np.unique(pairs, axis=1, return_inverse=True)
        self._members = members.reshape(-1)
        self._has_new_labels = True
        row = project_design(self._context, design)
        self._backend.branch(parents)
        state = branch_state(self._state, parents)
        self._state = condition_state(self._context, state, row, labels)

    def mean_screen(self) -> QuadraticScreen:
        return QuadraticScreen.of_mean_universe(self._context, self._state, self._members)

    def screen(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        self._update_backend()
        return self._backend.screen(indices, chunk)

    def score(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        self._update_backend()
        return self._backend.score(indices, chunk)

    def _update_backend(self) -> None:
        """Send the backend the state of the universes, if it has changed."""
        if not self._has_new_labels:
            return
        stale = is_softmax_stale(self._state)
        self._backend.update(self._state, self._members, stale)
        self._state = mark_softmax_fresh(self._state, stale)
        self._has_new_labels = False


class LinearUniverses:
    """Universes that are linear models (:mod:`parbals.strategies.universes.linear`)."""

    renewal_cost = 0.0  # a renewal takes as long as a few steps

    def __init__(
        self,
        context: ScoringContext,
        labels: Labels,
        rows: PoolRows,
        score: ScoreName,
        n_labels: int,
    ) -> None:
        self._context = context
        self._labels = labels
        self._score = score
        self._state = LinearState(context, labels.n_universes, n_labels)
        self._rows = LinearRows(context, self._state, rows)
        self._shortlist = ShortlistCovariances(context, self._state)
        self._target_terms: list[TargetTerms] = []  # computed when first needed

    def observe(self, design: Float[Array, "1 d"]) -> None:
        (row,) = self._context.whitening.rows(design)
        self._state.observe(row, self._labels.label(design[0]))
        self._target_terms = []

    def mean_screen(self) -> QuadraticScreen:
        return self._state.mean_screen()

    def screen(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        for block in block_rows(len(indices), _ROWS_AT_ONCE):
            values = self._screen(indices[block])
            yield from (values[rows] for rows in block_rows(len(values), chunk))

    def _screen(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        slots = self._rows.catch_up(indices)
        mean, variance = self._rows.moments(slots)
        gains = screening_gains(approximate_gains(mean, variance))
        gains *= self._rows.squares(slots)
        return gains.sum(axis=0).mean(axis=0)

    def score(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        if not self._target_terms:
            universes = range(self._labels.n_universes)
            self._target_terms = [self._terms_of_targets(universe) for universe in universes]
        return (self._score_rows(indices[block]) for block in block_rows(len(indices), chunk))

    def _terms_of_targets(self, universe: int) -> TargetTerms:
        """Terms of the targets in one universe."""
        targets = self._state.targets
        in_universe = Targets(
            mean=targets.mean[:, universe],
            variance=targets.variance[:, universe],
            probs=targets.probs[:, universe],
            gains=targets.gains[:, universe],
        )
        return target_terms(self._score, in_universe, self._context)

    def _score_rows(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        """Final scores of some rows."""
        slots = self._rows.catch_up(indices)
        mean, variance = self._rows.moments(slots)
        points = point_terms(self._score, mean, variance)
        rows = self._rows.whitened(slots)
        covariances = self._shortlist.of_rows(indices, rows)
        n_latents, n_universes, n_rows = mean.shape
        none = np.empty((n_latents, max(n_rows, len(self._context.share)), 0), np.float32)

        scores = np.zeros(n_rows, np.float32)
        for universe in range(n_universes):
            base = np.ascontiguousarray(covariances[universe].swapaxes(1, 2))
            scores += combine_terms(
                self._score,
                points[:, universe],
                self._target_terms[universe],
                Covariances(base, none[:, :n_rows], none[:, : base.shape[1]]),
                self._context.share,
            )
        return scores / n_universes
