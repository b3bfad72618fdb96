"""What an encoder is, and what the table knows of it before it is loaded."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

__all__ = ["BadItem", "Encoder", "Entry", "Items", "Kind", "Options"]

Kind = Literal["text", "image"]


Items = Callable[[], Iterator[tuple[str, Any]]]
"""(name, item) in order, as often as it is called; an encoder's items are texts, or paths or pixels
of images, a project's the columns of its items."""


class BadItem(Exception):
    """One item cannot be encoded; the message says why. Raised by ``Encoder.prepare``."""


@dataclass(frozen=True)
class Options:
    """How to run an encoder.

    Attributes:
        device: None is the GPU if there is one, else the CPU.
        half: compute and store in half precision.
        batch_size: items encoded at once.
        skip_bad: leave out items that cannot be read instead of stopping at them.
    """

    device: str | None = None
    half: bool = False
    batch_size: int = 32
    skip_bad: bool = False


class Encoder(ABC):
    """A loaded encoder.

    Attributes:
        kind: what it reads, "text" or "image"; None: columns of a table.
        model: everything its rows depend on besides the items, such as a digest of the weights;
            rows made under another ``model`` are not reused.
        dtype: of the rows that are stored.
        reduced: rows are few numbers of length 1 on the average already, so that a project keeps
            them as they are.
    """

    kind: ClassVar[Kind | None]
    reduced: ClassVar[bool] = False
    model: str
    dtype: str = "<f4"

    def fit(self, items: Items, n_items: int) -> None:  # noqa: B027 - most encoders learn nothing
        """Learn from the pool's items before any is encoded; ``model`` must tell what."""

    def prepare(self, item: Any) -> Any:
        """One item, made small; called in several threads. :class:`BadItem`: it cannot be used."""
        return item

    def size(self, prepared: Any) -> int:
        """How much work an item is. Items of similar size are encoded together."""
        return 0

    @abstractmethod
    def encode(self, prepared: Sequence[Any]) -> np.ndarray:
        """Rows (B, D) of prepared items; a row depends on the others by rounding at most."""


@dataclass(frozen=True)
class Entry:
    """One line of the table: how to load an encoder by its name, and what it reads.

    ``load`` gets the name as the user wrote it (for a prefix such as "hf:", what follows it) and
    the options. ``kind`` is None where only the model itself tells.
    """

    load: Callable[[str, Options], Encoder]
    kind: Kind | None
