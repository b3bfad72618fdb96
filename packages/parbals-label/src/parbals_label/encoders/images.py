"""Open images safely, and resize them to the size and range that a model was trained with.

Only PNG, JPEG, GIF (first frame), WEBP and BMP are decoded; Pillow runs other programs for some
other formats. Images of more than 89 million pixels are refused before they are decoded: a few
bytes can claim to be that large.
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
_MAX_PIXELS = 89_478_485
_MAX_ASPECT_RATIO = 16
"""A longer image is cropped before it is resized; only its centre is used anyway."""


def open_image(item: Any) -> Any:
    """Open a path or pixels, (H, W) or (H, W, 3) uint8, as an upright RGB image."""
    pillow = need("PIL.Image", "Reading images", "parbals[images]")
    if isinstance(item, np.ndarray):
        return pillow.fromarray(np.ascontiguousarray(item)).convert("RGB")
    try:
        if not Path(item).is_file():  # opening a pipe would block for ever
            raise BadItem("there is no such file")
        with pillow.open(item, formats=FORMATS) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise BadItem(f"{image.width} × {image.height} pixels are too many")
            image.load()
            return _eight_bits(pillow, _upright(image)).convert("RGB")
    except BadItem:
        raise
    except Exception as error:  # decoders of damaged files raise nearly anything
        raise BadItem(" ".join(str(error).split())[:100] or type(error).__name__) from None


def _eight_bits(pillow: Any, image: Any) -> Any:
    """Keep the upper eight bits of 16-bit grey; Pillow would clip, and turn most pixels white."""
    if not image.mode.startswith("I"):
        return image
    return pillow.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))


def _upright(image: Any) -> Any:
    """Rotate an image as its EXIF data say."""
    with suppress(Exception):  # damaged EXIF data are no reason to refuse an image
        return need("PIL.ImageOps", "Reading images", "parbals[images]").exif_transpose(image)
    return image


@dataclass(frozen=True)
class Preprocess:
    """Image preprocessing of a model: resize, centre crop, then (x/255 - mean)/std.

    Attributes:
        resize: pixels of the shorter side, or of both if ``square``.
        crop: pixels of both sides of the centre crop.
        mean: of each channel.
        std: of each channel.
        resample: Pillow's number of the filter: 2 bilinear, 3 bicubic.
        square: resize both sides, which changes the aspect ratio.
    """

    resize: int
    crop: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resample: int = 3
    square: bool = False

    def pixels(self, item: Any) -> np.ndarray:
        """(crop, crop, 3) uint8, normalised later on the device of the model."""
        image = open_image(item)
        width, height = image.size
        if max(width, height) > _MAX_ASPECT_RATIO * min(width, height):
            image = _centre_crop(
                image,
                min(width, _MAX_ASPECT_RATIO * height),
                min(height, _MAX_ASPECT_RATIO * width),
            )
            width, height = image.size
        shorter = min(width, height)
        size = (int(self.resize * width / shorter), int(self.resize * height / shorter))
        if self.square:
            size = (self.resize, self.resize)
        if size != image.size:
            image = image.resize(size, self.resample)
        return np.asarray(_centre_crop(image, self.crop, self.crop))

    @staticmethod
    def from_config(config: Mapping[str, Any], default: "Preprocess") -> "Preprocess":
        """Read a model's ``preprocessor_config.json``; what it lacks is as in ``default``."""
        size = config.get("size")
        crop = config.get("crop_size")
        square = isinstance(size, Mapping) and "height" in size
        resize = _side(size) or default.resize
        cropped = _side(crop) if config.get("do_center_crop", crop is not None) else None
        if cropped is None and not config.get("do_center_crop", False):
            cropped = resize if size is not None else default.crop
        crop_side = min(cropped or default.crop, resize)
        mean = tuple(config.get("image_mean") or default.mean)
        std = tuple(config.get("image_std") or default.std)
        if config.get("do_normalize") is False:
            mean = (0.0, 0.0, 0.0)
            std = (1.0, 1.0, 1.0)
        return Preprocess(
            resize=resize,
            crop=crop_side,
            mean=mean,
            std=std,
            resample=int(config.get("resample", default.resample)),
            square=square,
        )


def _side(size: Any) -> int | None:
    if isinstance(size, Mapping):
        size = size.get("shortest_edge", size.get("height"))
    return int(size) if isinstance(size, (int, float)) else None


def _centre_crop(image: Any, width: int, height: int) -> Any:
    left = (image.width - width) // 2
    top = (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


IMAGENET = Preprocess(256, 224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = Preprocess(
    224, 224, (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
)
