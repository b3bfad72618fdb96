"""A user's own labelled rows: an .npz with an array of features and one of labels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from parbals.errors import InputError
from parbals.validate import check_choice
from parbals_label.answer_form import AnswerForm
from parbals_label.readers.items import classes_in, plan_items
from parbals_label.readers.numpy_files import open_npz

from parbals_bench.datasets.base import Data, Dataset, three_parts

__all__ = ["DATASET", "load"]

NAME = "own"


def load(
    folder: Path | None = None,
    *,
    features: str = "auto",
    seed: int = 0,
    label: str = "label",
    classes: Sequence[str] | None = None,
) -> Data:
    """The rows (N, D) of an .npz as they are, with the true labels in its array ``label``.

    They are divided 60/20/20 by the seed; those without a label are left out.
    """
    check_choice(features, ("auto",), "features")
    path = Path(folder or "")
    if path.suffix.lower() != ".npz" or not path.is_file():
        raise InputError(
            f"{path} is no .npz file with data of your own; numpy.savez writes one: X (N, D) and "
            "label (N,)."
        )
    source = open_npz(path, label)
    if source.features is None:
        raise InputError(f"{path.name} holds no features, an array with two axes.")
    names = list(classes) if classes is not None else classes_in(source, label)
    form = AnswerForm(classes=tuple(names))
    told = [name for _, _, name in plan_items(source, label_column=label, form=form)]
    kept = [row for row, name in enumerate(told) if name is not None]
    X = _matrix(source.features, path.name)[kept]
    y = np.array([names.index(str(told[row])) for row in kept], np.int64)
    pool, target, test = three_parts(len(y), NAME, seed)
    if not len(test) or not len(target):
        raise InputError(
            f"{path.name} has too few labelled rows to divide into pool, target and test."
        )
    left_out = len(told) - len(kept)
    note = f"{left_out:,} rows of {path.name} have no label and were left out"
    notes = (note,) if left_out else ()
    return Data(path.stem, X[pool], y[pool], X[target], X[test], y[test], tuple(names), notes=notes)


def _matrix(given: np.ndarray, name: str) -> np.ndarray:
    """An array as float32 (N, D), which all of its numbers must fit into."""
    with np.errstate(over="ignore"):
        matrix = np.asarray(given, np.float32)
    if len(bad := np.argwhere(~np.isfinite(matrix))):
        row, column = (int(part) for part in bad[0])
        raise InputError(
            f"{name}, row {row + 1}, column {column + 1} is {given[row, column]}; features must be "
            "finite and fit into 32 bits."
        )
    return matrix


DATASET = Dataset("Own data", load, "your own: an .npz with features and labels")
