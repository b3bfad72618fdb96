"""CIFAR-10 (Krizhevsky 2009): the Python version (pickles, never executed), the binary version, or
cached features."""

from pathlib import Path

import numpy as np

from parbals.datasets.base import Data, Dataset, MissingData, Part, Raw, Remote, data_folder
from parbals.datasets.embedded import embedded
from parbals.datasets.files import count_note, find, open_member, read_vector
from parbals.datasets.pickles import plain_contents
from parbals.errors import InputError, LabelError
from parbals.randomness import derive_generator

__all__ = ["CLASSES", "DATASET", "load", "read"]

NAME = "cifar10"
_PAGE = "https://www.cs.toronto.edu/~kriz/"
_PYTHON, _BINARY = "cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"
_SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
SOURCE = MissingData(
    NAME, _PAGE, (_PYTHON,), (Remote(f"{_PAGE}{_PYTHON}", _PYTHON, 170_498_071, _SHA256),)
)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PAPER_ENCODER = "dinov2-vits14"
_BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
_PUBLISHED = {"train": 50_000, "test": 10_000}
_IMAGE = 3 * 32 * 32


def read(folder: Path | None = None) -> Raw:
    """Images (N, 32, 32, 3) uint8 and classes; without image files, the classes in y_train.npy and
    y_test.npy."""
    place = data_folder(folder, NAME)
    is_python = _is_there(place, "cifar-10-batches-py", "data_batch_1", _PYTHON)
    is_binary = _is_there(place, "cifar-10-batches-bin", "data_batch_1.bin", _BINARY)
    parts: dict[str, Part] = {}
    notes: list[str] = []
    for part in ("train", "test"):
        labels = find(place, (f"y_{part}.npy",))
        if is_python or is_binary:
            images, y = _images(place, part, is_python)
        elif labels is not None:
            images, y = None, read_vector(labels, len(CLASSES))
        else:
            raise SOURCE.error(place)
        notes += count_note(f"{NAME} ({part})", len(y), _PUBLISHED[part])
        parts[part] = Part(images, y, part)
    return Raw(NAME, "pixels", parts, CLASSES, tuple(notes))


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool: the training images.

    Target source and test: the halves of the test images, the same for every seed.
    """
    data = embedded(read(folder), data_folder(folder, NAME), features, seed, PAPER_ENCODER)
    if (np.diff(data.y_pool) < 0).any():
        return data
    # Rows sorted by class would make ties between pool points a matter of their class.
    order = derive_generator(0, "pool", NAME).permutation(len(data.y_pool))
    return Data(
        NAME,
        data.X_pool[order],
        data.y_pool[order],
        data.X_target_source,
        data.X_test,
        data.y_test,
        data.classes,
        notes=(*data.notes, "the pool's rows were sorted by class and have been shuffled"),
    )


def _is_there(place: Path, inside: str, first: str, archive: str) -> bool:
    return find(place, (first, f"{inside}/{first}", archive)) is not None


def _images(place: Path, part: str, is_python: bool) -> tuple[np.ndarray, np.ndarray]:
    images, labels = [], []
    for batch in _BATCHES[part]:
        file_name = batch if is_python else f"{batch}.bin"
        inside, archive = (
            ("cifar-10-batches-py", _PYTHON) if is_python else ("cifar-10-batches-bin", _BINARY)
        )
        with open_member(place, (file_name, f"{inside}/{file_name}"), SOURCE, (archive,)) as (
            file,
            name,
        ):
            content = file.read()
        pixels, y = _python_batch(content, name) if is_python else _binary_batch(content, name)
        if len(wrong := np.flatnonzero((y < 0) | (y >= len(CLASSES)))):
            raise LabelError(
                f"{name}, image {wrong[0]} has the class {y[wrong[0]]}; 0 to 9 are known."
            )
        images.append(pixels)
        labels.append(y)
    # Published as three planes of 32 × 32; encoders want the colours of a pixel together.
    return np.concatenate(images).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), np.concatenate(
        labels
    )


def _python_batch(content: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    found = plain_contents(content, name)
    if not isinstance(found, dict):
        raise InputError(f"{name} holds no dictionary; download it again from {_PAGE}.")
    keyed = {
        key.decode("latin-1") if isinstance(key, bytes) else key: value
        for key, value in found.items()
    }
    for key in ("data", "labels"):
        if key not in keyed:
            raise InputError(
                f"{name} has no entry {key!r}; its entries are: {', '.join(map(repr, keyed))}."
            )
    pixels, labels = keyed["data"], keyed["labels"]
    is_table = (
        isinstance(pixels, np.ndarray)
        and pixels.dtype == np.uint8
        and pixels.shape[1:] == (_IMAGE,)
    )
    is_list = isinstance(labels, list) and all(type(label) is int for label in labels)
    if not is_table or not is_list or len(pixels) != len(labels):
        raise InputError(
            f"{name} does not hold images of {_IMAGE} bytes and one class for each; download it "
            "again."
        )
    return pixels, np.array(labels, np.int64)


def _binary_batch(content: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    if not content or len(content) % (_IMAGE + 1):
        raise InputError(
            f"{name} is no whole number of images of {_IMAGE + 1} bytes; download it again."
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, _IMAGE + 1)
    return rows[:, 1:], rows[:, 0].astype(np.int64)


DATASET = Dataset(
    load,
    "object in a small photo, 10 classes, 60,000 images",
    SOURCE,
    read,
    (PAPER_ENCODER, "pixels"),
)
