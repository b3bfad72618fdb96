"""Labels that outlive the model: a project as data to train another one with.

Labels that a strategy chose are the hard ones: alone they may teach another kind of model less than
random labels would. The project's model knows what they mean for all the others. So every item is
there, with its label where somebody gave one, else with the probabilities that the report believes,
and a weight: 1 for a label, 1 - H(p)/ln C for a prediction, which is 0 where it says nothing.

The folder is one that Hugging Face's ``datasets`` reads: train.jsonl and, with an audit,
test.jsonl, the audit's labelled items. They are random, and neither labels nor predictions of the
training items depend on them; copies of them, and audit items without a label, are in neither.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.files import TEMPORARY_SUFFIX
from parbals.learner.active import ActiveLearner
from parbals.learner.numbers.expectation import sharpened
from parbals.learner.reporting import temperature_of

from parbals_label.encoders.adapt import publish
from parbals_label.project.consensus import combined_labels
from parbals_label.project.exports import write_export
from parbals_label.project.predict import trained_learner
from parbals_label.store.store import Store

__all__ = ["write_training_data"]

_OURS = ("id", "label", "labelled_by", "weight")
_BLOCK = 4_096


def write_training_data(store: Store, folder: Path) -> dict[str, int]:
    """Make the folder; how many items each split has."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already and not an empty folder; name a new one.")
    learner = trained_learner(store)
    kept_out = {*learner.audit.tolist(), *learner.setup.twins.tolist()}
    splits = {"train": [p for p in range(store.n_items) if p not in kept_out]}
    if len(learner.state.audited):
        splits["test"] = sorted(learner.state.audited.tolist())
    columns = [_own(name) for name in store.settings.columns]
    columns = ["id", *columns, *_OURS[1:], *(f"p_{label}" for label in store.classes)]
    draft = folder.with_name(f".{folder.name}{TEMPORARY_SUFFIX}")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir()
        probs = _believed(learner)
        counts = {
            name: write_export(
                draft / f"{name}.jsonl", _records(store, positions, probs), "jsonl", columns
            )
            for name, positions in splits.items()
        }
        (draft / "README.md").write_text(_card(store, counts), "utf-8")
        publish(draft, folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror or error}).") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return counts


def _own(name: str) -> str:
    """A column of the items beside ours."""
    return f"item.{name}" if name in _OURS or name.startswith("p_") else name


def _believed(learner: ActiveLearner) -> np.ndarray:
    """(N, C) the model's predictions at the temperature that its labels give it."""
    model = learner.fitted()
    degree = temperature_of(learner.state, model).degree
    starts = range(0, learner.pool.n_rows, _BLOCK)
    places = [np.arange(start, min(start + _BLOCK, learner.pool.n_rows)) for start in starts]
    return np.concatenate(
        [sharpened(learner.setup.predicted(model, some), degree) for some in places]
    )


def _records(store: Store, positions: list[int], probs: np.ndarray) -> Iterator[dict[str, Any]]:
    votes = store.votes()
    labels, classes = combined_labels(votes), store.classes
    for start in range(0, len(positions), _BLOCK):
        for item in store.items(positions[start : start + _BLOCK]):
            label, row = labels.get(item.position), probs[item.position]
            if label is None:
                weight = 1.0 + float((row * np.log(np.maximum(row, 1e-300))).sum()) / np.log(
                    len(classes)
                )
                told = {"label": classes[int(row.argmax())], "labelled_by": "model"}
            else:
                row, weight = np.array([float(name == label) for name in classes]), 1.0
                told = {"label": label, "labelled_by": ";".join(votes[item.position])}
            shares = {f"p_{c}": round(float(p), 6) for c, p in zip(classes, row, strict=True)}
            own = {_own(name): value for name, value in item.content.items()}
            yield {"id": item.id, **own, **told, "weight": round(max(weight, 0.0), 6), **shares}


def _card(store: Store, counts: dict[str, int]) -> str:
    files = [{"split": name, "path": f"{name}.jsonl"} for name in counts]
    configs = json.dumps([{"config_name": "default", "data_files": files}])
    sizes = ", ".join(f"{count:,} items to {name}" for name, count in counts.items())
    return (
        f"---\nconfigs: {configs}\n---\n# Labels and soft labels\n\n"
        f"Written by `parbals export --for-training`: {sizes}; classes "
        f"{', '.join(store.classes)}. `p_CLASS` is 1 for the class that somebody gave, else what "
        "the model believes; `weight` says how much an item should count; `labelled_by` names "
        "people and programs, or says `model`. Items to test by are random, and no label or "
        "prediction here depends on them.\n"
    )
