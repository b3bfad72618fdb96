"""Image models of timm and open_clip, from the Hugging Face hub or from a folder.

``timm:NAME``: what the classifier would see (``num_classes=0``), pooled features, of a folder with
config.json and model.safetensors; ``timm:resnet18.a1_in1k`` is timm/resnet18.a1_in1k on the hub.
``open_clip:NAME``: the image's projected features, not normalised, as for ``clip-vit-b32``, of a
folder with open_clip_config.json and safetensors. Sizes, mean, deviation and filter are those of
the model's own configuration. Both libraries need torchvision to be imported at all.
"""

import json
from pathlib import Path
from typing import Any

from parbals.errors import InputError, first_line
from parbals.files import need

from parbals_label.encoders.base import Encoder, Entry, Options
from parbals_label.encoders.images import CLIP, IMAGENET, Preprocess
from parbals_label.encoders.torch_models import ImageModel
from parbals_label.encoders.weights import folder_digest, model_files, model_folder, read_weights

__all__ = ["OPEN_CLIP", "TIMM", "open_clip_preprocess", "timm_preprocess"]

_INSTALL = "parbals[image-encoders]"
_FILTERS = {"bilinear": 2, "bicubic": 3}


def _load_timm(name: str, options: Options) -> Encoder:
    *_, timm = need("torch safetensors timm", f"The encoder timm:{name}", _INSTALL)
    is_hub_name = "/" not in name and not Path(name).is_dir()
    folder = model_folder(name, f"timm/{name}" if is_hub_name else None)
    paths, _ = model_files(folder)
    config = _config(folder / "config.json")
    try:
        network = timm.create_model(
            config["architecture"], pretrained=False, num_classes=0, **config.get("model_args", {})
        )
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"timm cannot make the model that {folder / 'config.json'} describes ({error})."
        ) from None
    missing, _ = network.load_state_dict(read_weights(paths), strict=False)
    if missing:
        raise InputError(f"The weights in {folder} lack {missing[0]}; download it again.")
    preprocess = timm_preprocess(config.get("pretrained_cfg") or config)
    return ImageModel(folder_digest(folder, paths), network, network, preprocess, options)


def timm_preprocess(config: dict[str, Any]) -> Preprocess:
    """``input_size`` (3, S, S) and ``crop_pct`` p: shorter side to ⌊S/p⌋, the middle S × S."""
    side = int((config.get("input_size") or (3, IMAGENET.crop, IMAGENET.crop))[-1])
    share = float(config.get("crop_pct") or 0.875)
    mean, std = config.get("mean") or IMAGENET.mean, config.get("std") or IMAGENET.std
    resample = _FILTERS.get(str(config.get("interpolation", "bicubic")), 3)
    return Preprocess(max(int(side / share), side), side, tuple(mean), tuple(std), resample)


def _load_open_clip(name: str, options: Options) -> Encoder:
    *_, open_clip = need("torch safetensors open_clip", f"The encoder open_clip:{name}", _INSTALL)
    folder = model_folder(name)
    paths, is_safe = model_files(folder)
    if not is_safe:
        raise InputError(
            f"{folder} holds pickled weights only; get the model's open_clip_model.safetensors."
        )
    preprocess = open_clip_preprocess(_config(folder / "open_clip_config.json"))
    try:
        network = open_clip.create_model(f"local-dir:{folder}")
    except Exception as error:  # as many ways to be wrong as there are models
        raise InputError(
            f"open_clip cannot load the model in {folder} ({first_line(error, 200)})."
        ) from None
    model = folder_digest(folder, paths)
    return ImageModel(model, network, network.encode_image, preprocess, options)


def open_clip_preprocess(config: dict[str, Any]) -> Preprocess:
    """As ``preprocess_cfg`` says; the size is that of the vision tower."""
    known = config.get("preprocess_cfg") or {}
    vision = (config.get("model_cfg") or {}).get("vision_cfg") or {}
    side = known.get("size") or vision.get("image_size") or CLIP.crop
    side = int(side[0] if isinstance(side, (list, tuple)) else side)
    mean, std = known.get("mean") or CLIP.mean, known.get("std") or CLIP.std
    resample = _FILTERS.get(str(known.get("interpolation", "bicubic")), 3)
    square = known.get("resize_mode") == "squash"
    return Preprocess(side, side, tuple(mean), tuple(std), resample, square)


def _config(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        raise InputError(f"{path} is missing or damaged; download the whole model.") from None


TIMM = Entry(_load_timm, "image", "any model of timm, by its name or the path of its folder")
OPEN_CLIP = Entry(
    _load_open_clip,
    "image",
    "any model of open_clip, by its name on the hub or the path of its folder",
)
