"""Expectation propagation (EP): the Gaussian site of every label, and the sweeps that find them.

A sweep updates all sites at once (parallel EP). Many labels that agree overshoot together, so the
update is damped as soon as the residual grows, and the damping is relaxed slowly: a quick return to
full steps would only start the next oscillation.

*Thousands of labels* (:func:`fit_many_sites`). A sweep costs n r² for the covariances and n r for
the mean, so the mean converges first while the cavities' variances are held. With those fixed,
m = Σ_i x_i α_i maximises a concave function. It is found by Newton steps, whose linear systems are
solved by conjugate gradients, preconditioned with the latest covariances. Newton's method needs a
start near the solution: the mode of the posterior, after which few sweeps are left. A few new
labels (:func:`_add_few_labels`) change a few sites; the covariances are corrected for those at cost
n r. All sites are swept again once the number of labels has grown by a hundredth.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import several_threads
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.shapes import Array, Bool, Float, Int

__all__ = [
    "MANY_LABELS",
    "EPState",
    "Labels",
    "LeaveOneOut",
    "SitePosterior",
    "Sites",
    "SweepResult",
    "WarmStart",
    "concatenate_labels",
    "fit_many_sites",
    "iterate_to_convergence",
    "label_keys",
    "latent_cavities",
    "most_likely_class",
    "posterior_mean",
    "precision_roots",
]

# n rows, m selected rows, d columns, A latents.
_Rows = Float[Array, "n d"]
_RowLatents = Float[Array, "n A"]
_SelectedLatents = Float[Array, "m A"]
_Roots = Float[Array, "A d d"]
_Mean = Float[Array, "d A"]

MANY_LABELS = 2_000
"""From this number of labels on, fits may start from another fit's sites."""
_MIN_STEP = 0.02  # of the damped update; 1 is undamped
_STEP_GROWTH = 1.05  # of the step after every sweep whose residual shrank
_MANY_TOLERANCE = 3e-4
_MANY_MAX_SWEEPS = 60
_MEAN_UPDATES_PER_SWEEP = 2
_MEAN_RTOL = 0.1  # of conjugate gradients, within a sweep
_MAX_INCREMENTAL_GROWTH = 1.01  # labels now / labels when all sites were last swept
_MAX_INCREMENTAL_SITES = 64  # updated in one round
_MAX_INCREMENTAL_ROUNDS = 8
_INCREMENTAL_MEAN_RTOL = 1e-2
_MIN_CAVITY_SHIFT = 1e-2  # logits times the site's precision: smaller shifts leave a site as it is
_MAX_CG_ITERATIONS = 100
_CG_RTOL = 1e-6  # of the right-hand side, in the preconditioner's norm
_BLOCK_ROWS = 2_048  # a thread's share at a time


Labels = Int[Array, " n"] | Float[Array, "n C"]
"""Class numbers; or, for noisy annotators, the likelihood p(answers | class) of every class."""
PrecisionProduct = Callable[[Any, Any], Any]
"""W f, from the sites' precisions and the logits f."""
MomentMatching = Callable[[Any, Any, Any], "Sites"]
"""Sites that match the moments of cavities with these means and variances, at these rows."""


class Sites(NamedTuple):
    """Gaussian sites exp(ν f - ½ τ f²), one for every label, by their natural parameters.

    >>> Sites(precisions=np.array([0.25]), linear_terms=np.array([0.5])).precisions
    array([0.25])
    """

    precisions: Float[Array, "*n"]  # τ
    linear_terms: Float[Array, "*n"]  # ν


class WarmStart(NamedTuple):
    """State of a fit to many labels, from which a fit to nearly the same labels can start."""

    rows: Float[Array, "n d"]  # whitened
    variances: Float[Array, "n A"]  # of the rows' logits
    roots: Float[Array, "A d d"]  # of the posterior covariances
    mean: Float[Array, "d A"]  # of the posterior
    cavity_means: Float[Array, "n A"]  # at which each site was matched
    n_converged: int  # labels when all sites were last swept; 0 after a label was removed


class SweepResult(NamedTuple):
    """Sites after the last sweep, and their residual."""

    sites: Sites
    n_sweeps: int
    residual: float  # largest relative change of a site


class LeaveOneOut(NamedTuple):
    """Leave-one-out predictions: each label's row is predicted from all other labels."""

    indices: Int[Array, " m"]  # of the labels
    probs: Float[Array, "m C"]


def iterate_to_convergence(
    update: Callable[[Sites], Sites],
    sites: Sites,
    tolerance: float,
    max_sweeps: int,
    *,
    extrapolate: bool = False,
) -> SweepResult:
    """Update the sites until no site changes by more than ``tolerance`` of the largest one.

    Args:
        update: one undamped sweep.
        sites: where to start.
        tolerance: on the residual.
        max_sweeps: after which the sites are returned as they are.
        extrapolate: stop when the next sweep would be within the tolerance, assuming that the
            residual shrinks geometrically, by the ratio of the last two residuals.
    """
    if sites.precisions.size == 0:
        return SweepResult(sites, n_sweeps=0, residual=0.0)
    change = np.inf
    residual = np.inf
    step = 1.0
    n_sweeps = 0
    while residual >= tolerance and n_sweeps < max_sweeps:
        updated = update(sites)
        previous_change = change
        change = max(map(_relative_change, updated, sites))
        if change > previous_change:
            step = max(0.5 * step, _MIN_STEP)
        else:
            step = min(_STEP_GROWTH * step, 1.0)
        sites = Sites(
            precisions=sites.precisions + step * (updated.precisions - sites.precisions),
            linear_terms=sites.linear_terms + step * (updated.linear_terms - sites.linear_terms),
        )
        residual = change
        if extrapolate and n_sweeps and step == 1.0:
            residual = change * min(change / previous_change, 1.0)
        n_sweeps += 1
    return SweepResult(sites, n_sweeps, residual)


def _relative_change(new: Float[Array, "*n"], old: Float[Array, "*n"]) -> float:
    """Largest change of a site's parameter, relative to the largest parameter."""
    return float(np.abs(new - old).max() / max(np.abs(new).max(), 1e-300))


def most_likely_class(labels: Labels) -> Int[Array, " n"]:
    """Class numbers (n,); likelihoods (n, C) become the class under which they are largest.

    >>> most_likely_class(np.array([[0.9, 0.2], [0.1, 0.3]]))
    array([0, 1])
    """
    return labels if labels.ndim == 1 else labels.argmax(axis=1)


def concatenate_labels(labels: np.ndarray, new_labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Concatenate labels; class numbers become one-hot if the other labels are likelihoods.

    >>> concatenate_labels(np.array([1]), np.array([[0.9, 0.2]]), n_classes=2)
    array([[0. , 1. ],
           [0.9, 0.2]])
    """
    if labels.ndim != new_labels.ndim:
        one_hot = np.eye(n_classes)
        labels = labels if labels.ndim == 2 else one_hot[labels]
        new_labels = new_labels if new_labels.ndim == 2 else one_hot[new_labels]
    return np.concatenate([labels, new_labels])


def label_keys(rows: _Rows, labels: Any) -> np.ndarray:
    """Hash every labelled row to 64 bits, by the content of row and label: (n,).

    Labels are numbers of any kind, (n,) or (n, L). Duplicates are numbered before they are hashed,
    so that all keys differ.

    >>> keys = label_keys(np.array([[1.0], [1.0], [2.0]]), np.array([0, 0, 1]))
    >>> len(np.unique(keys))
    3
    """
    bits = np.column_stack([np.asarray(rows, np.float64), labels]).view(np.uint64)
    odd = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64) * 2 + 1
    keys = _splitmix64((bits ^ (bits >> 32)) @ odd)
    order = np.argsort(keys, kind="stable")
    group_starts = np.flatnonzero(np.append(True, np.diff(keys[order]) != 0))
    group_sizes = np.diff(np.append(group_starts, len(keys)))
    number_in_group = np.arange(len(keys)) - np.repeat(group_starts, group_sizes)
    keys[order] += _splitmix64(number_in_group.astype(np.uint64)) * (number_in_group > 0)
    return np.asarray(keys)


def _splitmix64(keys: np.ndarray) -> np.ndarray:
    """Mix 64-bit integers so that every output bit depends on all input bits."""
    keys = (keys ^ (keys >> 30)) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> 27)) * np.uint64(0x94D049BB133111EB)
    return np.asarray(keys ^ (keys >> 31))


@dataclass(frozen=True)
class SitePosterior(ABC):
    """Gaussian posterior given design rows X (n, d) and labels, with one EP site per label."""

    X: Float[Array, "n d"]
    labels: Labels
    whitening: Whitening  # the prior
    sites: Sites
    latents: Latents
    n_sweeps: int
    residual: float
    """Largest relative change of a site in the last sweep."""
    warm_start: WarmStart | None = None

    has_samples = True

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """C."""

    @abstractmethod
    def leave_one_out(self, *, all_labels: bool = False) -> LeaveOneOut:
        """Predict labelled rows without their own labels.

        ``all_labels``: predict every label, which with several classes is less exact than the
        default, a random sample of the labels.
        """

    @abstractmethod
    def _refit(
        self, X: _Rows, labels: Labels, start: Sites, warm_start: WarmStart | None = None
    ) -> Any:
        """Fit these labels under this posterior's prior."""

    def condition(self, X_new: Float[Array, "m d"], labels_new: Labels) -> Any:
        """Return the posterior given these labels as well, fitted from the current sites."""
        X = np.concatenate([self.X, X_new])
        labels = concatenate_labels(self.labels, labels_new, self.n_classes)
        start, warm_start = self.warm_start_for(X, labels)
        return self._refit(X, labels, start, warm_start)

    def warm_start_for(self, X: _Rows, labels: Labels) -> tuple[Sites, WarmStart | None]:
        """Return a start for fitting nearly the same design rows X (n, d) and labels.

        Labels are recognised by the content of their rows; new labels get flat sites.
        """
        source, is_new = self._match_labels(X, labels)

        def carry_over(values: np.ndarray, new_values: np.ndarray | float) -> np.ndarray:
            is_empty = len(values) == 0
            carried = np.empty((len(source), *values.shape[1:])) if is_empty else values[source]
            carried[is_new] = new_values
            return carried

        sites = Sites(
            precisions=carry_over(self.sites.precisions, 0.0),
            linear_terms=carry_over(self.sites.linear_terms, 0.0),
        )
        if self.warm_start is None:
            return sites, None
        new_means, new_variances = self.latents.marginals(X[is_new])
        n_carried = np.count_nonzero(~is_new)
        warm_start = self.warm_start._replace(
            rows=carry_over(self.warm_start.rows, self.whitening.rows(X[is_new])),
            variances=carry_over(self.warm_start.variances, new_variances),
            cavity_means=carry_over(self.warm_start.cavity_means, new_means),
            n_converged=self.warm_start.n_converged if n_carried == len(self.X) else 0,
        )
        return sites, warm_start

    def _match_labels(self, X: _Rows, labels: Labels) -> tuple[Int[Array, " n"], Bool[Array, " n"]]:
        """Return where in this posterior each label is, and which labels it does not have."""
        keys = label_keys(X, labels)
        known_keys = label_keys(self.X, self.labels)
        if not len(known_keys):
            return np.zeros(len(keys), int), np.ones(len(keys), bool)
        order = np.argsort(known_keys)
        insertion = np.searchsorted(known_keys, keys, sorter=order)
        source = order[np.minimum(insertion, len(known_keys) - 1)]
        return source, known_keys[source] != keys

    def _convergence_problems(self, tolerance: float) -> tuple[str, ...]:
        """Return a sentence if the sites still changed after the last sweep."""
        if self.residual < tolerance:
            return ()
        return (
            f"Expectation propagation did not converge: after {self.n_sweeps} sweeps a site still "
            f"changed by {self.residual:.1g} of the largest. Standardise the features, use a "
            'smaller prior_scale, or use inference="smc".',
        )


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
        self.variances = _logit_variances(self._rows_float32, self.roots)

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


def latent_cavities(
    f: _SelectedLatents,
    variances: _SelectedLatents,
    sites: Sites,
    precision_product: PrecisionProduct,
) -> tuple[_SelectedLatents, _SelectedLatents]:
    """Means and variances (m, A) of the cavities: logits under all sites but their own."""
    cavity = variances / np.maximum(1.0 - sites.precisions * variances, 1e-4)
    return f - cavity * (sites.linear_terms - precision_product(sites.precisions, f)), cavity


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
        new_roots[a] = root @ np.linalg.inv(np.linalg.cholesky(precision)).T
        # Covariances (n, m) of all rows with the selected ones.
        covariance = rows_float32 @ (root @ scaled.T).astype(np.float32)
        inner = np.eye(len(selected)) + added[:, a, None] * (scaled @ scaled.T)
        gain = covariance @ np.linalg.solve(inner, np.diag(added[:, a])).astype(np.float32)
        new_variances[:, a] = variances[:, a] - np.einsum("nm,nm->n", gain, covariance)
    return new_roots, new_variances


def precision_roots(rows: _Rows, precisions: _RowLatents) -> _Roots:
    """Roots R_a (A, d, d) of the covariances, R_a R_aᵀ = (I + Σ_i τ_ia x_i x_iᵀ)⁻¹.

    Args:
        rows: x (n, d).
        precisions: τ (n, A).

    >>> precision_roots(np.array([[1.0]]), np.array([[3.0]]))
    array([[[0.5]]])
    """
    unit = np.eye(rows.shape[1])
    if len(rows) < MANY_LABELS:
        return _inverse_roots(unit + (rows.T * precisions.T[:, None, :]) @ rows)
    blocks = list(block_rows(len(rows), _BLOCK_ROWS))
    n_latents = precisions.shape[1]
    root_precisions = np.sqrt(precisions)

    def product(task: tuple[int, slice]) -> np.ndarray:
        latent, block = task
        scaled = rows[block] * root_precisions[block, latent, None]
        return np.asarray(scaled.T @ scaled)

    tasks = [(a, block) for a in range(n_latents) for block in blocks]
    with several_threads() as workers:
        products = workers.map(product, tasks)
    n_blocks = len(blocks)
    sums = [sum(products[a * n_blocks : (a + 1) * n_blocks], unit) for a in range(n_latents)]
    return _inverse_roots(np.stack(sums))


def _inverse_roots(hessians: _Roots) -> _Roots:
    """R (A, d, d) with R Rᵀ = H⁻¹, for every H of (A, d, d)."""
    return np.linalg.inv(np.linalg.cholesky(hessians)).transpose(0, 2, 1)


def _logit_variances(rows_float32: _Rows, roots: _Roots) -> _RowLatents:
    """Variances (n, A) of the rows' logits, in single precision."""
    variances = np.empty((len(rows_float32), len(roots)))
    factors = roots.astype(np.float32)

    def write(task: tuple[int, slice]) -> None:
        latent, block = task
        scaled = rows_float32[block] @ factors[latent]
        variances[block, latent] = np.einsum("nr,nr->n", scaled, scaled)

    blocks = list(block_rows(len(rows_float32), _BLOCK_ROWS))
    with several_threads() as workers:
        workers.map(write, [(a, block) for a in range(len(roots)) for block in blocks])
    return variances


def posterior_mean(
    rows: _Rows,
    roots: _Roots,
    precision_product: PrecisionProduct,
    sites: Sites,
    mean: _Mean,
    rtol: float = 0.0,
) -> _Mean:
    """Posterior mean m (d, A) by preconditioned conjugate gradients.

    Solves m + Σ_i x_i (W_i f_i)ᵀ = Σ_i x_i ν_iᵀ, f_i = mᵀ x_i.

    SciPy's ``cg`` is as fast, but not safe here. The preconditioner is singular, because it removes
    the mean over classes, and SciPy stops by the plain norm of the residual: rounding errors in
    that direction, where the labels contradict each other, lead to 0 / 0. Here the stopping rule
    uses the preconditioner's norm, which ignores that direction.

    Args:
        rows: x (n, d).
        roots: R (A, d, d); R_a R_aᵀ preconditions latent a.
        precision_product: W f.
        sites: (n, A).
        mean: where to start.
        rtol: reduction of the first residual that is enough.
    """

    def precondition(residual: _Mean) -> _Mean:
        inner = roots.transpose(0, 2, 1) @ residual.T[:, :, None]
        z = (roots @ inner)[:, :, 0].T
        if len(roots) > 1:
            # Softmax is shift-invariant: the mean over classes is zero, and rounding is removed.
            z = z - z.mean(axis=1, keepdims=True)
        return np.asarray(z)

    precisions = sites.precisions
    rhs = rows.T @ sites.linear_terms
    residual = rhs - mean - rows.T @ precision_product(precisions, rows @ mean)
    z = precondition(residual)
    direction = z
    r_dot_z = np.sum(residual * z)
    tolerance = max(_CG_RTOL**2 * np.sum(rhs * precondition(rhs)), rtol**2 * r_dot_z)
    for _ in range(_MAX_CG_ITERATIONS):
        if r_dot_z <= tolerance:
            break
        A_direction = direction + rows.T @ precision_product(precisions, rows @ direction)
        step_size = r_dot_z / np.sum(direction * A_direction)
        mean = mean + step_size * direction
        residual = residual - step_size * A_direction
        z = precondition(residual)
        previous = r_dot_z
        r_dot_z = np.sum(residual * z)
        direction = z + (r_dot_z / previous) * direction
    return mean
