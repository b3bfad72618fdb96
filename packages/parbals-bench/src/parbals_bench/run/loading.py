"""Load the data of the datasets that a suite names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parbals.errors import InputError

from parbals_bench.datasets.base import Data, one_vs_all
from parbals_bench.run.spec import ALL_CLASSES, split_reference

__all__ = ["load_data", "resolved_tables"]


def load_data(
    reference: str,
    folder: Path | None = None,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
) -> Data:
    """Load the dataset that a suite refers to, from its subfolder of ``folder`` if it needs files.

    "airline"; "ag-news" (the first class against the others), "ag-news:Sports", or "ag-news:*" for
    all classes. ``tables`` are the ``[data.NAME]`` tables of a suite, from :func:`resolved_tables`.
    """
    from parbals_bench.datasets.table import load_dataset

    name, positive = split_reference(reference)
    options = dict((tables or {}).get(name, {"dataset": name}))
    dataset = options.pop("dataset")
    default_path = None if folder is None else folder / dataset.replace("-", "_")
    path = options.pop("path", default_path)
    data = load_dataset(dataset, path, **options)
    if positive == ALL_CLASSES or (positive is None and len(data.classes) == 2):
        return data
    return one_vs_all(data, data.classes[0] if positive is None else positive)


def resolved_tables(
    tables: Mapping[str, Mapping[str, Any]], beside: Path
) -> dict[str, dict[str, Any]]:
    """Check a suite's ``[data.NAME]`` tables, and make their paths absolute, from ``beside``."""
    from parbals_bench.datasets.table import all_datasets, dataset_named

    resolved = {}
    known_names = all_datasets()
    for name, table in tables.items():
        dataset = table.get("dataset", "own")
        dataset_named(dataset)
        if name in known_names:
            raise InputError(f"[data.{name}] has the name of a known dataset; choose another.")
        if dataset == "own" and "path" not in table:
            raise InputError(f'[data.{name}] has no path; write path = "mine.npz".')
        resolved[name] = {**table, "dataset": dataset}
        if "path" in table:
            resolved[name]["path"] = (beside / Path(table["path"]).expanduser()).absolute()
    return resolved
