"""Hugging Face datasets, in and out."""

import sys
from pathlib import Path

import numpy as np
import pytest

datasets = pytest.importorskip("datasets", reason="needs pip install datasets")

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "huggingface"))
from dataset_learner import labelled_dataset, learner_from_dataset

VECTORS = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
NAMES = ["ham", "spam"]


def a_dataset(missing=None):
    numbers = [0, missing, missing, 1, *[missing] * 16]
    data = datasets.Dataset.from_dict({"vector": VECTORS.tolist()})
    return data.add_column("label", numbers, feature=datasets.ClassLabel(names=NAMES))


@pytest.mark.parametrize("missing", [None, -1])
def test_labels_that_are_known_are_told(missing):
    learner = learner_from_dataset(a_dataset(missing), "vector", "label", strategy="coreset")
    assert learner.labels == {0: "ham", 3: "spam"}
    assert len(a_dataset().select(learner.ask(4))) == 4


def test_there_and_back():
    dataset = a_dataset()
    learner = learner_from_dataset(dataset, "vector", "label")
    learner.tell([5, 6], ["ham", "spam"])
    labelled = labelled_dataset(learner, dataset)
    assert labelled.features["label"].names == NAMES
    assert learner_from_dataset(labelled, "vector", "label").labels == learner.labels
    assert list(dataset["label"]).count(None) == 18
