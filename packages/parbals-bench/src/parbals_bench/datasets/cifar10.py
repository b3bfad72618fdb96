"""CIFAR-10 (Krizhevsky 2009): the binary version, packed or not, or cached features with labels."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from parbals.errors import InputError, LabelError
from parbals.randomness import derive_generator

from parbals_bench.datasets.base import Data, Dataset, Origin, Part, Raw, data_folder
from parbals_bench.datasets.embedded import embedded
from parbals_bench.datasets.files import count_note, find, published_file, read_vector

__all__ = ["DATASET", "load", "read"]

NAME = "cifar10"
_PAGE = "https://www.cs.toronto.edu/~kriz/"
_ARCHIVE = "cifar-10-binary.tar.gz"
ORIGIN = Origin(NAME, _PAGE, (_ARCHIVE,), (f"{_PAGE}{_ARCHIVE}",))
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PAPER_ENCODER = "dinov2-vits14"
_ARCHIVE_FOLDER = "cifar-10-batches-bin"
_BATCHES = {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)}
_N_PUBLISHED = {"train": 50_000, "test": 10_000}
_IMAGE_BYTES = 3 * 32 * 32


def read(folder: Path | None = None) -> Raw:
    """Images (N, 32, 32, 3) uint8 and classes; or the classes in y_train.npy and y_test.npy."""
    folder = data_folder(folder, NAME)
    first_batch = _BATCHES["train"][0]
    image_files = (first_batch, f"{_ARCHIVE_FOLDER}/{first_batch}", _ARCHIVE)
    has_images = find(folder, image_files) is not None
    parts: dict[str, Part] = {}
    notes: list[str] = []
    for name in ("train", "test"):
        images = None
        label_file = find(folder, (f"y_{name}.npy",))
        if has_images:
            images, y = _images(folder, name)
        elif label_file is not None:
            y = read_vector(label_file, len(CLASSES))
        else:
            raise ORIGIN.error(folder)
        notes += count_note(f"{NAME} ({name})", len(y), _N_PUBLISHED[name])
        parts[name] = Part(images, y, name)
    return Raw(NAME, "pixels", parts, CLASSES, tuple(notes))


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool: the training images. Target source and test: halves of the others, for every seed."""
    data = embedded(read(folder), data_folder(folder, NAME), features, seed, PAPER_ENCODER)
    if (np.diff(data.y_pool) < 0).any():
        return data
    # Rows sorted by class would make ties between pool points a matter of their class.
    order = derive_generator(0, "pool", NAME).permutation(len(data.y_pool))
    note = "the pool's rows were sorted by class and have been shuffled"
    return replace(
        data,
        X_pool=data.X_pool[order],
        y_pool=data.y_pool[order],
        notes=(*data.notes, note),
    )


def _images(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and classes; a row of a file has one byte for the class and 3,072 for the image."""
    rows = []
    for batch in _BATCHES[name]:
        file_names = (batch, f"{_ARCHIVE_FOLDER}/{batch}")
        with published_file(folder, file_names, ORIGIN, (_ARCHIVE,)) as path:
            content = path.read_bytes()
            file_name = path.name
        if not content or len(content) % (_IMAGE_BYTES + 1):
            raise InputError(
                f"{file_name} is not a whole number of images of {_IMAGE_BYTES + 1} bytes; "
                "download it again."
            )
        rows.append(np.frombuffer(content, np.uint8).reshape(-1, _IMAGE_BYTES + 1))
        y = rows[-1][:, 0]
        if len(wrong := np.flatnonzero(y >= len(CLASSES))):
            raise LabelError(
                f"{file_name}, image {wrong[0]} has the class {y[wrong[0]]}; 0 to 9 are known."
            )
    table = np.concatenate(rows)
    # Encoders want the colours of a pixel together.
    images = table[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images, table[:, 0].astype(np.int64)


DATASET = Dataset(
    "CIFAR-10",
    load,
    "object in a small photo, 10 classes, 60,000 images",
    ORIGIN,
    read,
    (PAPER_ENCODER, "pixels"),
)
