"""Results in the formats of other labelling tools, which read them, as parbals itself does."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import numpy as np
from parbals.errors import InputError
from parbals.files import need
from parbals.learner.numbers.metric import decided

from parbals_label.files import whole_file
from parbals_label.project.exports import write_export
from parbals_label.project.features import predictions_of
from parbals_label.project.media import image_column
from parbals_label.project.summary import export_columns, export_records, stakes_of
from parbals_label.readers.cells import cell_text
from parbals_label.readers.tools import ANNOTATORS, COPIES, ITEM, PROJECT
from parbals_label.store.records import Item
from parbals_label.store.store import Store

__all__ = ["TOOL_FORMATS", "ending_of", "write_tool_export"]

_Labels = dict[str, str]


def ending_of(fmt: str) -> str:
    """What the name of such an export ends with: an export for Hugging Face is a folder."""
    return {"label-studio": ".json", "argilla": ".json", "prodigy": ".jsonl"}.get(fmt, "-dataset")


def write_tool_export(
    path: str | PathLike[str], store: Store, fmt: str, *, labelled_only: bool = False
) -> int:
    """Write every item with all its labels and its prediction; how many items.

    ``fmt`` is 'label-studio' (tasks with annotations and predictions), 'prodigy' (choices, one
    line an annotator), 'argilla' (records of version 2) or 'huggingface' (a folder that
    ``datasets.load_from_disk`` reads, with the columns of the plain exports).
    """
    if fmt == "huggingface":
        return _write_dataset(Path(path), store, labelled_only)
    if fmt not in TOOL_FORMATS:
        raise InputError(
            f"{fmt!r} is not a known format; choose one of: {', '.join(TOOL_FORMATS)}."
        )
    count, is_lines = 0, fmt == "prodigy"
    start, between, end = (b"", b"\n", b"\n") if is_lines else (b"[\n", b",\n", b"\n]\n")
    with whole_file(path, mode=0o600) as file:
        file.write(start)
        for item, labels, predicted in _items(store, labelled_only):
            for record in _RECORDS[fmt](store, item, labels, predicted):
                text = json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
                file.write(between + text if file.tell() > len(start) else text)
            count += 1
        file.write(end)
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


def _shown(store: Store) -> list[str]:
    """The columns that people look at when they label."""
    return list(store.settings.encoded_columns or store.settings.columns)


def _tasks(
    store: Store, item: Item, labels: _Labels, predicted: tuple[str, float] | None
) -> Iterable[dict[str, Any]]:
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
    return [{"data": data, "annotations": annotations, "predictions": predictions}]


def _choices(
    store: Store, item: Item, labels: _Labels, predicted: tuple[str, float] | None
) -> Iterable[dict[str, Any]]:
    """Lines for Prodigy's interface ``choice``: one for each annotator, one without an answer."""
    image = image_column(store)
    key, shown = ("text", _shown(store)) if image is None else ("image", [image])
    base: dict[str, Any] = {"id": item.id, **item.content}
    if key not in item.content:
        base[key] = "\n\n".join(cell_text(item.content.get(name)) for name in shown)
        base[COPIES[key]] = shown
    base["options"] = [{"id": name, "text": name} for name in store.classes]
    base["meta"] = {"id": item.id}
    if predicted is not None:
        base["meta"] |= {"predicted": predicted[0], "probability": predicted[1]}
    answered = [
        {**base, "accept": [label], "answer": "accept", "_annotator_id": who}
        for who, label in labels.items()
    ]
    return answered or [base]


def _responses(
    store: Store, item: Item, labels: _Labels, predicted: tuple[str, float] | None
) -> Iterable[dict[str, Any]]:
    """A record for Argilla, whose question is called ``label``.

    Argilla knows people by UUIDs: those of the answers are made from the annotators' names.
    """
    shown = _shown(store)
    fields = {name: value for name, value in item.content.items() if name in shown}
    others = {name: value for name, value in item.content.items() if name not in shown}
    responses = [
        {"value": label, "user_id": str(uuid5(NAMESPACE_URL, who))} for who, label in labels.items()
    ]
    record: dict[str, Any] = {"id": item.id, "fields": fields, "metadata": others}
    record["suggestions"] = {}
    if predicted is not None:
        label, score = predicted
        record["suggestions"] = {"label": {"value": label, "score": score, "agent": "parbals"}}
    record |= {"responses": {"label": responses} if responses else {}, "vectors": {}}
    return [record | {"status": "completed" if responses else "pending", "_server_id": None}]


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


_RECORDS: dict[str, Callable[..., Iterable[dict[str, Any]]]] = {
    "label-studio": _tasks,
    "prodigy": _choices,
    "argilla": _responses,
}
TOOL_FORMATS = (*_RECORDS, "huggingface")
