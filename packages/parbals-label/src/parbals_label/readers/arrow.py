"""Parquet files and Hugging Face dataset folders, both read with pyarrow and in slices."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from parbals.errors import InputError, MissingDependencyError, first_line
from parbals.files import need

from parbals_label.readers.source import Row, Source, check_columns, head_of, where

__all__ = ["is_dataset_folder", "open_dataset_folder", "open_parquet"]

_SLICE = 1_024
_OLDEST = 15  # earlier releases could be made to unpickle what a file contains (CVE-2023-47248)
_INSTALL = "parbals[parquet]"
_DICT, _STATE, _INFO = "dataset_dict.json", "state.json", "dataset_info.json"


def _pyarrow(purpose: str) -> Any:
    pa = need("pyarrow", purpose, _INSTALL)
    if int(pa.__version__.split(".")[0]) < _OLDEST:
        raise MissingDependencyError(
            f"{purpose} needs a newer pyarrow than {pa.__version__}, which is not safe with files "
            f"from others; install it with: pip install -U 'pyarrow>={_OLDEST}'"
        )
    return pa


def open_parquet(path: Path) -> Source:
    """A Parquet file, one slice of rows in memory at a time."""
    pa = _pyarrow("Reading Parquet files")
    parquet = need("pyarrow.parquet", "Reading Parquet files", _INSTALL)

    def opened() -> Any:
        try:
            return parquet.ParquetFile(path, memory_map=True)
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise InputError(_broken(path.name, error)) from None

    def batches() -> Iterator[Any]:
        with opened() as file:
            yield from file.iter_batches(batch_size=_SLICE)

    with opened() as file:
        columns = check_columns(list(file.schema_arrow.names), path.name)
        n_rows = file.metadata.num_rows

    def rows() -> Iterator[Row]:
        return _rows(pa, batches, path.name, {})

    return Source(columns, n_rows, rows, "parquet", path.name, head=head_of(rows))


def _broken(name: str, error: BaseException) -> str:
    return f"{name} is damaged or not what its name says ({first_line(error)}); save it again."


def _rows(
    pa: Any, batches: Callable[[], Iterator[Any]], name: str, names_of: dict[str, list[str]]
) -> Iterator[Row]:
    """Records of Arrow batches, checked in full: offsets in a foreign file may point anywhere."""
    number = 0
    try:
        for batch in batches():
            batch.validate(full=True)
            for start in range(0, batch.num_rows, _SLICE):
                for values in batch.slice(start, _SLICE).to_pylist():
                    number += 1
                    for column, class_names in names_of.items():
                        values[column] = _class_name(
                            values[column], class_names, name, number, column
                        )
                    yield Row(number, values)
    except InputError:
        raise
    except (pa.ArrowException, OSError, MemoryError, OverflowError, ValueError, KeyError) as error:
        # ValueError, KeyError: times and zones that Python does not know, a field given twice
        raise InputError(f"{_broken(name, error)[:-1]} (after row {number}).") from None


def _class_name(value: Any, class_names: list[str], name: str, row: int, column: str) -> str | None:
    """Datasets keep a label as its position in a list of names; -1 stands for no label."""
    if value is None or value == -1:
        return None
    if not isinstance(value, int) or not 0 <= value < len(class_names):
        raise InputError(
            f"{where(name, row, column)} is {value!r}, but the dataset names {len(class_names)} "
            "classes."
        )
    return class_names[value]


def is_dataset_folder(path: Path) -> bool:
    """Whether ``datasets`` wrote this folder with save_to_disk."""
    return any((path / name).is_file() for name in (_DICT, _STATE, _INFO))


def open_dataset_folder(path: Path, split: str | None = None) -> Source:
    """A folder that ``datasets`` wrote with save_to_disk, or one split of it; labels by name."""
    if (path / _DICT).is_file():
        names = _strings(_json(path / _DICT).get("splits"))
        splits = [name for name in names if (path / name).is_dir() and Path(name).name == name]
        listed = ", ".join(map(repr, splits))
        if split not in splits:
            fault = "none was named" if split is None else f"{split!r} is not one of them"
            raise InputError(
                f"{path.name} holds the splits {listed}, and {fault}; give split=... with one of "
                "these names."
            )
        path = path / split
    elif split is not None:
        raise InputError(f"{path.name} holds one dataset and no splits; leave split out.")
    pa = _pyarrow("Reading a Hugging Face dataset folder")
    ipc = need("pyarrow.ipc", "Reading a Hugging Face dataset folder", _INSTALL)
    files = _data_files(path)

    def batches() -> Iterator[Any]:
        for file in files:
            with pa.memory_map(str(file)) as data:
                yield from ipc.open_stream(data)

    try:
        schema, n_rows = None, 0
        for batch in batches():  # mapped: this reads headers only, and notices a file cut short
            if schema is not None and batch.schema.names != schema.names:
                raise InputError(
                    f"{path.name} holds files with different columns; save the dataset again."
                )
            schema, n_rows = batch.schema, n_rows + batch.num_rows
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise InputError(_broken(path.name, error)) from None
    if schema is None:
        raise InputError(f"{path.name} is a dataset without rows.")
    columns = check_columns(list(schema.names), path.name)
    names_of = {column: names for column, names in _class_names(path).items() if column in columns}

    def rows() -> Iterator[Row]:
        return _rows(pa, batches, path.name, names_of)

    return Source(columns, n_rows, rows, "huggingface", path.name, head=head_of(rows))


def _json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path.parent.name}/{path.name} cannot be read ({type(error).__name__}); save the "
            "dataset again."
        ) from None
    return record if isinstance(record, dict) else {}


def _strings(value: Any) -> list[str]:
    return [part for part in value if isinstance(part, str)] if isinstance(value, list) else []


def _data_files(path: Path) -> list[Path]:
    """The Arrow files that state.json lists, in its order; none may lie outside the folder."""
    state = _json(path / _STATE) if (path / _STATE).is_file() else {}
    if state.get("_indices_data_files"):
        raise InputError(
            f"{path.name} was saved by an old release of datasets with its rows reordered; load "
            "and save it again."
        )
    listed = state.get("_data_files")
    entries = listed if isinstance(listed, list) else []
    names = _strings([entry.get("filename") for entry in entries if isinstance(entry, dict)])
    names = names or sorted(file.name for file in path.glob("*.arrow"))
    if not names:
        raise InputError(
            f"{path.name} looks like a Hugging Face dataset, but holds no .arrow file."
        )
    for name in names:
        if Path(name).name != name or not (path / name).is_file():
            raise InputError(
                f"{path.name} lists the file {name!r}, which is not in the folder; save the "
                "dataset again."
            )
    return [path / name for name in names]


def _class_names(path: Path) -> dict[str, list[str]]:
    """For each ClassLabel column its names, as dataset_info.json has them."""
    features = _json(path / _INFO).get("features") if (path / _INFO).is_file() else None
    if not isinstance(features, dict):
        return {}
    return {
        column: names
        for column, kind in features.items()
        if isinstance(kind, dict) and kind.get("_type") == "ClassLabel"
        if (names := _strings(kind.get("names")))
    }
