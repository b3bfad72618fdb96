"""Encoders that need nothing but parbals: ``words`` for texts, ``shapes`` for images."""

import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from parbals.errors import InputError

from parbals_label.encoders.base import Encoder, Entry, Items, Kind
from parbals_label.encoders.images import open_image

__all__ = ["SHAPES", "SHAPES_SIDE", "WORDS", "fitted_mix", "shapes"]

_LEARN_FROM = 20_000
SHAPES_SIDE = 48
_CELLS, _EDGES = 6, 9
_COLOURS = 8
_CUT = 0.2
_FAINT = 1e-2
_COLOUR_WEIGHT = 0.7


def fitted_mix(items: Items, n_items: int, *, meaning: bool = True) -> tuple[Any, str]:
    """A :class:`TextMix` of the items, or of 20,000 evenly spread ones; and a digest of it."""
    from parbals.features.text import TextMix

    step = -(-n_items // _LEARN_FROM)
    texts = [text for _, text in islice(items(), 0, None, step)]
    try:
        mix = TextMix(meaning=meaning).fit(texts)
    except ValueError:
        raise InputError("The texts have no words to tell the items apart by.") from None
    digest = hashlib.blake2b(digest_size=12)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return mix, digest.hexdigest()


class _Words(Encoder):
    """Words, form and meaning of texts, as :class:`TextMix` has them."""

    kind: ClassVar[Kind] = "text"
    reduced: ClassVar[bool] = True
    model = "not fitted"

    def fit(self, items: Items, n_items: int) -> None:
        self.mix, self.model = fitted_mix(items, n_items)

    def encode(self, prepared: Sequence[str]) -> np.ndarray:
        return np.asarray(self.mix.transform(prepared))


class _Shapes(Encoder):
    """Directions of edges and coarse colours, as :func:`shapes` has them."""

    kind: ClassVar[Kind] = "image"
    model = "shapes 1"

    def prepare(self, item: Any) -> np.ndarray:
        return np.asarray(open_image(item).resize((SHAPES_SIDE, SHAPES_SIDE), 3))

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return shapes(np.stack(prepared))


def shapes(pixels: np.ndarray) -> np.ndarray:
    """Rows (N, 1092) float32 of images (N, 48, 48, 3) uint8: which way edges run, coarse colours.

    Histograms of oriented gradients (Dalal and Triggs 2005): in each of 6 × 6 cells how strong
    edges of 9 directions are, neighbouring cells sharing what lies between them; every 2 × 2 cells
    are brought to length 1, values above 0.2 cut, and brought to length 1 again. Beside them the
    image shrunk to 8 × 8 colours.
    """
    images = pixels.astype(np.float32) / 255.0
    side = SHAPES_SIDE // _COLOURS
    colours = images.reshape(-1, _COLOURS, side, _COLOURS, side, 3).mean(axis=(2, 4))
    blocks = _blocks(_cells(images))
    # Each of the 25 blocks has length 1, so that divided by 5 they have it together.
    edges = blocks.reshape(len(images), -1) / (_CELLS - 1)
    weight = _COLOUR_WEIGHT / _COLOURS
    return np.hstack([edges, weight * colours.reshape(len(images), -1)]).astype(np.float32)


def _cells(images: np.ndarray) -> np.ndarray:
    """(N, 6, 6, 9): strength of edges by direction, in the colour that changes most."""
    down, across = np.zeros_like(images), np.zeros_like(images)
    down[:, 1:-1] = images[:, 2:] - images[:, :-2]
    across[:, :, 1:-1] = images[:, :, 2:] - images[:, :, :-2]
    strength = np.hypot(down, across)
    strongest = strength.argmax(axis=-1)[..., None]
    down, across, strength = (
        np.take_along_axis(values, strongest, -1)[..., 0] for values in (down, across, strength)
    )
    angle = (np.arctan2(down, across) % np.pi) * (_EDGES / np.pi)
    before = np.floor(angle)
    share = angle - before
    before = before.astype(int) % _EDGES
    after = (before + 1) % _EDGES
    place = (np.arange(SHAPES_SIDE) + 0.5) * _CELLS / SHAPES_SIDE - 0.5
    near = np.maximum(0, 1 - np.abs(np.arange(_CELLS)[:, None] - place)).astype(np.float32)
    cells = np.empty((len(images), _CELLS, _CELLS, _EDGES), np.float32)
    for direction in range(_EDGES):
        edges = strength * ((before == direction) * (1 - share) + (after == direction) * share)
        cells[..., direction] = near @ edges @ near.T
    return cells


def _blocks(cells: np.ndarray) -> np.ndarray:
    """(N, 5, 5, 36): every four neighbouring cells, on one scale whatever the light was."""
    corners = cells[:, :-1, :-1], cells[:, 1:, :-1], cells[:, :-1, 1:], cells[:, 1:, 1:]
    blocks = np.concatenate(corners, axis=-1)
    return _unit(np.minimum(_unit(blocks), _CUT))


def _unit(blocks: np.ndarray) -> np.ndarray:
    """Length 1, less where there is hardly an edge."""
    return blocks / np.sqrt(np.square(blocks).sum(axis=-1, keepdims=True) + _FAINT)


WORDS = Entry(lambda name, options: _Words(), "text")
SHAPES = Entry(lambda name, options: _Shapes(), "image")
