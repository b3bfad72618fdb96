"""What a label is worth on the target set, for each loss a user may be judged by.

One decision-theoretic cost gives every score. Let L(P) = min_d Σ_b P_b ℓ(b, d) be the smallest
expected loss of a decision d when the target's label has distribution P. Before the label of x̂ is
known the best expected loss at target x is L(P_·); afterwards it is Σ_a P_a L(P_·|a). The label of
x̂ is worth the difference,

    gain(x̂, x) = L(P_·) - Σ_a P_a L(P_·|a)  ≥ 0        (L is concave),

and the score of x̂ is its mean over the target set.

* Log loss, ℓ(b, d) = -ln d_b: L is the Shannon entropy, and the gain is the mutual information:
  EPIG.
* 0-1 error, ℓ(b, d) = [b ≠ d]: L(P) = 1 - max_b P_b, and with b* the most probable class before it

      gain = Σ_a max_b P_ab - P_b* = Σ_a max_b (P_ab - P_ab*),

  expected error reduction. A label is worth something only if one of its outcomes changes the
  decision.
* 0-1 error with *stakes* w_b, what it is worth to be right about class b: L(P) = -max_b w_b P_b up
  to what no decision changes, and the same formula holds with w_b P_b and w_b P_ab in place of P_b
  and P_ab. Where one class counts, decisions are for or against it: all others are one class.
  Balanced accuracy and F1 become such a loss near the best decisions:
  :mod:`parbals.learner.numbers.metric`.

Everything is written in the covariance c_ab = P_ab - P_a P_b, so that nothing large is subtracted.
"""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Float

from parbals.numerics import safe_reciprocal
from parbals.types import LOSSES, Loss, Stakes

__all__ = ["LOSSES", "Loss", "Stakes", "error_reduction", "gain_of_table"]


def gain_of_table(
    loss: Loss, n_rows: int, stakes: Stakes | None = None
) -> Callable[[Array, Array, Array], Array]:
    """(covariance table, means of candidates, means of targets) → (N,) gains over all targets."""
    if loss == "log":
        return _two_class_information if n_rows == 1 else _class_information
    return partial(_two_class_error if n_rows == 1 else _class_error, stakes=stakes)


def _gain(t: Array) -> Array:
    """g(t) = (1+t) ln(1+t) - t, evaluated throughout at the rounded 1+t so that its errors cancel.

    A floor far below rounding stands in for 0 ln 0 = 0; a branch there would triple the cost.
    """
    u = jnp.maximum(1.0 + t, 1e-30)
    return u * jnp.log(u) - (u - 1.0)


def _two_class_information(
    covariance: Float[Array, "N M"], mean: Float[Array, "N 1"], target_mean: Float[Array, "M 1"]
) -> Float[Array, " N"]:
    p, q = mean, target_mean[:, 0]
    p0, q0 = 1.0 - p, 1.0 - q
    by_p, by_p0 = safe_reciprocal(p), safe_reciprocal(p0)
    by_class_1, by_class_0 = covariance * safe_reciprocal(q), covariance * safe_reciprocal(q0)
    total = p * (q * _gain(by_class_1 * by_p) + q0 * _gain(-by_class_0 * by_p))
    total += p0 * (q * _gain(-by_class_1 * by_p0) + q0 * _gain(by_class_0 * by_p0))
    # A product with ones sums rows faster than XLA's reduction on a processor.
    return total @ jnp.ones(len(q), total.dtype)


def _class_information(
    covariance: Float[Array, "NA MA"], mean: Float[Array, "N A"], target_mean: Float[Array, "M A"]
) -> Float[Array, " N"]:
    p, q = mean.reshape(-1, 1), target_mean.reshape(1, -1)
    ratio = covariance * safe_reciprocal(p) * safe_reciprocal(q)
    return (p * (q * _gain(ratio)).sum(axis=1, keepdims=True)).reshape(mean.shape).sum(axis=1)


def _two_class_error(
    covariance: Float[Array, "N M"],
    mean: Float[Array, "N 1"],
    target_mean: Float[Array, "M 1"],
    stakes: Stakes | None,
) -> Float[Array, " N"]:
    gain = error_reduction(mean, target_mean[:, 0], covariance, stakes)
    return gain @ jnp.ones(len(target_mean), covariance.dtype)


def error_reduction(
    p: Float[Array, "..."],
    q: Float[Array, "..."],
    covariance: Float[Array, "..."],
    stakes: Stakes | None = None,
) -> Float[Array, "..."]:
    """Gain of each pair of two-class labels with means p (candidate) and q (target).

    Margins, with W = w_0 + w_1: s = W q - w_0 now, u = p s + W c and v = (1-p) s - W c after each
    label. They add up to s, so at most one of them has changed sides, and the gain is how far it
    went.
    """
    against, total = (1.0, 2.0) if stakes is None else (stakes.values[0], stakes.values.sum())
    s = total * q - against
    crossed = total * covariance * jnp.where(s < 0, -1.0, 1.0)
    margin = jnp.abs(s)
    gain = jnp.maximum(-(p * margin + crossed), crossed - (1.0 - p) * margin)
    # A padding target has mean 0 and no covariance: its margin is w_0 and its gain 0.
    return jnp.maximum(gain, 0.0)


def _class_error(
    covariance: Float[Array, "NA MA"],
    mean: Float[Array, "N A"],
    target_mean: Float[Array, "M A"],
    stakes: Stakes | None,
) -> Float[Array, " N"]:
    (n_points, n_rows), n_targets = mean.shape, len(target_mean)
    table = covariance.reshape(n_points, n_rows, n_targets, n_rows)
    if stakes is not None and stakes.mark is not None:
        return _error_of_one(table @ stakes.mark, mean, target_mean @ stakes.mark, stakes)
    if stakes is not None:
        table, target_mean = stakes.values * table, stakes.values * target_mean
    best = jnp.argmax(target_mean, axis=1)
    behind = target_mean - jnp.take_along_axis(target_mean, best[:, None], axis=1)  # P_b - P_b* ≤ 0
    moved = table - jnp.take_along_axis(table, best[None, None, :, None], axis=3)
    changed = jnp.max(mean[:, :, None, None] * behind + moved, axis=3)  # ≥ 0, reached at b*
    return changed.sum(axis=(1, 2))


def _error_of_one(
    covariance: Float[Array, "N A M"],
    mean: Float[Array, "N A"],
    q: Float[Array, " M"],
    stakes: Stakes,
) -> Float[Array, " N"]:
    """Decisions for or against a class of probability q: s = W q - w and u_a = p_a s + W c_a add
    up as in :func:`error_reduction`, and those that changed sides are the gain.
    """
    own = stakes.values @ stakes.mark
    total = own + (stakes.values * (1.0 - stakes.mark)).max()
    s = total * q - (total - own)
    after = mean[:, :, None] * s + total * covariance
    return jnp.maximum(jnp.where(s < 0, after, -after), 0.0).sum(axis=(1, 2))
