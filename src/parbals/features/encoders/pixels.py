"""Images shrunk to 16 × 16 colours, 768 numbers from 0 to 1: no model and no download; a real
encoder sees more."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from parbals.features.encoders.base import Encoder, Entry, Kind, Options
from parbals.features.encoders.images import open_image

__all__ = ["PIXELS"]

_SIDE = 16


class _Pixels(Encoder):
    kind: ClassVar[Kind] = "image"

    def __init__(self) -> None:
        self.model = f"{_SIDE} × {_SIDE}, bicubic"

    def prepare(self, item: Any) -> np.ndarray:
        return np.asarray(open_image(item).resize((_SIDE, _SIDE), 3))

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(prepared).reshape(len(prepared), -1).astype(np.float32) / 255.0


def _load(name: str, options: Options) -> Encoder:
    return _Pixels()


PIXELS = Entry(_load, "image", "16 × 16 colours, 768 numbers; no download")
