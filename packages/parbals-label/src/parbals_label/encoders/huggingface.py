"""Models that transformers can load, from the Hugging Face hub or from a folder.

How a row is read from each model:

* ``bert-base-uncased``: the last layer at [CLS], the token BERT classifies by (Devlin et al. 2019),
  768 numbers, texts cut at 512 tokens.
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
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parbals.errors import InputError, first_line
from parbals.files import need

from parbals_label.encoders.base import Encoder, Entry, Kind, Options
from parbals_label.encoders.images import CLIP, IMAGENET, Preprocess
from parbals_label.encoders.torch_models import (
    ImageModel,
    TextModel,
    folder_digest,
    model_files,
    model_folder,
)

__all__ = [
    "BERT",
    "CLIP_B32",
    "DINOV2_S14",
    "HUGGINGFACE",
    "REPOSITORIES",
    "configured_pooling",
    "load_folder",
    "quiet",
]

REPOSITORIES = {
    "bert-base-uncased": "google-bert/bert-base-uncased",
    "clip-vit-b32": "openai/clip-vit-base-patch32",
    "dinov2-vits14": "facebook/dinov2-small",
}
_PACKAGES = "torch transformers safetensors"
_INSTALL = "parbals[encoders]"
_CLASS_TOKEN_MODELS = (
    *("vit", "deit", "beit", "dinov2", "dinov2_with_registers", "dinov3_vit", "vit_mae", "ijepa"),
)
_IMAGE_MODEL_ATTRIBUTES = ("vision_config", "num_channels", "image_size", "patch_size")
_MAX_TOKENS = 512
_MAX_CONFIGURED_TOKENS = 1 << 20
_MAX_LAYERS = 1_000
_VOCABULARY_FILES = ("tokenizer.json", "vocab.*", "*.model", "merges.txt")


@dataclass(frozen=True)
class Pooling:
    """How token vectors become one row."""

    kind: str = "mean"
    normalise: bool = False
    longest: int = _MAX_TOKENS


def load_folder(
    folder: Path,
    options: Options,
    pooling: Pooling | None = None,
    preprocess: Preprocess | None = None,
) -> Encoder:
    """Load the model in a folder; ``pooling`` and ``preprocess`` override its configuration."""
    need(_PACKAGES, f"Loading {folder.name}", _INSTALL)
    model = folder_digest(folder, model_files(folder))
    config, network = _network(folder)
    if any(hasattr(config, attribute) for attribute in _IMAGE_MODEL_ATTRIBUTES):
        config_file = folder / "preprocessor_config.json"
        preprocess = preprocess or Preprocess.from_config(_json(config_file), IMAGENET)
        return ImageModel(model, network, _image_forward(network, config), preprocess, options)
    pooling = pooling or configured_pooling(folder)
    tokenizer = _tokenizer(folder)
    positions = getattr(config, "max_position_embeddings", None) or _MAX_TOKENS
    longest = min(pooling.longest, positions, tokenizer.model_max_length, _MAX_TOKENS)
    forward = _text_forward(network, pooling)
    return TextModel(f"{model} {pooling}", network, forward, tokenizer, longest, options)


def _network(folder: Path) -> tuple[Any, Any]:
    """Load configuration and network without running code of the model."""
    from transformers import AutoConfig, AutoModel

    safe_options = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet():
            config = AutoConfig.from_pretrained(folder, **safe_options)
            _check_size(config, folder)
            network, loading = AutoModel.from_pretrained(
                folder,
                config=config,
                output_loading_info=True,
                dtype="float32",
                weights_only=True,
                **safe_options,
            )
    except InputError:
        raise
    except Exception as error:  # models fail to load in many ways
        raise InputError(
            f"transformers cannot load the model in {folder} ({first_line(error)})."
        ) from None
    missing = sorted(key for key in loading["missing_keys"] if "pooler" not in key)
    if missing or loading.get("mismatched_keys"):
        raise InputError(
            f"The weights in {folder} lack {(missing or ['some of the right shape'])[0]}; download "
            "it again."
        )
    return config, network


def _check_size(config: Any, folder: Path) -> None:
    """Refuse a configuration of a much larger network than the one whose weights are there.

    transformers would allocate it, and a project that somebody made up could ask for any amount.
    """
    import torch
    from transformers import AutoModel

    numbers = list(_whole_numbers(config.to_dict()))
    n_weights = math.inf
    if max((n for name, n in numbers if "layers" in name), default=0) <= _MAX_LAYERS:
        with torch.device("meta"):  # shapes alone
            network = AutoModel.from_config(config, trust_remote_code=False)
        n_weights = sum(parameter.numel() for parameter in network.parameters())
    n_bytes = sum(path.stat().st_size for path in model_files(folder))
    if n_weights > n_bytes:  # a weight takes a byte at least
        raise InputError(
            f"The configuration in {folder} is of a larger network than its weights; download the "
            "model again."
        )


def _whole_numbers(configuration: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Names and values of whole numbers in a configuration, nested ones too."""
    for name, value in configuration.items():
        if isinstance(value, dict):
            yield from _whole_numbers(value)
        elif isinstance(value, int):
            yield name, value


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    if not any(path for pattern in _VOCABULARY_FILES for path in folder.glob(pattern)):
        # transformers would continue with an empty vocabulary, in which all texts are equal.
        raise InputError(
            f"{folder} has no vocabulary (tokenizer.json, vocab.txt, …); download the whole model."
        )
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:
        raise InputError(
            f"{folder} has no tokenizer that can be loaded ({first_line(error)}); download the "
            "whole model."
        ) from None


def _image_forward(network: Any, config: Any) -> Any:
    def projected(pixels: Any) -> Any:
        output = network.get_image_features(pixel_values=pixels)
        return getattr(output, "pooler_output", output)

    def pooled(pixels: Any) -> Any:
        output = network(pixel_values=pixels)
        last = output.last_hidden_state
        if getattr(config, "model_type", "") in _CLASS_TOKEN_MODELS:
            return last[:, 0]
        if getattr(output, "pooler_output", None) is not None:
            return output.pooler_output
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
        if pooling.normalise:
            return rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-12)
        return rows

    return forward


def _json(path: Path, kind: type = dict) -> Any:
    """The object, or the list of objects, in a JSON file; empty if there is no file."""
    if not path.is_file():
        return kind()
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} cannot be read as JSON; download it again.") from None
    objects = value if kind is list else [value]
    if not isinstance(value, kind) or not all(isinstance(entry, dict) for entry in objects):
        raise InputError(f"{path} is no configuration of a model; download it again.")
    return value


def configured_pooling(folder: Path) -> Pooling:
    """The pooling that sentence-transformers has configured; the mean over tokens by default."""
    config = _json(folder / "1_Pooling" / "config.json")
    lengths = folder / "sentence_bert_config.json"
    longest = _json(lengths).get("max_seq_length") or _MAX_TOKENS
    if not isinstance(longest, int) or not 0 < longest <= _MAX_CONFIGURED_TOKENS:
        raise InputError(
            f"{lengths} has max_seq_length {longest!r}; a number from 1 to "
            f"{_MAX_CONFIGURED_TOKENS:,} is needed."
        )
    steps = _json(folder / "modules.json", list)
    normalise = any(str(step.get("type", "")).endswith("Normalize") for step in steps)
    kind = "cls" if config.get("pooling_mode_cls_token") else "mean"
    return Pooling(kind, normalise, longest)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers while it loads; problems are raised as errors."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    has_progress_bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_progress_bar:
            logging.enable_progress_bar()


def _entry(builtin: str | None, kind: Kind | None, **configuration: Any) -> Entry:
    """An entry of the table of encoders; ``builtin`` None takes the model that the user names."""

    def load(name: str, options: Options) -> Encoder:
        encoder = name if builtin else f"hf:{name}"
        need(_PACKAGES, f"The encoder {encoder}", _INSTALL)
        folder = model_folder(builtin or name, builtin and REPOSITORIES[builtin])
        return load_folder(folder, options, **configuration)

    return Entry(load, kind)


BERT = _entry("bert-base-uncased", "text", pooling=Pooling("cls"))
CLIP_B32 = _entry("clip-vit-b32", "image", preprocess=CLIP)
DINOV2_S14 = _entry("dinov2-vits14", "image", preprocess=IMAGENET)
HUGGINGFACE = _entry(None, None)
