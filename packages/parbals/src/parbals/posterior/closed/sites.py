"""Expectation propagation (EP): the Gaussian site of every label, and the sweeps that find them.

A sweep updates all sites at once (parallel EP). Many labels that agree overshoot together, so the
update is damped as soon as the residual grows, and the damping is relaxed slowly: a quick return to
full steps would only start the next oscillation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from parbals.posterior.closed.labels import Labels, concatenate_labels, label_keys
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.shapes import Array, Bool, Float, Int

__all__ = [
    "LeaveOneOut",
    "SitePosterior",
    "Sites",
    "SweepResult",
    "WarmStart",
    "iterate_to_convergence",
]

_Rows = Float[Array, "n d"]

_MIN_STEP = 0.02  # of the damped update; 1 is undamped
_STEP_GROWTH = 1.05  # of the step after every sweep whose residual shrank


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
