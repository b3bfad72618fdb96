"""Fashion-MNIST (Xiao et al. 2017): four IDX files, compressed as published or not."""

import math
from pathlib import Path

import numpy as np
from parbals.errors import InputError, LabelError

from parbals_bench.datasets.base import Data, Dataset, Origin, Part, Raw, Remote, data_folder
from parbals_bench.datasets.embedded import embedded
from parbals_bench.datasets.files import count_note, open_member

__all__ = ["DATASET", "load", "read"]

NAME = "fashion-mnist"
_PAGE = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
_SHA256 = {
    "train-images-idx3": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
_FILES = {f"{stem}-ubyte.gz": sha256 for stem, sha256 in _SHA256.items()}
ORIGIN = Origin(
    NAME,
    _PAGE,
    tuple(_FILES),
    tuple(Remote(f"{_PAGE}{file}", file, sha256) for file, sha256 in _FILES.items()),
)
_CLOTHES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
CLASSES = tuple(_CLOTHES.split(","))
_SIDE = 28
_UNSIGNED_BYTE = 8


def read(folder: Path | None = None) -> Raw:
    """Images (N, 28, 28) uint8 and classes."""
    place = data_folder(folder, NAME)
    parts: dict[str, Part] = {}
    notes: list[str] = []
    for part, prefix, published in (("train", "train", 60_000), ("test", "t10k", 10_000)):
        images, name = _idx(place, f"{prefix}-images-idx3-ubyte")
        labels, labels_name = _idx(place, f"{prefix}-labels-idx1-ubyte")
        if images.shape[1:] != (_SIDE, _SIDE) or labels.ndim != 1 or len(images) != len(labels):
            raise InputError(
                f"{name} has shape {images.shape} and {labels_name} {labels.shape}; they do not go "
                "together."
            )
        if len(wrong := np.flatnonzero(labels >= len(CLASSES))):
            raise LabelError(
                f"{labels_name}, row {wrong[0]} is {labels[wrong[0]]}; 0 to 9 are known."
            )
        parts[part] = Part(images, labels.astype(np.int64), part)
        notes += count_note(name, len(labels), published)
    return Raw(NAME, "pixels", parts, CLASSES, tuple(notes))


def load(folder: Path | None = None, *, features: str = "auto", seed: int = 0) -> Data:
    """Pool: the training images. Target source and test: halves of the others, for every seed."""
    name = "pixels" if features == "auto" else features
    return embedded(read(folder), data_folder(folder, NAME), name, seed, "pixels")


def _idx(place: Path, stem: str) -> tuple[np.ndarray, str]:
    """An IDX array: two zero bytes, the type, the number of axes, their lengths, the values."""
    with open_member(place, (f"{stem}.gz", stem), ORIGIN) as (file, name):
        content = file.read()
    n_axes = content[3] if len(content) > 3 and content[:3] == bytes((0, 0, _UNSIGNED_BYTE)) else 0
    start = 4 + 4 * n_axes
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    if not n_axes or len(content) != start + math.prod(shape) or 0 in shape:
        raise InputError(
            f"{name} is not a whole IDX file of bytes; delete it and download it again from "
            f"{_PAGE}."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape), name


DATASET = Dataset(
    "Fashion-MNIST",
    load,
    "kind of clothing, 10 classes, 70,000 images",
    ORIGIN,
    read,
    ("pixels",),
)
