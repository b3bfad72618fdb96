"""Parquet files, read with pyarrow and in slices; labels of Hugging Face datasets by name."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.files import need

from parbals_label.readers.source import Row, Source, broken, check_columns, head_of, where

__all__ = ["open_parquet"]

_SLICE = 1_024


def open_parquet(path: Path) -> Source:
    """A Parquet file, one slice of rows in memory at a time."""
    # Releases that could be made to unpickle what a file contains (CVE-2023-47248) need NumPy 1.
    pa, parquet = need("pyarrow pyarrow.parquet", "Reading Parquet files", "parbals[parquet]")

    def opened() -> Any:
        try:
            return parquet.ParquetFile(path, memory_map=True)
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise broken(path.name, error) from None

    def batches() -> Iterator[Any]:
        with opened() as file:
            yield from file.iter_batches(batch_size=_SLICE)

    with opened() as file:
        columns = check_columns(list(file.schema_arrow.names), path.name)
        n_rows, names_of = file.metadata.num_rows, _class_names(file.schema_arrow)

    def rows() -> Iterator[Row]:
        return _rows(pa, batches(), path.name, names_of)

    return Source(columns, n_rows, rows, "parquet", path.name, head=head_of(rows))


def _rows(
    pa: Any, batches: Iterator[Any], name: str, names_of: dict[str, list[str]]
) -> Iterator[Row]:
    """Records of Arrow batches, checked in full: offsets in a foreign file may point anywhere."""
    number = 0
    try:
        for batch in batches:
            batch.validate(full=True)
            for values in batch.to_pylist():
                number += 1
                for column, class_names in names_of.items():
                    values[column] = _class_name(values[column], class_names, name, number, column)
                yield Row(number, values)
    except InputError:
        raise
    except (pa.ArrowException, OSError, MemoryError, OverflowError, ValueError, KeyError) as error:
        # ValueError, KeyError: times and zones that Python does not know, a field given twice
        raise broken(name, error, number) from None


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


def _class_names(schema: Any) -> dict[str, list[str]]:
    """For each ClassLabel column its names, where Hugging Face's ``datasets`` wrote the file."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            column: [str(name) for name in kind["names"]]
            for column, kind in features.items()
            if kind.get("_type") == "ClassLabel" and column in schema.names
        }
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        return {}
