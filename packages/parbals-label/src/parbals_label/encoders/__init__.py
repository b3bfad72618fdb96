"""Encoders turn texts and images into rows of numbers: one family a file, listed in ``table``.

This package imports nothing heavy: torch, transformers, Pillow and scikit-learn are loaded by the
encoder that needs them.
"""

from parbals_label.encoders.base import BadItem, Encoder, Entry, Items, Options
from parbals_label.encoders.embedding import Embedded, embed
from parbals_label.encoders.table import ENCODERS, load_encoder

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
