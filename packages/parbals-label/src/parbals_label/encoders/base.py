"""The interface of encoders, and their entries in the table."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

__all__ = ["BadItem", "Encoder", "Entry", "Items", "Kind", "Options"]

Kind = Literal["text", "image"]


Items = Callable[[], Iterator[tuple[str, Any]]]
"""A function that iterates over (name, item) from the start whenever it is called. For encoders an
item is a text, or a path or pixels of an image; for projects, the columns of an item."""


class BadItem(Exception):
    """An item cannot be encoded; the message says why. Raised by ``Encoder.prepare``."""


@dataclass(frozen=True)
class Options:
    """How to run an encoder.

    Attributes:
        device: by default the GPU if there is one, else the CPU.
        half: compute and store in half precision.
        batch_size: items encoded at once.
        skip_bad: leave items that cannot be read blank instead of raising an error.
    """

    device: str | None = None
    half: bool = False
    batch_size: int = 32
    skip_bad: bool = False


class Encoder(ABC):
    """A loaded encoder.

    Attributes:
        kind: what it reads, "text" or "image"; None for columns of a table.
        model: identifies everything that rows depend on besides the items, such as a digest of the
            weights; cached rows of another ``model`` are not reused.
        dtype: of stored rows.
        reduced: rows are already low-dimensional and of length 1 on average, so that a project
            does not apply PCA to them.
    """

    kind: ClassVar[Kind | None]
    reduced: ClassVar[bool] = False
    model: str
    dtype: str = "<f4"

    def fit(self, items: Items, n_items: int) -> None:  # noqa: B027 - most encoders are not fitted
        """Fit the encoder to the pool before any item is encoded; ``model`` must identify it."""

    def prepare(self, item: Any) -> Any:
        """Prepare an item, in one of several threads; :class:`BadItem` if it cannot be used."""
        return item

    def size(self, prepared: Any) -> int:
        """The relative cost of an item; items of similar size are encoded together."""
        return 0

    @abstractmethod
    def encode(self, prepared: Sequence[Any]) -> np.ndarray:
        """Rows (B, D) of prepared items; up to rounding, a row does not depend on the others."""


@dataclass(frozen=True)
class Entry:
    """An entry of the table of encoders.

    Attributes:
        load: loads the encoder from its name as the user wrote it, without a prefix such as "hf:",
            and the options.
        kind: what it reads; None if only the model tells.
    """

    load: Callable[[str, Options], Encoder]
    kind: Kind | None
