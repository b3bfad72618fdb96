"""Models of timm, from the Hugging Face hub or from a folder with config.json and
model.safetensors.

The row is what the classifier would see (``num_classes=0``): pooled features. Sizes, mean,
deviation and filter are those of the model's own configuration. ``timm:resnet18.a1_in1k`` stands
for the repository timm/resnet18.a1_in1k. timm needs torchvision to be imported at all.
"""

import json
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.features.encoders.base import Encoder, Entry, Options, need
from parbals.features.encoders.images import IMAGENET, Preprocess
from parbals.features.encoders.torch_models import ImageModel
from parbals.features.encoders.weights import (
    descriptions,
    digest_of_files,
    model_files,
    model_folder,
    read_weights,
)

__all__ = ["TIMM", "timm_preprocess"]

_FILTERS = {"bilinear": 2, "bicubic": 3}


def _load(name: str, options: Options) -> Encoder:
    timm = need(
        ["torch", "safetensors", "timm"],
        f"The encoder timm:{name}",
        "torch torchvision safetensors timm",
    )[-1]
    is_hub_name = "/" not in name and not Path(name).is_dir()
    folder = model_folder(name, f"timm/{name}" if is_hub_name else None)
    paths, _ = model_files(folder)
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        network = timm.create_model(
            config["architecture"], pretrained=False, num_classes=0, **config.get("model_args", {})
        )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise InputError(
            f"timm cannot make the model that {folder / 'config.json'} describes ({error})."
        ) from None
    missing, _unused = network.load_state_dict(read_weights(paths), strict=False)
    if missing:
        raise InputError(f"The weights in {folder} lack {missing[0]}; download it again.")
    model = digest_of_files([*paths, *descriptions(folder)])
    return ImageModel(
        model, network, network, timm_preprocess(config.get("pretrained_cfg") or config), options
    )


def timm_preprocess(config: dict[str, Any]) -> Preprocess:
    """From ``input_size`` (3, S, S), ``crop_pct`` p, ``mean``, ``std``, ``interpolation``: shorter
    side to ⌊S/p⌋."""
    side = int((config.get("input_size") or (3, IMAGENET.crop, IMAGENET.crop))[-1])
    share = float(config.get("crop_pct") or 0.875)
    mean, std = config.get("mean") or IMAGENET.mean, config.get("std") or IMAGENET.std
    resample = _FILTERS.get(str(config.get("interpolation", "bicubic")), 3)
    return Preprocess(max(int(side / share), side), side, tuple(mean), tuple(std), resample)


TIMM = Entry(_load, "image", "any model of timm, by its name or the path of its folder")
