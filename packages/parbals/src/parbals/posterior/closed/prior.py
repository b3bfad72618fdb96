"""Empirical-Bayes priors: scale and shape (``prior_scale="auto"``), or the scale alone ("even").

*Shapes.* Every shape of :class:`PoolMoments` gets the scale s that maximises ln Z + ln p(ln s),
ln s ~ N(ln 3, 1), where ln Z is the evidence of expectation propagation. For more than two classes
it is summed over pairs of classes: given that a label is a or b, the softmax is the logistic
function of f_a - f_b, so every pair is a binary problem of its own. The powers of the directions'
variance are then averaged, each power's variances weighted by its evidence. Where columns are in
different units, standardised columns replace the powers if their evidence is higher than that of
all powers together. Elsewhere standardising would whiten the features, which helps nobody, though
the evidence of labels near a decision boundary may favour it.

"Even" is for rows of an encoder that was fine-tuned on the labels. The labels have shaped the
variance of its directions, and a prior that follows them would count the labels twice. All
directions get the same variance, and an intercept may be as large as the logits: classes lie far
apart, and their boundary may be anywhere.

*Label noise.* Answers of noisy annotators have a likelihood w_c under every class c. The evidence
is that of these likelihoods, not of the most likely classes: answers of a program that guesses say
nothing about the scale, but taken as labels they would shrink it. In the problem of classes a and
b, of which a is likelier, a third class would say nothing about f_a - f_b, so it counts for both:
with W the sum of the other classes' likelihoods, p(answers | f) is proportional to
λ + (1 - λ) σ(f_a - f_b), λ = (w_b + ½ W) / (w_a + ½ W).

*Algorithm.* Labels become Gaussian sites under the averaged prior, the sites give every shape its
scale and weight (:class:`EvidenceProfile`), and this is repeated under the new average. All labels
are used: labels that a strategy chose are unbiased only together with the labels it chose them by.
A subset of them is a sample of hard items, and its evidence favours scales that are too small. Only
thousands of labels are represented by a random subset, drawn by the content of the rows
(:func:`random_subset`), whatever their order. A prior is reused until a hundredth of that subset
has changed.

*The evidence of many priors at once.* Sites exp(ν f - ½ τ f²) turn labels into Gaussian ones, whose
evidence has a closed form. With f = s F u + b at the labelled rows, u ~ N(0, I), an intercept
b ~ N(0, κ²) and q = κ⁻² + Σ τ

    T = diag(τ) - τ τᵀ / q,    ν' = ν - τ (Σ ν) / q        (the intercept is integrated out),
    FᵀT F = V diag(λ) Vᵀ,      g = VᵀFᵀν',
    ln Z(s) = ½ Σ_j [s² g_j² / (1 + s² λ_j) - ln(1 + s² λ_j)] + a constant in F and s.

Where the sites have converged, the evidence of expectation propagation does not depend on them to
first order: its slope in ln s is that of this formula, and so is the location of its maximum.
"""

from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import solve_lower
from parbals.posterior.closed.ep import cavities, matched_sites
from parbals.posterior.closed.labels import label_keys
from parbals.posterior.closed.sites import Sites, iterate_to_convergence
from parbals.posterior.closed.whitening import INTERCEPT_SD, POWERS, PoolMoments, Whitening
from parbals.shapes import Array, Bool, Float, Int

__all__ = [
    "EvidenceProfile",
    "PoolMoments",
    "Prior",
    "Shapes",
    "converged_sites",
    "evidence_profile",
    "fixed_prior",
    "learn_prior",
    "make_prior",
    "random_subset",
]

_LOG_SCALE_MEAN = float(np.log(3.0))  # of the hyperprior of ln s
_LOG_SCALE_SD = 1.0
_LOG_SCALE_GRID = _LOG_SCALE_MEAN + np.linspace(-4.0, 4.0, 33)
_LOG_PRIOR_SHARES = (-1.0, -0.5, 0.0, -1.0)  # of the powers, before any label
_LOG_PRIOR_SHARE_OF_COLUMNS = 1.0
_MAX_PAIRS = 66
_MAX_PAIR_WORK = 4e8  # pairs times rows times squared columns
_MAX_BINARY_LABELS = 12  # of multi-label items, that represent all labels
_MAX_LABELS = 2_000  # that represent more: as informative of a scale, at a tenth of the work
_MIN_OVERLAP = 0.99  # of two such subsets, for a prior to be reused
_MAX_ROUNDS = 4
_SWEEPS_PER_ROUND = 5  # few, because the next round starts from these sites
_SITE_TOLERANCE = 2e-2
_MAX_ACCELERATION = 4.0
_JITTER = 1e-12  # relative to the trace
_LOG_SCALE_TOLERANCE = 0.1  # too small a change of ln s to affect predictions
_MAX_NATS_BEHIND = 6.0  # a shape whose evidence is further behind the best is dropped


class Prior(NamedTuple):
    """The prior of a model, and how it was obtained."""

    whitening: Whitening
    scale: float
    shape: str
    description: str
    sites: Sites | None = None
    """Nearly converged sites of two classes' labels, from which a fit may start."""
    subset_keys: np.ndarray | None = None
    """Keys of the labels it was learnt from, if those are a subset of all labels."""


def make_prior(
    scale: float | str,
    rows: np.ndarray,
    labels: Any,
    n_classes: int,
    pool: PoolMoments | None,
    previous: Prior | None = None,
    likelihoods: np.ndarray | None = None,
) -> Prior:
    """Return the prior for the setting ``prior_scale``: "auto", "even" or a number.

    ``previous``: a prior that is returned if it still applies. Other arguments as for
    :func:`learn_prior`.

    >>> make_prior(0.5, np.zeros((0, 3)), np.zeros(0, int), 2, pool=None).scale
    0.5
    """
    if isinstance(scale, str):
        return learn_prior(
            rows, labels, n_classes, pool, previous, likelihoods, even=scale == "even"
        )
    if previous is not None and previous.scale == scale:
        return previous
    return fixed_prior(float(scale), rows.shape[1])


def fixed_prior(scale: float, n_features: int) -> Prior:
    """Independent N(0, scale²) weights and biases.

    >>> fixed_prior(2.0, n_features=2).whitening.deviations
    array([2., 2., 2.])
    """
    return Prior(
        whitening=Whitening.diagonal(np.full(n_features + 1, scale)),
        scale=scale,
        shape="given",
        description=f"Every weight has the given prior deviation, {scale:g}.",
    )


def learn_prior(
    rows: Float[Array, "n D"],
    labels: Int[Array, " n"] | Bool[Array, "n L"],
    n_classes: int,
    pool: PoolMoments | None,
    previous: Prior | None = None,
    likelihoods: Float[Array, "n C"] | None = None,
    *,
    even: bool = False,
) -> Prior:
    """Learn the prior from labelled rows (n, D) by maximising the evidence.

    Without a pool its moments are those of the labelled rows. These say too little about
    directions, unless there are twice as many rows as columns: all directions are then alike.

    Args:
        rows: features (n, D).
        labels: class numbers (n,); of multi-label items, whether each has each label (n, L).
        n_classes: C; two for multi-label items.
        pool: how features vary.
        previous: a prior learnt with this pool, returned if its subset of many labels is nearly the
            current one.
        likelihoods: of noisy annotators' answers under every class; ``labels`` are then the most
            likely classes.
        even: learn the scale alone.

    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> prior = learn_prior(X, (X[:, 0] > 0).astype(int), 2, PoolMoments.of(X))
    >>> prior.shape, prior.scale > 3.0
    ('directions', True)
    """
    if len(rows) > _MAX_LABELS:
        return _learn_from_subset(rows, labels, n_classes, pool, previous, likelihoods, even=even)
    n_rows, n_columns = rows.shape
    has_shape = not even and (pool is not None or n_rows >= 2 * n_columns)
    if pool is None:
        pool = PoolMoments.of(rows) if n_rows else PoolMoments.unknown(n_columns)
    powers = POWERS if has_shape else POWERS[:1]
    shapes = Shapes.of(pool, powers, by_columns=has_shape and pool.has_mixed_units)
    shapes = shapes._replace(wide_intercept=even)
    problems = _BinaryProblems.of(labels, n_columns, likelihoods)
    sites = None
    if len(problems.signs):
        shapes, sites = _fit_shapes(shapes, problems, rows)
    shape = "directions" if has_shape else "even"
    if shapes.uses_columns:
        shape = "columns"
    is_binary = n_classes == 2 and (labels.ndim == 1 or labels.shape[1] == 1)
    return Prior(
        whitening=shapes.whitening,
        scale=shapes.scale,
        shape=shape,
        description=_describe(shapes.scale, shape, n_rows if len(problems.signs) else 0),
        sites=sites if is_binary else None,
    )


def _learn_from_subset(
    rows: Float[Array, "n D"],
    labels: Int[Array, " n"] | Bool[Array, "n L"],
    n_classes: int,
    pool: PoolMoments | None,
    previous: Prior | None,
    likelihoods: Float[Array, "n C"] | None,
    *,
    even: bool,
) -> Prior:
    """Learn the prior from a random subset of many labels, or reuse the previous one."""
    # Likelihoods change a little with every answer; the prior need not.
    keys = label_keys(rows, labels if likelihoods is None else likelihoods.round(1))
    subset = random_subset(keys)
    if previous is not None and previous.subset_keys is not None:
        overlap = np.isin(keys[subset], previous.subset_keys).mean()
        if overlap >= _MIN_OVERLAP:
            return previous
    pool = pool or PoolMoments.of(rows)
    prior = learn_prior(
        rows[subset],
        labels[subset],
        n_classes,
        pool,
        likelihoods=None if likelihoods is None else likelihoods[subset],
        even=even,
    )
    return prior._replace(sites=None, subset_keys=keys[subset])


def random_subset(keys: np.ndarray) -> np.ndarray:
    """Positions of at most 2,000 labels, those with the smallest keys (n,): a random sample.

    >>> random_subset(np.array([7, 3, 5]))
    array([0, 1, 2])
    """
    return np.sort(np.argsort(keys, kind="stable")[:_MAX_LABELS])


class Shapes(NamedTuple):
    """Candidate shapes of the prior, each with a scale and a weight.

    S shapes: the powers of the directions' variance and, last, standardised columns if the pool has
    mixed units.
    """

    pool: PoolMoments
    powers: tuple[float, ...]
    log_scales: Float[Array, " S"]
    log_shares: Float[Array, " S"]
    uses_columns: bool = False
    """Whether standardised columns replace the powers."""
    wide_intercept: bool = False
    """Whether intercepts may be as large as logits."""

    @classmethod
    def of(cls, pool: PoolMoments, powers: tuple[float, ...], *, by_columns: bool) -> "Shapes":
        """Before any label: the average of the powers, at the scale's prior median."""
        log_shares = list(_LOG_PRIOR_SHARES[: len(powers)])
        if by_columns:
            log_shares.append(_LOG_PRIOR_SHARE_OF_COLUMNS)
        return cls(
            pool=pool,
            powers=powers,
            log_scales=np.full(len(log_shares), _LOG_SCALE_MEAN),
            log_shares=np.array(log_shares),
        )

    def reweighted(
        self, log_scales: Float[Array, " S"], log_evidence: Float[Array, " S"]
    ) -> "Shapes":
        """Replace the scales, and weight the shapes by their evidence (S,)."""
        n_powers = len(self.powers)
        has_columns = len(log_scales) > n_powers
        prior = Shapes.of(self.pool, self.powers, by_columns=has_columns)
        log_shares = prior.log_shares + log_evidence
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
    def intercept(self) -> float:
        """Standard deviation of a class's intercept."""
        return max(INTERCEPT_SD, self.scale) if self.wide_intercept else INTERCEPT_SD

    @property
    def power_variances(self) -> Float[Array, " S"]:
        """s² of every power, times its share in the average."""
        n_powers = len(self.powers)
        log_shares = self.log_shares[:n_powers]
        log_shares = log_shares - np.logaddexp.reduce(log_shares)
        return np.asarray(np.exp(log_shares + 2.0 * self.log_scales[:n_powers]))

    @property
    def whitening(self) -> Whitening:
        """The averaged prior."""
        if self.uses_columns:
            return self.pool.whitening_by_columns(self.scale, self.intercept)
        by_power = [self.pool.variances_by_power(power) for power in self.powers]
        along, across = zip(*by_power, strict=True)
        return self.pool.whitening_by_directions(
            self.power_variances @ along, float(self.power_variances @ across), self.intercept
        )


def _fit_shapes(
    shapes: Shapes, problems: "_BinaryProblems", rows: Float[Array, "n D"]
) -> tuple[Shapes, Sites]:
    """Fit scales and weights of the shapes to labelled rows (n, D); return the last sites too.

    Every round runs a few EP sweeps under the current average, then moves the scale of every shape
    towards the maximum of its evidence.
    """
    pool = shapes.pool
    has_columns = len(shapes.log_scales) > len(shapes.powers)
    coordinates = pool.coordinates(rows)
    variances = np.stack(
        [pool.coordinate_variances(*pool.variances_by_power(power)) for power in shapes.powers]
    )
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
    factors: list[Any], problems: "_BinaryProblems", sites: Sites, intercept: float
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


def _describe(scale: float, shape: str, n_labels: int) -> str:
    """Describe a learnt prior in one sentence."""
    shape_description = {
        "directions": "directions in which the pool varies more have larger weights",
        "columns": "columns are standardised",
        "even": "all directions are treated alike",
    }
    source = (
        f"learnt from {n_labels} labels"
        if n_labels
        else "the initial one, because learning it needs labels of two classes"
    )
    return (
        f"The prior is {source}: the logit of a class has a deviation of {scale:.2g} over the "
        f"pool; {shape_description[shape]}."
    )


class _BinaryProblems(NamedTuple):
    """P binary problems, padded to one length: pairs of classes, or labels of multi-label items."""

    rows: Int[Array, "P n"]  # positions
    signs: Float[Array, "P n"]  # ±1, 0 for padding
    weight: float  # of a problem: C classes have C - 1 differences, but more pairs
    label_noise: Float[Array, "P n"] | None = None  # λ

    @classmethod
    def of(
        cls, labels: Any, n_columns: int, likelihoods: Float[Array, "n C"] | None = None
    ) -> "_BinaryProblems":
        """All pairs of the classes that have labels.

        Where that would be too much work, every class is paired with its neighbours in a ring.
        """
        if labels.ndim == 2:
            return cls._of_multi_labels(labels, n_columns)
        classes = np.unique(labels)
        n_classes = max(len(classes), 1)
        n_rows = 2 * len(labels) // n_classes
        max_pairs = min(_MAX_PAIRS, int(_MAX_PAIR_WORK / _problem_work(n_rows, n_columns)))
        pairs = _class_pairs(n_classes, max_pairs)
        members = [np.flatnonzero(np.isin(labels, classes[list(pair)])) for pair in pairs]
        size = max(map(len, members), default=0)
        rows = np.zeros((len(pairs), size), int)
        signs = np.zeros((len(pairs), size))
        label_noise = np.zeros((len(pairs), size))
        for p, ((first, second), positions) in enumerate(zip(pairs, members, strict=True)):
            is_second = labels[positions] == classes[second]
            rows[p, : len(positions)] = positions
            signs[p, : len(positions)] = np.where(is_second, 1.0, -1.0)
            if likelihoods is not None:
                pair_classes = classes[[first, second]]
                noise = _pair_label_noise(likelihoods[positions], pair_classes)
                label_noise[p, : len(positions)] = noise
        return cls(
            rows=rows,
            signs=signs,
            weight=(n_classes - 1) / max(len(pairs), 1),
            label_noise=None if likelihoods is None else label_noise,
        )

    @classmethod
    def _of_multi_labels(cls, bits: Bool[Array, "n L"], n_columns: int) -> "_BinaryProblems":
        """Every label that some items have and others lack.

        Where that would be too much work, the most balanced labels represent all.
        """
        n_rows = len(bits)
        counts = bits.sum(axis=0)
        varying = np.flatnonzero((counts > 0) & (counts < n_rows))
        affordable = int(_MAX_PAIR_WORK / _problem_work(n_rows, n_columns))
        n_selected = max(min(_MAX_BINARY_LABELS, affordable), 1)
        imbalance = np.abs(counts[varying] - n_rows / 2)
        selected = varying[np.argsort(imbalance, kind="stable")[:n_selected]]
        return cls(
            rows=np.broadcast_to(np.arange(n_rows), (len(selected), n_rows)),
            signs=np.where(bits[:, selected].T, 1.0, -1.0),
            weight=len(varying) / max(len(selected), 1),
        )

    def factors(self, whitened: Float[Array, "n D"]) -> Float[Array, "P m r"]:
        """F (P, n, r) of f_a - f_b, without intercepts, at whitened rows (n, D).

        Of wide rows only the inner products matter: F is a root of those, r = n.
        """
        rows = np.sqrt(2.0) * whitened[self.rows] * np.square(self.signs)[:, :, None]
        n_rows, n_columns = rows.shape[1:]
        if n_columns <= n_rows:
            return rows
        products = rows @ rows.swapaxes(-1, -2)
        products += _JITTER * np.trace(products, axis1=1, axis2=2).max() * np.eye(n_rows)
        return np.asarray(np.linalg.cholesky(products))


def _pair_label_noise(
    likelihoods: Float[Array, "n C"], pair_classes: Int[Array, "2"]
) -> Float[Array, " n"]:
    """λ (n,) of answers in the problem of two classes; a third class counts for both."""
    of_pair = likelihoods[:, pair_classes]
    of_others = likelihoods.sum(axis=1) - of_pair.sum(axis=1)
    for_both = 0.5 * np.maximum(of_others, 0.0)
    return (of_pair.min(axis=1) + for_both) / (of_pair.max(axis=1) + for_both)


def _problem_work(n_rows: int, n_columns: int) -> int:
    """Operations that a binary problem costs: rows times squared columns."""
    return max(n_rows * min(n_rows, n_columns) ** 2, 1)


def _class_pairs(n_classes: int, max_pairs: int) -> list[tuple[int, int]]:
    """All pairs of classes; more than ``max_pairs`` are limited to neighbours in a ring."""
    takes_all = n_classes * (n_classes - 1) // 2 <= max_pairs
    max_distance = max(max_pairs // n_classes, 1)
    pairs = set()
    for i in range(n_classes):
        for distance in range(1, n_classes // 2 + 1):
            j = (i + distance) % n_classes
            if takes_all or (j - i) % n_classes <= max_distance:
                pairs.add((min(i, j), max(i, j)))
    return sorted(pairs)


class EvidenceProfile(NamedTuple):
    """ln Z as a function of the scale s, for every matrix F of a stack."""

    eigenvalues: Float[Array, "*P r"]  # λ
    squared_projections: Float[Array, "*P r"]  # g²

    def log_evidence(self, log_scales: Float[Array, " G"]) -> Float[Array, "G *P"]:
        """ln Z (G, ...) at ln s (G,), up to a constant."""
        ones = [1] * self.squared_projections.ndim
        squared_scales = np.exp(2.0 * log_scales).reshape(-1, *ones)
        spread = 1.0 + squared_scales * self.eigenvalues
        explained = squared_scales * self.squared_projections / spread
        return 0.5 * (explained - np.log(spread)).sum(axis=-1)


def evidence_profile(
    factors: Float[Array, "*P n r"], sites: Sites, intercept: float
) -> EvidenceProfile:
    """The evidence profile of F (..., n, r) and sites (..., n); ``intercept``: κ.

    >>> sites = Sites(precisions=np.array([1.0]), linear_terms=np.array([1.0]))
    >>> evidence_profile(np.array([[2.0]]), sites, intercept=1.0).log_evidence(np.zeros(1)).round(3)
    array([-0.383])
    """
    precisions, linear_terms = sites
    total = intercept**-2 + precisions.sum(axis=-1, keepdims=True)
    linear_terms = linear_terms - precisions * (linear_terms.sum(axis=-1, keepdims=True) / total)
    transposed = factors.swapaxes(-1, -2)
    weighted_sum = transposed @ precisions[..., None]  # (..., r, 1)
    information = (transposed * precisions[..., None, :]) @ factors
    information = information - weighted_sum @ weighted_sum.swapaxes(-1, -2) / total[..., None]
    eigenvalues, vectors = np.linalg.eigh(information)
    projections = vectors.swapaxes(-1, -2) @ (transposed @ linear_terms[..., None])
    return EvidenceProfile(np.maximum(eigenvalues, 0.0), np.square(projections[..., 0]))


def converged_sites(
    factors: Float[Array, "*P n r"],
    signs: Float[Array, "*#P n"],
    start: Sites | None = None,
    *,
    tolerance: float,
    max_sweeps: int,
    label_noise: Float[Array, "*#P n"] | None = None,
) -> Sites:
    """Run EP for labels ±1 under f = F u, F (..., n, r); return sites (..., n).

    Labels of 0 are padding and get flat sites. ``label_noise``: λ of
    :func:`~parbals.posterior.closed.ep.matched_sites`.

    >>> sites = converged_sites(np.array([[1.0]]), np.array([1.0]), tolerance=1e-6, max_sweeps=50)
    >>> sites.precisions.round(3)
    array([0.206])
    """
    transposed = factors.swapaxes(-1, -2)
    is_present = np.square(signs)
    unit = np.eye(factors.shape[-1])

    def update(sites: Sites) -> Sites:
        scaled = factors * np.sqrt(sites.precisions)[..., None]
        precision = scaled.swapaxes(-1, -2) @ scaled + unit
        spread = solve_lower(np.linalg.cholesky(precision), transposed)  # root of FᵀΣF
        mean = ((spread @ sites.linear_terms[..., None]).swapaxes(-1, -2) @ spread)[..., 0, :]
        variance = np.square(spread).sum(axis=-2)
        cavity_mean, cavity_variance = cavities(mean, variance, sites)
        matched = matched_sites(cavity_mean, cavity_variance, signs, label_noise)
        return Sites(is_present * matched.precisions, is_present * matched.linear_terms)

    if start is None:
        flat = np.zeros(np.broadcast_shapes(factors.shape[:-1], signs.shape))
        start = Sites(flat, flat)
    return iterate_to_convergence(update, start, tolerance, max_sweeps).sites
