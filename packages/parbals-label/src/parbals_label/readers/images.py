"""A folder of images: one item per file, in the order of the paths."""

import os
from collections.abc import Iterator
from pathlib import Path

from parbals.errors import InputError

from parbals_label.readers.source import Row, Source, head_of, short

__all__ = ["IMAGE_SUFFIXES", "open_images"]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")


def open_images(path: Path) -> Source:
    """Open a folder: a row for every image, with its relative path and its top folder.

    There is no column ``folder`` if all images are at the top. Encoders report unreadable images.
    """
    images = sorted(_find(path))
    if not images:
        raise InputError(
            f"{path.name} holds no image; supported extensions are: {', '.join(IMAGE_SUFFIXES)}."
        )
    for image in images:
        _check_image(path, image)
    columns = ["image", "folder"] if any("/" in image for image in images) else ["image"]

    def rows() -> Iterator[Row]:
        for number, image in enumerate(images, start=1):
            folder, slash, _ = image.partition("/")
            values = (image, folder if slash else None)
            yield Row(number, dict(zip(columns, values, strict=False)))

    return Source(columns, len(images), rows, "images", path.name, head=head_of(rows))


def _find(root: Path) -> Iterator[str]:
    """Iterate over relative paths of images, with /, without hidden files and folders."""

    def refuse(error: OSError) -> None:
        raise InputError(f"the folder {error.filename} cannot be read: {error.strerror}.")

    for folder, subfolders, files in os.walk(root, onerror=refuse):
        subfolders[:] = [name for name in subfolders if not name.startswith((".", "__MACOSX"))]
        for name in files:
            if name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith("."):
                yield (Path(folder) / name).relative_to(root).as_posix()


def _check_image(root: Path, image: str) -> None:
    """Refuse names that are not text, and links to files outside of the folder."""
    try:
        image.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(
            f"the file name {short(image)} is not valid text; rename the file."
        ) from None
    if not (root / image).is_file():  # opening a pipe would block for ever
        raise InputError(f"{root.name}/{image} is not a file; remove it.")
    if (root / image).is_symlink() and not (root / image).resolve().is_relative_to(root.resolve()):
        raise InputError(
            f"{root.name}/{image} is a link to a file outside the folder; copy the file into it."
        )
