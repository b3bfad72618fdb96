"""Where a model's files are, what exactly they hold, and reading weights without running anything
in them.

A model is a folder. It is looked for as a path, then in ``$PARBALS_MODELS`` (by default
``~/.cache/parbals/models``) under its name, then in the cache of Hugging Face; only then is it
downloaded. Weights are read from safetensors. Where there are none,
``torch.load(weights_only=True)`` reads the older pickle files: it builds tensors and refuses
everything else, so no code of theirs runs.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.features.encoders.base import cache_folder, need

__all__ = [
    "descriptions",
    "digest_of_files",
    "model_files",
    "model_folder",
    "models_folder",
    "read_weights",
]

_SAFE = "*.safetensors"
_PICKLED = ("*.bin", "*.pt", "*.pth")
_DESCRIPTIONS = ("*.json", "*.txt", "*.model")
_CHUNK = 1 << 22


def models_folder() -> Path:
    """Where models are put by hand: ``$PARBALS_MODELS``, else a folder in parbals' cache."""
    named = os.environ.get("PARBALS_MODELS")
    return Path(named).expanduser() if named else cache_folder() / "models"


def model_folder(name: str, repository: str | None = None) -> Path:
    """The folder of a model: a path, or a name under the models folder, or a repository on the
    Hugging Face hub."""
    wanted = repository or name
    given = Path(name).expanduser()
    if repository is None and given.is_dir():
        return given
    if (models_folder() / name).is_dir():
        return models_folder() / name
    if repository is None and name.startswith((".", "/", "~")):
        raise InputError(f"There is no folder {given} with a model in it.")
    (hub,) = need(["huggingface_hub"], f"Loading {wanted}", "huggingface_hub")
    last: Exception | None = None
    for offline in (True, False):
        try:
            # Pickled weights are asked for only where the repository has no others.
            found = Path(
                hub.snapshot_download(
                    wanted, allow_patterns=[_SAFE, *_DESCRIPTIONS], local_files_only=offline
                )
            )
            if not any(found.glob(_SAFE)):
                found = Path(
                    hub.snapshot_download(
                        wanted, allow_patterns=["*.bin", *_DESCRIPTIONS], local_files_only=offline
                    )
                )
            if any(found.glob(_SAFE)) or any(found.glob("*.bin")):
                return found
        except (
            Exception
        ) as error:  # its own errors, the network's, and those of a name that cannot be one
            last = error
    raise InputError(
        f"The model {wanted} is not on this machine and could not be downloaded "
        f"({_first_line(last)}): get it where there is a connection with `hf download {wanted} "
        f"--local-dir {models_folder() / name}`, and put that folder there here too."
    )


def model_files(folder: Path) -> tuple[list[Path], bool]:
    """The files with weights in a folder, and whether they are safetensors; a sentence where there
    are none."""
    safe = sorted(folder.glob(_SAFE))
    if safe:
        return safe, True
    pickled = sorted(
        path
        for pattern in _PICKLED
        for path in folder.glob(pattern)
        if path.stem != "training_args"
    )
    if not pickled:
        raise InputError(
            f"{folder} holds no weights; a file ending in .safetensors is needed beside "
            "config.json."
        )
    return pickled, False


def read_weights(paths: Iterable[Path]) -> dict[str, Any]:
    """Tensors by name, on the CPU, from safetensors or from pickles that hold nothing but tensors."""
    weights: dict[str, Any] = {}
    for path in paths:
        if path.suffix == ".safetensors":
            (safetensors,) = need(["safetensors.torch"], f"Reading {path.name}", "safetensors")
            try:
                found = safetensors.load_file(path)
            except Exception as error:
                raise InputError(
                    f"{path} is damaged ({_first_line(error)}); download it again."
                ) from None
        else:
            (torch,) = need(["torch"], f"Reading {path.name}", "torch")
            try:
                found = torch.load(path, map_location="cpu", weights_only=True)
            except Exception:
                raise InputError(
                    f"{path} is a pickle that is damaged or asks for more than tensors, so it "
                    "could run code and is not read; use the model's .safetensors file instead."
                ) from None
            found = found.get("state_dict", found) if isinstance(found, dict) else None
            if not isinstance(found, dict) or not all(
                isinstance(value, torch.Tensor) for value in found.values()
            ):
                raise InputError(
                    f"{path} does not hold tensors by name; use the model's .safetensors file "
                    "instead."
                )
        weights |= found
    return weights


def digest_of_files(paths: Iterable[Path]) -> str:
    """A digest of names and contents, which changes when any of the files does."""
    digest = hashlib.blake2b(digest_size=12)
    for path in sorted(paths):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def descriptions(folder: Path) -> list[Path]:
    """The small files beside the weights that also decide what comes out: configuration,
    vocabulary, pooling."""
    return sorted(
        path
        for pattern in _DESCRIPTIONS
        for path in [*folder.glob(pattern), *folder.glob(f"*/{pattern}")]
    )


def _first_line(error: Exception | None) -> str:
    lines = str(error).strip().splitlines() if error is not None else []
    return lines[0][:160].rstrip(".") if lines else "nothing was found there"
