"""Hugging Face ``datasets``: a dataset as the pool of a learner, and the labels back into one.

from parbals.integrations.huggingface import learner_from_dataset, labelled_dataset

learner = learner_from_dataset(dataset, features="embedding", label="label")
batch = dataset.select(learner.ask(20))
...
labelled_dataset(learner, dataset).to_parquet("labelled.parquet")
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from parbals.errors import InputError
from parbals.files import need
from parbals.learner.active import ActiveLearner

__all__ = ["dataset_features", "labelled_dataset", "learner_from_dataset"]

_PURPOSE, _INSTALL = "Reading and writing Hugging Face datasets", "parbals[datasets]"


def learner_from_dataset(
    dataset: Any,
    features: str | Sequence[str],
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    **settings: Any,
) -> ActiveLearner:
    """A learner whose pool are the rows of the dataset, told the labels that are known.

    Args:
        dataset: a ``datasets.Dataset``, one split of it.
        features: a column of vectors, or columns of numbers.
        label: a column with the labels known so far; None, and -1 of a ``ClassLabel``, are missing.
        classes: the class labels, where the column is not a ``ClassLabel`` that names them.
        **settings: further arguments of :class:`parbals.ActiveLearner`.
    """
    column = None if label is None else _column(dataset, label)
    names = _class_names(dataset, label) if classes is None else list(classes)
    if names is None:
        raise InputError(
            "The dataset does not say which classes there are; pass classes=[...], or cast the "
            "label column to datasets.ClassLabel."
        )
    learner = ActiveLearner(dataset_features(dataset, features), names, **settings)
    if column is not None:
        is_numbered = _class_names(dataset, label) is not None
        known = [i for i, y in enumerate(column) if y is not None and not (is_numbered and y < 0)]
        labels = [names[column[i]] if is_numbered else column[i] for i in known]
        items = known if learner.ids is None else [learner.ids[i] for i in known]
        learner.tell(items, labels)
    return learner


def labelled_dataset(
    learner: ActiveLearner, dataset: Any, label: str = "label", *, only_labelled: bool = False
) -> Any:
    """The dataset with the learner's labels in a ``ClassLabel`` column, None where there is none.

    Args:
        learner: whose pool are the dataset's rows.
        dataset: the ``datasets.Dataset`` itself, which stays as it is.
        label: the column to write; one of this name is replaced.
        only_labelled: leave out rows without a label.
    """
    datasets = need("datasets", _PURPOSE, _INSTALL)
    if len(dataset) != learner.pool.n_rows:
        raise InputError(
            f"The dataset has {len(dataset)} rows and the learner's pool {learner.pool.n_rows}; "
            "pass the dataset that the learner was made from."
        )
    kind = datasets.ClassLabel(names=[str(name) for name in learner.classes])
    labels = learner.labels_by_position
    column = [labels.get(position) for position in range(len(dataset))]
    if label in dataset.column_names:
        dataset = dataset.remove_columns(label)
    dataset = dataset.add_column(label, column, feature=kind)
    return dataset.select(learner.labelled.tolist()) if only_labelled else dataset


def dataset_features(dataset: Any, features: str | Sequence[str]) -> np.ndarray:
    """(N, D) float32: a column of vectors of one length, or columns of numbers side by side."""
    names = [features] if isinstance(features, str) else list(features)
    parts = []
    for name in names:
        _column(dataset, name)
        values = np.asarray(dataset.with_format("numpy", columns=[name])[:][name])
        if values.dtype.kind not in "fiub" or values.ndim > 2:
            raise InputError(
                f"The column {name!r} does not hold numbers or vectors of one length; make "
                "features of it first, with an encoder or a network."
            )
        parts.append(values.reshape(len(dataset), -1).astype(np.float32))
    return np.concatenate(parts, axis=1)


def _column(dataset: Any, name: str | None) -> list[Any]:
    if hasattr(dataset, "keys"):
        raise InputError(
            f"This is a dictionary of splits ({', '.join(dataset)}); pass one: dataset['train']."
        )
    if name not in dataset.column_names:
        raise InputError(
            f"The dataset has no column {name!r}; it has: {', '.join(dataset.column_names)}."
        )
    return list(dataset[name])


def _class_names(dataset: Any, label: str | None) -> list[str] | None:
    """What a ``ClassLabel`` column calls its classes; None of any other."""
    return None if label is None else getattr(dataset.features[label], "names", None)
