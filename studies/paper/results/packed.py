"""Runs of a suite where the datasets' own files cannot be read: cached features and labels alone.

    python studies paper.results.packed SUITE --pack FOLDER --data ~/data --datasets ag-news
    python studies paper.results.packed SUITE --folder FOLDER --datasets ag-news --out mine

The pack needs no reader of tables, texts or images. The features are the cached ones, so the runs
are those of `parbals bench run`, whose results folder they go on with.
"""

import argparse
import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["packed_data"]

_ROWS = ("X_pool", "X_target_source", "X_test")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite")
    parser.add_argument("--pack", type=Path, help="write the datasets there, and nothing else")
    parser.add_argument("--data", type=Path, help="the datasets' folder")
    parser.add_argument("--folder", type=Path, help="what --pack has written")
    parser.add_argument("--datasets", required=True)
    parser.add_argument("--budgets", default="")
    parser.add_argument("--strategies", default="")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    datasets = options.datasets.split(",")
    if options.pack:
        options.pack.mkdir(parents=True, exist_ok=True)
        for name in dict.fromkeys(reference.partition(":")[0] for reference in datasets):
            pack(options.pack, options.data, name)
        return 0
    from parbals_bench.run.folder import ResultsFolder
    from parbals_bench.run.grid import load_suite, run_grid
    from parbals_bench.run.processes import LocalProcesses

    suite = load_suite(options.suite)
    budgets, strategies = (
        tuple(filter(None, text.split(","))) for text in (options.budgets, options.strategies)
    )
    matching = suite.only(datasets, budgets, strategies)
    runs = [run for run in matching if run.seed >= options.first_seed]
    results = ResultsFolder(options.out)
    results.save_suite(suite.text)
    loader = partial(packed_data, options.folder.resolve())
    failures = run_grid(runs, results, loader, LocalProcesses(options.workers), _show)
    for failure in failures:
        print(failure.run.key, failure.error, file=sys.stderr)
    return int(bool(failures))


def _show(*progress: Any) -> None:
    print(*progress, file=sys.stderr, flush=True)


def pack(folder: Path, data_folder: Path, name: str) -> None:
    """Write one dataset: its cached features as they are, or rows of 0 and 1 as bits.

    With cached features the rows of pool, target source and test are their numbers among the
    cached ones: a dataset may halve or shuffle them.
    """
    from parbals_bench.datasets import embedded
    from parbals_bench.datasets.table import load_dataset

    cached: dict[str, np.ndarray] = {}
    usual = embedded.reduced

    def noted(matrices: Mapping[str, np.ndarray], pool: str) -> dict[str, np.ndarray]:
        cached.update(matrices)
        return {part: np.arange(len(rows))[:, None] for part, rows in matrices.items()}

    embedded.reduced = noted
    try:
        data = load_dataset(name, data_folder / name.replace("-", "_"))
    finally:
        embedded.reduced = usual
    kept: dict[str, Any] = {}
    if cached:
        kept["matrices"] = {part: np.asarray(matrix) for part, matrix in cached.items()}
    elif all(np.isin(getattr(data, field), (0.0, 1.0)).all() for field in _ROWS):
        kept["n_columns"] = data.X_pool.shape[1]
        bits: dict[str, Any] = {
            field: np.packbits(getattr(data, field).astype(bool), axis=1) for field in _ROWS
        }
        data = replace(data, **bits)
    with (folder / f"{name}.pickle").open("wb") as stream:
        pickle.dump((data, kept), stream)
    print(name, round((folder / f"{name}.pickle").stat().st_size / 1e6, 1), "MB")


def packed_data(folder: Path, reference: str) -> Any:
    """The data that a suite calls ``reference``, from what --pack has written."""
    from parbals_bench.datasets.base import one_vs_all
    from parbals_bench.datasets.embedded import reduced
    from parbals_bench.run.spec import ALL_CLASSES, split_reference

    name, positive = split_reference(reference)
    with (folder / f"{name}.pickle").open("rb") as stream:
        data, kept = pickle.load(stream)
    if "matrices" in kept:
        X = reduced(kept["matrices"], "train")
        X = {part: np.ascontiguousarray(rows, np.float32) for part, rows in X.items()}
        parts = ("train", "val" if "val" in X else "test", "test")
        numbers = [getattr(data, field)[:, 0].astype(np.int64) for field in _ROWS]
        fields = zip(_ROWS, parts, numbers, strict=True)
        data = replace(data, **{field: X[part][rows] for field, part, rows in fields})
    elif "n_columns" in kept:
        rows: dict[str, Any] = {
            field: np.unpackbits(getattr(data, field), axis=1, count=kept["n_columns"])
            for field in _ROWS
        }
        data = replace(data, **{field: values.astype(np.float32) for field, values in rows.items()})
    if positive == ALL_CLASSES or (positive is None and len(data.classes) == 2):
        return data
    return one_vs_all(data, data.classes[0] if positive is None else positive)


if __name__ == "__main__":
    sys.exit(main())
