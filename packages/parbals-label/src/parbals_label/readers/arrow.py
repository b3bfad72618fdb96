"""Parquet files, read with pyarrow in batches; class labels of Hugging Face datasets by name."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.files import need

from parbals_label.readers.source import Row, Source, broken, check_columns, head_of, where

__all__ = ["open_parquet"]

_BATCH_ROWS = 1_024


def open_parquet(path: Path) -> Source:
    """Open a Parquet file; one batch of rows is in memory at a time."""
    # Versions that could unpickle a file's contents (CVE-2023-47248) need NumPy 1.
    pa, parquet = need("pyarrow pyarrow.parquet", "Reading Parquet files", "parbals[parquet]")

    def open_file() -> Any:
        try:
            return parquet.ParquetFile(path, memory_map=True)
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise broken(path.name, error) from None

    def batches() -> Iterator[Any]:
        with open_file() as file:
            yield from file.iter_batches(batch_size=_BATCH_ROWS)

    with open_file() as file:
        columns = check_columns(list(file.schema_arrow.names), path.name)
        n_rows = file.metadata.num_rows
        class_names = _class_names(file.schema_arrow)

    def rows() -> Iterator[Row]:
        return _rows(pa, batches(), path.name, class_names)

    return Source(columns, n_rows, rows, "parquet", path.name, head=head_of(rows))


def _rows(
    pa: Any, batches: Iterator[Any], name: str, class_names: dict[str, list[str]]
) -> Iterator[Row]:
    """Iterate over rows of Arrow batches, fully validated: offsets in a file may be invalid."""
    number = 0
    try:
        for batch in batches:
            batch.validate(full=True)
            for values in batch.to_pylist():
                number += 1
                for column, names in class_names.items():
                    values[column] = _class_name(values[column], names, name, number, column)
                yield Row(number, values)
    except InputError:
        raise
    except (pa.ArrowException, OSError, MemoryError, OverflowError, ValueError, KeyError) as error:
        # ValueError, KeyError: unknown times and time zones, duplicate fields
        raise broken(name, error, number) from None


def _class_name(value: Any, class_names: list[str], name: str, row: int, column: str) -> str | None:
    """Return the class name of an index; -1 stands for no label."""
    if value is None or value == -1:
        return None
    if not isinstance(value, int) or not 0 <= value < len(class_names):
        raise InputError(
            f"{where(name, row, column)} is {value!r}, but the dataset names {len(class_names)} "
            "classes."
        )
    return class_names[value]


def _class_names(schema: Any) -> dict[str, list[str]]:
    """Return the class names of each ClassLabel column, if ``datasets`` wrote the file."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            column: [str(name) for name in kind["names"]]
            for column, kind in features.items()
            if kind.get("_type") == "ClassLabel" and column in schema.names
        }
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        return {}
