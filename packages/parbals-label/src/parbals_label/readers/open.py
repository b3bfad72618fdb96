"""Opens what a user has: a file or a folder, by its ending and what it holds."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from parbals.errors import InputError

from parbals_label.readers.arrow import open_parquet
from parbals_label.readers.delimited import open_delimited
from parbals_label.readers.excel import open_excel
from parbals_label.readers.images import open_images
from parbals_label.readers.json_files import open_json
from parbals_label.readers.numpy_files import open_npy, open_npz
from parbals_label.readers.source import Source

__all__ = ["open_source"]

_TEXT = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_MAYBE_TABS = (".txt", "")
_ADVICE = {
    ".xls .ods": "save the sheet as .xlsx or CSV",
    ".pkl .pickle .pt .pth .joblib": "it could run code when read; save .npy or .parquet",
    ".gz .zip .bz2 .xz .zst .tar": "unpack it first",
    ".arrow": "save it as .parquet",
}
_HUGGING_FACE = ("dataset_dict.json", "state.json", "dataset_info.json")
"""What ``save_to_disk`` writes into its folder."""


def open_source(
    path: str | PathLike[str],
    *,
    encoding: str | None = None,
    encoding_errors: str = "strict",
    names: Sequence[str] = (),
) -> Source:
    """Open a file or folder; its rows are read, and checked, when walked.

    ``encoding`` overrides what would be detected in a text file; with ``encoding_errors="replace"``
    bytes that it does not have become \ufffd. ``names`` are its columns' where it has no header.
    Text may be packed by gzip (.csv.gz); a file without an ending, or .txt, is read where all its
    lines have the same number of tabs.
    """
    path = Path(path)
    if path.is_dir():
        if any((path / name).is_file() for name in _HUGGING_FACE):
            raise InputError(
                f"{path.name} is a Hugging Face dataset; write it into one file with "
                'dataset.to_parquet("items.parquet").'
            )
        return open_images(path)
    if not path.is_file():
        raise InputError(
            f"{path} {'is neither file nor folder' if path.exists() else 'does not exist'}."
        )
    packed = path.suffix.lower() == ".gz"
    suffix = Path(path.stem if packed else path.name).suffix.lower()
    if suffix in _TEXT:
        if suffix in _TEXT[2:]:
            return open_json(path, encoding, encoding_errors)
        return open_delimited(path, suffix[1:], encoding, names=names, errors=encoding_errors)
    if suffix in _MAYBE_TABS:
        try:
            return open_delimited(path, "txt", encoding, names=names, errors=encoding_errors)
        except InputError:
            if suffix:  # without an ending it may be anything
                raise
    suffix = path.suffix.lower()
    openers = {".parquet": open_parquet, ".xlsx": open_excel, ".npy": open_npy, ".npz": open_npz}
    if suffix in openers:
        return openers[suffix](path)
    known = ", ".join((*_TEXT, *openers))
    known = f"known are {known} and a folder of images"
    advice = next((say for endings, say in _ADVICE.items() if suffix in endings.split()), known)
    raise InputError(f"{path.name} cannot be read: {advice}.")
