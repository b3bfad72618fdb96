"""PyTorch models as encoders: on the GPU if there is one, optionally in half precision.

A model is a folder. It is looked for as a path, then in ``$PARBALS_MODELS`` (by default
``~/.cache/parbals/models``) under its name, then in the cache of Hugging Face; only then is it
downloaded. Weights are read without running any code: from safetensors, and where there are none
transformers reads the older pickle files by ``torch.load(weights_only=True)``, which builds tensors
and refuses everything else.
"""

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from parbals.errors import InputError, first_line
from parbals.files import need

from parbals_label.encoders.base import BadItem, Encoder, Kind, Options
from parbals_label.encoders.images import Preprocess
from parbals_label.files import cache_folder

__all__ = ["ImageModel", "TextModel", "file_digest", "folder_digest", "model_files", "model_folder"]

_INSTALL = "parbals[encoders]"
_SAFETENSORS = "*.safetensors"
_PICKLED = "pytorch_model*.bin"
_CONFIG_FILES = ("*.json", "*.txt", "*.model")


def model_folder(name: str, repository: str | None = None) -> Path:
    """A model's folder: a path, a name in the models folder, or a repository on the hub."""
    configured = os.environ.get("PARBALS_MODELS")
    models = Path(configured).expanduser() if configured else cache_folder() / "models"
    repository_name = repository or name
    path = Path(name).expanduser()
    if repository is None and path.is_dir():
        return path
    if (models / name).is_dir():
        return models / name
    if repository is None and name.startswith((".", "/", "~")):
        raise InputError(f"There is no folder {path} with a model in it.")
    hub = need("huggingface_hub", f"Loading {repository_name}", _INSTALL)
    reason = "no weights were found there"
    for offline in (True, False):
        try:
            for weights in (_SAFETENSORS, _PICKLED):  # pickled ones only if there are no others
                patterns = [weights, *_CONFIG_FILES]
                folder = Path(
                    hub.snapshot_download(
                        repository_name, allow_patterns=patterns, local_files_only=offline
                    )
                )
                if any(folder.glob(weights)):
                    return folder
        except Exception as error:  # of the hub, of the network, or of an invalid name
            reason = first_line(error, 160)
    raise InputError(
        f"The model {repository_name} is not on this machine and could not be downloaded "
        f"({reason}): download it on a machine with a connection by `hf download {repository_name} "
        f"--local-dir {models / name}`, and copy that folder to the same place here."
    )


def model_files(folder: Path) -> list[Path]:
    """The files with weights in a folder."""
    files = sorted(folder.glob(_SAFETENSORS)) or sorted(folder.glob(_PICKLED))
    if not files:
        raise InputError(
            f"{folder} holds no weights; a file ending in .safetensors is needed beside "
            "config.json."
        )
    return files


def file_digest(paths: Iterable[Path]) -> str:
    """A digest of names and contents, which changes when any of the files does."""
    digest = hashlib.blake2b(digest_size=12)
    for path in sorted(paths):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while chunk := file.read(1 << 22):
                digest.update(chunk)
    return digest.hexdigest()


def folder_digest(folder: Path, paths: Iterable[Path]) -> str:
    """A digest of weights, configuration, vocabulary and pooling: all that rows depend on."""
    folders = (folder, *(path for path in folder.iterdir() if path.is_dir()))
    config_files = [
        file for parent in folders for pattern in _CONFIG_FILES for file in parent.glob(pattern)
    ]
    return file_digest([*paths, *config_files])


def _on_device(network: Any, options: Options) -> Any:
    """The network ready to encode: on its device, in its precision, with dropout off."""
    torch = need("torch", "This encoder", _INSTALL)
    name = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except Exception as error:
        raise InputError(
            f"The device {name!r} cannot be used ({first_line(error)}); choose cpu, or cuda where "
            "there is one."
        ) from None
    return network.eval().to(device, torch.float16 if options.half else torch.float32)


class _Model(Encoder):
    """The common part of text and image models: a network on its device, and its precision."""

    def __init__(
        self, model: str, network: Any, forward: Callable[..., Any], options: Options
    ) -> None:
        self.network = _on_device(network, options)
        self._forward = forward
        self._parameter = next(self.network.parameters())
        self.model = f"{model} {'float16' if options.half else 'float32'}"
        self.dtype = "<f2" if options.half else "<f4"

    @property
    def device(self) -> Any:
        """The device of the network."""
        return self._parameter.device

    def rows(self, prepared: Sequence[Any]) -> Any:
        """A tensor (B, D), with gradients where the network is trained."""
        raise NotImplementedError

    def encode(self, prepared: Sequence[Any]) -> np.ndarray:
        import torch

        try:
            with torch.inference_mode():
                return np.asarray(self.rows(prepared).cpu().numpy())
        except torch.OutOfMemoryError:
            n_items = len(prepared)
            raise InputError(
                f"The device ran out of memory with {n_items} items at once{self._memory()}; "
                "finished items are kept, so run it again with --batch-size "
                f"{max(1, n_items // 2)}."
            ) from None

    def _memory(self) -> str:
        """Who holds a GPU's memory, in words; nothing for other devices."""
        import torch

        if self.device.type != "cuda":
            return ""
        n_free, n_bytes = torch.cuda.mem_get_info(self.device)
        n_own = torch.cuda.memory_reserved(self.device)
        others = "JAX and other programs" if "jax" in sys.modules else "other programs"
        return (
            f" (of its {n_bytes / 1e9:.1f} GB this model holds {n_own / 1e9:.1f}, "
            f"{others} {(n_bytes - n_free - n_own) / 1e9:.1f})"
        )


class ImageModel(_Model):
    """Encodes images (B, H, W, 3) uint8; ``forward`` gets them normalised, as (B, 3, H, W)."""

    kind: ClassVar[Kind] = "image"

    def __init__(
        self,
        model: str,
        network: Any,
        forward: Callable[[Any], Any],
        preprocess: Preprocess,
        options: Options,
    ) -> None:
        super().__init__(f"{model} {preprocess}", network, forward, options)
        self.preprocess = preprocess

    def prepare(self, item: Any) -> np.ndarray:
        return self.preprocess.pixels(item)

    def rows(self, prepared: Sequence[np.ndarray]) -> Any:
        import torch

        mean = torch.tensor(self.preprocess.mean, device=self.device).view(1, 3, 1, 1)
        std = torch.tensor(self.preprocess.std, device=self.device).view(1, 3, 1, 1)
        pixels = torch.from_numpy(np.stack(prepared)).to(self.device).permute(0, 3, 1, 2)
        normalised = (pixels.float() / 255.0 - mean) / std
        return self._forward(normalised.to(self._parameter.dtype)).flatten(1)


class TextModel(_Model):
    """Encodes texts; ``forward`` gets tokens and attention mask (B, T), T at most ``longest``."""

    kind: ClassVar[Kind] = "text"

    def __init__(
        self,
        model: str,
        network: Any,
        forward: Callable[..., Any],
        tokenizer: Any,
        longest: int,
        options: Options,
    ) -> None:
        super().__init__(f"{model} {longest} tokens", network, forward, options)
        self.tokenizer = tokenizer
        self.longest = longest
        self._tokenize = functools.partial(
            tokenizer, padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )

    def prepare(self, item: Any) -> str:
        if not isinstance(item, str):
            raise BadItem(f"it is not text but {type(item).__name__}")
        return item.encode("utf-8", "replace").decode()  # a lone surrogate has no token

    def size(self, prepared: Any) -> int:
        return len(prepared)

    def rows(self, prepared: Sequence[str]) -> Any:
        encoded = self._tokenize(list(prepared))
        tokens = encoded["input_ids"].to(self.device)
        mask = encoded["attention_mask"].to(self.device)
        return self._forward(tokens, mask)
