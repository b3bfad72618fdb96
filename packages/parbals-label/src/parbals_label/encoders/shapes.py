"""Images as numbers without a model: which way edges run in each part, and coarse colours.

Histograms of oriented gradients (Dalal and Triggs 2005) on 48 × 48 pixels: in each of 6 × 6 cells
how strong edges of 9 directions are, neighbouring cells sharing what lies between them; every 2 × 2
cells are brought to length 1, values above 0.2 cut, and brought to length 1 again. Beside them the
image shrunk to 8 × 8 colours.
"""

import numpy as np

__all__ = ["SIDE", "shapes"]

SIDE = 48
_CELLS, _DIRECTIONS = 6, 9
_COLOURS = 8
_CUT = 0.2
_FAINT = 1e-2
_COLOUR_WEIGHT = 0.7


def shapes(pixels: np.ndarray) -> np.ndarray:
    """Rows (N, 1092) float32 of images (N, 48, 48, 3) uint8."""
    images = pixels.astype(np.float32) / 255.0
    side = SIDE // _COLOURS
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
    angle = (np.arctan2(down, across) % np.pi) * (_DIRECTIONS / np.pi)
    before = np.floor(angle)
    share = angle - before
    before = before.astype(int) % _DIRECTIONS
    after = (before + 1) % _DIRECTIONS
    place = (np.arange(SIDE) + 0.5) * _CELLS / SIDE - 0.5
    near = np.maximum(0, 1 - np.abs(np.arange(_CELLS)[:, None] - place)).astype(np.float32)
    cells = np.empty((len(images), _CELLS, _CELLS, _DIRECTIONS), np.float32)
    for direction in range(_DIRECTIONS):
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
