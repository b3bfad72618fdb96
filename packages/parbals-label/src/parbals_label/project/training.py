"""Labels that outlive the model: a project as data to train another one with.

Labels that a strategy chose are the hard ones: alone they may teach another kind of model less than
random labels would. The project's model knows what they mean for all the others. So every item is
there, with its label where somebody gave one, else with the probabilities that the report believes,
and a weight: 1 for a label, 1 - H(p)/ln C for a prediction, which is 0 where it says nothing. Of
many labels that is the mean over them, each a matter of yes or no; of numbers it is the share of
the labels' variance that the model explains there.

The folder is one that Hugging Face's ``datasets`` reads: train.jsonl and, with an audit,
test.jsonl, the audit's labelled items. They are random, and neither labels nor predictions of the
training items depend on them; copies of them, and audit items without a label, are in neither.
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
from parbals_label.project.predict import trained_learner
from parbals_label.project.predicted import (
    PREDICTED,
    predicted_columns,
    predicted_records,
    raw_predictions,
)
from parbals_label.store.store import Store

__all__ = ["write_training_data"]

_OURS = ("id", "label", "labelled_by", "weight")
_BLOCK = 4_096


def write_training_data(store: Store, folder: Path) -> dict[str, int]:
    """Make the folder; how many items each split has."""
    check_new_folder(folder)
    learner = trained_learner(store)
    kept_out = {*learner.audit.tolist(), *learner.setup.audit_duplicates.tolist()}
    splits = {"train": [p for p in range(store.n_items) if p not in kept_out]}
    if len(learner.state.audited):
        splits["test"] = sorted(learner.state.audited.tolist())
    columns = [_own(name) for name in store.settings.columns]
    columns = ["id", *columns, *_OURS[1:], *predicted_columns(store.form)[1:]]
    with new_folder(folder) as draft:
        probs = _believed(learner)
        counts = {
            name: write_export(
                draft / f"{name}.jsonl", _records(store, positions, probs), "jsonl", columns
            )
            for name, positions in splits.items()
        }
        (draft / "README.md").write_text(_card(store, counts), "utf-8")
    return counts


def _own(name: str) -> str:
    """A column of the items beside ours."""
    return f"item.{name}" if name in _OURS or name.startswith("p_") else name


def _believed(learner: ActiveLearner) -> np.ndarray:
    """(N, C) the model's predictions at the temperature that its labels give it; (N, 2) numbers."""
    model = learner.fitted()
    blocks = learner.pool.blocks(_BLOCK)
    parts = [raw_predictions(model, learner.setup.preparation(rows)) for _, rows in blocks]
    probs = np.concatenate(parts).astype(np.float64)
    if learner.task == NUMBERS:
        return probs
    degree = calibration_temperature(learner.state, model).value
    if learner.task == MANY:
        return temperature_scaled(np.stack([1 - probs, probs], axis=2).reshape(-1, 2), degree)[
            :, 1
        ].reshape(probs.shape)
    return temperature_scaled(probs, degree)


def _weights(form: AnswerForm, probs: np.ndarray, labels: Iterable[str]) -> np.ndarray:
    """(N,) how much each prediction says."""
    if form.task == NUMBERS:
        spread = np.var([float(label) for label in labels])
        return 1.0 - np.square(probs[:, 1]) / max(float(spread), 1e-300)
    if form.task == MANY:
        return 1.0 - (entr(probs) + entr(1 - probs)).mean(axis=1) / np.log(2)
    return 1.0 - entr(probs).sum(axis=1) / np.log(probs.shape[1])


def _records(store: Store, positions: list[int], probs: np.ndarray) -> Iterator[dict[str, Any]]:
    votes = store.votes()
    form = store.form
    labels = aggregate_labels(votes, form, store.settings.judged)
    weights = np.clip(_weights(form, probs, labels.values()), 0.0, 1.0)
    for start in range(0, len(positions), _BLOCK):
        for item in store.items(positions[start : start + _BLOCK]):
            label, row, weight = (
                labels.get(item.position),
                probs[item.position],
                weights[item.position],
            )
            (told,) = predicted_records(form, row[None])
            told |= {"label": told.pop(PREDICTED), "labelled_by": "model"}
            if label is not None:
                weight, names = 1.0, form.names(label)
                told = dict.fromkeys(predicted_columns(form)[1:], 0.0)
                told |= {f"p_{name}": 1.0 for name in names}
                told |= {"label": form.plain(label), "labelled_by": ";".join(votes[item.position])}
            own = {_own(name): value for name, value in item.content.items()}
            yield {"id": item.id, **own, **told, "weight": round(float(weight), 6)}


def _card(store: Store, counts: dict[str, int]) -> str:
    files = [{"split": name, "path": f"{name}.jsonl"} for name in counts]
    configs = json.dumps([{"config_name": "default", "data_files": files}])
    sizes = ", ".join(f"{count:,} items to {name}" for name, count in counts.items())
    soft = "`p_CLASS` is 1 for a class that somebody gave, else what the model believes"
    if store.form.task == NUMBERS:
        soft = "`predicted_sd` is 0 for a number that somebody gave, else the model's deviation"
    return (
        f"---\nconfigs: {configs}\n---\n# Labels and soft labels\n\n"
        f"Written by `parbals export --for-training`: {sizes}; labels: {store.form.hint}. "
        f"{soft}; `weight` says how much an item should count; `labelled_by` names "
        "people and programs, or says `model`. Items to test by are random, and no label or "
        "prediction here depends on them.\n"
    )
