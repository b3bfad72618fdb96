"""Universes of a Gaussian posterior as linear models: a step costs the same late in a batch.

In whitened coordinates z (d,) a latent is linear, f_a(z) = z·θ_a, and a universe is a normal
distribution of every θ_a: N(μ, Σ). A label at z_j, whose log probability has the derivatives α and
-β (:mod:`parbals.strategies.conditioning`), is a rank-one update,

    y = Σ z_j,      μ ← μ + α y,      Σ ← Σ - β y yᵀ.

With k = z·y the mean and variance of any row z change by α k and -β k². The screen needs
S = Σ_m w_m c_m², the squared covariances c_m = z Σ z_m with the targets z_m, weighted. With the
covariances t_m = y·z_m of the labelled row, h = Σ Σ_m w_m t_m z_m before the update, and
e = Σ_m w_m t_m²,

    S ← S - 2 β k (z·h) + β² k² e.

So a row catches up with a label by two products of d numbers, however many targets there are. The
weights w are those at the time of the label, so S is approximate once they change.

The vectors y and h of the latest labels are kept in a *window*. When it is full, or when the
weights have changed by ``MAX_WEIGHT_CHANGE``, its labels are folded into Σ and μ, and rows start
from there with the new weights. Neither time nor memory of a label grows with the batch.

All this runs on one thread: the arrays of a label are so small that several threads take longer.
"""

from typing import NamedTuple

import numpy as np

from parbals.scores.gaussian import approximate_gains, screening_gains
from parbals.shapes import Array, Float, Int
from parbals.strategies.conditioning import label_derivatives
from parbals.strategies.forms import QuadraticScreen, initial_covariance
from parbals.strategies.scoring import ScoringContext
from parbals.strategies.universes.linear_targets import UniverseTargets

__all__ = ["LinearState", "Window"]

N_RECENT = 16
"""Labels whose covariances with the targets are stored."""
MAX_WEIGHT_CHANGE = 0.2
"""Relative change of the weights since rows started that folds the window. In pools whose targets
are soon known, steps without this limit chose points of half the best score.
"""
_WINDOW_ENTRIES = 2**25  # of the window's vectors: 128 MB
_MIN_WINDOW = 32
_COVARIANCE_ENTRIES = 2**27  # of Σ and the forms in all universes: 512 MB


class Window(NamedTuple):
    """What rows need to know of the latest R labels, in every universe."""

    vectors: Float[Array, "R A U d"]  # y
    square_vectors: Float[Array, "R A U d"]  # h
    slope: Float[Array, "R A U"]  # α
    curvature: Float[Array, "R A U"]  # β
    energy: Float[Array, "R A U"]  # e

    def at(self, labels: slice) -> "Window":
        """Some of the labels."""
        return Window(*(array[labels] for array in self))


class LinearState:
    """The normal distribution of the weights in every universe, and the targets.

    Attributes:
        targets: the targets in every universe.
        n_recent: R, the number of labels in the window.
        n_folds: how often the window was folded: rows then start again.
        recent_covariances: (A, U, N_RECENT, M) t of the latest labels, label i at i % N_RECENT.
        start_mean: (A, U, d) μ where rows start; one universe stands for all before the first fold.
        start_weights: (A, U, M) weights of the targets there.
        start_forms: (A, U, d, d) forms whose value z F z is S there.
    """

    def __init__(self, context: ScoringContext, n_universes: int, n_labels: int) -> None:
        self._context = context
        n_columns = len(context.basis)
        n_latents, _, n_inside = context.target_rows.factor.shape
        n_entries = 2 * n_latents * n_universes * n_columns  # of a label
        n_window = min(max(_WINDOW_ENTRIES // n_entries, _MIN_WINDOW), n_labels)
        shape = (n_window, n_latents, n_universes)
        self._window = Window(
            vectors=np.empty((*shape, n_columns), np.float32),
            square_vectors=np.empty((*shape, n_columns), np.float32),
            slope=np.empty(shape, np.float32),
            curvature=np.empty(shape, np.float32),
            energy=np.empty(shape, np.float32),
        )
        self.recent_covariances = np.zeros(
            (n_latents, n_universes, N_RECENT, len(context.share)), np.float32
        )
        self.n_recent = 0
        self.n_folds = 0
        self.targets = UniverseTargets(context, n_universes)
        self.start_mean: Float[Array, "A U d"] = (context.basis @ context.location).T[:, None]
        self.start_weights: Float[Array, "A U M"] = self.targets.weights[:, :1].copy()
        self._mean = self.start_mean.repeat(n_universes, axis=1)
        # Σ = I + Q (R Rᵀ - I) Qᵀ with the basis Q: the identity where there are no labels.
        roots = context.roots
        change = roots @ roots.swapaxes(1, 2) - np.eye(n_inside, dtype=np.float32)
        self._inside_change: Float[Array, "A r r"] = change
        self._covariance: Float[Array, "A U d d"] | None = None  # after the first fold
        self.start_forms = self._forms_at_start()

    @staticmethod
    def fits(context: ScoringContext, n_universes: int) -> bool:
        """Whether memory suffices for Σ and the form of every universe."""
        n_columns = len(context.basis)
        return 2 * len(context.roots) * n_universes * n_columns**2 <= _COVARIANCE_ENTRIES

    @property
    def window(self) -> Window:
        """The labels of the window."""
        return self._window.at(slice(0, self.n_recent))

    def start_vectors(
        self, rows: Float[Array, "*#A #U n d"], universes: slice = slice(None)
    ) -> Float[Array, "A U n d"]:
        """Σ z of rows where they start, without the labels of the window."""
        if self._covariance is not None:
            return rows @ self._covariance[:, universes]
        return self._initial_vectors(rows)

    def _initial_vectors(self, rows: Float[Array, "*#A #U n d"]) -> Float[Array, "A #U n d"]:
        """Σ z of rows before the batch."""
        basis = self._context.basis
        return rows + ((rows @ basis) @ self._inside_change[:, None]) @ basis.T

    @property
    def recent_labels(self) -> slice:
        """Those labels of the window whose ``recent_covariances`` are stored."""
        return slice(max(0, self.n_recent - N_RECENT), self.n_recent)

    def observe(self, row: Float[Array, " d"], labels: Int[Array, " U"]) -> None:
        """Condition every universe on its label of a whitened row."""
        vectors = self._in_universes(np.broadcast_to(row, self._mean.shape))  # y
        variance = np.maximum(vectors @ row, 0.0)
        variance_before = self._initial_vectors(row[None]) @ row  # (A, 1, 1)
        slope, curvature = label_derivatives(
            self._mean @ row, variance, variance_before[:, :, 0], labels
        )
        self._mean += slope[:, :, None] * vectors
        target_rows = self._context.whitened_targets
        covariance = vectors @ target_rows.T  # t (A, U, M)
        self.targets.observe(covariance, slope, curvature)
        weighted = self.targets.weights * covariance
        number = self.n_recent
        self.recent_covariances[:, :, number % N_RECENT] = covariance
        self._window.vectors[number] = vectors
        self._window.square_vectors[number] = self._in_universes(weighted @ target_rows)
        self._window.slope[number] = slope
        self._window.curvature[number] = curvature
        self._window.energy[number] = np.einsum("aum,aum->au", weighted, covariance)
        self.n_recent += 1
        if self.n_recent == len(self._window.slope) or self._have_weights_changed():
            self._fold()

    def conditioned(
        self,
        vectors: Float[Array, "*#A n d"],
        start: Float[Array, "A n d"],
        universe: int,
    ) -> Float[Array, "A n d"]:
        """Σ v of vectors v in one universe, given all labels so far.

        Args:
            start: Σ v without the labels of the window.
        """
        recent = self.window.vectors[:, :, universe].swapaxes(0, 1)  # (A, R, d)
        products = vectors @ recent.swapaxes(1, 2)
        products *= self.window.curvature[:, :, universe].T[:, None]
        return start - products @ recent

    def _in_universes(self, vectors: Float[Array, "A U d"]) -> Float[Array, "A U d"]:
        """Σ v of a vector v in every universe, given all labels so far."""
        start = self.start_vectors(vectors[:, :, None])
        results = [
            self.conditioned(vectors[:, universe, None], start[:, universe], universe)
            for universe in range(vectors.shape[1])
        ]
        return np.concatenate(results, axis=1)

    def mean_screen(self) -> QuadraticScreen:
        """The screen of the mean universe."""
        context = self._context
        window = self.window
        n_latents, n_universes, n_columns = self._mean.shape
        if self._covariance is None:
            covariance = initial_covariance(context)
        else:
            covariance = self._covariance.mean(axis=1)
        for latent in range(n_latents):
            vectors = window.vectors[:, latent].reshape(-1, n_columns)
            scaled = (window.curvature[:, latent].reshape(-1, 1) / n_universes) * vectors
            covariance[latent] -= vectors.T @ scaled
        gains = approximate_gains(self.targets.mean, self.targets.variance)
        return QuadraticScreen(
            context.whitening,
            self._mean.mean(axis=1).T,
            covariance,
            covariance @ context.whitened_targets.T,
            context.share * screening_gains(gains).mean(axis=1),
        )

    def _have_weights_changed(self) -> bool:
        """Whether rows that start again would have rather different sums."""
        weights = self.targets.weights
        change = np.abs(weights - self.start_weights).sum()
        total = np.broadcast_to(self.start_weights, weights.shape).sum()
        return bool(change > MAX_WEIGHT_CHANGE * total)

    def _fold(self) -> None:
        """Let rows start from all labels so far, and empty the window."""
        window = self.window
        if self._covariance is None:
            identity = np.eye(len(self._context.basis), dtype=np.float32)
            self._covariance = self.start_vectors(identity).repeat(self._mean.shape[1], axis=1)
        for latent, universe in np.ndindex(self._mean.shape[:2]):
            vectors = window.vectors[:, latent, universe]
            scaled = window.curvature[:, latent, universe, None] * vectors
            self._covariance[latent, universe] -= vectors.T @ scaled
        self.start_mean = self._mean.copy()
        self.start_weights = self.targets.weights.copy()
        self.start_forms = self._forms_at_start()
        self.n_recent = 0
        self.n_folds += 1

    def _forms_at_start(self) -> Float[Array, "A U d d"]:
        """Σ (Σ_m w_m z_m z_mᵀ) Σ, one universe after the other."""
        targets = self._context.whitened_targets
        n_latents, n_universes, _ = self.start_weights.shape
        n_columns = targets.shape[1]
        forms = np.empty((n_latents, n_universes, n_columns, n_columns), np.float32)
        for number in range(n_universes):
            universe = slice(number, number + 1)
            weighted = self.start_weights[:, universe, :, None] * targets
            half_form = self.start_vectors(targets.T @ weighted, universe)
            forms[:, universe] = self.start_vectors(half_form.swapaxes(2, 3), universe)
        return forms
