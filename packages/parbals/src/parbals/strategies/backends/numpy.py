"""Scores in closed form by NumPy, on threads whose tables fit a core's cache.

Nothing needs a size that is known before: universes that have seen the same labels are one, and
what a row has in common with the targets is computed when the row is first looked at.

The screen of :mod:`parbals.scores.gaussian` needs no table of pairs. Before the batch the
covariances of a row with the targets are linear in its whitened coordinates z, c = z H_a, and with
weights w of the targets

    Σ w c² = z (H_a diag(w) H_aᵀ) zᵀ,

a quadratic form of as many coordinates as there are features, often fewer than targets. In a
universe c = c⁰ + κ B, c⁰ (M,) those before the batch, B (R, M) those of the labelled points and κ
the row's pull (:class:`~parbals.strategies.learnt.Seen`), and

    Σ w c² = w·(c⁰)² + 2 κ·((w B) c⁰) + κ (B diag(w) Bᵀ) κᵀ,

in which c⁰ and its square are the same in all universes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import numpy as np

from parbals.arrays import block_rows, release_pages
from parbals.machine import Workers, several_threads
from parbals.posterior.predictive import add_bias
from parbals.scores.gaussian import Covariances, probs_and_gains, rough_gains, screening_gains
from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.backends.base import Places, PoolRows
from parbals.strategies.distributed import PoolFeatures
from parbals.strategies.learnt import Learnt, Seen, seen_by
from parbals.strategies.surface import (
    Rows,
    Score,
    Surface,
    Targets,
    covariance,
    rows_of,
    scores_before,
    scores_by,
    screening_operations,
    within,
)

__all__ = ["NumpyBackend", "ScreenBefore", "opened", "walk"]

_TABLE_ENTRIES = 2**17  # pairs, or coordinates, at a time: half a megabyte
_GAINS_ENTRIES = 2**14  # latents times targets: threads take turns after every operation
_KEPT_ENTRIES = 2**25  # covariances with the targets: 128 MB
_FEWEST_KEPT = 128  # rows
_SHARED_ENTRIES = 2**8  # latents times targets: of fewer, threads wait longer than they compute


def walk(surface: Surface, X: PoolFeatures, *, score: Score) -> Float[Array, " N"]:
    """A score of every row before the batch, in memory or in a mapped file."""
    screen = ScreenBefore(surface) if score == "screen" and ScreenBefore.pays(surface) else None
    block = max(16, _TABLE_ENTRIES // len(surface.basis if screen else surface.share))

    def scores(rows: slice) -> np.ndarray:
        features = X[rows].astype(np.float32)
        return screen.of(features) if screen else scores_before(surface, features, score)

    with several_threads() as workers:
        parts = workers.map(scores, block_rows(len(X), block))
    release_pages(X)
    return np.concatenate(parts).astype(np.float64)


class ScreenBefore:
    """The screen before the batch, by quadratic forms."""

    def __init__(self, surface: Surface) -> None:
        self._surface, there = surface, surface.target_rows
        weights = 0.5 * surface.share * screening_gains(surface.targets.gains)
        seen = surface.basis @ (surface.roots @ there.factor.swapaxes(1, 2))  # H (A, d, M)
        if there.across.shape[1]:
            seen = there.across.T + seen
        self._forms: Float[Array, "A d d"] = (seen * weights[:, None]) @ seen.swapaxes(1, 2)

    @staticmethod
    def pays(surface: Surface) -> bool:
        """Whether it is faster than by pairs."""
        sizes = *surface.basis.shape, len(surface.roots), len(surface.share)
        by_pairs, by_form = screening_operations(*sizes)
        return by_form < by_pairs

    def of(self, features: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The screen of rows of features."""
        surface = self._surface
        whitened = surface.whitening.rows(add_bias(features, np.float32))
        rows = within(surface.basis, surface.location, surface.roots, whitened)
        own = screening_gains(rough_gains(rows.mean, rows.variance))
        sums = [((whitened @ form) * whitened).sum(axis=1) for form in self._forms]
        return (own * np.maximum(sums, 0.0)).sum(axis=0)


@contextmanager
def opened(
    surface: Surface, rows: PoolRows, score: Score, n_labels: int
) -> "Iterator[NumpyBackend]":
    """A backend with threads of its own, for as many labels as will come."""
    with several_threads(1 if surface.targets.gains.size < _SHARED_ENTRIES else None) as workers:
        yield NumpyBackend(surface, rows, score, workers)


class NumpyBackend:
    """A :class:`~parbals.strategies.backends.base.Backend` whose threads share the rows."""

    def __init__(self, surface: Surface, rows: PoolRows, score: Score, workers: Workers) -> None:
        self._surface, self._rows, self._score, self._workers = surface, rows, score, workers
        n_latents, n_targets, n_inside = surface.target_rows.factor.shape
        most = max(_FEWEST_KEPT, _KEPT_ENTRIES // surface.targets.gains.size)
        self._places = Places(most)
        self._probs, self._gains = surface.targets.probs[:, None], surface.targets.gains[:, None]
        # Pages that are not written to take no memory.
        self._kept = Rows(
            across=np.empty((most, surface.target_rows.across.shape[1]), np.float32),
            factor=np.empty((n_latents, most, n_inside), np.float32),
            mean=np.empty((n_latents, most), np.float32),
            variance=np.empty((n_latents, most), np.float32),
        )
        self._kept_before = np.empty((n_latents, most, n_targets), np.float32)

    def branch(self, parents: Int[Array, " U"]) -> None:
        self._probs, self._gains = self._probs[:, parents], self._gains[:, parents]

    def renew(self, learnt: Learnt, members: Int[Array, " U"], moved: Bool[Array, "V M"]) -> None:
        self._learnt, self._share_of = learnt, np.bincount(members) / len(members)
        if learnt.shift.shape[2]:  # before the first label nothing has moved
            self._look_at(moved)
        weights = 0.5 * self._surface.share * screening_gains(self._gains)
        labelled = learnt.at_targets[:, None]  # B (A, 1, R, M)
        self._weights = weights  # w (A, V, M)
        self._weighted = weights[:, :, None] * labelled  # w B (A, V, R, M)
        self._form = self._weighted @ labelled.swapaxes(2, 3)  # (A, V, R, R)

    def _look_at(self, moved: Bool[Array, "V M"]) -> None:
        """Compute the softmax at targets that have moved, a share of them in each thread."""
        mean, variance = (
            part[:, moved] for part in (self._learnt.target_mean, self._learnt.target_variance)
        )
        n_latents, n_points = mean.shape
        if n_points == 0:
            return
        size = max(16, min(_GAINS_ENTRIES // n_latents, -(-n_points // self._workers.n_threads)))
        parts = self._workers.map(
            lambda some: probs_and_gains(mean[:, some], variance[:, some]),
            block_rows(n_points, size),
        )
        self._probs, self._gains = self._probs.copy(), self._gains.copy()
        self._probs[:, moved], self._gains[:, moved] = (
            np.concatenate(part, axis=1) for part in zip(*parts, strict=True)
        )

    def screen(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        return (self._screen(indices[some]) for some in block_rows(len(indices), chunk))

    def _screen(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        rows, before = self._at(indices)
        seen = self._seen(rows)
        gains = screening_gains(rough_gains(seen.mean, seen.variance))
        tasks = list(product(range(len(gains)), self._shared_out(len(indices), len(gains))))
        given = seen, before, gains
        parts = self._workers.map(lambda task: self._screened(task[0], task[1], *given), tasks)
        values = np.zeros(gains.shape[1:], np.float32)
        for (_, some), part in zip(tasks, parts, strict=True):
            values[:, some] += part
        return self._share_of @ values

    def _screened(
        self,
        latent: int,
        some: slice,
        seen: Seen,
        before: Float[Array, "A n M"],
        gains: Float[Array, "A U n"],
    ) -> Float[Array, "U s"]:
        """What a latent adds to the values of some rows."""
        here, pull = before[latent, some], seen.pull[latent, :, some]
        sums = self._weights[latent] @ np.square(here).T
        n_universes, n_labels, n_targets = self._weighted[latent].shape
        if n_labels:
            weighted = self._weighted[latent].reshape(n_universes * n_labels, n_targets)
            crossed = (weighted @ here.T).reshape(n_universes, n_labels, -1).swapaxes(1, 2)
            sums += (pull * (2.0 * crossed + pull @ self._form[latent])).sum(axis=2)
        return gains[latent, :, some] * np.maximum(sums, 0.0)

    def score(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        rows, before = self._at(indices)
        learnt, seen = self._learnt, self._seen(rows)
        targets = Targets(learnt.target_mean, learnt.target_variance, self._probs, self._gains)
        base, labelled = (
            np.ascontiguousarray(part.swapaxes(1, 2)) for part in (before, learnt.at_targets)
        )

        def scores(task: tuple[int, slice]) -> np.ndarray:
            number, some = task
            mean, variance, pull = (part[:, number, some] for part in seen)
            return scores_by(
                self._score,
                mean,
                variance,
                Covariances(base[:, :, some], pull, labelled),
                Targets(*(part[:, number] for part in targets)),
                self._surface,
            )

        n_universes = len(self._share_of)
        shares = self._shared_out(len(indices), n_universes)
        values = np.concatenate(self._workers.map(scores, product(range(n_universes), shares)))
        return self._share_of @ values.reshape(n_universes, -1)

    def _seen(self, rows: Rows) -> Seen:
        return seen_by(rows, self._learnt.points, self._learnt.shift, self._learnt.weights)

    def _shared_out(self, n_rows: int, n_tasks: int) -> list[slice]:
        """Rows in as many parts as give all threads work, where there are ``n_tasks`` for each."""
        n_parts = -(-self._workers.n_threads // n_tasks)
        return list(block_rows(n_rows, -(-n_rows // n_parts)))

    def _at(self, indices: Int[Array, " n"]) -> tuple[Rows, Float[Array, "A n M"]]:
        """Rows, and their covariances with the targets, before the batch."""
        at, new, first = self._places.of(indices)
        if len(new):
            design = self._rows.design(new)

            def compute(block: slice) -> None:
                rows = rows_of(self._surface, design[block])
                places = slice(first + block.start, first + block.stop)
                self._kept.across[places] = rows.across
                for kept, part in zip(self._kept[1:], rows[1:], strict=True):
                    kept[:, places] = part
                self._kept_before[:, places] = covariance(rows, self._surface.target_rows)

            self._workers.map(compute, self._shared_out(len(new), 1))
        across, *others = self._kept
        return Rows(across[at], *(part[:, at] for part in others)), self._kept_before[:, at]
