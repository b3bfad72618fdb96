"""Encoders turn texts and images into rows of numbers: one family a file, listed in ``table``.

This package imports nothing heavy: torch, transformers, Pillow and scikit-learn are loaded by the
encoder that needs them, and names of other modules on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parbals_label.encoders.base import BadItem, Encoder, Entry, Items, Options
    from parbals_label.encoders.embedding import Embedded, embed
    from parbals_label.encoders.table import ENCODERS, load_encoder

_HOMES = {
    "ENCODERS": "table",
    "BadItem": "base",
    "Embedded": "embedding",
    "Encoder": "base",
    "Entry": "base",
    "Items": "base",
    "Options": "base",
    "embed": "embedding",
    "load_encoder": "table",
}

__all__ = [
    "ENCODERS",
    "BadItem",
    "Embedded",
    "Encoder",
    "Entry",
    "Items",
    "Options",
    "embed",
    "load_encoder",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
