"""Parquet files, read with pyarrow in batches; class labels of Hugging Face datasets by name.

A dictionary stores equal texts once, and every row unpacks its own: the size of a file bounds
neither the unpacked data nor a batch of rows. Both have bounds of their own.
"""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.files import need

from parbals_label.readers.source import (
    Row,
    Source,
    broken,
    check_columns,
    check_growth,
    head_of,
    where,
)

__all__ = ["open_parquet"]

_BATCH_ROWS = (16, 1_024)
"""Least and most rows of a batch; reading a few of them at a time is slow."""
_BATCH_BYTES = 1 << 30
"""Size of a batch of fewer rows, if each has a text as long as all of its column's."""
_INSTEAD = "save it as CSV"


def open_parquet(path: Path) -> Source:
    """Open a Parquet file; one batch of rows is in memory at a time."""
    # Versions that could unpickle a file's contents (CVE-2023-47248) need NumPy 1.
    modules = "pyarrow pyarrow.parquet pyarrow.compute"
    pa, parquet, _ = need(modules, "Reading Parquet files", "parbals[parquet]")

    def open_file() -> Any:
        try:
            return parquet.ParquetFile(path, memory_map=True)
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise broken(path.name, error) from None

    packed_size = path.stat().st_size

    def batches() -> Iterator[Any]:
        unpacked_size = 0
        with open_file() as file:
            for batch in file.iter_batches(batch_size=_batch_rows(file.metadata)):
                batch.validate(full=True)  # offsets in a file may be invalid
                unpacked_size += sum(_unpacked_size(pa, column) for column in batch.columns)
                check_growth(packed_size, unpacked_size, path.name, _INSTEAD)
                yield batch

    with open_file() as file:
        stored_size = sum(map(sum, _column_sizes(file.metadata)))
        check_growth(packed_size, stored_size, path.name, _INSTEAD)
        columns = check_columns(list(file.schema_arrow.names), path.name)
        n_rows = file.metadata.num_rows
        class_names = _class_names(file.schema_arrow)

    def rows() -> Iterator[Row]:
        return _rows(pa, batches(), path.name, class_names)

    return Source(columns, n_rows, rows, "parquet", path.name, head=head_of(rows))


def _column_sizes(metadata: Any) -> list[list[int]]:
    """The unpacked size of each column in each group of rows, equal texts counted once."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    return [
        [group.column(index).total_uncompressed_size for index in range(group.num_columns)]
        for group in groups
    ]


def _batch_rows(metadata: Any) -> int:
    """Rows of a batch that fits into memory whatever a text's length is."""
    largest_text = max(chain([1], *_column_sizes(metadata)))
    least, most = _BATCH_ROWS
    return min(max(_BATCH_BYTES // largest_text, least), most)


def _unpacked_size(pa: Any, column: Any) -> int:
    """Bytes of a column's values, equal texts counted for every row.

    Numbers count one each, because columns of zeros are common.
    """
    kind = column.type
    texts = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    if pa.types.is_dictionary(kind) and kind.value_type in texts:
        lengths = pa.compute.binary_length(column.dictionary)
        return int(pa.compute.sum(lengths.take(column.indices)).as_py() or 0)
    if pa.types.is_struct(kind):
        return sum(_unpacked_size(pa, field) for field in column.flatten())
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):
        return _unpacked_size(pa, column.flatten())
    is_short = pa.types.is_primitive(kind) or pa.types.is_dictionary(kind)
    return len(column) if is_short else int(column.nbytes)


def _rows(
    pa: Any, batches: Iterator[Any], name: str, class_names: dict[str, list[str]]
) -> Iterator[Row]:
    """Iterate over rows of Arrow batches."""
    number = 0
    try:
        for batch in batches:
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
