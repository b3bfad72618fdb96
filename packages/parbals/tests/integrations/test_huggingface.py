"""Hugging Face datasets, in and out."""

import numpy as np
import pytest

datasets = pytest.importorskip("datasets", reason="needs pip install 'parbals[datasets]'")

from parbals.errors import InputError
from parbals.integrations.huggingface import (
    dataset_features,
    labelled_dataset,
    learner_from_dataset,
)

VECTORS = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
KNOWN = {0: "ham", 3: "spam", 7: "spam"}
NAMES = ["ham", "spam"]


def a_dataset(label="class"):
    numbers = [NAMES.index(KNOWN[i]) if i in KNOWN else None for i in range(20)]
    texts = [f"message {i}" for i in range(20)]
    data = datasets.Dataset.from_dict({"text": texts, "vector": VECTORS.tolist()})
    if label == "class":
        return data.add_column("label", numbers, feature=datasets.ClassLabel(names=NAMES))
    return data.add_column("label", [KNOWN.get(i) for i in range(20)])


@pytest.mark.parametrize("kind", ["class", "text"])
def test_labels_that_are_known_are_told(kind):
    learner = learner_from_dataset(
        a_dataset(kind), "vector", "label", None if kind == "class" else NAMES, strategy="coreset"
    )
    assert learner.labels == KNOWN
    assert learner.classes == ("ham", "spam")
    asked = learner.ask(4)
    assert len(a_dataset().select(asked)) == 4


def test_there_and_back():
    dataset = a_dataset()
    learner = learner_from_dataset(dataset, "vector", "label")
    learner.tell([5, 6], ["ham", "spam"])
    labelled = labelled_dataset(learner, dataset)
    assert labelled["text"] == dataset["text"]
    assert labelled.features["label"].names == NAMES
    assert learner_from_dataset(labelled, "vector", "label").labels == learner.labels
    only = labelled_dataset(learner, dataset, only_labelled=True)
    assert list(only["label"]) == [0, 1, 0, 1, 1]
    assert list(dataset["label"]).count(None) == 17


def test_minus_one_is_a_missing_class():
    numbers = [0, -1, 1] + [-1] * 17
    data = a_dataset().remove_columns("label")
    data = data.add_column("label", numbers, feature=datasets.ClassLabel(names=NAMES))
    assert learner_from_dataset(data, "vector", "label").labels == {0: "ham", 2: "spam"}


def test_names_of_items():
    ids = [f"m{i}" for i in range(20)]
    learner = learner_from_dataset(a_dataset(), "vector", "label", ids=ids)
    assert learner.labels == {f"m{i}": name for i, name in KNOWN.items()}
    assert list(labelled_dataset(learner, a_dataset())["label"])[3] == 1


def test_columns_of_numbers_stand_side_by_side():
    data = datasets.Dataset.from_dict({"a": [1, 2], "b": [0.5, 1.5], "v": [[1.0, 2.0]] * 2})
    np.testing.assert_array_equal(
        dataset_features(data, ["a", "b", "v"]), [[1, 0.5, 1, 2], [2, 1.5, 1, 2]]
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"features": "text"}, "does not hold numbers"),
        ({"features": "nothing"}, "has no column 'nothing'"),
        ({"label": None}, "which classes there are"),
        ({"dataset": datasets.DatasetDict(train=a_dataset())}, "dictionary of splits"),
    ],
)
def test_what_cannot_be_a_pool_is_refused(change, sentence):
    arguments = {"dataset": a_dataset(), "features": "vector", "label": "label", **change}
    with pytest.raises(InputError, match=sentence):
        learner_from_dataset(**arguments)


def test_another_dataset_is_refused():
    learner = learner_from_dataset(a_dataset(), "vector", "label")
    with pytest.raises(InputError, match="19 rows"):
        labelled_dataset(learner, a_dataset().select(range(19)))
