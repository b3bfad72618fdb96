"""Labelled items near an item, to be shown in its prompt.

Only people's labels are shown. Items that are being measured are never shown: the answers would
know them, and so would a model that is trained on the answers.
"""

from collections.abc import Sequence

import numpy as np

from parbals_label.machines.llm.prompt import Example
from parbals_label.project.consensus import aggregate_labels
from parbals_label.project.features import features_of
from parbals_label.project.measured import measured_positions
from parbals_label.project.media import image_column
from parbals_label.store.store import Store

__all__ = ["N_EXAMPLES", "nearest_examples"]

N_EXAMPLES = 4
"""Examples in a prompt."""


def nearest_examples(store: Store, positions: Sequence[int]) -> dict[int, list[Example]]:
    """Position → the nearest labelled items by the project's features, the nearest one last.

    None for images: each example would cost as much as the item.
    """
    empty: dict[int, list[Example]] = {position: [] for position in positions}
    if image_column(store) is not None:
        return empty
    labels = aggregate_labels(store.votes(by_people=True), store.form)
    candidates = sorted(labels.keys() - measured_positions(store))
    if not candidates:
        return empty
    features = features_of(store)
    rows = _unit_rows(features[candidates])
    examples = {}
    for position in positions:
        similarity = rows @ _unit_rows(features[[position]])[0]
        is_other = np.array(candidates) != position
        order = np.argsort(-np.where(is_other, similarity, -np.inf), kind="stable")
        nearest = [candidates[index] for index in order[:N_EXAMPLES] if is_other[index]]
        items = store.visible_items(nearest[::-1])
        examples[position] = [Example(item.content, labels[item.position]) for item in items]
    return examples


def _unit_rows(features: np.ndarray) -> np.ndarray:
    """Rows of length one; zero rows stay zero."""
    rows = np.asarray(features, dtype=float)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)
