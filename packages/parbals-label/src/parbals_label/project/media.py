"""Serve the images of items, and no other file of the disk.

Image paths in a project are relative to the folder its data came from, remembered by ``parbals
init``; the images stay there. A file is served only if its path, with all links resolved, lies
inside that folder or inside the project's own (for projects that were moved together with their
images), and if its first bytes are those of an image.
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from parbals_label.readers.images import IMAGE_SUFFIXES
from parbals_label.store.store import Store

__all__ = [
    "Image",
    "MediaError",
    "image_address",
    "image_column",
    "media_folder",
    "missing_images",
    "open_image",
    "read_image",
]

MAX_BYTES = 64 << 20


class Image(NamedTuple):
    """An open image file, its media type and size; the caller closes it."""

    kind: str
    size: int
    file: BinaryIO


class MediaError(Exception):
    """There is no image to show; ``status`` is the HTTP status to answer with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def media_folder(data: Path) -> Path:
    """The folder that image paths are relative to."""
    return (data if data.is_dir() else data.parent).resolve()


def image_column(store: Store) -> str | None:
    """The column with paths of images, if the items are images."""
    settings = store.settings
    if len(settings.encoded_columns) != 1 or not store.n_items:
        return None
    (name,) = settings.encoded_columns
    if settings.encoder == "shapes":
        return name
    first = store.items([0])[0].content.get(name)
    return name if isinstance(first, str) and first.lower().endswith(IMAGE_SUFFIXES) else None


def image_address(position: int, column: str | None) -> str | None:
    """Where the page finds an item's image, if the items are images."""
    return f"/api/media/{position}" if column else None


def open_image(store: Store, position: int) -> Image:
    """The image of an item."""
    column = image_column(store)
    value = None if column is None else store.items([position])[0].content.get(column)
    if not isinstance(value, str) or not value:
        raise MediaError(404, "This item has no image.")
    file, size = _open(store, value)
    kind = _sniff(file.read(16))
    if kind is None or size > MAX_BYTES:
        file.close()
        if kind is None:
            raise MediaError(415, "The item's file is not a PNG, JPEG, GIF, WebP or BMP image.")
        raise MediaError(413, "The item's image is larger than 64 MB.")
    file.seek(0)
    return Image(kind, size, file)


def missing_images(store: Store) -> list[str]:
    """One sentence about image files that are missing, if there are some."""
    column = image_column(store)
    if column is None:
        return []
    missing: list[str] = []
    for item in store.iter_items():
        value = item.content.get(column)
        if value:
            try:
                _open(store, str(value))[0].close()
            except MediaError:
                missing.append(str(value))
    if not missing:
        return []
    where = f"not in {store.settings.media}, where the data came from, nor in the project"
    verb = "is" if len(missing) == 1 else "are"
    images = f"{len(missing):,} of {store.n_items:,} images"
    return [f"{images} {verb} {where}; the first is {missing[0]}."]


def read_image(store: Store, position: int) -> tuple[str, bytes]:
    """The kind of an item's image, and its bytes."""
    image = open_image(store, position)
    with image.file as file:
        return image.kind, file.read()


def _open(store: Store, value: str) -> tuple[BinaryIO, int]:
    """Open the file of an image; the file and its size."""
    for root in (store.settings.media, store.folder):
        if root is None or "\0" in value:
            continue
        folder = Path(root).resolve()
        # The path is resolved, so a link there was created just now; a pipe would block for ever.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            path = (folder / value).resolve()
            if not path.is_relative_to(folder):
                continue
            descriptor = os.open(path, flags)
        except (OSError, RuntimeError, ValueError):
            continue
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return open(descriptor, "rb"), status.st_size
        os.close(descriptor)
    raise MediaError(
        404, "The item's image is not in the folder that the project's data came from."
    )


def _sniff(start: bytes) -> str | None:
    """The media type of an image by its first bytes; None for other files."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return "image/bmp" if start.startswith(b"BM") else None
