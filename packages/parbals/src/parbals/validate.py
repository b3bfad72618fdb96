"""Validation of arrays and numbers: each error says what is wrong, where, and how to fix it.

Checks run before anything is computed or changed, and return the input in the form the core uses.
Checks of class labels are in :mod:`parbals.labels`.
"""

from collections.abc import Sequence
from functools import reduce
from numbers import Integral, Real
from typing import Any

import numpy as np

from parbals.errors import InputError, ShapeError

__all__ = [
    "check_batch_size",
    "check_choice",
    "check_column_names",
    "check_features",
    "check_positions",
    "check_positive",
    "check_positive_int",
    "check_prior_scale",
    "check_probs",
    "check_same_samples",
    "check_samples",
    "check_weights",
]

_MAX_MAGNITUDE = 1e15  # squares and float32 products of larger numbers could overflow
_SUM_TOLERANCE = 1e-3
_FLOAT16_SUM_TOLERANCE = 1e-2  # softmax outputs in float16 are off by a few 1e-3


class _NotANumberError(InputError, TypeError):
    """An entry is not a number: scikit-learn expects a TypeError for it."""


def check_probs(probs: Any, name: str = "probs") -> np.ndarray:
    """Predictive samples: a real array (N, K, C), C ≥ 2, every [n, k, :] a probability vector.

    >>> check_probs([[[0.25, 0.75]]]).shape
    (1, 1, 2)
    """
    array = _real_array(probs, name)
    if array.ndim != 3:
        raise ShapeError(
            f"{name} has shape {array.shape}; pass predictive samples of shape (points, posterior "
            "samples, classes)."
        )
    for axis, noun, minimum in ((0, "points", 1), (1, "posterior samples", 1), (2, "classes", 2)):
        if array.shape[axis] < minimum:
            raise ShapeError(
                f"{name} has {array.shape[axis]} {noun} (axis {axis}); at least {minimum} needed."
            )
    tolerance = _FLOAT16_SUM_TOLERANCE if array.dtype == np.float16 else _SUM_TOLERANCE
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
        smallest = np.unravel_index(int(array.argmin()), array.shape)
        position = ", ".join(map(str, smallest))
        raise InputError(
            f"{name}[{position}] is {array[smallest]:.6g}; probabilities must lie between 0 and 1."
        )
    return array


def _class_sums(array: np.ndarray) -> np.ndarray:
    """(N, K) sums over the classes of (N, K, C); not finite where there is a NaN or ±inf.

    Adding class by class is ten times as fast as ``sum`` over a short axis. A matrix product would
    be fast as well, but BLAS threads keep spinning after it and slow down what follows.
    """
    return reduce(np.add, np.moveaxis(array, 2, 0))


def check_samples(probs: Any, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Predictive samples (N, K, C) of the pool and their normalised weights (K,)."""
    array = check_probs(probs, "pool_probs")
    return array, check_weights(weights, array.shape[1])


def check_choice(value: Any, choices: Sequence[str], name: str) -> None:
    """Raise an error unless the value is one of a few names."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}; choose one of: {', '.join(choices)}.")


def check_same_samples(probs: Any, pool: np.ndarray, name: str = "target_probs") -> np.ndarray:
    """Predictive samples (M, K, C) of the same K posterior samples and C classes as the pool's."""
    array = check_probs(probs, name)
    for axis, noun in ((1, "posterior samples"), (2, "classes")):
        if pool.shape[axis] != array.shape[axis]:
            raise ShapeError(
                f"pool_probs has {pool.shape[axis]} {noun} and {name} has {array.shape[axis]}; "
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
    """1 ≤ B ≤ number of points that can be chosen."""
    size = check_positive_int(batch_size, "batch_size")
    if size > available:
        raise InputError(
            f"batch_size is {size} but only {available} pool points can be chosen; ask for at most "
            f"{available}."
        )
    return size


def check_positions(
    positions: Any, n_rows: int, name: str, collection: str = "the labelled points"
) -> np.ndarray:
    """Distinct integers 0..n_rows-1: positions in a ``collection``, as error messages call it."""
    array = np.asarray(positions)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"{name} must be a 1-D array of integer positions in {collection}.")
    is_outside = (array < 0) | (array >= n_rows)
    if is_outside.any():
        raise InputError(
            f"{name} contains {array[is_outside][0]}, but positions in {collection} are 0 to "
            f"{n_rows - 1}."
        )
    if len(np.unique(array)) != len(array):
        raise InputError(f"{name} names the same position in {collection} twice.")
    return array.astype(np.int64)


def check_features(
    X: Any, name: str = "X", n_features: int | None = None, first_row: int = 0
) -> np.ndarray:
    """A finite real matrix (N, D), or a block of its rows that begins at ``first_row``."""
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
    if not (float(array.min()) >= -_MAX_MAGNITUDE and float(array.max()) <= _MAX_MAGNITUDE):
        row, column = np.argwhere(~(np.abs(array.astype(np.float64)) <= _MAX_MAGNITUDE))[0]
        value = float(array[row, column])
        row += first_row
        if not np.isfinite(value):
            raise InputError(
                f"{name}[{row}, {column}] is {value}; features must be finite numbers without NaN "
                "or inf (impute or drop the row; ActiveLearner also takes data frames with missing "
                "values)."
            )
        raise InputError(
            f"{name}[{row}, {column}] is {value:.3g}; standardise features beyond "
            f"{_MAX_MAGNITUDE:g}."
        )
    return array


def check_column_names(
    names: Sequence[str] | None, expected: Sequence[str] | None, name: str, owner: str
) -> None:
    """Raise an error if both sides have column names and they differ.

    Args:
        names: column names of the table ``name``; None if it has none.
        expected: column names of the ``owner``; None if it has none.
        name: what error messages call the table.
        owner: what error messages call the other side.
    """
    if names is None or expected is None:
        return
    for position, (column, expected_column) in enumerate(zip(names, expected, strict=False)):
        if column != expected_column:
            raise InputError(
                f"{name} has the column {column!r} at position {position}, where {owner} has "
                f"{expected_column!r}; pass the same columns in the same order."
            )


def check_positive(value: Any, name: str) -> float:
    """A finite number greater than zero, and not so large or small that its square overflows."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    smallest = 1.0 / _MAX_MAGNITUDE
    if not is_number or not smallest <= float(value) <= _MAX_MAGNITUDE:
        raise InputError(
            f"{name} is {value!r}; it must be a number greater than 0, between {smallest:g} and "
            f"{_MAX_MAGNITUDE:g}."
        )
    return float(value)


def check_positive_int(value: Any, name: str, minimum: int = 1) -> int:
    """An integer of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise InputError(f"{name} is {value!r}; it must be an integer of at least {minimum}.")
    return int(value)


def check_prior_scale(value: Any) -> float | str:
    """A standard deviation, "auto" or "even"."""
    if isinstance(value, str):
        if value not in ("auto", "even"):
            raise InputError(f'prior_scale is {value!r}; pass "auto", "even" or a number above 0.')
        return value
    return check_positive(value, "prior_scale")


def _real_array(value: Any, name: str) -> np.ndarray:
    """An array of real numbers."""
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
