"""A folder of images: one item a file, in the order of the paths."""

import os
from collections.abc import Iterator
from pathlib import Path

from parbals.errors import InputError

from parbals_label.readers.source import Row, Source, head_of, short

__all__ = ["IMAGE_SUFFIXES", "open_images"]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")


def open_images(path: Path) -> Source:
    """Every image below ``path``: its path from there (``image``) and the first ``folder`` of it.

    There is no ``folder`` if every image lies at the top. Encoders say which cannot be read.
    """
    images = sorted(_find(path))
    if not images:
        raise InputError(
            f"{path.name} holds no image; these endings are known: {', '.join(IMAGE_SUFFIXES)}."
        )
    for image in images:
        _check_place(path, image)
    columns = ["image", "folder"] if any("/" in image for image in images) else ["image"]

    def rows() -> Iterator[Row]:
        for number, image in enumerate(images, start=1):
            first, slash, _ = image.partition("/")
            yield Row(number, dict(zip(columns, (image, first if slash else None), strict=False)))

    return Source(columns, len(images), rows, "images", path.name, head=head_of(rows))


def _find(root: Path) -> Iterator[str]:
    """Paths of images from the root, with / between the parts, without hidden files and folders."""

    def refuse(error: OSError) -> None:
        raise InputError(f"the folder {error.filename} cannot be read: {error.strerror}.")

    for folder, below, files in os.walk(root, onerror=refuse):
        below[:] = [name for name in below if not name.startswith((".", "__MACOSX"))]
        for name in files:
            if name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith("."):
                yield (Path(folder) / name).relative_to(root).as_posix()


def _check_place(root: Path, image: str) -> None:
    """A name must be text, and no link may lead out of the folder: annotators see what is in it."""
    try:
        image.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(
            f"the file name {short(image)} is not valid text; rename the file."
        ) from None
    if not (root / image).is_file():  # opening a pipe would wait for ever
        raise InputError(f"{root.name}/{image} is not a file; remove it.")
    if (root / image).is_symlink() and not (root / image).resolve().is_relative_to(root.resolve()):
        raise InputError(
            f"{root.name}/{image} is a link to a file outside the folder; copy the file into it."
        )
