"""Opens what a user has: a file or a folder, by its ending and what it holds."""

from os import PathLike
from pathlib import Path

from parbals.errors import InputError
from parbals.readers.arrow import is_dataset_folder, open_dataset_folder, open_parquet
from parbals.readers.images import open_images
from parbals.readers.numpy_files import open_npy, open_npz
from parbals.readers.source import Source, read_start, short
from parbals.readers.text import open_delimited, open_jsonl

__all__ = ["open_source"]

_TEXT = (".csv", ".tsv", ".jsonl", ".ndjson")
_NOT_TEXT = {
    b"PAR1": "is a Parquet file: give it the ending .parquet",
    b"\x93NUMPY": "is a NumPy file: give it the ending .npy",
    b"PK\x03\x04": "is a zip file or a spreadsheet: unpack it, or save the sheet as CSV",
    b"ARROW1": "is an Arrow file: save it as .parquet",
    b"\x1f\x8b": "is compressed: unpack it first",
}
_ADVICE = {
    ".xlsx .xls .ods": "save the sheet as CSV",
    ".pkl .pickle .pt .pth .joblib": "it could run code when read; save .npy or .parquet",
    ".gz .zip .bz2 .xz .zst .tar": "unpack it first",
    ".json": "write one object a line and give it the ending .jsonl",
    ".txt": "give it the ending .csv or .tsv",
    ".arrow": "save it as .parquet, or name the folder it is in",
}


def open_source(
    path: str | PathLike[str],
    *,
    encoding: str | None = None,
    split: str | None = None,
    verify_images: bool = True,
) -> Source:
    """Open a file or folder; its rows are read, and checked, when walked.

    ``encoding`` overrides what would be detected in a text file. ``split`` picks one split of a
    Hugging Face DatasetDict. ``verify_images`` decodes every image of a folder once, and names
    those that cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        _only_for("a text file", encoding, path)
        if is_dataset_folder(path):
            return open_dataset_folder(path, split)
        _only_for("a Hugging Face dataset folder", split, path)
        return open_images(path, verify_images)
    if not path.is_file():
        raise InputError(
            f"{path} {'is neither file nor folder' if path.exists() else 'does not exist'}."
        )
    _only_for("a Hugging Face dataset folder", split, path)
    suffix = path.suffix.lower()
    if suffix in _TEXT:
        start = read_start(path, 8)
        for magic, fault in _NOT_TEXT.items():
            if start.startswith(magic):
                raise InputError(f"{path.name} is not text, but {fault}.")
        if suffix in _TEXT[2:]:
            return open_jsonl(path, encoding)
        return open_delimited(path, suffix[1:], encoding)
    _only_for("a text file", encoding, path)
    openers = {".parquet": open_parquet, ".npy": open_npy, ".npz": open_npz}
    if suffix in openers:
        return openers[suffix](path)
    known = ", ".join((*_TEXT, *openers))
    known = f"known are {known}, a folder of images and a Hugging Face dataset folder"
    advice = next((say for endings, say in _ADVICE.items() if suffix in endings.split()), known)
    raise InputError(f"{path.name} cannot be read: {advice}.")


def _only_for(what: str, option: str | None, path: Path) -> None:
    if option is not None:
        raise InputError(
            f"{path.name} is not {what}, so {short(option)} means nothing for it; leave the option "
            "out."
        )
