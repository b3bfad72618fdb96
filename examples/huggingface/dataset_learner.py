"""Hugging Face ``datasets``: a dataset as the pool of a learner, and its labels back into one.

    learner = learner_from_dataset(dataset, features="embedding", label="label")
    batch = dataset.select(learner.ask(20))
    labelled_dataset(learner, dataset).to_parquet("labelled.parquet")

A dataset in a folder is read by ``parbals init`` without any of this.
"""

from typing import Any

import datasets
import numpy as np
import parbals


def learner_from_dataset(
    dataset: datasets.Dataset, features: str, label: str, **settings: Any
) -> parbals.ActiveLearner:
    """A learner of the dataset's rows, told the labels that are known.

    ``features`` is a column of vectors, ``label`` a column of ``ClassLabel`` with None or -1 where
    there is none yet.
    """
    vectors = np.asarray(dataset.with_format("numpy", columns=[features])[:][features])
    names = dataset.features[label].names
    learner = parbals.ActiveLearner(vectors.astype(np.float32), names, **settings)
    known = [row for row, number in enumerate(dataset[label]) if number is not None and number >= 0]
    learner.tell(known, [names[dataset[label][row]] for row in known])
    return learner


def labelled_dataset(
    learner: parbals.ActiveLearner, dataset: datasets.Dataset, label: str = "label"
) -> datasets.Dataset:
    """The dataset with the labels as a ``ClassLabel`` column; None where there is none."""
    labels = learner.state.labels
    column = [labels.get(position) for position in range(len(dataset))]
    if label in dataset.column_names:
        dataset = dataset.remove_columns(label)
    kind = datasets.ClassLabel(names=[str(name) for name in learner.classes])
    return dataset.add_column(label, column, feature=kind)
