"""From a suite's name of a dataset to the data."""

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
    """The dataset behind a suite's name for it, from its place in the folder if it needs one.

    "airline"; "ag-news" (the first class against the others), "ag-news:Sports", or "ag-news:*" for
    all classes. ``tables`` are the suite's own names: what :func:`resolved_tables` gives.
    """
    from parbals_bench.datasets.table import load_dataset

    name, positive = split_reference(reference)
    given = dict((tables or {}).get(name, {"dataset": name}))
    dataset = given.pop("dataset")
    place = given.pop("path", None if folder is None else folder / dataset.replace("-", "_"))
    data = load_dataset(dataset, place, **given)
    if positive == ALL_CLASSES or (positive is None and len(data.classes) == 2):
        return data
    return one_vs_all(data, data.classes[0] if positive is None else positive)


def resolved_tables(
    tables: Mapping[str, Mapping[str, Any]], beside: Path
) -> dict[str, dict[str, Any]]:
    """A suite's ``[data.NAME]`` tables, checked, with paths that counted from ``beside``."""
    from parbals_bench.datasets.table import DATASETS, dataset_named

    resolved = {}
    for name, table in tables.items():
        dataset = table.get("dataset", "own")
        dataset_named(dataset)
        if name in DATASETS:
            raise InputError(
                f"[data.{name}] has the name of a dataset that there is already; choose another."
            )
        if dataset == "own" and "path" not in table:
            raise InputError(f'[data.{name}] has no path; write path = "mine.npz".')
        resolved[name] = {**table, "dataset": dataset}
        if "path" in table:
            resolved[name]["path"] = (beside / Path(table["path"]).expanduser()).absolute()
    return resolved
