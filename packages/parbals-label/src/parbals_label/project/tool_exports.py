"""Results in the formats of other labelling tools, which read them, as parbals itself does."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.files import need
from parbals.learner.numbers.metric import decided

from parbals_label.files import whole_file
from parbals_label.project.exports import write_export
from parbals_label.project.features import predictions_of
from parbals_label.project.summary import export_columns, export_records, stakes_of
from parbals_label.readers.label_studio import ANNOTATORS, ITEM, PROJECT
from parbals_label.store.records import Item
from parbals_label.store.store import Store

__all__ = ["TOOL_FORMATS", "write_tool_export"]

TOOL_FORMATS = {"label-studio": ".json", "huggingface": "-dataset"}
"""What the names of exports for other tools end with; one for Hugging Face is a folder."""

_Labels = dict[str, str]


def write_tool_export(
    path: str | PathLike[str], store: Store, fmt: str, *, labelled_only: bool = False
) -> int:
    """Write every item with all its labels and its prediction; how many items.

    ``fmt`` is 'label-studio' (tasks with annotations and predictions) or 'huggingface' (a folder
    that ``datasets.load_from_disk`` reads, with the columns of the plain exports).
    """
    if fmt == "huggingface":
        return _write_dataset(Path(path), store, labelled_only)
    count = 0
    with whole_file(path, mode=0o600) as file:
        for count, (item, labels, predicted) in enumerate(_items(store, labelled_only), start=1):
            task = _task(store, item, labels, predicted)
            file.write(b",\n" if count > 1 else b"[\n")
            file.write(json.dumps(task, ensure_ascii=False, allow_nan=False).encode())
        file.write(b"\n]\n" if count else b"[]\n")
    return count


def _items(
    store: Store, labelled_only: bool
) -> Iterator[tuple[Item, _Labels, tuple[str, float] | None]]:
    """Items with the labels of everybody, and the class that is decided with its probability."""
    answers, probs = store.current_labels(), predictions_of(store)
    stakes = None if probs is None else stakes_of(store, probs)
    for item in store.iter_items():
        labels, predicted = answers.get(item.position, {}), None
        if labelled_only and not labels:
            continue
        if probs is not None and item.position < len(probs):
            row = np.asarray(probs[item.position])
            best = int(decided(row[None], stakes)[0])
            predicted = store.classes[best], round(float(row[best]), 6)
        yield item, labels, predicted


def _task(
    store: Store, item: Item, labels: _Labels, predicted: tuple[str, float] | None
) -> dict[str, Any]:
    """A task for Label Studio; its control is called ``label`` and is about ``item``.

    It knows people by their email addresses, and refuses other names: these stand in the data.
    """

    def result(label: str) -> list[dict[str, Any]]:
        region = {"from_name": "label", "to_name": "item", "type": "choices"}
        return [{**region, "value": {"choices": [label]}}]

    data = {**item.content, ITEM: item.id, PROJECT: store.identity}
    annotations = []
    for who, label in labels.items():
        named = {"completed_by": {"email": who}} if "@" in who else {}
        annotations.append({"result": result(label), "was_cancelled": False, **named})
    if any("completed_by" not in annotation for annotation in annotations):
        data[ANNOTATORS] = list(labels)
    predictions = [
        {"result": result(label), "score": score, "model_version": "parbals"}
        for label, score in ([] if predicted is None else [predicted])
    ]
    return {"data": data, "annotations": annotations, "predictions": predictions}


def _write_dataset(path: Path, store: Store, labelled_only: bool) -> int:
    """By way of a Parquet file beside it, whose columns have one type each."""
    datasets = need("datasets", "Writing Hugging Face datasets", "parbals[datasets]")
    parquet = need("pyarrow.parquet", "Writing Hugging Face datasets", "parbals[datasets]")
    if str(path) == "-" or path.exists():
        raise InputError(f"{path} is there already or is not a folder's name; name a new folder.")
    building = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.absolute().parent))
    try:
        table = building / "table.parquet"
        columns = export_columns(store)
        count = write_export(table, export_records(store, labelled_only), "parquet", columns)
        dataset = datasets.Dataset(datasets.table.InMemoryTable(parquet.read_table(table)))
        dataset = dataset.cast_column("label", datasets.ClassLabel(names=list(store.classes)))
        dataset.save_to_disk(str(building / "dataset"))
        os.rename(building / "dataset", path)
    except OSError as error:
        raise InputError(f"{path} could not be written ({error.strerror or error}).") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return count
