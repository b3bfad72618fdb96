"""Sites: what labels become in expectation propagation, the sweeps that find them, their posterior.

A sweep renews all sites at once. Many labels that say the same overshoot together, so a step is
damped as soon as the changes grow; a quick return to whole steps would only start the next round of
that.

*Thousands of labels* (:func:`settle_many`). What a sweep costs is n r² for the covariances and n r
for the mean, so a sweep keeps the cavities' variances and lets the mean settle first: with those
fixed, m = Σ_i x_i α_i is the maximum of a concave function, found by Newton's steps whose systems
are solved by conjugate gradients, conditioned by the last covariances. Newton's steps need a start
that is near: the mode of the posterior, after which few sweeps are left. One more label
(:func:`_with_few_more`) changes a few sites and corrects the covariances for those, at n r; all
sites are swept again when there are a hundredth more labels.
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
from parbals.shapes import Array, Float, Int

__all__ = [
    "MANY_LABELS",
    "Kept",
    "Labels",
    "SitePosterior",
    "Sites",
    "concatenate_labels",
    "latent_cavities",
]
__all__ += [
    "label_keys",
    "most_likely_class",
    "posterior_mean",
    "precision_roots",
    "settle",
    "settle_many",
]

# Rows; numbers of every row, or of some, in each latent; what is of a latent.
_Rows = Float[Array, "n d"]
_Each = Float[Array, "n A"]
_Roots = Float[Array, "A d d"]
_Mean = Float[Array, "d A"]
_Some = Float[Array, "m A"]

_LEAST_STEP, _GROWTH = 0.02, 1.05
MANY_LABELS = 2_000
"""So many labels are many: fits may start with another fit's sites."""
_MANY_TOLERANCE, _MANY_SWEEPS, _MEAN_STEPS = 3e-4, 60, 2
_REST = 0.1
_GROWN = 1.01  # as many labels again are few more
_FEW, _FEW_ROUNDS, _FEW_REST = 64, 8, 1e-2
_LEAST_MOVED = 1e-2  # of a logit, times its site's precision
_BLOCK = 2_048  # rows that a thread takes at a time


Labels = Int[Array, " n"] | Float[Array, "n C"]
"""Class numbers; or, of what fallible people answered, p(their answers | class) of every class."""
Pull = Callable[[Any, Any], Any]
"""W f of precisions and logits f."""
Renewed = Callable[[Any, Any, Any], "Sites"]
"""Sites for cavities of these means and variances, of the rows at these places."""


class Sites(NamedTuple):
    """exp(ν f - ½ τ f²) for every label: precisions τ and shifts ν, of one shape."""

    precisions: Float[Array, "*n"]
    shifts: Float[Array, "*n"]


class Kept(NamedTuple):
    """What a fit of many labels leaves for the next one."""

    rows: Float[Array, "n d"]  # whitened
    variances: Float[Array, "n A"]  # of their logits
    roots: Float[Array, "A d d"]
    mean: Float[Array, "d A"]
    cavities: Float[Array, "n A"]  # means at which the sites were found
    n_settled: int  # labels when all sites were; 0: some have gone since


class Settled(NamedTuple):
    """Sites after the last sweep, and the largest relative change that it wanted."""

    sites: Sites
    n_sweeps: int
    change: float


def settle(
    renew: Callable[[Sites], Sites],
    sites: Sites,
    tolerance: float,
    most_sweeps: int,
    *,
    ahead: bool = False,
) -> Settled:
    """Renew the sites until none changes by more than ``tolerance`` of the largest.

    ``ahead``: until the next sweep would not, as the last two foretell: in a series of changes that
    shrink by the same factor the next one is known.
    """
    change = left = np.inf
    step, n_sweeps = 1.0, 0
    if sites.precisions.size == 0:
        return Settled(sites, 0, 0.0)
    while left >= tolerance and n_sweeps < most_sweeps:
        renewed = renew(sites)
        before, change = change, max(map(_relative_change, renewed, sites))
        step = max(0.5 * step, _LEAST_STEP) if change > before else min(_GROWTH * step, 1.0)
        sites = Sites(*(old + step * (new - old) for new, old in zip(renewed, sites, strict=True)))
        is_even = ahead and n_sweeps and step == 1.0
        left = change * min(change / before, 1.0) if is_even else change
        n_sweeps += 1
    return Settled(sites, n_sweeps, left)


def _relative_change(new: Float[Array, "*n"], old: Float[Array, "*n"]) -> float:
    """Largest change of a site, as a share of the largest site."""
    return float(np.abs(new - old).max() / max(np.abs(new).max(), 1e-300))


def most_likely_class(labels: Labels) -> Int[Array, " n"]:
    """The class numbers (n,), or those by which the answers are most_likely_class."""
    return labels if labels.ndim == 1 else labels.argmax(axis=1)


def concatenate_labels(labels: np.ndarray, more: np.ndarray, n_classes: int) -> np.ndarray:
    """Both, one after the other; as likelihoods where one of them is such."""
    if labels.ndim != more.ndim:
        unit = np.eye(n_classes)
        labels, more = (x if x.ndim == 2 else unit[x] for x in (labels, more))
    return np.concatenate([labels, more])


def label_keys(rows: _Rows, labels: Any) -> np.ndarray:
    """(n,) random numbers of 64 bits that say which row (n, D) with which label it is.

    Labels are numbers of any kind, (n,) or (n, L).

    Equal ones are told apart by counting them, so that all are different.
    """
    bits = np.column_stack([np.asarray(rows, np.float64), labels]).view(np.uint64)
    odd = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64) * 2 + 1
    keys = _mixed((bits ^ (bits >> 32)) @ odd)
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(keys[order]) != 0))
    counted = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    keys[order] += _mixed(counted.astype(np.uint64)) * (counted > 0)
    return np.asarray(keys)


def _mixed(keys: np.ndarray) -> np.ndarray:
    """Numbers of 64 bits, every bit of which depends on all of what was given (splitmix64)."""
    keys = (keys ^ (keys >> 30)) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> 27)) * np.uint64(0x94D049BB133111EB)
    return np.asarray(keys ^ (keys >> 31))


@dataclass(frozen=True)
class SitePosterior(ABC):
    """A Gaussian given design rows X (n, d) and class numbers, made of one site a label."""

    X: Float[Array, "n d"]
    labels: Labels
    whitening: Whitening  # the prior
    sites: Sites
    latents: Latents
    n_sweeps: int
    change: float
    """Largest relative change of a site that the last sweep wanted."""
    kept: Kept | None = None

    has_samples = True

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """C."""

    @abstractmethod
    def leave_one_out(
        self, *, all_labels: bool = False
    ) -> tuple[Int[Array, " m"], Float[Array, "m C"]]:
        """Some labels' places (m,), and their rows' probabilities (m, C) by all labels but them.

        ``all_labels``: of all labels, which where there are several classes is less exact.
        """

    @abstractmethod
    def _refitted(self, X: _Rows, labels: Labels, start: Sites, kept: Kept | None = None) -> Any:
        """The posterior of these labels under the same prior."""

    def condition(self, X_new: Float[Array, "m d"], labels_new: Labels) -> Any:
        """The posterior that also knows these labels; the old sites are where it starts."""
        X = np.concatenate([self.X, X_new])
        labels = concatenate_labels(self.labels, labels_new, self.n_classes)
        return self._refitted(X, labels, *self.start_for(X, labels))

    def start_for(self, X: _Rows, labels: Labels) -> tuple[Sites, Kept | None]:
        """Where a fit of nearly the same design rows X (n, d) and labels may start.

        Labels are known by what their rows hold; those that are new get sites that say nothing.
        """
        keys, own = label_keys(X, labels), label_keys(self.X, self.labels)
        order = np.argsort(own)
        found = np.searchsorted(own, keys, sorter=order)
        places = order[np.minimum(found, len(own) - 1)] if len(own) else found
        is_new = own[places] != keys if len(own) else np.ones(len(keys), bool)

        def known(values: np.ndarray, new: np.ndarray | float) -> np.ndarray:
            taken = values[places] if len(own) else np.empty((len(keys), *values.shape[1:]))
            taken[is_new] = new
            return taken

        sites = Sites(*(known(values, 0.0) for values in self.sites))
        if self.kept is None:
            return sites, None
        kept = self.kept
        rows = known(kept.rows, self.whitening.rows(X[is_new]))
        mean, variances = self.latents.marginals(X[is_new])
        kept = kept._replace(
            rows=rows,
            variances=known(kept.variances, variances),
            cavities=known(kept.cavities, mean),
            n_settled=kept.n_settled if (~is_new).sum() == len(own) else 0,
        )
        return sites, kept

    def _unsettled(self, allowed: float) -> tuple[str, ...]:
        """A sentence if sites still changed when the sweeps were used up."""
        if self.change < allowed:
            return ()
        return (
            f"Expectation propagation did not settle: after {self.n_sweeps} sweeps a site still "
            f"changed by {self.change:.1g} of the largest. Standardise the features, use a smaller "
            'prior_scale, or use inference="smc".',
        )


def settle_many(
    rows: _Rows,
    sites: Sites | None,
    pull: Pull,
    renewed: Renewed,
    mode: Callable[[], _Mean],
    kept: Kept | None = None,
) -> tuple[Settled, Kept]:
    """Sites (n, A) of whitened rows (n, d), n > d, and what another fit may start with.

    Args:
        sites: where to start; by default with those of Laplace's approximation.
        pull: W f (n, A) of precisions and logits f, both (n, A).
        renewed: sites of some rows for cavities of these means and variances.
        mode: the weights (d, A) that maximise the posterior.
        kept: of these rows, as a fit of nearly the same labels left them.
    """
    everything = slice(None)
    if sites is None:
        mean = mode()
        f = rows @ mean
        sites = renewed(f, np.zeros_like(f), everything)
    else:
        mean = np.zeros((rows.shape[1], sites.shifts.shape[1])) if kept is None else kept.mean
    if kept is not None and len(rows) <= _GROWN * kept.n_settled:
        found = _with_few_more(rows, sites, pull, renewed, kept)
        if found is not None:
            return found
    single = rows.astype(np.float32)
    roots, variances = (None, None) if kept is None else (kept.roots, kept.variances)
    latest = variances

    def renew(sites: Sites) -> Sites:
        nonlocal mean, roots, variances, latest
        if roots is None or variances is None:
            roots = precision_roots(rows, sites.precisions)
            variances = _variances(single, roots)
        latest, variances = variances, None
        conditioned = roots

        def nearer(sites: Sites) -> Sites:
            nonlocal mean
            mean = posterior_mean(rows, conditioned, pull, sites, mean, _REST)
            return renewed(*latent_cavities(rows @ mean, latest, sites, pull), everything)

        return settle(nearer, sites, 0.1 * _MANY_TOLERANCE, _MEAN_STEPS).sites

    settled = settle(renew, sites, _MANY_TOLERANCE, _MANY_SWEEPS, ahead=True)
    roots = precision_roots(rows, settled.sites.precisions)
    mean = posterior_mean(rows, roots, pull, settled.sites, mean)
    assert latest is not None
    cavities, _ = latent_cavities(rows @ mean, latest, settled.sites, pull)
    return settled, Kept(rows, latest, roots, mean, cavities, len(rows))


def latent_cavities(f: _Some, variances: _Some, sites: Sites, pull: Pull) -> tuple[_Some, _Some]:
    """Means and variances of logits under all sites but their own."""
    cavity = variances / np.maximum(1.0 - sites.precisions * variances, 1e-4)
    return f - cavity * (sites.shifts - pull(sites.precisions, f)), cavity


def _with_few_more(
    rows: _Rows, sites: Sites, pull: Pull, renewed: Renewed, kept: Kept
) -> tuple[Settled, Kept] | None:
    """The same where a few of many labels are new, whose sites say nothing yet; None if it is not.

    Their own sites are found, and those of rows whose cavities they moved most are renewed; a site
    elsewhere is as good a parabola as it was, to second order in how far its cavity went.
    """
    mean, roots, variances = kept.mean, kept.roots, kept.variances.copy()
    precisions, shifts = (values.copy() for values in sites)
    known = kept.cavities.copy()
    known[~precisions.any(axis=1)] = np.inf
    for n_rounds in range(_FEW_ROUNDS):
        means, spreads = latent_cavities(rows @ mean, variances, Sites(precisions, shifts), pull)
        moved = (np.maximum(precisions, _LEAST_MOVED) * np.abs(means - known)).max(axis=1)
        few = np.argpartition(-moved, _FEW)[:_FEW]
        few = few[moved[few] >= _LEAST_MOVED]
        if not len(few):
            settled = Settled(Sites(precisions, shifts), n_rounds, 0.0)
            return settled, Kept(rows, variances, roots, mean, known, kept.n_settled)
        known[few], before = means[few], precisions[few]
        precisions[few], shifts[few] = renewed(means[few], spreads[few], few)
        roots, variances = _updated(rows, few, precisions[few] - before, roots, variances)
        mean = posterior_mean(rows, roots, pull, Sites(precisions, shifts), mean, _FEW_REST)
    return None


def _updated(
    rows: _Rows, few: Int[Array, " m"], added: _Some, roots: _Roots, variances: _Each
) -> tuple[_Roots, _Each]:
    """Roots and variances when precisions of a few rows have grown by so much."""
    new_roots, new_variances = np.empty_like(roots), np.empty_like(variances)
    unit, here, single = np.eye(rows.shape[1]), rows[few], rows.astype(np.float32)
    for a, root in enumerate(roots):
        looked = here @ root  # (m, d)
        grown = unit + (looked.T * added[:, a]) @ looked
        new_roots[a] = root @ np.linalg.inv(np.linalg.cholesky(grown)).T
        crossed = single @ (root @ looked.T).astype(np.float32)  # covariances with those rows
        inner = np.eye(len(few)) + added[:, a, None] * (looked @ looked.T)
        lost = crossed @ np.linalg.solve(inner, np.diag(added[:, a])).astype(np.float32)
        new_variances[:, a] = variances[:, a] - np.einsum("nm,nm->n", lost, crossed)
    return new_roots, new_variances


def precision_roots(rows: _Rows, precisions: _Each) -> _Roots:
    """(A, d, d): root rootᵀ = (I + Σ_i τ_ia x_i x_iᵀ)⁻¹ of rows (n, d), precisions (n, A)."""
    unit = np.eye(rows.shape[1])
    if len(rows) < MANY_LABELS:
        return _roots(unit + (rows.T * precisions.T[:, None, :]) @ rows)
    blocks = list(block_rows(len(rows), _BLOCK))
    halves, n_latents = np.sqrt(precisions), precisions.shape[1]

    def product(task: tuple[int, slice]) -> np.ndarray:
        latent, block = task
        scaled = rows[block] * halves[block, latent, None]
        return np.asarray(scaled.T @ scaled)

    with several_threads() as workers:
        parts = workers.map(product, [(a, block) for a in range(n_latents) for block in blocks])
    size = len(blocks)
    sums = [sum(parts[a * size : (a + 1) * size], unit) for a in range(n_latents)]
    return _roots(np.stack(sums))


def _roots(hessians: _Roots) -> _Roots:
    """R (A, d, d) with R Rᵀ = H⁻¹ of each (A, d, d)."""
    return np.linalg.inv(np.linalg.cholesky(hessians)).transpose(0, 2, 1)


def _variances(rows: _Rows, roots: _Roots) -> _Each:
    """(n, A) of the logits of rows (n, d), in single precision as these are."""
    variances, factors = np.empty((len(rows), len(roots))), roots.astype(np.float32)

    def write(task: tuple[int, slice]) -> None:
        latent, block = task
        looked = rows[block] @ factors[latent]
        variances[block, latent] = np.einsum("nr,nr->n", looked, looked)

    with several_threads() as workers:
        tasks = [(a, block) for a in range(len(roots)) for block in block_rows(len(rows), _BLOCK)]
        workers.map(write, tasks)
    return variances


def posterior_mean(
    rows: _Rows, roots: _Roots, pull: Pull, sites: Sites, mean: _Mean, rest: float = 0.0
) -> _Mean:
    """m (d, A) with m + Σ_i x_i (W_i f_i)ᵀ = Σ_i x_i ν_iᵀ, from one near it, conditioned by roots.

    Sites are (n, A), rows (n, d), roots (A, d, d); ``pull`` is W f.
    """

    def conditioned(residual: _Mean) -> _Mean:
        inner = roots.transpose(0, 2, 1) @ residual.T[:, :, None]
        better = (roots @ inner)[:, :, 0].T
        if len(roots) > 1:  # what is the same for all classes no label sees, and it is zero
            better = better - better.mean(axis=1, keepdims=True)
        return np.asarray(better)

    precisions = sites.precisions
    right = rows.T @ sites.shifts
    residual = right - mean - rows.T @ pull(precisions, rows @ mean)
    direction = better = conditioned(residual)
    size = np.sum(residual * better)
    goal = max(1e-12 * np.sum(right * conditioned(right)), rest**2 * size)
    for _ in range(100):
        if size <= goal:
            break
        bent = direction + rows.T @ pull(precisions, rows @ direction)
        length = size / np.sum(direction * bent)
        mean = mean + length * direction
        residual = residual - length * bent
        better = conditioned(residual)
        size, before = np.sum(residual * better), size
        direction = better + (size / before) * direction
    return mean
