"""Open a file or folder of a user, by its extension and contents."""

from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
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

_TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_MAYBE_TAB_SUFFIXES = (".txt", "")
_ADVICE = {
    ".xls .ods": "save the sheet as .xlsx or CSV",
    ".pkl .pickle .pt .pth .joblib": "it could run code when read; save .npy or .parquet",
    ".gz .zip .bz2 .xz .zst .tar": "unpack it first",
    ".arrow": "save it as .parquet",
}
_HUGGING_FACE_FILES = ("dataset_dict.json", "state.json", "dataset_info.json")
"""Files in a folder that ``Dataset.save_to_disk`` has written."""


def open_source(
    path: str | PathLike[str],
    *,
    encoding: str | None = None,
    encoding_errors: str = "strict",
    names: Sequence[str] = (),
) -> Source:
    """Open a file or folder; its rows are read and checked during iteration.

    Text may be compressed with gzip (.csv.gz). A .txt file, or one without an extension, is read if
    all its lines have the same number of tabs.

    Args:
        path: the file, or a folder of images.
        encoding: the encoding of a text file; by default it is detected.
        encoding_errors: with "replace", bytes that cannot be decoded become \ufffd.
        names: names of the columns of a file without a header row.
    """
    path = Path(path)
    if path.is_dir():
        if any((path / name).is_file() for name in _HUGGING_FACE_FILES):
            raise InputError(
                f"{path.name} is a Hugging Face dataset; write it into one file with "
                'dataset.to_parquet("items.parquet").'
            )
        return open_images(path)
    if not path.exists():
        raise InputError(f"{path} does not exist{_likely_name(path)}")
    if not path.is_file():
        raise InputError(f"{path} is neither file nor folder.")
    is_compressed = path.suffix.lower() == ".gz"
    suffix = Path(path.stem if is_compressed else path.name).suffix.lower()
    if suffix in _TEXT_SUFFIXES:
        if suffix in _TEXT_SUFFIXES[2:]:
            return open_json(path, encoding, encoding_errors)
        return open_delimited(path, suffix[1:], encoding, names=names, errors=encoding_errors)
    if suffix in _MAYBE_TAB_SUFFIXES:
        try:
            return open_delimited(path, "txt", encoding, names=names, errors=encoding_errors)
        except InputError:
            if suffix:  # without an extension it may be any format
                raise
    suffix = path.suffix.lower()
    openers = {".parquet": open_parquet, ".xlsx": open_excel, ".npy": open_npy, ".npz": open_npz}
    if suffix in openers:
        return openers[suffix](path)
    suffixes = ", ".join((*_TEXT_SUFFIXES, *openers))
    advice = f"supported are {suffixes} and a folder of images"
    for unsupported, instead in _ADVICE.items():
        if suffix in unsupported.split():
            advice = instead
    raise InputError(f"{path.name} cannot be read: {advice}.")


def _likely_name(path: Path) -> str:
    """The end of a sentence on a missing file: which file beside it may be meant, or a point."""
    with suppress(OSError):
        names = [other.name for other in path.parent.iterdir()]
        for name in get_close_matches(path.name, names, 1):
            return f"; did you mean {path.with_name(name)}?"
    return "."
