"""What both kinds of expectation propagation share: the posterior with its sites, and the sweeps.

A sweep renews all sites at once. Many labels that say the same overshoot together, so a step is
damped as soon as the changes grow; a quick return to whole steps would only start the next round of
that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from parbals.posterior.channels import Channels
from parbals.posterior.whitening import Whitening

__all__ = ["SitePosterior", "Sites", "settle"]

_LEAST_STEP, _GROWTH = 0.02, 1.05


class Sites(NamedTuple):
    """exp(ν f - ½ τ f²) for every label: precisions τ and shifts ν, of one shape."""

    precisions: np.ndarray
    shifts: np.ndarray

    def with_more(self, n_rows: int) -> "Sites":
        """The same, and ``n_rows`` sites that say nothing yet."""
        return Sites(*(np.concatenate([x, np.zeros((n_rows, *x.shape[1:]))]) for x in self))


class Settled(NamedTuple):
    """Sites after the last sweep, and the largest relative change that it wanted."""

    sites: Sites
    n_sweeps: int
    change: float


def settle(
    renew: Callable[[Sites], Sites], sites: Sites, tolerance: float, most_sweeps: int
) -> Settled:
    """Renew the sites until none changes by more than ``tolerance`` of the largest."""
    change, step, n_sweeps = np.inf, 1.0, 0
    if sites.precisions.size == 0:
        return Settled(sites, 0, 0.0)
    while change >= tolerance and n_sweeps < most_sweeps:
        renewed = renew(sites)
        before, change = change, max(map(_relative_change, renewed, sites))
        step = max(0.5 * step, _LEAST_STEP) if change > before else min(_GROWTH * step, 1.0)
        sites = Sites(*(old + step * (new - old) for new, old in zip(renewed, sites, strict=True)))
        n_sweeps += 1
    return Settled(sites, n_sweeps, change)


def _relative_change(new: np.ndarray, old: np.ndarray) -> float:
    """Largest change of a site, as a share of the largest site."""
    return float(np.abs(new - old).max() / max(np.abs(new).max(), 1e-300))


@dataclass(frozen=True)
class SitePosterior(ABC):
    """A Gaussian given design rows X (n, d) and class numbers, made of one site a label."""

    X: np.ndarray
    labels: np.ndarray
    whitening: Whitening  # the prior
    sites: Sites
    channels: Channels
    n_sweeps: int
    change: float
    """Largest relative change of a site that the last sweep wanted."""

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """C."""

    @abstractmethod
    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, C) probabilities of design rows X (N, d)."""

    @abstractmethod
    def left_out(self) -> np.ndarray:
        """(n, C) probabilities of every labelled row by all labels but its own, its cavity's."""

    @abstractmethod
    def problems(self) -> tuple[str, ...]:
        """What the user must be told."""

    @abstractmethod
    def _refitted(self, X: np.ndarray, labels: np.ndarray, start: Sites) -> Self:
        """The posterior of these labels under the same prior."""

    def condition(self, X_new: np.ndarray, labels_new: np.ndarray) -> Self:
        """The posterior that also knows these labels; the old sites are where it starts."""
        X, labels = np.concatenate([self.X, X_new]), np.append(self.labels, labels_new)
        return self._refitted(X, labels, self.sites.with_more(len(X_new)))

    def _unsettled(self, allowed: float) -> tuple[str, ...]:
        """A sentence if sites still changed when the sweeps were used up."""
        if self.change < allowed:
            return ()
        return (
            f"Expectation propagation did not settle: after {self.n_sweeps} sweeps a site still "
            f"changed by {self.change:.1g} of the largest. Standardise the features, use a smaller "
            'prior_scale, or use inference="smc".',
        )
