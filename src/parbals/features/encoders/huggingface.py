"""Models that transformers can load, from the Hugging Face hub or from a folder.

Which of their numbers become the row:

* ``bert-base-uncased``: the last layer at [CLS], the token BERT classifies by (Devlin et al. 2019),
  768 numbers, texts cut at 512 tokens. ``bert-base-uncased-mean``: the mean of the last layer over
  the text's tokens, which sentence encoders use (Reimers and Gurevych 2019).
* ``clip-vit-b32``: CLIP's image features, after its projection and not normalised, 512 numbers.
  Shorter side to 224 pixels (bicubic), the middle 224 × 224, CLIP's own mean and deviation (Radford
  et al. 2021).
* ``dinov2-vits14``: the last layer at the class token, after its layer norm, 384 numbers. Shorter
  side to 256, the middle 224 × 224 (bicubic), ImageNet's mean and deviation (Oquab et al. 2024).
* ``hf:NAME``: images for models that see: CLIP-like models give their image features; transformers
  with a class token that token; others their pooled output, else the mean over positions. Sizes and
  means are those of the folder's preprocessor_config.json, else as for DINOv2. Texts for the
  others: the mean over tokens, or, where sentence-transformers has written the folder, what its
  1_Pooling/config.json says, with its length and normalisation.

Code that comes with a model is never run. Weights that a model needs and the files do not hold are
an error: transformers would draw them at random.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.features.encoders.base import Encoder, Entry, Options, need
from parbals.features.encoders.images import CLIP, IMAGENET, Preprocess
from parbals.features.encoders.torch_models import ImageModel, TextModel
from parbals.features.encoders.weights import (
    descriptions,
    digest_of_files,
    model_files,
    model_folder,
    read_weights,
)

__all__ = ["BERT", "BERT_MEAN", "CLIP_B32", "DINOV2_S14", "HUGGINGFACE", "load_folder"]

_PACKAGES = ("torch", "transformers", "safetensors")
_CLASS_TOKEN = (
    "vit",
    "deit",
    "beit",
    "dinov2",
    "dinov2_with_registers",
    "dinov3_vit",
    "vit_mae",
    "ijepa",
)
_LONGEST = 512
_VOCABULARIES = ("tokenizer.json", "vocab.*", "*.model", "merges.txt")


@dataclass(frozen=True)
class Pooling:
    """How token vectors become one row."""

    kind: str = "mean"
    normalise: bool = False
    longest: int = _LONGEST


def load_folder(
    folder: Path,
    options: Options,
    pooling: Pooling | None = None,
    preprocess: Preprocess | None = None,
) -> Encoder:
    """The model in a folder; ``pooling`` and ``preprocess`` where they are known, else as its files
    say."""
    need(_PACKAGES, f"Loading {folder.name}", " ".join(_PACKAGES))
    paths, is_safe = model_files(folder)
    config, network = _network(folder, paths, is_safe)
    model = digest_of_files([*paths, *descriptions(folder)])
    if _sees(config):
        chosen = preprocess or _preprocess(folder)
        return ImageModel(model, network, _image_forward(network, config), chosen, options)
    how = pooling or _pooling(folder)
    limits = [how.longest, getattr(config, "max_position_embeddings", None) or _LONGEST]
    tokenizer = _tokenizer(folder)
    limits.append(min(tokenizer.model_max_length, _LONGEST))
    return TextModel(
        f"{model} {how}", network, _text_forward(network, how), tokenizer, min(limits), options
    )


def _network(folder: Path, paths: list[Path], is_safe: bool) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoModel

    safely = {"local_files_only": True, "trust_remote_code": False}
    try:
        with _quiet():
            config = AutoConfig.from_pretrained(folder, **safely)
            with _safe_weights(folder, paths, is_safe) as place:
                network, found = AutoModel.from_pretrained(
                    place,
                    config=config,
                    output_loading_info=True,
                    dtype="float32",
                    use_safetensors=True,
                    **safely,
                )
    except InputError:
        raise
    except Exception as error:  # a folder can be wrong in as many ways as there are models
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"transformers cannot load the model in {folder} ({reason}).") from None
    missing = sorted(key for key in found["missing_keys"] if "pooler" not in key)
    if missing or found.get("mismatched_keys"):
        raise InputError(
            f"The weights in {folder} lack {(missing or ['some of the right shape'])[0]}; download "
            "it again."
        )
    return config, network


@contextmanager
def _safe_weights(folder: Path, paths: list[Path], is_safe: bool) -> Iterator[Path]:
    """A folder with safetensors: the model's own, or one made for the moment of the tensors in its
    pickles."""
    if is_safe:
        yield folder
        return
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as place:
        # Tensors that share memory are written twice; safetensors knows no sharing.
        tensors = {
            name: tensor.clone().contiguous() for name, tensor in read_weights(paths).items()
        }
        save_file(tensors, Path(place) / "model.safetensors", metadata={"format": "pt"})
        yield Path(place)


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    if not any(path for pattern in _VOCABULARIES for path in folder.glob(pattern)):
        # transformers would go on with an empty vocabulary, in which all texts are alike.
        raise InputError(
            f"{folder} has no vocabulary (tokenizer.json, vocab.txt, …); download the whole model."
        )
    try:
        with _quiet():
            return AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{folder} has no tokenizer that can be loaded ({reason}); download the whole model."
        ) from None


def _sees(config: Any) -> bool:
    return any(
        hasattr(config, name)
        for name in ("vision_config", "num_channels", "image_size", "patch_size")
    )


def _image_forward(network: Any, config: Any) -> Any:
    def projected(pixels: Any) -> Any:
        found = network.get_image_features(pixel_values=pixels)
        return getattr(found, "pooler_output", found)

    def pooled(pixels: Any) -> Any:
        found = network(pixel_values=pixels)
        if getattr(config, "model_type", "") in _CLASS_TOKEN:
            return found.last_hidden_state[:, 0]
        output = getattr(found, "pooler_output", None)
        if output is not None:
            return output
        last = found.last_hidden_state
        return last.mean(dim=1) if last.ndim == 3 else last.mean(dim=(2, 3))

    return projected if hasattr(network, "get_image_features") else pooled


def _text_forward(network: Any, pooling: Pooling) -> Any:
    def forward(tokens: Any, mask: Any) -> Any:
        states = network(input_ids=tokens, attention_mask=mask).last_hidden_state
        if pooling.kind == "cls":
            rows = states[:, 0]
        else:
            weights = mask.unsqueeze(-1).to(states.dtype)
            rows = (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
        return rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-12) if pooling.normalise else rows

    return forward


def _json(path: Path) -> Any:
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} cannot be read as JSON; download it again.") from None


def _preprocess(folder: Path) -> Preprocess:
    return Preprocess.from_config(_json(folder / "preprocessor_config.json"), IMAGENET)


def _pooling(folder: Path) -> Pooling:
    how = _json(folder / "1_Pooling" / "config.json")
    longest = _json(folder / "sentence_bert_config.json").get("max_seq_length") or _LONGEST
    steps = _json(folder / "modules.json") or []
    normalise = any(str(step.get("type", "")).endswith("Normalize") for step in steps)
    return Pooling("cls" if how.get("pooling_mode_cls_token") else "mean", normalise, int(longest))


@contextmanager
def _quiet() -> Iterator[None]:
    """Loading prints tables and bars; what matters of them becomes an error of ours."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _entry(folder: str, repository: str, kind: Any, summary: str, **known: Any) -> Entry:
    def load(name: str, options: Options) -> Encoder:
        need(_PACKAGES, f"The encoder {name}", " ".join(_PACKAGES))
        return load_folder(model_folder(folder, repository), options, **known)

    return Entry(load, kind, summary)


def _load_any(name: str, options: Options) -> Encoder:
    need(_PACKAGES, f"The encoder hf:{name}", " ".join(_PACKAGES))
    return load_folder(model_folder(name), options)


_BERT = ("bert-base-uncased", "google-bert/bert-base-uncased", "text")
BERT = _entry(*_BERT, "BERT base, [CLS] of the last layer, 768 numbers", pooling=Pooling("cls"))
BERT_MEAN = _entry(
    *_BERT, "BERT base, mean of the last layer over tokens, 768 numbers", pooling=Pooling("mean")
)
CLIP_B32 = _entry(
    "clip-vit-b32",
    "openai/clip-vit-base-patch32",
    "image",
    "CLIP ViT-B/32, projected image features, 512 numbers",
    preprocess=CLIP,
)
DINOV2_S14 = _entry(
    "dinov2-vits14",
    "facebook/dinov2-small",
    "image",
    "DINOv2 ViT-S/14, class token, 384 numbers",
    preprocess=IMAGENET,
)
HUGGINGFACE = Entry(
    _load_any, None, "any model of transformers, by its name on the hub or the path of its folder"
)
