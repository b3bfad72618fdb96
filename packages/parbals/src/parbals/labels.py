"""Validation of class labels: each error says what is wrong, where, and how to fix it."""

from numbers import Number
from typing import Any

import numpy as np

from parbals.errors import LabelError, ShapeError

__all__ = ["check_classes", "check_label_vector", "check_labels", "classes_shown"]

_MAX_LISTED_CLASSES = 10  # in an error message


def check_classes(classes: Any) -> np.ndarray:
    """At least two distinct class labels of one type, sorted as NumPy sorts them.

    >>> check_classes(["spam", "ham"]).tolist()
    ['ham', 'spam']
    """
    array = _label_array(classes, "classes")
    if array.ndim != 1 or len(array) < 2:
        raise LabelError(f"classes is {classes!r}; pass a list of at least two class labels.")
    unique = _sorted_unique(array, "classes")
    if len(unique) != len(array):
        raise LabelError("classes names the same class twice.")
    return unique


def _label_array(y: Any, name: str = "y") -> np.ndarray:
    """Labels as an array, none of them missing and all of one type.

    Items of lists are checked as they are: NumPy would convert a NaN or a number among strings to
    text.
    """
    try:
        array = np.asarray(y)
        original = np.array(y, dtype=object) if isinstance(y, list | tuple) else array
    except ValueError:
        raise LabelError(
            f"{name} is not a list of single labels; pass one label for each row."
        ) from None
    is_vector_or_column = original.ndim > 0 and original.size == len(original)
    if is_vector_or_column:
        example_by_type: dict[Any, Any] = {}
        for row, label in enumerate(original.ravel().tolist()):
            if _is_missing(label):
                raise LabelError(
                    f"{name}[{row}] is {original.flat[row]}; a label cannot be None, NaN or inf, "
                    "leave unlabelled rows out."
                )
            example_by_type.setdefault(_label_type(label), label)
        if len(example_by_type) > 1:  # NumPy would silently convert all of them to strings
            first, second, *_ = example_by_type.values()
            raise LabelError(
                f"{name} mixes labels of different types, such as {first!r} and {second!r}; use "
                "all numbers or all strings."
            )
    return array


def _label_type(label: Any) -> Any:
    """str, bytes or the union of numbers; None for any other type."""
    for label_type in (str, bytes, Number | np.bool_):
        if isinstance(label, label_type):
            return label_type
    return None


def check_label_vector(y: Any, n_rows: int, name: str = "y") -> np.ndarray:
    """One label (n,) for each row, none of them missing.

    A column (n, 1) is accepted with scikit-learn's warning.
    """
    if y is None:
        raise LabelError(
            f"This classifier requires {name} to be passed, but the target {name} is None; give "
            "one label for each row."
        )
    labels = _label_array(y, name)
    if labels.ndim == 2 and labels.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        labels = column_or_1d(labels, warn=True)
    if labels.shape != (n_rows,):
        raise ShapeError(
            f"{name} has shape {labels.shape}; one label for each of the {n_rows} rows is needed."
        )
    return labels


def check_labels(y: Any, classes: np.ndarray, n_rows: int, name: str = "y") -> np.ndarray:
    """Class numbers (n,) of labels, all of which must be in ``classes``.

    >>> check_labels(["spam", "ham"], np.array(["ham", "spam"]), 2).tolist()
    [1, 0]
    """
    labels = check_label_vector(y, n_rows, name).tolist()
    position = {label: c for c, label in enumerate(classes.tolist())}
    try:
        numbers = [position.get(label, -1) for label in labels]
    except TypeError:  # unhashable, such as a list
        raise LabelError(
            f"{name} holds objects that cannot be labels; pass numbers or strings."
        ) from None
    if -1 in numbers:
        row = numbers.index(-1)
        listed = ", ".join(map(repr, classes[:_MAX_LISTED_CLASSES].tolist()))
        if len(classes) > _MAX_LISTED_CLASSES:
            listed += ", ..."
        raise LabelError(
            f"{name}[{row}] is {labels[row]!r}, which is not one of the classes [{listed}]; "
            "correct the label or declare it with classes=[...]."
        )
    return np.asarray(numbers, np.int32)


def classes_shown(labels: np.ndarray, name: str = "y") -> np.ndarray:
    """The classes in a label vector, at least two; booleans always have both.

    >>> classes_shown(np.array([2, 0, 2])).tolist()
    [0, 2]
    """
    if labels.dtype.kind == "b":
        return np.array([False, True])
    if labels.dtype.kind == "f" and (labels != np.rint(labels)).any():
        row = int(np.flatnonzero(labels != np.rint(labels))[0])
        raise LabelError(
            f"Unknown label type: {name}[{row}] is {labels[row]}, a continuous value; pass class "
            "labels, or declare such classes with classes=[...]."
        )
    classes = _sorted_unique(labels, name)
    if len(classes) < 2:
        raise LabelError(
            f"{name} holds only one class, {classes.tolist()[0]!r}, so the others are unknown; "
            "declare all of them with classes=[...]."
        )
    return classes


def _sorted_unique(labels: np.ndarray, name: str) -> np.ndarray:
    """Distinct labels in ascending order."""
    try:
        return np.unique(labels)
    except TypeError:
        raise LabelError(
            f"{name} mixes labels of different types; use all numbers or all strings."
        ) from None


def _is_missing(label: Any) -> bool:
    """None, NaN, NaT or inf."""
    try:
        return label is None or not bool(label == label) or label in (np.inf, -np.inf)
    except (TypeError, ValueError):  # pandas.NA does not compare
        return True
