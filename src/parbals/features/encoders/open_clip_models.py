"""Models of open_clip, from the Hugging Face hub or from a folder with open_clip_config.json and
safetensors.

The row is the image's projected features, not normalised, as for ``clip-vit-b32``. Sizes, mean and
deviation are those of the folder's own configuration. open_clip needs torchvision to be imported at
all.
"""

import json
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.features.encoders.base import Encoder, Entry, Options, need
from parbals.features.encoders.images import CLIP, Preprocess
from parbals.features.encoders.torch_models import ImageModel
from parbals.features.encoders.weights import (
    descriptions,
    digest_of_files,
    model_files,
    model_folder,
)

__all__ = ["OPEN_CLIP", "open_clip_preprocess"]

_FILTERS = {"bilinear": 2, "bicubic": 3}


def _load(name: str, options: Options) -> Encoder:
    modules = ["torch", "safetensors", "open_clip"]
    library = need(
        modules, f"The encoder open_clip:{name}", "torch torchvision safetensors open_clip_torch"
    )[-1]
    folder = model_folder(name)
    paths, is_safe = model_files(folder)
    if not is_safe:
        raise InputError(
            f"{folder} holds pickled weights only; get the model's open_clip_model.safetensors."
        )
    config = _config(folder)
    try:
        network = library.create_model(f"local-dir:{folder}")
    except Exception as error:  # as many ways to be wrong as there are models
        raise InputError(
            f"open_clip cannot load the model in {folder} ({' '.join(str(error).split())[:200]})."
        ) from None
    model = digest_of_files([*paths, *descriptions(folder)])
    return ImageModel(model, network, network.encode_image, open_clip_preprocess(config), options)


def _config(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / "open_clip_config.json").read_text("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        raise InputError(
            f"{folder / 'open_clip_config.json'} is missing or damaged; download the whole model."
        ) from None


def open_clip_preprocess(config: dict[str, Any]) -> Preprocess:
    """From ``preprocess_cfg``; the size is that of the vision tower."""
    known = config.get("preprocess_cfg") or {}
    vision = (config.get("model_cfg") or {}).get("vision_cfg") or {}
    side = known.get("size") or vision.get("image_size") or CLIP.crop
    side = int(side[0] if isinstance(side, (list, tuple)) else side)
    mean, std = known.get("mean") or CLIP.mean, known.get("std") or CLIP.std
    resample = _FILTERS.get(str(known.get("interpolation", "bicubic")), 3)
    return Preprocess(
        side, side, tuple(mean), tuple(std), resample, known.get("resize_mode") == "squash"
    )


OPEN_CLIP = Entry(
    _load, "image", "any model of open_clip, by its name on the hub or the path of its folder"
)
