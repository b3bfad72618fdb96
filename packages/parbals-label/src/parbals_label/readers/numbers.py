"""Columns and arrays of numbers, as the float32 features that models take."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from parbals.arrays import block_rows
from parbals.errors import InputError

from parbals_label.readers.cells import is_missing
from parbals_label.readers.source import Source, check_column, short, where

__all__ = ["array_features", "check_numbers"]

_BLOCK = 4_096
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_LARGEST = float(np.finfo(np.float32).max)


def check_numbers(source: Source, columns: Sequence[str]) -> None:
    """Every cell of the columns must be a number; an error names the first that is not."""
    for column in columns:
        check_column(source, column)
    for number, values in source.rows():
        for column in columns:
            if fault := _number_fault(values[column]):
                raise InputError(f"{where(source.name, number, column)} {fault}.")


def array_features(source: Source) -> np.ndarray:
    """The array of an .npy or .npz file, checked, as float32 (N, D).

    One that holds float32 already stays memory-mapped.
    """
    if source.features is None:
        raise InputError(f"{source.name} holds no array of features.")
    given = source.features
    features = given if given.dtype == np.float32 else np.empty(given.shape, np.float32)
    for block in block_rows(len(given), _BLOCK):
        with np.errstate(over="ignore"):
            small = np.asarray(given[block]).astype(np.float32)
        if len(bad := np.argwhere(~np.isfinite(small))):
            row, column = (int(part) for part in bad[0])
            place = f"{where(source.name, block.start + row + 1)}, column {column + 1}"
            value = given[block.start + row, column]
            raise InputError(f"{place} is {value}; features must be finite and fit into 32 bits.")
        if features is not given:
            features[block] = small
    return features


def _number_fault(cell: Any) -> str | None:
    if is_missing(cell):
        return "is empty; every row needs a number, so fill it in or leave the column out"
    try:  # Python reads 1_0 as 10, which nobody means in a table
        value = float("_" if isinstance(cell, str) and "_" in cell else cell)
    except (ValueError, TypeError, OverflowError):
        if isinstance(cell, str) and _COMMA.fullmatch(cell.strip()):
            point = cell.strip().replace(",", ".")
            return f"is {short(cell)}, with a decimal comma; write {point}, with a point"
        return f"is {short(cell)}, which is not a number (write 1.5, with a point and nothing else)"
    if not abs(value) <= _LARGEST:  # nor is NaN
        return f"is {short(cell)}; features must be finite and fit into 32 bits"
    return None
