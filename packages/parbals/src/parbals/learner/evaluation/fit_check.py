"""Whether labels show that a model does not suit its data, so that it cannot know its own error.

Two signs are looked for. Neither is a test with a level: both limits were chosen on eight sets, of
which rings and XOR have classes that no line divides (``studies/error_estimates/misfit``).

* *Guesses.* The temperature T at which leave-one-out predictions suit the labels is above 3: the
  model is as often wrong as right where it was sure.
* *Neighbours.* Strategies select labels that the model asks for, and may never see where it is
  wrong: with rings, leave-one-out predictions have few errors and half of the pool is wrong. A
  nearest-neighbour rule that predicts the labels at least as well, and the pool quite differently,
  shows it: on more than the upper limit of the expected error and a tenth of the pool.
"""

import numpy as np

from parbals.types import Estimate
from parbals.wording import percent

__all__ = ["misfit_sentence"]

_MAX_TEMPERATURE = 3.0
_MAX_DIFFERENCE = 0.1
"""Share of the pool beyond the upper limit of the expected error."""
_ROUNDING = 1e-6
_CONSEQUENCE = (
    "No line may divide these classes, so the expected error has no interval; a random sample "
    "would measure it."
)


def misfit_sentence(
    temperature: float,
    expected_error: Estimate,
    labelled: tuple[np.ndarray, np.ndarray, np.ndarray],
    targets: tuple[np.ndarray, np.ndarray],
) -> str | None:
    """Say that a model does not suit its data; None where nothing shows it.

    Args:
        temperature: T of leave-one-out predictions.
        expected_error: on the targets.
        labelled: rows (n, D), class numbers (n,) and leave-one-out decisions (n,).
        targets: rows (M, D) and decisions (M,).
    """
    if temperature > _MAX_TEMPERATURE:
        return (
            f"The model's leave-one-out predictions are hardly better than guesses. {_CONSEQUENCE}"
        )
    rows, labels, leave_one_out = labelled
    target_rows, decisions = targets
    scale = _scale(np.concatenate([rows, target_rows]))
    scaled_rows = rows / scale
    if (_nearest(scaled_rows, labels) != labels).sum() > (leave_one_out != labels).sum():
        return None
    neighbours = _nearest(scaled_rows, labels, target_rows / scale)
    difference = float((neighbours != decisions).mean())
    if difference <= expected_error.high + _MAX_DIFFERENCE:
        return None
    return (
        "The label of the nearest labelled item predicts labels as well as the model, and differs "
        f"from it on {percent(difference)} of all items. {_CONSEQUENCE}"
    )


def _scale(rows: np.ndarray) -> np.ndarray:
    """Standard deviations (D,) of columns; infinite where a column is constant up to rounding."""
    deviation = rows.std(axis=0)
    is_constant = deviation <= _ROUNDING * np.abs(rows).max(axis=0)
    return np.where(is_constant, np.inf, deviation)


def _nearest(rows: np.ndarray, labels: np.ndarray, targets: np.ndarray | None = None) -> np.ndarray:
    """Labels (M,) of the rows nearest to targets (M, D); by default to each row, without itself.

    >>> _nearest(np.array([[0.0], [1.0], [3.0]]), np.array([0, 1, 2]))
    array([1, 0, 1])
    """
    points = rows if targets is None else targets
    squares = np.square(rows).sum(axis=1) - 2.0 * points @ rows.T
    if targets is None:
        np.fill_diagonal(squares, np.inf)
    return np.asarray(labels[squares.argmin(axis=1)])
