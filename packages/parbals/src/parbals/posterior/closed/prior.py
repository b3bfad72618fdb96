"""A prior whose scale and shape are learnt: ``prior_scale="auto"``, or its scale alone: "even".

Every shape of :class:`PoolMoments` gets the scale s that maximises ln Z + ln p(ln s),
ln s ~ N(ln 3, 1), where ln Z is the evidence of expectation propagation. For more than two classes
it is summed over pairs of classes: given that a label is a or b, the softmax is the logistic
function of f_a - f_b, so every pair is a two-class problem of its own. Powers of the directions'
variance are then averaged, each power's variances weighted by its evidence. Where columns are in
units of their own, standardised ones take their place if their evidence is higher than that of all
powers together; elsewhere standardising would whiten, which serves nobody, though the evidence of
labels near a boundary may favour it.

"Even" is for rows of an encoder that the labels have taught: their directions vary as the labels
made them, and a prior that follows them counts the labels twice. All directions are alike then, and
an intercept may be as large as the logits are: classes lie far apart, their boundary anywhere.

Labels become Gaussian sites under the average, these give every shape its scale and weight
(:class:`Profile`), and that is repeated under the new average. All labels take
part: those that a strategy chose may be taken as they come only together with those it chose them
by. A part of them is a sample of hard items, and its evidence finds scales that are too small. Only
where there are thousands does a random part stand for all, drawn by what the rows hold
(:func:`random_subset`), in whatever order they came; the prior of a fit before stands until a
hundredth of that part has changed.

*What labels say of many priors at once.* Sites exp(ν f - ½ τ f²) turn labels into Gaussian ones,
whose evidence has a closed form. With f = s F u + b at the labelled rows, u ~ N(0, I), an intercept
b ~ N(0, κ²) and q = κ⁻² + Σ τ

    T = diag(τ) - τ τᵀ / q,    ν' = ν - τ (Σ ν) / q        (the intercept is integrated out),
    FᵀT F = V diag(λ) Vᵀ,      g = VᵀFᵀν',
    ln Z(s) = ½ Σ_j [s² g_j² / (1 + s² λ_j) - ln(1 + s² λ_j)] + the same for every F and s.

Where the sites have settled, the evidence of expectation propagation does not depend on them to
first order: its slope in ln s is that of this formula, and so is the place of its maximum.
"""

from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from parbals.posterior.closed.ep import cavities, renewed_sites
from parbals.posterior.closed.sites import Sites, label_keys, settle
from parbals.posterior.closed.whitening import INTERCEPT, POWERS, PoolMoments, Whitening
from parbals.shapes import Array, Bool, Float, Int

__all__ = ["PoolMoments", "Prior", "Profile", "Shapes", "fixed_prior", "learn_prior", "make_prior"]
__all__ += ["profile", "random_subset", "settled_sites"]

_LOG_SCALE, _WIDTH = float(np.log(3.0)), 1.0
_GRID = _LOG_SCALE + np.linspace(-4.0, 4.0, 33)  # of ln s
_LOG_SHARES = (-1.0, -0.5, 0.0, -1.0)  # of the powers, before any label
_LOG_SHARE_COLUMNS = 1.0
_MOST_PAIRS, _WORK = 66, 4e8  # pairs times rows times squared columns
_MOST_TOLD = 12  # of several labels an item
_MOST_LABELS = 2_000  # that say what many say of a scale, at a tenth of the work
_SAME = 0.99  # of those: labels that are a hundredth more say nothing new of a scale
_MOST_ROUNDS = 4
_MOST_SWEEPS, _TOLERANCE = 5, 2e-2  # of a round: the next begins with its sites
_LONGEST = 4.0
_ROUNDING = 1e-12
_CLOSE = 0.1  # of ln s: no prediction notices
_BEHIND = 6.0  # nats: a shape that far behind is not looked at again


class Prior(NamedTuple):
    """The prior of a model, and how it came about."""

    whitening: Whitening
    scale: float
    shape: str
    description: str
    sites: Sites | None = None
    """Of two classes' labels, nearly settled: where a fit may begin."""
    part: np.ndarray | None = None
    """Keys of the labels that it was learnt from, where those are a part of all."""


def make_prior(
    scale: float | str,
    rows: np.ndarray,
    labels: Any,
    n_classes: int,
    pool: PoolMoments | None,
    known: Prior | None = None,
) -> Prior:
    """The prior of that scale, or of a word as :func:`learn_prior` says; ``known`` if it is it."""
    if isinstance(scale, str):
        return learn_prior(rows, labels, n_classes, pool, known, even=scale == "even")
    if known is not None and known.scale == scale:
        return known
    return fixed_prior(float(scale), rows.shape[1])


def fixed_prior(scale: float, n_features: int) -> Prior:
    """Independent N(0, scale²) weights and biases."""
    sentence = f"Every weight has the prior deviation that was given, {scale:g}."
    return Prior(Whitening.diagonal(np.full(n_features + 1, scale)), scale, "given", sentence)


def learn_prior(
    rows: Float[Array, "n D"],
    labels: Int[Array, " n"] | Bool[Array, "n L"],
    n_classes: int,
    pool: PoolMoments | None,
    known: Prior | None = None,
    *,
    even: bool = False,
) -> Prior:
    """The prior for labelled rows (n, D) and class numbers; ``pool``: how features vary.

    Of items with several labels whether each has each of them, and ``n_classes`` is two.

    ``known``: learnt with the same pool, and the answer if it was from nearly the same part of
    many.

    Without a pool the labelled rows must say that, and of directions they say too little unless
    there are twice as many rows as columns: all are then alike.
    """
    if len(rows) > _MOST_LABELS:
        keys = label_keys(rows, labels)
        part = random_subset(keys)
        before = None if known is None else known.part
        if before is not None and np.isin(keys[part], before).mean() >= _SAME:
            assert known is not None
            return known
        pool = pool or PoolMoments.of(rows)
        prior = learn_prior(rows[part], labels[part], n_classes, pool, even=even)
        return prior._replace(sites=None, part=keys[part])
    n_rows, n_columns = rows.shape
    shaped = not even and (pool is not None or n_rows >= 2 * n_columns)
    if pool is None:
        pool = PoolMoments.of(rows) if n_rows else PoolMoments.unknown(n_columns)
    powers = POWERS if shaped else POWERS[:1]
    shapes = Shapes.of(pool, powers, by_columns=shaped and pool.has_units)._replace(far=even)
    pairs, sites = _Pairs.of(labels, n_columns), None
    if len(pairs.signs):
        shapes, sites = _weighed(shapes, pairs, rows)
    shape = "columns" if shapes.columns_win else "directions" if shaped else "even"
    sentence = _sentence(shapes.scale, shape, n_rows if len(pairs.signs) else 0)
    is_one = n_classes == 2 and (labels.ndim == 1 or labels.shape[1] == 1)
    return Prior(shapes.whitening, shapes.scale, shape, sentence, sites if is_one else None)


def random_subset(keys: np.ndarray) -> np.ndarray:
    """Positions of at most 2,000 labels: those of the smallest keys (n,), as a sample of all."""
    return np.sort(np.argsort(keys, kind="stable")[:_MOST_LABELS])


class Shapes(NamedTuple):
    """Powers of the directions' variance and, last, standardised columns where there are units."""

    pool: PoolMoments
    powers: tuple[float, ...]
    log_scales: Float[Array, " S"]
    log_shares: Float[Array, " S"]
    columns_win: bool = False
    far: bool = False
    """Whether intercepts may be as large as logits are."""

    @classmethod
    def of(cls, pool: PoolMoments, powers: tuple[float, ...], *, by_columns: bool) -> "Shapes":
        """Before any label: the average of the powers, at the scale that is expected."""
        log_shares = [*_LOG_SHARES[: len(powers)], *[_LOG_SHARE_COLUMNS][:by_columns]]
        return cls(pool, powers, np.full(len(log_shares), _LOG_SCALE), np.array(log_shares))

    def weighed(self, log_scales: Float[Array, " S"], log_evidence: Float[Array, " S"]) -> "Shapes":
        """With these scales, and weights by the evidence (S,) at them."""
        n_powers = len(self.powers)
        before = Shapes.of(self.pool, self.powers, by_columns=len(log_scales) > n_powers)
        log_shares = before.log_shares + log_evidence
        powers = np.logaddexp.reduce(log_shares[:n_powers])
        win = len(log_shares) > n_powers and log_shares[-1] > powers
        return self._replace(log_scales=log_scales, log_shares=log_shares, columns_win=bool(win))

    @property
    def scale(self) -> float:
        """Deviation of a class's logit over the pool."""
        if self.columns_win:
            return float(np.exp(self.log_scales[-1]))
        return float(np.sqrt(self.squares.sum()))

    @property
    def intercept(self) -> float:
        """Deviation of a class's intercept."""
        return max(INTERCEPT, self.scale) if self.far else INTERCEPT

    @property
    def squares(self) -> Float[Array, " S"]:
        """s² of every power times its share in the average."""
        n_powers = len(self.powers)
        shares = self.log_shares[:n_powers]
        shares = shares - np.logaddexp.reduce(shares)
        return np.asarray(np.exp(shares + 2.0 * self.log_scales[:n_powers]))

    @property
    def whitening(self) -> Whitening:
        if self.columns_win:
            return self.pool.by_columns(self.scale, self.intercept)
        inside, across = zip(*map(self.pool.by_power, self.powers), strict=True)
        variances = self.squares @ inside, float(self.squares @ across)
        return self.pool.along_directions(*variances, self.intercept)


def _weighed(shapes: Shapes, pairs: "_Pairs", rows: Float[Array, "n D"]) -> tuple[Shapes, Sites]:
    """The shapes with scales and weights that labels of rows (n, D) give them; the last sites."""
    pool, has_columns = shapes.pool, len(shapes.log_scales) > len(shapes.powers)
    apart = pool.coordinates(rows)
    variances = np.stack([pool.in_coordinates(*pool.by_power(power)) for power in shapes.powers])
    by_columns = [pool.standardised(rows)] if has_columns else []
    factors = [pairs.factors(z) for z in [*apart * np.sqrt(variances)[:, None], *by_columns]]
    ones = np.square(pairs.signs)[..., None]
    # Sites favour the prior that they come from, and where there are units columns deserve that.
    shapes = shapes._replace(columns_win=has_columns)
    sites: Sites | None = None
    wanted = taken = log_evidence = np.zeros(len(factors))
    near = np.ones(len(factors), bool)
    for _ in range(_MOST_ROUNDS):
        whitened = (
            shapes.scale * by_columns[0]
            if shapes.columns_win
            else apart * np.sqrt(shapes.squares @ variances)
        )
        intercept = np.sqrt(2.0) * shapes.intercept
        sites = settled_sites(
            np.concatenate([pairs.factors(whitened), intercept * ones], axis=-1),
            pairs.signs,
            sites,
            tolerance=_TOLERANCE,
            most_sweeps=_MOST_SWEEPS,
        )
        before = shapes.scale
        best, found = _best_scales(list(compress(factors, near)), pairs, sites, intercept)
        # The sites' own part of the evidence changes; how far a shape is behind hardly does.
        log_evidence = log_evidence - log_evidence[near].max() + found.max()
        log_evidence[near] = found
        wanted, last = np.zeros(len(factors)), wanted
        wanted[near] = best - shapes.log_scales[near]
        taken = wanted * _stride(taken, last - wanted)
        shapes = shapes.weighed(shapes.log_scales + taken, log_evidence)
        near = near & (shapes.log_shares > shapes.log_shares.max() - _BEHIND)
        if abs(np.log(shapes.scale / before)) < _CLOSE:
            break
    assert sites is not None
    return shapes, Sites(sites.precisions[0], sites.shifts[0])


def _stride(taken: Float[Array, " S"], eased: Float[Array, " S"]) -> Float[Array, " S"]:
    """How many times the step that ln s wants is to be taken, 1 to 4.

    The last step, ``taken``, made the wish smaller by ``eased``: sites that follow the scale let it
    go only part of its way each round (Steffensen's remedy).
    """
    grows = taken * eased > 0.0
    return np.clip(np.divide(taken, eased, out=np.ones_like(taken), where=grows), 1.0, _LONGEST)


def _best_scales(
    factors: list[Any], pairs: "_Pairs", sites: Sites, intercept: float
) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
    """ln s (S,) of every shape at its maximum, and the maximum; factors (P, n, r) at s = 1.

    By the parabola through the best point of the grid and its neighbours.
    """
    found = [profile(each, sites, intercept) for each in factors]
    evidence = [each.log_evidence(_GRID).sum(axis=1) for each in found]
    values = pairs.share * np.stack(evidence, axis=1)
    values -= 0.5 * np.square((_GRID - _LOG_SCALE) / _WIDTH)[:, None]
    best = np.clip(values.argmax(axis=0), 1, len(_GRID) - 2)
    left, middle, right = (values[best + k, np.arange(values.shape[1])] for k in (-1, 0, 1))
    step = np.clip(0.5 * (right - left) / np.maximum(2.0 * middle - left - right, 1e-9), -1.0, 1.0)
    return _GRID[best] + (_GRID[1] - _GRID[0]) * step, middle + 0.25 * (right - left) * step


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


class _Pairs(NamedTuple):
    """Pairs of classes as two-class problems, padded to one length."""

    rows: Int[Array, "P n"]  # positions
    signs: Float[Array, "P n"]  # ±1, 0 for padding
    share: float  # what a pair counts: C classes have C - 1 differences, and more pairs

    @classmethod
    def of(cls, labels: Any, n_columns: int) -> "_Pairs":
        """All pairs of the classes that have labels; where that is much work, of every class and
        its neighbours in a ring.
        """
        if labels.ndim == 2:
            return cls._of_labels(labels, n_columns)
        seen = np.unique(labels)
        n_seen = max(len(seen), 1)
        n_rows = 2 * len(labels) // n_seen
        work = max(n_rows * min(n_rows, n_columns) ** 2, 1)
        most_pairs = min(_MOST_PAIRS, int(_WORK / work))
        most = max(most_pairs // n_seen, 1)
        pairs = sorted(
            {
                (min(i, j), max(i, j))
                for i in range(n_seen)
                for j in ((i + k) % n_seen for k in range(1, n_seen // 2 + 1))
                if n_seen * (n_seen - 1) // 2 <= most_pairs or (j - i) % n_seen <= most
            }
        )
        members = [np.flatnonzero(np.isin(labels, seen[list(pair)])) for pair in pairs]
        size = max(map(len, members), default=0)
        rows, signs = np.zeros((len(pairs), size), int), np.zeros((len(pairs), size))
        for p, ((_, second), own) in enumerate(zip(pairs, members, strict=True)):
            rows[p, : len(own)] = own
            signs[p, : len(own)] = np.where(labels[own] == seen[second], 1.0, -1.0)
        return cls(rows, signs, (n_seen - 1) / max(len(pairs), 1))

    @classmethod
    def _of_labels(cls, bits: Bool[Array, "n L"], n_columns: int) -> "_Pairs":
        """Every label that some items have and some have not, as a two-class problem of its own;
        where that is much work, those that divide the items most evenly stand for all.
        """
        n_rows = len(bits)
        counts = bits.sum(axis=0)
        told = np.flatnonzero((counts > 0) & (counts < n_rows))
        work = max(n_rows * min(n_rows, n_columns) ** 2, 1)
        most = max(min(_MOST_TOLD, int(_WORK / work)), 1)
        used = told[np.argsort(np.abs(counts[told] - n_rows / 2), kind="stable")[:most]]
        rows = np.broadcast_to(np.arange(n_rows), (len(used), n_rows))
        return cls(rows, np.where(bits[:, used].T, 1.0, -1.0), len(told) / max(len(used), 1))

    def factors(self, whitened: Float[Array, "n D"]) -> Float[Array, "P m r"]:
        """F (P, n, r) of f_a - f_b, without intercepts, at whitened rows (n, D).

        Of wide rows only their products matter: a root of those, r = n.
        """
        rows = np.sqrt(2.0) * whitened[self.rows] * np.square(self.signs)[:, :, None]
        n_rows, n_columns = rows.shape[1:]
        if n_columns <= n_rows:
            return rows
        products = rows @ rows.swapaxes(-1, -2)
        products += _ROUNDING * np.trace(products, axis1=1, axis2=2).max() * np.eye(n_rows)
        return np.asarray(np.linalg.cholesky(products))


class Profile(NamedTuple):
    """ln Z as a function of s, for every matrix F of a stack."""

    eigenvalues: Float[Array, "*P r"]  # λ
    pulls: Float[Array, "*P r"]  # g²

    def log_evidence(self, log_scales: Float[Array, " G"]) -> Float[Array, "G *P"]:
        """(G, ...) at ln s (G,)."""
        squares = np.exp(2.0 * log_scales).reshape(-1, *[1] * self.pulls.ndim)
        spread = 1.0 + squares * self.eigenvalues
        return 0.5 * (squares * self.pulls / spread - np.log(spread)).sum(axis=-1)


def profile(factors: Float[Array, "*P n r"], sites: Sites, intercept: float) -> Profile:
    """Of F (..., n, r) and sites (..., n); ``intercept``: κ."""
    precisions, shifts = sites
    total = intercept**-2 + precisions.sum(axis=-1, keepdims=True)
    shifts = shifts - precisions * (shifts.sum(axis=-1, keepdims=True) / total)
    turned = factors.swapaxes(-1, -2)
    common = turned @ precisions[..., None]  # (..., r, 1)
    held = (turned * precisions[..., None, :]) @ factors
    held = held - common @ common.swapaxes(-1, -2) / total[..., None]
    eigenvalues, vectors = np.linalg.eigh(held)
    pulls = vectors.swapaxes(-1, -2) @ (turned @ shifts[..., None])
    return Profile(np.maximum(eigenvalues, 0.0), np.square(pulls[..., 0]))


def settled_sites(
    factors: Float[Array, "*P n r"],
    signs: Float[Array, "*#P n"],
    start: Sites | None = None,
    *,
    tolerance: float,
    most_sweeps: int,
) -> Sites:
    """Sites (..., n) of labels ±1 under f = F u, F (..., n, r).

    Labels of 0, which pad, say nothing.
    """
    turned, present = factors.swapaxes(-1, -2), np.square(signs)
    stack, unit = turned.reshape(-1, *turned.shape[-2:]), np.eye(factors.shape[-1])

    def renew(sites: Sites) -> Sites:
        precision = (turned * sites.precisions[..., None, :]) @ factors + unit
        lowers = np.linalg.cholesky(precision).reshape(-1, *unit.shape)
        halves = map(partial(solve_triangular, lower=True, check_finite=False), lowers, stack)
        spread = np.reshape(list(halves), turned.shape)  # its square is FᵀΣF
        mean = ((spread @ sites.shifts[..., None]).swapaxes(-1, -2) @ spread)[..., 0, :]
        variance = np.square(spread).sum(axis=-2)
        renewed = renewed_sites(*cavities(mean, variance, sites), signs)
        return Sites(present * renewed.precisions, present * renewed.shifts)

    empty = np.zeros(np.broadcast_shapes(factors.shape[:-1], signs.shape))
    return settle(renew, start or Sites(empty, empty), tolerance, most_sweeps).sites
