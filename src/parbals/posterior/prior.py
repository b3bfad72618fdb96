"""A prior whose scale and shape are learnt: ``prior_scale="auto"``.

Every shape of :mod:`parbals.posterior.moments` gets the scale s that maximises ln Z + ln p(ln s),
ln s ~ N(ln 3, 1), where ln Z is the evidence of expectation propagation. For more than two classes
it is summed over pairs of classes: given that a label is a or b, the softmax is the logistic
function of f_a - f_b, so every pair is a two-class problem of its own. Powers of the directions'
variance are then averaged, each power's variances weighted by its evidence. Where columns are in
units of their own, standardised ones take their place if their evidence is higher than that of all
powers together; elsewhere standardising would whiten, which serves nobody, though the evidence of
labels near a boundary may favour it.

The labels that decide are at most 96 (256 where columns are few, and more with more classes),
equally many of every class where possible and chosen by their content, so that neither their order
nor any random number matters.
"""

import hashlib
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from parbals.posterior.evidence import stacked_evidence
from parbals.posterior.moments import INTERCEPT, POWERS, PoolMoments
from parbals.posterior.sites import Sites
from parbals.posterior.whitening import Whitening

__all__ = ["PoolMoments", "Prior", "fixed_prior", "learnt_prior"]

_LOG_SCALE, _WIDTH = float(np.log(3.0)), 1.0
_LOG_SHARES = (-1.0, -0.5, 0.0, -1.0)  # of the powers, before any label
_LOG_SHARE_COLUMNS = 0.0
_FEWEST, _MOST_LABELS = 96, 256
_WORK = 3.2e6  # labels times squared columns
_MOST_PAIRS = 66
_MOST_ROUNDS = 8
_CLOSE = 0.1  # of ln s: no prediction notices
_FARTHEST = 1.5  # that ln s is moved at a time
_HOPELESS = 3.0  # nats behind the best


class Prior(NamedTuple):
    """The prior of a model, and how it came about."""

    whitening: Whitening
    scale: float
    shape: str
    sentence: str


def fixed_prior(scale: float, n_features: int) -> Prior:
    """Independent N(0, scale²) weights and biases."""
    sentence = f"Every weight has the prior deviation that was given, {scale:g}."
    return Prior(Whitening.diagonal(np.full(n_features + 1, scale)), scale, "given", sentence)


def learnt_prior(
    rows: np.ndarray, labels: np.ndarray, n_classes: int, pool: PoolMoments | None
) -> Prior:
    """The prior for labelled rows (n, D) and class numbers; ``pool``: how features vary.

    Without a pool the labelled rows must say that, and of directions they say too little unless
    there are twice as many rows as columns: all are then alike.
    """
    n_rows, n_columns = rows.shape
    shaped = pool is not None or n_rows >= 2 * n_columns
    if pool is None:
        pool = PoolMoments.of(rows) if n_rows else PoolMoments.unknown(n_columns)
    powers = POWERS if shaped else POWERS[:1]
    along = [pool.by_power(power) for power in powers]
    by_columns = shaped and pool.has_units
    log_shares = np.array([*_LOG_SHARES[: len(powers)], *[_LOG_SHARE_COLUMNS][:by_columns]])
    log_scales = np.full(len(log_shares), _LOG_SCALE)
    chosen = _some(rows, labels, n_classes)
    pairs = _Pairs.of(labels[chosen])
    if len(pairs.signs):
        priors = [pool.along_directions(*variances) for variances in along]
        priors += [pool.by_columns(1.0)] if by_columns else []
        design = np.column_stack([rows[chosen], np.ones(len(chosen))])
        whitened = np.stack([prior.rows(design)[:, :-1] for prior in priors])
        log_scales, values = _best_scales(pairs.factors(whitened), pairs)
        log_shares = log_shares + values
    n_powers, squares = len(powers), np.exp(2.0 * log_scales)
    together = logsumexp(log_shares[:n_powers])
    if by_columns and len(pairs.signs) and log_shares[-1] > together:
        scale = float(np.sqrt(squares[-1]))
        return Prior(
            pool.by_columns(scale), scale, "columns", _sentence(scale, "columns", len(chosen))
        )
    weights = np.exp(log_shares[:n_powers] - together) * squares[:n_powers]
    variances = sum(w * inside for w, (inside, _) in zip(weights, along, strict=True))
    across = sum(w * outside for w, (_, outside) in zip(weights, along, strict=True))
    scale = float(np.sqrt(weights.sum()))
    shape = "directions" if shaped else "even"
    n_used = len(chosen) if len(pairs.signs) else 0
    whitening = pool.along_directions(np.asarray(variances), float(across))
    return Prior(whitening, scale, shape, _sentence(scale, shape, n_used))


def _sentence(scale: float, shape: str, n_labels: int) -> str:
    words = {
        "directions": "directions in which the pool varies more have larger weights",
        "columns": "columns are taken as standardised",
        "even": "all directions are alike",
    }
    source = (
        f"learnt from {n_labels} labels"
        if n_labels
        else "the one before any label, because labels of two classes are needed to learn it"
    )
    return (
        f"The prior is {source}: the logit of a class has a deviation of {scale:.2g} over the "
        f"pool; {words[shape]}."
    )


def _some(rows: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Positions of the labels that decide, in an order of their content."""
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
    order = np.array(sorted(range(len(rows)), key=lambda i: (digests[i], labels[i])), int)
    rank = np.empty(len(rows))  # of a label among those of its class
    for label in np.unique(labels):
        own = order[labels[order] == label]
        rank[own] = np.arange(len(own))
    most = np.clip(_WORK / (rows.shape[1] + 1) ** 2, _FEWEST, _MOST_LABELS)
    most = int(most * np.cbrt(n_classes / 2.0))  # pairs have fewer rows with more classes
    return order[np.argsort(rank[order], kind="stable")][:most]


class _Pairs(NamedTuple):
    """Pairs of classes as two-class problems, padded to one length."""

    rows: np.ndarray  # (P, n) positions
    signs: np.ndarray  # (P, n) ±1, 0 for padding
    share: float  # what a pair counts: C classes have C - 1 differences, and more pairs

    @classmethod
    def of(cls, labels: np.ndarray) -> "_Pairs":
        """All pairs of the classes that have labels; of many classes, neighbours in a ring."""
        seen = np.unique(labels)
        n_seen = len(seen)
        most = max(_MOST_PAIRS // max(n_seen, 1), 1)
        pairs = sorted(
            {
                (min(i, j), max(i, j))
                for i in range(n_seen)
                for j in ((i + k) % n_seen for k in range(1, n_seen // 2 + 1))
                if n_seen * (n_seen - 1) // 2 <= _MOST_PAIRS or (j - i) % n_seen <= most
            }
        )
        members = [np.flatnonzero(np.isin(labels, seen[list(pair)])) for pair in pairs]
        size = max(map(len, members), default=0)
        rows, signs = np.zeros((len(pairs), size), int), np.zeros((len(pairs), size))
        for p, ((_, second), own) in enumerate(zip(pairs, members, strict=True)):
            rows[p, : len(own)] = own
            signs[p, : len(own)] = np.where(labels[own] == seen[second], 1.0, -1.0)
        return cls(rows, signs, (n_seen - 1) / max(len(pairs), 1))

    def factors(self, whitened: np.ndarray) -> np.ndarray:
        """F (S, P, n, r + 1) of f_a - f_b at rows whitened in S ways (S, n, D); the last column
        is the intercept's. Of wide rows only the coordinates in their own space matter, r ≤ n.
        """
        present = np.square(self.signs)[:, :, None]
        rows = np.sqrt(2.0) * whitened[:, self.rows] * present  # (S, P, n, D)
        if rows.shape[-1] > rows.shape[-2]:
            rows = np.asarray(np.linalg.qr(rows.swapaxes(-1, -2), mode="r")).swapaxes(-1, -2)
        intercept = np.broadcast_to(np.sqrt(2.0) * INTERCEPT * present, (*rows.shape[:-1], 1))
        return np.concatenate([rows, intercept], axis=-1)


def _best_scales(factors: np.ndarray, pairs: _Pairs) -> tuple[np.ndarray, np.ndarray]:
    """ln s of every shape at its maximum, and the maximum, for factors (S, P, n, r + 1) at s = 1.

    A safeguarded secant search, for all shapes at once; those that cannot win are left alone.
    """
    n_shapes, is_weight = len(factors), np.arange(factors.shape[-1]) < factors.shape[-1] - 1
    log_scales, values = np.full(n_shapes, _LOG_SCALE), np.full(n_shapes, -np.inf)
    low, high = log_scales - 6.0, log_scales + 6.0
    moving = np.arange(n_shapes)
    sites: Sites | None = None
    before: tuple[np.ndarray, np.ndarray] | None = None
    for _ in range(_MOST_ROUNDS):
        here = log_scales[moving]
        scales = np.where(is_weight, np.exp(here)[:, None], 1.0)[:, None, None]
        found = stacked_evidence(scales * factors[moving], pairs.signs, sites)
        pull = (here - _LOG_SCALE) / _WIDTH**2
        slope = pairs.share * (found.gradient * is_weight).sum(axis=(1, 2)) - pull
        value = pairs.share * found.log_evidence.sum(axis=1) - 0.5 * _WIDTH**2 * pull**2
        low[moving] = np.where(slope > 0, here, low[moving])
        high[moving] = np.where(slope > 0, high[moving], here)
        bend = np.abs(slope) + 1.0 / _WIDTH**2
        if before is not None:
            secant = (before[1] - slope) / (here - before[0])
            bend = np.where(secant > 1.0 / _WIDTH**2, secant, bend)
        there = here + np.clip(slope / bend, -_FARTHEST, _FARTHEST)
        outside = (there <= low[moving]) | (there >= high[moving])
        there = np.where(outside, 0.5 * (low[moving] + high[moving]), there)
        step = there - here
        log_scales[moving] = there
        values[moving] = value + np.maximum(0.5 * slope * step, 0.0)
        hoped = value + np.abs(slope) * _FARTHEST  # concave in ln s, as it mostly is: not beyond
        on = (np.abs(step) > _CLOSE) & (hoped > values.max() - _HOPELESS)
        if not on.any():
            break
        before, sites = (here[on], slope[on]), Sites(*(x[on] for x in found.sites))
        moving = moving[on]
    return log_scales, values
