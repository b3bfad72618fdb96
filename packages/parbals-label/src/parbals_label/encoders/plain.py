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

_MAX_FIT_TEXTS = 20_000
"""Texts to which ``words`` is fitted."""
SHAPES_SIDE = 48
"""Width and height in pixels to which images are resized."""
_N_CELLS = 6
_N_DIRECTIONS = 9
_N_COLOUR_CELLS = 8
_MAX_VALUE = 0.2
"""At which normalised histograms are clipped."""
_REGULARISER = 1e-2
_COLOUR_WEIGHT = 0.7


def fitted_mix(items: Items, n_items: int, *, meaning: bool = True) -> tuple[Any, str]:
    """A :class:`TextMix` fitted to the items, or 20,000 evenly spaced ones, and a digest."""
    from parbals.features.text import TextMix

    step = -(-n_items // _MAX_FIT_TEXTS)
    texts = [text for _, text in islice(items(), 0, None, step)]
    try:
        mix = TextMix(meaning=meaning).fit(texts)
    except ValueError:
        raise InputError("The texts have no words by which items could be distinguished.") from None
    digest = hashlib.blake2b(digest_size=12)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return mix, digest.hexdigest()


class _Words(Encoder):
    """Words, form and meaning of texts by :class:`TextMix`."""

    kind: ClassVar[Kind] = "text"
    reduced: ClassVar[bool] = True
    model = "not fitted"

    def fit(self, items: Items, n_items: int) -> None:
        self.mix, self.model = fitted_mix(items, n_items)

    def encode(self, prepared: Sequence[str]) -> np.ndarray:
        return np.asarray(self.mix.transform(prepared))


class _Shapes(Encoder):
    """Edge directions and coarse colours by :func:`shapes`."""

    kind: ClassVar[Kind] = "image"
    model = "shapes 1"

    def prepare(self, item: Any) -> np.ndarray:
        return np.asarray(open_image(item).resize((SHAPES_SIDE, SHAPES_SIDE), 3))

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return shapes(np.stack(prepared))


def shapes(pixels: np.ndarray) -> np.ndarray:
    """Rows (N, 1092) float32 of images (N, 48, 48, 3) uint8: edge directions, coarse colours.

    Histograms of oriented gradients (Dalal and Triggs 2005): in each of 6 × 6 cells the strength of
    edges in 9 directions, interpolated between neighbouring cells; every 2 × 2 cells are normalised
    to length 1, clipped at 0.2, and normalised again. Appended is the image resized to 8 × 8
    colours.
    """
    images = pixels.astype(np.float32) / 255.0
    side = SHAPES_SIDE // _N_COLOUR_CELLS
    colours = images.reshape(-1, _N_COLOUR_CELLS, side, _N_COLOUR_CELLS, side, 3).mean(axis=(2, 4))
    blocks = _blocks(_cells(images))
    # Each of the 25 blocks has length 1; divided by 5, all of them together have length 1.
    edges = blocks.reshape(len(images), -1) / (_N_CELLS - 1)
    weight = _COLOUR_WEIGHT / _N_COLOUR_CELLS
    return np.hstack([edges, weight * colours.reshape(len(images), -1)]).astype(np.float32)


def _cells(images: np.ndarray) -> np.ndarray:
    """(N, 6, 6, 9): strength of edges by direction, in the channel with the largest gradient."""
    vertical = np.zeros_like(images)
    vertical[:, 1:-1] = images[:, 2:] - images[:, :-2]
    horizontal = np.zeros_like(images)
    horizontal[:, :, 1:-1] = images[:, :, 2:] - images[:, :, :-2]
    channel_strength = np.hypot(vertical, horizontal)
    strongest = channel_strength.argmax(axis=-1)[..., None]
    vertical = np.take_along_axis(vertical, strongest, -1)[..., 0]
    horizontal = np.take_along_axis(horizontal, strongest, -1)[..., 0]
    strength = np.take_along_axis(channel_strength, strongest, -1)[..., 0]
    angle = (np.arctan2(vertical, horizontal) % np.pi) * (_N_DIRECTIONS / np.pi)
    floor = np.floor(angle)
    share = angle - floor
    lower = floor.astype(int) % _N_DIRECTIONS
    upper = (lower + 1) % _N_DIRECTIONS
    pixel_position = (np.arange(SHAPES_SIDE) + 0.5) * _N_CELLS / SHAPES_SIDE - 0.5
    distance = np.abs(np.arange(_N_CELLS)[:, None] - pixel_position)
    interpolation = np.maximum(0, 1 - distance).astype(np.float32)
    cells = np.empty((len(images), _N_CELLS, _N_CELLS, _N_DIRECTIONS), np.float32)
    for direction in range(_N_DIRECTIONS):
        weight = (lower == direction) * (1 - share) + (upper == direction) * share
        cells[..., direction] = interpolation @ (strength * weight) @ interpolation.T
    return cells


def _blocks(cells: np.ndarray) -> np.ndarray:
    """(N, 5, 5, 36): every four neighbouring cells, normalised against differences of lighting."""
    corners = cells[:, :-1, :-1], cells[:, 1:, :-1], cells[:, :-1, 1:], cells[:, 1:, 1:]
    blocks = np.concatenate(corners, axis=-1)
    return _unit(np.minimum(_unit(blocks), _MAX_VALUE))


def _unit(blocks: np.ndarray) -> np.ndarray:
    """Normalise to length 1, or less where edges are weak."""
    return blocks / np.sqrt(np.square(blocks).sum(axis=-1, keepdims=True) + _REGULARISER)


WORDS = Entry(lambda name, options: _Words(), "text")
SHAPES = Entry(lambda name, options: _Shapes(), "image")
