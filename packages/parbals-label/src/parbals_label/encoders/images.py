"""Images, opened with care, and brought to the size and range a model was trained with.

Only PNG, JPEG, GIF (first frame), WEBP and BMP are decoded; other formats that Pillow knows call
outside programs. Anything above 89 million pixels is refused unread: a few bytes can claim to be
that large.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from parbals.files import need

from parbals_label.encoders.base import BadItem

__all__ = ["CLIP", "FORMATS", "IMAGENET", "Preprocess", "open_image"]

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
_MOST_PIXELS = 89_478_485
_LONGEST = 16  # only the middle is used: an image longer than so many times its height is cut first


def open_image(item: Any) -> Any:
    """A path or pixels, (H, W) or (H, W, 3) uint8, as an upright RGB image."""
    pillow = need("PIL.Image", "Reading images", "parbals[images]")
    if isinstance(item, np.ndarray):
        return pillow.fromarray(np.ascontiguousarray(item)).convert("RGB")
    try:
        if not Path(item).is_file():  # opening a pipe would wait for ever
            raise BadItem("there is no such file")
        with pillow.open(item, formats=FORMATS) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise BadItem(f"{image.width} × {image.height} pixels are too many")
            image.load()
            return _eight_bits(pillow, _upright(image)).convert("RGB")
    except BadItem:
        raise
    except Exception as error:  # decoders of damaged files raise nearly anything
        raise BadItem(" ".join(str(error).split())[:100] or type(error).__name__) from None


def _eight_bits(pillow: Any, image: Any) -> Any:
    """Sixteen bits of grey lose their lower eight; Pillow alone would turn most of them white."""
    if not image.mode.startswith("I"):
        return image
    return pillow.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))


def _upright(image: Any) -> Any:
    with suppress(Exception):  # a broken note of the camera is no reason to refuse the picture
        return need("PIL.ImageOps", "Reading images", "parbals[images]").exif_transpose(image)
    return image


@dataclass(frozen=True)
class Preprocess:
    """Shorter side to ``resize`` (``square``: both), its middle ``crop``, then (x/255 - mean)/std.

    ``resample`` is Pillow's number of the filter: 2 bilinear, 3 bicubic.
    """

    resize: int
    crop: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resample: int = 3
    square: bool = False

    def pixels(self, item: Any) -> np.ndarray:
        """(crop, crop, 3) uint8; it becomes floating point when the batch is on its device."""
        image = open_image(item)
        width, height = image.size
        if max(width, height) > _LONGEST * min(width, height):
            image = _middle(image, min(width, _LONGEST * height), min(height, _LONGEST * width))
            width, height = image.size
        short = min(width, height)
        size = (int(self.resize * width / short), int(self.resize * height / short))
        size = (self.resize, self.resize) if self.square else size
        if size != image.size:
            image = image.resize(size, self.resample)
        return np.asarray(_middle(image, self.crop, self.crop))

    @staticmethod
    def from_config(config: Mapping[str, Any], default: "Preprocess") -> "Preprocess":
        """As a model's ``preprocessor_config.json`` says, else as in ``default``."""
        size, crop = config.get("size"), config.get("crop_size")
        square = isinstance(size, Mapping) and "height" in size
        resize = _side(size) or default.resize
        cropped = _side(crop) if config.get("do_center_crop", crop is not None) else None
        if cropped is None and not config.get("do_center_crop", False):
            cropped = resize if size is not None else default.crop
        crop_side = min(cropped or default.crop, resize)
        mean, std = (
            tuple(config.get(key) or other)
            for key, other in (("image_mean", default.mean), ("image_std", default.std))
        )
        if config.get("do_normalize") is False:
            mean, std = (0.0,) * 3, (1.0,) * 3
        return Preprocess(
            resize, crop_side, mean, std, int(config.get("resample", default.resample)), square
        )


def _side(size: Any) -> int | None:
    if isinstance(size, Mapping):
        size = size.get("shortest_edge", size.get("height"))
    return int(size) if isinstance(size, (int, float)) else None


def _middle(image: Any, width: int, height: int) -> Any:
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


IMAGENET = Preprocess(256, 224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = Preprocess(
    224, 224, (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
)
