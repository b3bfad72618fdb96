"""Where arrays and numbers are refused: each check says what is wrong, where, and how to fix it.

Checks run before anything is computed or changed, and return the input in the form the core uses.
Class labels have theirs in :mod:`parbals.labels`.
"""

from collections.abc import Sequence
from functools import reduce
from numbers import Integral, Real
from typing import Any

import numpy as np

from parbals.errors import InputError, ShapeError

__all__ = ["check_batch_size", "check_choice", "check_column_names", "check_features"]
__all__ += ["check_positions", "check_positive", "check_positive_int"]
__all__ += ["check_prior_scale", "check_probs", "check_same_samples", "check_samples"]
__all__ += ["check_weights"]

# Squares and float32 products of anything larger could overflow.
_LARGEST = 1e15


class _NotANumberError(InputError, TypeError):
    """An entry of another type where numbers belong: scikit-learn expects a TypeError for it."""


def check_probs(probs: Any, name: str = "probs") -> np.ndarray:
    """Predictive samples: a real array (N, K, C), C ≥ 2, every [n, k, :] a probability vector."""
    array = _real_array(probs, name)
    if array.ndim != 3:
        raise ShapeError(
            f"{name} has shape {array.shape}; pass predictive samples of shape (points, posterior "
            "samples, classes)."
        )
    for axis, what, least in ((0, "points", 1), (1, "posterior samples", 1), (2, "classes", 2)):
        if array.shape[axis] < least:
            raise ShapeError(
                f"{name} has {array.shape[axis]} {what} (axis {axis}); at least {least} needed."
            )
    # They come from other people's models: float16 softmax outputs are off by a few 1e-3.
    tolerance = 1e-2 if array.dtype == np.float16 else 1e-3
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    sums = _class_sums(array)
    if not (sums.min() >= 1.0 - tolerance and sums.max() <= 1.0 + tolerance):
        n, k = np.argwhere(~(np.abs(sums - 1.0) <= tolerance))[0]
        row = array[n, k]
        if not np.isfinite(row).all():
            c = int(np.flatnonzero(~np.isfinite(row))[0])
            raise InputError(
                f"{name}[{n}, {k}, {c}] is {row[c]}; every probability must be a finite number."
            )
        raise InputError(
            f"{name}[{n}, {k}, :] sums to {row.sum():.6g}; class probabilities must sum to 1 "
            "(apply a softmax first)."
        )
    if array.min() < 0.0:
        n, k, c = (int(i) for i in np.unravel_index(int(array.argmin()), array.shape))
        raise InputError(
            f"{name}[{n}, {k}, {c}] is {array[n, k, c]:.6g}; probabilities must lie between 0 and "
            "1."
        )
    return array


def _class_sums(array: np.ndarray) -> np.ndarray:
    """(N, K) sums over the classes of (N, K, C); NaN or ±inf make one non-finite.

    Class by class: ten times faster than summing a short axis, and a BLAS product would leave its
    threads spinning in the way of the scoring.
    """
    return reduce(np.add, np.moveaxis(array, 2, 0))


def check_samples(probs: Any, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Predictive samples (N, K, C) of the pool and their normalised weights (K,)."""
    array = check_probs(probs, "pool_probs")
    return array, check_weights(weights, array.shape[1])


def check_choice(value: Any, choices: Sequence[str], name: str) -> None:
    """One of a few names."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}; choose one of: {', '.join(choices)}.")


def check_same_samples(probs: Any, pool: np.ndarray, name: str = "target_probs") -> np.ndarray:
    """Predictive samples (M, K, C) of the same K posterior samples and C classes as the pool's."""
    array = check_probs(probs, name)
    for axis, what in ((1, "posterior samples"), (2, "classes")):
        if pool.shape[axis] != array.shape[axis]:
            raise ShapeError(
                f"pool_probs has {pool.shape[axis]} {what} and {name} has {array.shape[axis]}; "
                "both must come from the same samples, in the same order."
            )
    return array


def check_weights(weights: Any, n_samples: int) -> np.ndarray:
    """Normalised weights (K,) of the posterior samples; ``None`` means equal weights."""
    if weights is None:
        return np.full(n_samples, 1.0 / n_samples)
    array = _real_array(weights, "sample_weights").astype(np.float64)
    if array.shape != (n_samples,):
        raise ShapeError(
            f"sample_weights has shape {array.shape}; one weight for each of the {n_samples} "
            "samples is needed."
        )
    for k in np.flatnonzero(~(np.isfinite(array) & (array >= 0))):
        raise InputError(
            f"sample_weights[{k}] is {array[k]}; weights must be finite and not negative."
        )
    if not array.sum() > 0:
        raise InputError("sample_weights are all zero; at least one must be positive.")
    return array / array.sum()


def check_batch_size(batch_size: Any, available: int) -> int:
    """1 ≤ B ≤ number of points that can still be chosen."""
    size = check_positive_int(batch_size, "batch_size")
    if size > available:
        raise InputError(
            f"batch_size is {size} but only {available} pool points can be chosen; ask for at most "
            f"{available}."
        )
    return size


def check_positions(
    positions: Any, n_rows: int, name: str, what: str = "the labelled points"
) -> np.ndarray:
    """Distinct integers 0..n_rows-1."""
    array = np.asarray(positions)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"{name} must be a 1-D array of integer positions in {what}.")
    outside = (array < 0) | (array >= n_rows)
    if outside.any():
        raise InputError(
            f"{name} contains {array[outside][0]}, but positions in {what} are 0 to {n_rows - 1}."
        )
    if len(np.unique(array)) != len(array):
        raise InputError(f"{name} names the same position in {what} twice.")
    return array.astype(np.int64)


def check_features(
    X: Any, name: str = "X", n_features: int | None = None, first_row: int = 0
) -> np.ndarray:
    """A finite real matrix (N, D), or part of one that begins at ``first_row``."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise InputError(
            f"{name} is sparse; pass a dense array, for example {name}.toarray() or its truncated "
            "SVD."
        )
    array = _real_array(X, name)
    if array.ndim != 2:
        raise ShapeError(
            f"{name} has shape {array.shape}; pass a matrix (points, features). Reshape your data: "
            f"{name}.reshape(-1, 1) for one feature, {name}.reshape(1, -1) for one point."
        )
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise ShapeError(
            f"{name} has {array.shape[0]} sample(s) and {array.shape[1]} feature(s) "
            f"(shape={array.shape}) while a minimum of 1 is required of each."
        )
    if n_features is not None and array.shape[1] != n_features:
        raise ShapeError(
            f"{name} has {array.shape[1]} features, but BayesianLogisticRegression is expecting "
            f"{n_features} features as input."
        )
    # NaN spreads to both extremes and fails both comparisons.
    if not (float(array.min()) >= -_LARGEST and float(array.max()) <= _LARGEST):
        row, column = np.argwhere(~(np.abs(array.astype(np.float64)) <= _LARGEST))[0]
        value = float(array[row, column])
        row += first_row
        if not np.isfinite(value):
            raise InputError(
                f"{name}[{row}, {column}] is {value}; features must be finite numbers without NaN "
                "or inf (impute or drop the row)."
            )
        raise InputError(
            f"{name}[{row}, {column}] is {value:.3g}; standardise features beyond {_LARGEST:g}."
        )
    return array


def check_column_names(
    names: Sequence[str] | None, expected: Sequence[str] | None, name: str, whose: str
) -> None:
    """The same columns in the same order, where both sides have names."""
    if names is None or expected is None:
        return
    for place, (here, there) in enumerate(zip(names, expected, strict=False)):
        if here != there:
            raise InputError(
                f"{name} has the column {here!r} at position {place}, where {whose} has {there!r}; "
                "pass the same columns in the same order."
            )


def check_positive(value: Any, name: str) -> float:
    """A finite number greater than zero, and not so large or small that its square overflows."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 1.0 / _LARGEST <= float(value) <= _LARGEST:
        raise InputError(
            f"{name} is {value!r}; it must be a number greater than 0, between {1.0 / _LARGEST:g} "
            f"and {_LARGEST:g}."
        )
    return float(value)


def check_positive_int(value: Any, name: str, least: int = 1) -> int:
    """An integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} is {value!r}; it must be an integer of at least {least}.")
    return int(value)


def check_prior_scale(value: Any) -> float | str:
    """A deviation, "auto" or "even"."""
    if isinstance(value, str):
        if value not in ("auto", "even"):
            raise InputError(f'prior_scale is {value!r}; pass "auto", "even" or a number above 0.')
        return value
    return check_positive(value, "prior_scale")


def _real_array(value: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(value)
        if array.dtype.kind in "OSU":
            array = array.astype(np.float64)
    except TypeError as error:
        raise _NotANumberError(f"{name} holds something that is not a number ({error}).") from None
    except ValueError as error:
        raise InputError(f"{name} is not a rectangular array of numbers ({error}).") from None
    if array.dtype.kind == "c":
        raise InputError(f"{name} is complex; Complex data not supported, pass real numbers.")
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} has dtype {array.dtype}; pass real numbers.")
    return array
