"""The value of a label for the target set, for each loss.

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

  the expected error reduction. A label has value only if one of its outcomes changes the decision.
* 0-1 error with *class weights* w_b, the worth of a correct decision for class b:
  L(P) = -max_b w_b P_b up to a constant, and the same formula holds with w_b P_b and w_b P_ab in
  place of P_b and P_ab. With a positive class, decisions are for or against it: all others are one
  class. Balanced accuracy and F1 become such a loss near the best decisions:
  :mod:`parbals.learner.evaluation.metric`.

Everything is written in terms of the covariance c_ab = P_ab - P_a P_b, to avoid cancellation.
"""

from types import ModuleType

from parbals.arrays import safe_reciprocal
from parbals.shapes import Array, Float
from parbals.types import LOSSES, ClassWeights, Loss

__all__ = ["LOSSES", "ClassWeights", "Loss", "gain_on_targets"]

_Table = Float[Array, "NA AM"]  # a row for each class of a candidate, a column for each of a target
_Points = Float[Array, "N A"]
_Targets = Float[Array, "A M"]
_Gains = Float[Array, " N"]


def gain_on_targets(
    covariance: _Table,
    mean: _Points,
    target_mean: _Targets,
    loss: Loss,
    class_weights: ClassWeights | None,
    xp: ModuleType,
) -> _Gains:
    """Gains (N,) of candidates, summed over the targets; two classes need one row (A = 1).

    Args:
        covariance: c_ab, a row for each class of a candidate, a column for each class of a target.
        mean: P_a of the candidates (N, A).
        target_mean: P_b of the targets (A, M).
        loss: "log" or "error".
        class_weights: of the error; by default all 1.
        xp: array module.

    >>> import numpy as np
    >>> gain_on_targets(
    ...     covariance=np.array([[0.16]]),
    ...     mean=np.array([[0.5]]),
    ...     target_mean=np.array([[0.5]]),
    ...     loss="error",
    ...     class_weights=None,
    ...     xp=np,
    ... )
    array([0.32])
    """
    n_points, n_rows = mean.shape
    if loss == "log":
        information = _two_class_information if n_rows == 1 else _class_information
        return information(covariance, mean, target_mean, xp)
    if n_rows == 1:
        return _two_class_error(covariance, mean, target_mean[0], class_weights, xp).sum(axis=1)
    table = covariance.reshape(n_points, n_rows, n_rows, -1)
    return _class_error(table, mean, target_mean, class_weights, xp)


def _gain(t: Float[Array, "n m"], xp: ModuleType) -> Float[Array, "n m"]:
    """g(t) = (1+t) ln(1+t) - t, evaluated throughout at the rounded 1+t so that its errors cancel.

    A floor far below rounding replaces the case 0 ln 0 = 0; a branch there would triple the cost.
    NumPy compares rows with a row faster than with a number. A NumPy t is overwritten.
    """
    t += 1.0
    u = xp.maximum(t, xp.full(t.shape[1], 1e-30, t.dtype))
    gain = xp.log(u)
    gain *= u
    u -= 1.0
    gain -= u
    return gain


def _two_class_information(
    covariance: _Table, mean: _Points, target_mean: _Targets, xp: ModuleType
) -> _Gains:
    """Mutual information of two-class labels, summed over the targets."""
    p = mean
    p0 = 1.0 - p
    q = target_mean[0]
    q0 = 1.0 - q
    inverse_p = safe_reciprocal(p, xp)
    inverse_p0 = safe_reciprocal(p0, xp)
    over_q = covariance * safe_reciprocal(q, xp)
    over_q0 = covariance * safe_reciprocal(q0, xp)
    given_1 = _gain(over_q * inverse_p, xp) @ q + _gain(over_q0 * -inverse_p, xp) @ q0
    given_0 = _gain(over_q * -inverse_p0, xp) @ q + _gain(over_q0 * inverse_p0, xp) @ q0
    return p[:, 0] * given_1 + p0[:, 0] * given_0


def _class_information(
    covariance: _Table, mean: _Points, target_mean: _Targets, xp: ModuleType
) -> _Gains:
    """Mutual information of labels with several classes, summed over the targets."""
    p = mean.reshape(-1, 1)
    q = target_mean.reshape(-1)
    ratio = covariance * safe_reciprocal(q, xp)
    ratio *= safe_reciprocal(p, xp)
    return (p[:, 0] * (_gain(ratio, xp) @ q)).reshape(mean.shape).sum(axis=1)


def _two_class_error(
    covariance: Float[Array, "N M"],
    p: Float[Array, "N 1"],
    q: Float[Array, " M"],
    class_weights: ClassWeights | None,
    xp: ModuleType,
) -> Float[Array, "N M"]:
    """Gain (N, M) of each pair of two-class labels with means p (candidate) and q (target).

    Margins, with W = w_0 + w_1: s = W q - w_0 now, u = p s + W c and v = (1-p) s - W c after each
    label. They add up to s, so at most one of them has changed sign, and the gain is its size.
    """
    against = 1.0
    total = 2.0
    if class_weights is not None:
        against = class_weights.values[0]
        total = class_weights.values.sum()
    s = total * q - against
    shift = covariance * (total * xp.where(s < 0, -1.0, 1.0))
    margin = xp.abs(s)
    gain = xp.maximum(-(p * margin + shift), shift - (1.0 - p) * margin)
    return xp.maximum(gain, 0.0)


def _class_error(
    table: Float[Array, "N A A M"],
    mean: _Points,
    target_mean: _Targets,
    class_weights: ClassWeights | None,
    xp: ModuleType,
) -> _Gains:
    """Gain in accuracy of labels with several classes, summed over the targets."""
    if class_weights is not None and class_weights.positive is not None:
        positive = class_weights.positive
        positive_covariance = xp.einsum("nabm,b->nam", table, positive)
        positive_mean = positive @ target_mean
        return _positive_class_error(positive_covariance, mean, positive_mean, class_weights, xp)
    if class_weights is not None:
        table = class_weights.values[:, None] * table
        target_mean = class_weights.values[:, None] * target_mean
    best = target_mean.argmax(axis=0)[None]
    behind = target_mean - xp.take_along_axis(target_mean, best, axis=0)  # P_b - P_b* ≤ 0
    advantage = table - xp.take_along_axis(table, best[None, None], axis=2)
    advantage += mean[:, :, None, None] * behind
    return advantage.max(axis=2).sum(axis=(1, 2))  # each ≥ 0, reached at b*


def _positive_class_error(
    covariance: Float[Array, "N A M"],
    mean: Float[Array, "N A"],
    q: Float[Array, " M"],
    class_weights: ClassWeights,
    xp: ModuleType,
) -> Float[Array, " N"]:
    """Gain of decisions for or against the positive class, of probability q.

    As with two classes, s = W q - w, and u_a = p_a s + W c_a add up to s; those that changed sign
    are the gain.
    """
    positive_weight = class_weights.values @ class_weights.positive
    total = positive_weight + (class_weights.values * (1.0 - class_weights.positive)).max()
    s = total * q - (total - positive_weight)
    margin_after = mean[:, :, None] * s + total * covariance
    return xp.maximum(xp.where(s < 0, margin_after, -margin_after), 0.0).sum(axis=(1, 2))
