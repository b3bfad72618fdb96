"""Export a project as training data for another model: labels, soft labels and weights.

Labels that a strategy chose are the hard ones: alone they may train another kind of model worse
than random labels would. The project's model extends them to all other items. So every item is
exported, with its label if it has one, else with the calibrated probabilities of the report, and a
weight: 1 for a label, 1 - H(p)/ln C for a prediction, which is 0 for a uniform one. For many labels
the weight is the mean over them, each a binary decision; for numbers it is the share of the labels'
variance that the model explains at the item.

Hugging Face's ``datasets`` reads the folder: train.jsonl and, with an audit, test.jsonl, the
audit's labelled items. They are random, and neither labels nor predictions of the training items
depend on them; their duplicates, and audit items without a label, are in neither.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from parbals.learner.active import ActiveLearner
from parbals.learner.evaluation.expectation import temperature_scaled
from parbals.learner.reporting import calibration_temperature
from scipy.special import entr

from parbals_label.answer_form import MANY, NUMBERS, AnswerForm
from parbals_label.files import check_new_folder, new_folder
from parbals_label.project.consensus import aggregate_labels
from parbals_label.project.exports import write_export
from parbals_label.project.measured import unlabelled_measured_positions
from parbals_label.project.predict import trained_learner
from parbals_label.project.predicted import (
    PREDICTED,
    predicted_columns,
    predicted_records,
    raw_predictions,
)
from parbals_label.store.store import Store

__all__ = ["write_training_data"]

_ADDED_COLUMNS = ("id", "label", "labelled_by", "weight")
_BLOCK_ROWS = 4_096


def write_training_data(store: Store, folder: Path) -> dict[str, int]:
    """Write the folder; split → number of items."""
    check_new_folder(folder)
    learner = trained_learner(store)
    held_out = {*learner.audit.tolist(), *learner.setup.audit_duplicates.tolist()}
    held_out |= unlabelled_measured_positions(store).union(store.settings.target_items)
    splits = {"train": [p for p in range(store.n_items) if p not in held_out]}
    if len(learner.state.audited):
        splits["test"] = sorted(learner.state.audited.tolist())
    item_columns = [_item_column(name) for name in store.settings.columns]
    columns = ["id", *item_columns, *_ADDED_COLUMNS[1:], *predicted_columns(store.form)[1:]]
    with new_folder(folder) as draft:
        probs = _calibrated_predictions(learner)
        counts = {
            name: write_export(
                draft / f"{name}.jsonl", _records(store, positions, probs), "jsonl", columns
            )
            for name, positions in splits.items()
        }
        (draft / "README.md").write_text(_card(store, counts), "utf-8")
    return counts


def _item_column(name: str) -> str:
    """The name of an item's column; a prefix keeps it apart from the added ones."""
    return f"item.{name}" if name in _ADDED_COLUMNS or name.startswith("p_") else name


def _calibrated_predictions(learner: ActiveLearner) -> np.ndarray:
    """(N, C) predictions of the model, temperature-scaled; (N, 2) of numbers."""
    model = learner.fitted()
    blocks = [
        raw_predictions(model, learner.setup.prepared(rows))
        for _, rows in learner.pool.blocks(_BLOCK_ROWS)
    ]
    probs = np.concatenate(blocks).astype(np.float64)
    if learner.task == NUMBERS:
        return probs
    temperature = calibration_temperature(learner.state, model).value
    if learner.task == MANY:
        binary = np.stack([1 - probs, probs], axis=2).reshape(-1, 2)
        return temperature_scaled(binary, temperature)[:, 1].reshape(probs.shape)
    return temperature_scaled(probs, temperature)


def _weights(form: AnswerForm, probs: np.ndarray, labels: Iterable[str]) -> np.ndarray:
    """(N,) information in each prediction: 1 if certain, 0 if it says nothing."""
    if form.task == NUMBERS:
        variance = np.var([float(label) for label in labels])
        return 1.0 - np.square(probs[:, 1]) / max(float(variance), 1e-300)
    if form.task == MANY:
        return 1.0 - (entr(probs) + entr(1 - probs)).mean(axis=1) / np.log(2)
    return 1.0 - entr(probs).sum(axis=1) / np.log(probs.shape[1])


def _records(store: Store, positions: list[int], probs: np.ndarray) -> Iterator[dict[str, Any]]:
    """One record for each position: the item, its label and soft labels, and a weight."""
    form = store.form
    votes = store.votes()
    labels = aggregate_labels(votes, form, store.settings.judged)
    weights = np.clip(_weights(form, probs, labels.values()), 0.0, 1.0)
    for start in range(0, len(positions), _BLOCK_ROWS):
        for item in store.items(positions[start : start + _BLOCK_ROWS]):
            position = item.position
            if position in labels:
                annotators = ";".join(votes[position])
                label_fields = _hard_label(form, labels[position], annotators)
                weight = 1.0
            else:
                label_fields = _soft_label(form, probs[position])
                weight = float(weights[position])
            item_fields = {_item_column(name): value for name, value in item.content.items()}
            yield {"id": item.id, **item_fields, **label_fields, "weight": round(weight, 6)}


def _hard_label(form: AnswerForm, label: str, annotators: str) -> dict[str, Any]:
    """The fields of an item with a label."""
    fields: dict[str, Any] = dict.fromkeys(predicted_columns(form)[1:], 0.0)
    for name in form.names(label):
        fields[f"p_{name}"] = 1.0
    return {**fields, "label": form.plain(label), "labelled_by": annotators}


def _soft_label(form: AnswerForm, row: np.ndarray) -> dict[str, Any]:
    """The fields of an item with a prediction."""
    (fields,) = predicted_records(form, row[None])
    label = fields.pop(PREDICTED)
    return {**fields, "label": label, "labelled_by": "model"}


def _card(store: Store, counts: dict[str, int]) -> str:
    """README.md of the dataset, with the configuration that ``datasets`` reads."""
    files = [{"split": name, "path": f"{name}.jsonl"} for name in counts]
    configs = json.dumps([{"config_name": "default", "data_files": files}])
    sizes = ", ".join(f"{count:,} items to {name}" for name, count in counts.items())
    soft = "`p_CLASS` is 1 for the class of a label, else the model's probability"
    if store.form.task == NUMBERS:
        soft = "`predicted_sd` is 0 for a label, else the model's standard deviation"
    return (
        f"---\nconfigs: {configs}\n---\n# Labels and soft labels\n\n"
        f"Written by `parbals export --for-training`: {sizes}; labels: {store.form.hint}. "
        f"{soft}; `weight` is the sample weight of an item; `labelled_by` names people and "
        "programs, or is `model`. Test items are random, and no label or prediction here depends "
        "on them.\n"
    )
