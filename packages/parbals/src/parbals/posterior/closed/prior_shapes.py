"""The shape and scale of a prior for linear models, chosen by the evidence of labels.

Every shape of :class:`~parbals.posterior.closed.whitening.PoolMoments` gets the scale s that
maximises ln Z + ln p(ln s), ln s ~ N(ln 3, 1), where ln Z is the evidence of expectation
propagation, summed over the binary problems that stand for more than two classes
(:mod:`~parbals.posterior.closed.binary_problems`). The powers of the directions' variance are then
averaged, each power's variances weighted by its evidence. Powers of the neighbourhoods' variances
are averaged with them: the labels decide how much of the prior the neighbourhoods get. Where
columns are in different units, standardised columns replace the powers if their evidence is higher
than that of all powers together. Elsewhere standardising would whiten the features, which helps
nobody, though the evidence of labels near a decision boundary may favour it.

Labels become Gaussian sites under the averaged prior, the sites give every shape its scale and
weight (:mod:`~parbals.posterior.closed.evidence`), and this is repeated under the new average.
"""

from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from parbals.posterior.closed.binary_problems import BinaryProblems
from parbals.posterior.closed.evidence import converged_sites, evidence_profile
from parbals.posterior.closed.sites import Sites
from parbals.posterior.closed.whitening import INTERCEPT_SD, PoolMoments, Shape, Whitening
from parbals.shapes import Array, Float

__all__ = ["Shapes", "fit_shapes"]

_LOG_SCALE_MEAN = float(np.log(3.0))  # of the hyperprior of ln s
_LOG_SCALE_SD = 1.0
_LOG_SCALE_GRID = _LOG_SCALE_MEAN + np.linspace(-4.0, 4.0, 33)
_LOG_PRIOR_SHARES = (-1.0, -0.5, 0.0, -1.0)  # of the powers, before any label
_LOG_PRIOR_SHARE_OF_COLUMNS = 1.0
_MAX_ROUNDS = 4
_SWEEPS_PER_ROUND = 5  # few, because the next round starts from these sites
_SITE_TOLERANCE = 2e-2
_MAX_ACCELERATION = 4.0
_LOG_SCALE_TOLERANCE = 0.1  # too small a change of ln s to affect predictions
_MAX_NATS_BEHIND = 6.0  # a shape whose evidence is further behind the best is dropped


class Shapes(NamedTuple):
    """Candidate shapes of the prior, each with a scale and a weight.

    S shapes: the powers of the directions' variance and, last, standardised columns if the pool has
    mixed units.
    """

    pool: PoolMoments
    by_directions: tuple[Shape, ...]
    log_prior_shares: Float[Array, " S"]
    log_scales: Float[Array, " S"]
    log_shares: Float[Array, " S"]
    uses_columns: bool = False
    """Whether standardised columns replace the powers."""
    wide_intercept: bool = False
    """Whether intercepts may be as large as logits."""

    @classmethod
    def of(cls, pool: PoolMoments, powers: tuple[float, ...], *, by_columns: bool) -> "Shapes":
        """Before any label: the average of the powers, at the scale's prior median."""
        by_directions = pool.shapes(powers)
        n_blocks = len(by_directions) // len(powers)
        log_shares = np.tile(_LOG_PRIOR_SHARES[: len(powers)], n_blocks)
        if by_columns:
            log_shares = np.append(log_shares, _LOG_PRIOR_SHARE_OF_COLUMNS)
        return cls(
            pool=pool,
            by_directions=by_directions,
            log_prior_shares=log_shares,
            log_scales=np.full(len(log_shares), _LOG_SCALE_MEAN),
            log_shares=log_shares,
        )

    def reweighted(
        self, log_scales: Float[Array, " S"], log_evidence: Float[Array, " S"]
    ) -> "Shapes":
        """Replace the scales, and weight the shapes by their evidence (S,)."""
        n_powers = len(self.by_directions)
        has_columns = len(log_scales) > n_powers
        log_shares = self.log_prior_shares + log_evidence
        log_share_of_powers = np.logaddexp.reduce(log_shares[:n_powers])
        uses_columns = has_columns and log_shares[-1] > log_share_of_powers
        return self._replace(
            log_scales=log_scales, log_shares=log_shares, uses_columns=bool(uses_columns)
        )

    @property
    def scale(self) -> float:
        """Standard deviation of a class's logit over the pool."""
        if self.uses_columns:
            return float(np.exp(self.log_scales[-1]))
        return float(np.sqrt(self.power_variances.sum()))

    @property
    def neighbourhood_share(self) -> float:
        """Share of the neighbourhoods in the prior variance of a class's logit over the pool."""
        if self.uses_columns:
            return 0.0
        is_of_neighbourhoods = [shape.of_neighbourhoods for shape in self.by_directions]
        variances = self.power_variances
        return float(variances[is_of_neighbourhoods].sum() / variances.sum())

    @property
    def intercept(self) -> float:
        """Standard deviation of a class's intercept."""
        return max(INTERCEPT_SD, self.scale) if self.wide_intercept else INTERCEPT_SD

    @property
    def power_variances(self) -> Float[Array, " S"]:
        """s² of every power, times its share in the average."""
        n_powers = len(self.by_directions)
        log_shares = self.log_shares[:n_powers]
        log_shares = log_shares - np.logaddexp.reduce(log_shares)
        return np.asarray(np.exp(log_shares + 2.0 * self.log_scales[:n_powers]))

    @property
    def whitening(self) -> Whitening:
        """The averaged prior."""
        if self.uses_columns:
            return self.pool.whitening_by_columns(self.scale, self.intercept)
        variances = np.stack([self.pool.variances(shape) for shape in self.by_directions])
        return self.pool.whitening(self.power_variances @ variances, self.intercept)


def fit_shapes(
    shapes: Shapes, problems: BinaryProblems, rows: Float[Array, "n D"]
) -> tuple[Shapes, Sites]:
    """Fit scales and weights of the shapes to labelled rows (n, D); return the last sites too.

    Every round runs a few EP sweeps under the current average, then moves the scale of every shape
    towards the maximum of its evidence.
    """
    pool = shapes.pool
    has_columns = len(shapes.log_scales) > len(shapes.by_directions)
    coordinates = pool.coordinates(rows)
    variances = np.stack([pool.variances(shape) for shape in shapes.by_directions])
    standardised = [pool.standardised(rows)] if has_columns else []
    scaled_rows = [*coordinates * np.sqrt(variances)[:, None], *standardised]
    factors = [problems.factors(scaled) for scaled in scaled_rows]
    bias_column = np.square(problems.signs)[..., None]
    # Sites favour the prior they were found under; with mixed units, columns deserve the advantage.
    shapes = shapes._replace(uses_columns=has_columns)
    sites: Sites | None = None
    wanted_step = np.zeros(len(factors))
    taken_step = np.zeros(len(factors))
    log_evidence = np.zeros(len(factors))
    is_candidate = np.ones(len(factors), bool)
    for _ in range(_MAX_ROUNDS):
        if shapes.uses_columns:
            whitened = shapes.scale * standardised[0]
        else:
            whitened = coordinates * np.sqrt(shapes.power_variances @ variances)
        intercept = np.sqrt(2.0) * shapes.intercept
        sites = converged_sites(
            np.concatenate([problems.factors(whitened), intercept * bias_column], axis=-1),
            problems.signs,
            sites,
            tolerance=_SITE_TOLERANCE,
            max_sweeps=_SWEEPS_PER_ROUND,
            label_noise=problems.label_noise,
        )
        candidates = list(compress(factors, is_candidate))
        best_log_scales, best_evidence = _maximise_evidence(candidates, problems, sites, intercept)
        # The sites' own contribution changes; a dropped shape's distance to the best hardly does.
        log_evidence = log_evidence - log_evidence[is_candidate].max() + best_evidence.max()
        log_evidence[is_candidate] = best_evidence
        previous_wanted_step = wanted_step
        wanted_step = np.zeros(len(factors))
        wanted_step[is_candidate] = best_log_scales - shapes.log_scales[is_candidate]
        taken_step = wanted_step * _acceleration(taken_step, previous_wanted_step - wanted_step)
        previous_scale = shapes.scale
        shapes = shapes.reweighted(shapes.log_scales + taken_step, log_evidence)
        is_near_best = shapes.log_shares > shapes.log_shares.max() - _MAX_NATS_BEHIND
        is_candidate = is_candidate & is_near_best
        if abs(np.log(shapes.scale / previous_scale)) < _LOG_SCALE_TOLERANCE:
            break
    assert sites is not None
    return shapes, Sites(sites.precisions[0], sites.linear_terms[0])


def _acceleration(
    taken_step: Float[Array, " S"], reduction: Float[Array, " S"]
) -> Float[Array, " S"]:
    """Factor, 1 to 4, by which to lengthen the steps of ln s (Steffensen's method).

    Sites that follow the scale let it move only part of its way each round. The last step,
    ``taken_step``, made the wanted step shorter by ``reduction``.
    """
    shrinks = taken_step * reduction > 0.0
    factor = np.divide(taken_step, reduction, out=np.ones_like(taken_step), where=shrinks)
    return np.clip(factor, 1.0, _MAX_ACCELERATION)


def _maximise_evidence(
    factors: list[Any], problems: BinaryProblems, sites: Sites, intercept: float
) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
    """ln s (S,) of every shape at the maximum of its evidence, and the maxima (S,).

    The maximum is that of the parabola through the best point of the grid and its neighbours.

    Args:
        factors: F (P, n, r) of every shape, at s = 1.
        problems: the P binary problems.
        sites: (P, n).
        intercept: κ.
    """
    profiles = [evidence_profile(factor, sites, intercept) for factor in factors]
    evidence = [profile.log_evidence(_LOG_SCALE_GRID).sum(axis=1) for profile in profiles]
    values = problems.weight * np.stack(evidence, axis=1)
    values -= 0.5 * np.square((_LOG_SCALE_GRID - _LOG_SCALE_MEAN) / _LOG_SCALE_SD)[:, None]
    best = np.clip(values.argmax(axis=0), 1, len(_LOG_SCALE_GRID) - 2)
    shape = np.arange(values.shape[1])
    left = values[best - 1, shape]
    middle = values[best, shape]
    right = values[best + 1, shape]
    step = np.clip(0.5 * (right - left) / np.maximum(2.0 * middle - left - right, 1e-9), -1.0, 1.0)
    spacing = _LOG_SCALE_GRID[1] - _LOG_SCALE_GRID[0]
    return _LOG_SCALE_GRID[best] + spacing * step, middle + 0.25 * (right - left) * step
