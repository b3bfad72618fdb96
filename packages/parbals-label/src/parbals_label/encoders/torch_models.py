"""Models of PyTorch as encoders: on the GPU when there is one, in half precision if asked."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from parbals.errors import InputError, first_line
from parbals.files import need

from parbals_label.encoders.base import BadItem, Encoder, Kind, Options
from parbals_label.encoders.images import Preprocess

__all__ = ["ImageModel", "TextModel"]


def _on_device(network: Any, options: Options) -> Any:
    """The network ready to encode: on its device, in its precision, with dropout off."""
    torch = need("torch", "This encoder", "parbals[encoders]")
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
    """What texts and images share: a network, where it is, and what its numbers are called."""

    def __init__(
        self, model: str, network: Any, forward: Callable[..., Any], options: Options
    ) -> None:
        self._network = _on_device(network, options)
        self._forward = forward
        self._parameter = next(self._network.parameters())
        self.model = f"{model} {'float16' if options.half else 'float32'}"
        self.dtype = "<f2" if options.half else "<f4"

    @contextmanager
    def _running(self, n_items: int) -> Iterator[Any]:
        import torch

        try:
            with torch.inference_mode():
                yield torch
        except torch.OutOfMemoryError:
            raise InputError(
                f"The device ran out of memory with {n_items} items at once; what is done is kept, "
                f"so run it again with --batch-size {max(1, n_items // 2)}."
            ) from None


class ImageModel(_Model):
    """Images (B, H, W, 3) uint8 to rows; ``forward`` gets the normalised (B, 3, H, W)."""

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

    def encode(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        with self._running(len(prepared)) as torch:
            device = self._parameter.device
            mean, std = (
                torch.tensor(values, device=device).view(1, 3, 1, 1)
                for values in (self.preprocess.mean, self.preprocess.std)
            )
            pixels = torch.from_numpy(np.stack(prepared)).to(device).permute(0, 3, 1, 2)
            normalised = (pixels.float() / 255.0 - mean) / std
            return _rows(self._forward(normalised.to(self._parameter.dtype)))


class TextModel(_Model):
    """Texts to rows; ``forward`` gets tokens and attention mask (B, T), T at most ``longest``."""

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
        self._tokenize = functools.partial(
            tokenizer, padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )

    def prepare(self, item: Any) -> str:
        if not isinstance(item, str):
            raise BadItem(f"it is not text but {type(item).__name__}")
        return item.encode("utf-8", "replace").decode()  # half of a surrogate pair has no token

    def size(self, prepared: Any) -> int:
        return len(prepared)

    def encode(self, prepared: Sequence[str]) -> np.ndarray:
        tokens = self._tokenize(list(prepared))
        with self._running(len(prepared)):
            device = self._parameter.device
            return _rows(
                self._forward(tokens["input_ids"].to(device), tokens["attention_mask"].to(device))
            )


def _rows(features: Any) -> np.ndarray:
    return np.asarray(features.flatten(1).cpu().numpy())
