"""Expectation propagation for thousands of labels (:func:`fit_many_sites`).

A sweep costs n r² for the covariances and n r for the mean, so the mean converges first while the
cavities' variances are held. With those fixed, m = Σ_i x_i α_i maximises a concave function. It is
found by Newton steps, whose linear systems are solved by conjugate gradients, preconditioned with
the latest covariances. Newton's method needs a start near the solution: the mode of the posterior,
after which few sweeps are left.

A few new labels (:func:`_add_few_labels`) change a few sites; the covariances are corrected for
those at cost n r. All sites are swept again once the number of labels has grown by a hundredth.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from parbals.arrays import inverse_lower
from parbals.posterior.closed.moments import (
    PrecisionProduct,
    latent_cavities,
    logit_variances,
    posterior_mean,
    precision_roots,
)
from parbals.posterior.closed.sites import Sites, SweepResult, WarmStart, iterate_to_convergence
from parbals.shapes import Array, Float, Int

__all__ = ["EPState", "fit_many_sites"]

# n rows, m selected rows, d columns, A latents.
_Rows = Float[Array, "n d"]
_RowLatents = Float[Array, "n A"]
_SelectedLatents = Float[Array, "m A"]
_Roots = Float[Array, "A d d"]
_Mean = Float[Array, "d A"]

_MANY_TOLERANCE = 3e-4
_MANY_MAX_SWEEPS = 60
_MEAN_UPDATES_PER_SWEEP = 2
_MEAN_RTOL = 0.1  # of conjugate gradients, within a sweep
_MAX_INCREMENTAL_GROWTH = 1.01  # labels now / labels when all sites were last swept
_MAX_INCREMENTAL_SITES = 64  # updated in one round
_MAX_INCREMENTAL_ROUNDS = 8
_INCREMENTAL_MEAN_RTOL = 1e-2
_MIN_CAVITY_SHIFT = 1e-2  # logits times the site's precision: smaller shifts leave a site as it is

MomentMatching = Callable[[Any, Any, Any], Sites]
"""Sites that match the moments of cavities with these means and variances, at these rows."""


class EPState:
    """Posterior moments during the sweeps of :func:`fit_many_sites`.

    A sweep computes the covariances once and then alternates between the mean and the sites.
    """

    def __init__(
        self,
        rows: _Rows,
        mean: _Mean,
        precision_product: PrecisionProduct,
        match_moments: MomentMatching,
        warm_start: WarmStart | None,
    ) -> None:
        self.rows = rows
        self.mean = mean
        self.roots: Any = None
        self.variances: Any = None
        self._rows_float32 = rows.astype(np.float32)
        self._precision_product = precision_product
        self._match_moments = match_moments
        self._has_current_covariance = warm_start is not None
        if warm_start is not None:
            self.roots = warm_start.roots
            self.variances = warm_start.variances

    def sweep(self, sites: Sites) -> Sites:
        """Update all sites, with the covariances held and the mean following the sites."""
        if not self._has_current_covariance:
            self.update_covariance(sites)
        self._has_current_covariance = False  # the sites change below
        result = iterate_to_convergence(
            self.update_sites, sites, 0.1 * _MANY_TOLERANCE, _MEAN_UPDATES_PER_SWEEP
        )
        return result.sites

    def update_covariance(self, sites: Sites) -> None:
        """Compute the covariances' roots, and the variances of all logits."""
        self.roots = precision_roots(self.rows, sites.precisions)
        self.variances = logit_variances(self._rows_float32, self.roots)

    def update_mean(self, sites: Sites, rtol: float = _MEAN_RTOL) -> None:
        """Solve for the posterior mean, starting from the current one."""
        self.mean = posterior_mean(
            self.rows, self.roots, self._precision_product, sites, self.mean, rtol
        )

    def update_sites(self, sites: Sites) -> Sites:
        """Update the mean, then match the moments of every label under its cavity."""
        self.update_mean(sites)
        cavity_mean, cavity_variance = self.cavities(sites)
        return self._match_moments(cavity_mean, cavity_variance, slice(None))

    def cavities(self, sites: Sites) -> tuple[_RowLatents, _RowLatents]:
        """Means and variances (n, A) of the cavities."""
        return latent_cavities(
            self.rows @ self.mean, self.variances, sites, self._precision_product
        )

    def finish(self, sites: Sites) -> WarmStart:
        """Compute the posterior of the final sites, as a start for the next fit."""
        self.roots = precision_roots(self.rows, sites.precisions)
        self.update_mean(sites, rtol=0.0)
        cavity_means, _ = self.cavities(sites)
        return WarmStart(
            rows=self.rows,
            variances=self.variances,
            roots=self.roots,
            mean=self.mean,
            cavity_means=cavity_means,
            n_converged=len(self.rows),
        )


def fit_many_sites(
    rows: _Rows,
    start: Sites | None,
    precision_product: PrecisionProduct,
    match_moments: MomentMatching,
    mode: Callable[[], _Mean],
    warm_start: WarmStart | None = None,
) -> tuple[SweepResult, WarmStart]:
    """Run EP for whitened rows (n, d) with more rows than columns.

    Args:
        rows: whitened design rows (n, d).
        start: sites (n, A) to start from; by default those of Laplace's approximation.
        precision_product: W f (n, A) of precisions and logits f, both (n, A).
        match_moments: sites of some rows for cavities with these means and variances.
        mode: the weights (d, A) that maximise the posterior.
        warm_start: state of a fit to nearly the same labels, for these rows.

    Returns:
        The sites (n, A), and the state from which the next fit can start.
    """
    if start is None:
        mean = mode()
        f = rows @ mean
        start = match_moments(f, np.zeros_like(f), slice(None))
    elif warm_start is None:
        mean = np.zeros((rows.shape[1], start.linear_terms.shape[1]))
    else:
        mean = warm_start.mean
    if warm_start is not None and len(rows) <= _MAX_INCREMENTAL_GROWTH * warm_start.n_converged:
        incremental = _add_few_labels(rows, start, precision_product, match_moments, warm_start)
        if incremental is not None:
            return incremental
    state = EPState(rows, mean, precision_product, match_moments, warm_start)
    result = iterate_to_convergence(
        state.sweep, start, _MANY_TOLERANCE, _MANY_MAX_SWEEPS, extrapolate=True
    )
    return result, state.finish(result.sites)


def _add_few_labels(
    rows: _Rows,
    sites: Sites,
    precision_product: PrecisionProduct,
    match_moments: MomentMatching,
    warm_start: WarmStart,
) -> tuple[SweepResult, WarmStart] | None:
    """Incremental EP update for a few new labels; None if it does not converge.

    New labels have flat sites. Their sites are matched, and the sites of rows whose cavities moved
    most are matched again. The other sites remain good quadratic approximations, to second order
    in the shift of their cavities.
    """
    mean = warm_start.mean
    roots = warm_start.roots
    variances = warm_start.variances.copy()
    precisions = sites.precisions.copy()
    linear_terms = sites.linear_terms.copy()
    matched_means = warm_start.cavity_means.copy()
    is_flat = ~precisions.any(axis=1)
    matched_means[is_flat] = np.inf
    for n_rounds in range(_MAX_INCREMENTAL_ROUNDS):
        cavity_means, cavity_variances = latent_cavities(
            rows @ mean, variances, Sites(precisions, linear_terms), precision_product
        )
        weights = np.maximum(precisions, _MIN_CAVITY_SHIFT)
        shifts = (weights * np.abs(cavity_means - matched_means)).max(axis=1)
        selected = np.argpartition(-shifts, _MAX_INCREMENTAL_SITES)[:_MAX_INCREMENTAL_SITES]
        selected = selected[shifts[selected] >= _MIN_CAVITY_SHIFT]
        if not len(selected):
            result = SweepResult(Sites(precisions, linear_terms), n_rounds, residual=0.0)
            return result, WarmStart(
                rows=rows,
                variances=variances,
                roots=roots,
                mean=mean,
                cavity_means=matched_means,
                n_converged=warm_start.n_converged,
            )
        matched_means[selected] = cavity_means[selected]
        old_precisions = precisions[selected]
        updated = match_moments(cavity_means[selected], cavity_variances[selected], selected)
        precisions[selected] = updated.precisions
        linear_terms[selected] = updated.linear_terms
        added = precisions[selected] - old_precisions
        roots, variances = _update_covariances(rows, selected, added, roots, variances)
        mean = posterior_mean(
            rows,
            roots,
            precision_product,
            Sites(precisions, linear_terms),
            mean,
            _INCREMENTAL_MEAN_RTOL,
        )
    return None


def _update_covariances(
    rows: _Rows,
    selected: Int[Array, " m"],
    added: _SelectedLatents,
    roots: _Roots,
    variances: _RowLatents,
) -> tuple[_Roots, _RowLatents]:
    """Roots and variances after the selected sites' precisions grew by ``added`` (Woodbury)."""
    new_roots = np.empty_like(roots)
    new_variances = np.empty_like(variances)
    unit = np.eye(rows.shape[1])
    selected_rows = rows[selected]
    rows_float32 = rows.astype(np.float32)
    for a, root in enumerate(roots):
        scaled = selected_rows @ root  # (m, d)
        precision = unit + (scaled.T * added[:, a]) @ scaled
        new_roots[a] = root @ inverse_lower(np.linalg.cholesky(precision)).T
        # Covariances (n, m) of all rows with the selected ones.
        covariance = rows_float32 @ (root @ scaled.T).astype(np.float32)
        inner = np.eye(len(selected)) + added[:, a, None] * (scaled @ scaled.T)
        gain = covariance @ np.linalg.solve(inner, np.diag(added[:, a])).astype(np.float32)
        new_variances[:, a] = variances[:, a] - np.einsum("nm,nm->n", gain, covariance)
    return new_roots, new_variances
