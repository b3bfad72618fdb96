"""Columns and arrays of numbers, as the float32 features that models take."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from parbals.errors import InputError

from parbals_label.readers.cells import is_missing
from parbals_label.readers.source import Source, check_column, short, where

__all__ = ["check_numbers", "feature_blocks", "numeric_features"]

_BLOCK = 4_096
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_LARGEST = float(np.finfo(np.float32).max)


def feature_blocks(source: Source, columns: Sequence[str] | None = None) -> Iterator[np.ndarray]:
    """Features as float32 blocks of some thousand rows: a pool of any size fits through memory.

    ``columns`` names the columns that hold numbers; None takes the array of an .npy or .npz file.
    """
    if columns is None:
        if source.features is None:
            raise InputError(
                f"{source.name} holds no array of features; name the columns that hold numbers."
            )
        return _array_blocks(source, source.features)
    if not columns:
        raise InputError("At least one column with numbers is needed.")
    return _column_blocks(source, [check_column(source, column) for column in columns])


def check_numbers(source: Source, columns: Sequence[str]) -> None:
    """Every cell of the columns must be a number; an error names the first that is not."""
    for _ in feature_blocks(source, columns):
        pass


def numeric_features(source: Source, columns: Sequence[str] | None = None) -> np.ndarray:
    """All features, float32 (N, D).

    An .npy file that already holds float32 is checked and stays memory-mapped.
    """
    blocks = feature_blocks(source, columns)
    if columns is None and source.features is not None and source.features.dtype == np.float32:
        for _ in blocks:
            pass
        return source.features
    if not source.n_rows:
        parts = list(blocks)
        if not parts:
            raise InputError(f"{source.name} has no rows.")
        return np.concatenate(parts)
    features, start = np.empty((0, 0), np.float32), 0
    for block in blocks:  # straight into place: memory may not hold two copies of a large pool
        if start == 0:
            features = np.empty((source.n_rows, block.shape[1]), np.float32)
        if start + len(block) <= len(features):
            features[start : start + len(block)] = block
        start += len(block)
    if start != source.n_rows:
        raise InputError(
            f"{source.name} changed while it was read: {start} rows instead of {source.n_rows}."
        )
    return features


def _array_blocks(source: Source, features: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(features), _BLOCK):
        block = np.asarray(features[start : start + _BLOCK])
        with np.errstate(over="ignore"):
            small = block.astype(np.float32)
        if len(bad := np.argwhere(~np.isfinite(small))):
            row, column = (int(part) for part in bad[0])
            place = f"{where(source.name, start + row + 1)}, column {column + 1}"
            raise InputError(
                f"{place} is {block[row, column]}; features must be finite and fit into 32 bits."
            )
        yield small


def _column_blocks(source: Source, columns: list[str]) -> Iterator[np.ndarray]:
    numbers: list[int] = []
    cells: list[list[Any]] = []
    for number, values in source.rows():
        numbers.append(number)
        cells.append([values[column] for column in columns])
        if len(cells) == _BLOCK:
            yield _parsed(source, columns, numbers, cells)
            numbers, cells = [], []
    if cells:
        yield _parsed(source, columns, numbers, cells)


def _parsed(
    source: Source, columns: list[str], numbers: list[int], cells: list[list[Any]]
) -> np.ndarray:
    """One block at NumPy's speed; where that fails, the first bad cell is looked for and named."""
    try:
        with np.errstate(over="ignore"):
            block = np.array(cells, dtype=object).astype(np.float64).astype(np.float32)
    except (ValueError, TypeError, OverflowError):
        block = None
    # Python reads 1_0 as 10, which nobody means in a table
    odd = any("_" in "".join([cell for cell in row if isinstance(cell, str)]) for row in cells)
    shape = (len(cells), len(columns))
    if odd or block is None or block.shape != shape or not np.isfinite(block).all():
        for number, row in zip(numbers, cells, strict=True):
            for column, cell in zip(columns, row, strict=True):
                if fault := _number_fault(cell):
                    raise InputError(f"{where(source.name, number, column)} {fault}.")
    if block is None:  # a value that NumPy refuses and Python takes
        raise InputError(
            f"{where(source.name, numbers[0])} or a row soon after it holds something that is not "
            "a number."
        )
    return block


def _number_fault(cell: Any) -> str | None:
    if is_missing(cell):
        return "is empty; every row needs a number, so fill it in or leave the column out"
    try:
        value = float("_" if isinstance(cell, str) and "_" in cell else cell)
    except (ValueError, TypeError, OverflowError):
        if isinstance(cell, str) and _COMMA.fullmatch(cell.strip()):
            point = cell.strip().replace(",", ".")
            return f"is {short(cell)}, with a decimal comma; write {point}, with a point"
        return f"is {short(cell)}, which is not a number (write 1.5, with a point and nothing else)"
    if not abs(value) <= _LARGEST:  # nor is NaN
        return f"is {short(cell)}; features must be finite and fit into 32 bits"
    return None
