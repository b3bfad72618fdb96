"""A folder of images: one item a file, in the order of the paths."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.files import need

from parbals_label.encoders.images import FORMATS
from parbals_label.readers.source import Row, Source, head_of, short

__all__ = ["IMAGE_SUFFIXES", "open_images"]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
_SHOWN = 5


def open_images(path: Path, verify: bool = True) -> Source:
    """Every image below ``path``: its path from there (``image``) and the first ``folder`` of it.

    There is no ``folder`` if every image lies at the top. ``verify`` decodes each file once and
    names those that cannot be read.
    """
    images = sorted(_find(path))
    if not images:
        raise InputError(
            f"{path.name} holds no image; these endings are known: {', '.join(IMAGE_SUFFIXES)}."
        )
    for image in images:
        _check_place(path, image)
    if verify:
        _check_images(path, images)
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


def _check_images(root: Path, images: list[str]) -> None:
    pillow = need("PIL.Image", "Checking images", "parbals[images]")
    bad = [image for image in images if not _decodes(pillow, root / image)]
    if bad:
        named = ", ".join(short(image) for image in bad[:_SHOWN])
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise InputError(
            f"{len(bad)} of {len(images)} images in {root.name} cannot be read: {named}{more}; "
            "replace or remove the damaged files."
        )


def _decodes(pillow: Any, path: Path) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # a few bytes that unpack to 90 million pixels
        warnings.simplefilter("error", pillow.DecompressionBombWarning)
        try:
            with pillow.open(path, formats=FORMATS) as image:
                image.draft("RGB", (1, 1))  # lets JPEG decode at an eighth of the size
                image.load()
        except Exception:  # decoders of damaged files raise nearly anything
            return False
    return True
