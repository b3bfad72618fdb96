"""Explicit randomness: generators from seeds, without global state."""

import hashlib
from collections.abc import Iterable
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from parbals.errors import InputError

__all__ = ["Seed", "content_gumbels", "derive_generator", "seed_from", "table_digest"]

# As text: NumPy loads its generators on first use, and reading a report uses none.
Seed: TypeAlias = "int | np.random.Generator | np.random.RandomState | None"


def seed_from(random_state: Seed) -> int:
    """A seed from what users pass as ``random_state``.

    An integer is the seed itself. A generator is advanced by one draw, so consecutive calls differ,
    as in scikit-learn. ``None`` draws a 63-bit seed from the operating system.

    >>> seed_from(7)
    7
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    is_integer = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if is_integer and random_state >= 0:
        return int(random_state)
    raise InputError(
        f"random_state is {random_state!r}; pass a non-negative integer, a NumPy random generator, "
        "or None."
    )


def derive_generator(seed: int, *path: Any) -> "np.random.Generator":
    """An independent generator for each ``path`` (names and numbers) under one seed.

    >>> first, second = (derive_generator(0, "target", 3).random() for _ in range(2))
    >>> first == second
    True
    """
    digest = hashlib.blake2b(repr((seed, *path)).encode(), digest_size=32).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))


def content_gumbels(seed: int, contents: list[bytes], occurrence: int, size: int) -> np.ndarray:
    """Standard Gumbel noise (len(contents), size), keyed by an item's content, not its position.

    If the rows or classes of a pool are reordered, the pseudo-labels and the batch stay the same.
    ``occurrence`` distinguishes exact duplicates: their labels are independent given the
    parameters, so each needs independent noise.
    """
    n_earlier: dict[bytes, int] = {}
    noise = np.empty((len(contents), size))
    for row, content in enumerate(contents):
        duplicate = n_earlier.get(content, 0)
        n_earlier[content] = duplicate + 1
        key = hashlib.blake2b(content, digest_size=16).hexdigest()
        generator = derive_generator(seed, "gumbel", key, occurrence, duplicate)
        noise[row] = generator.gumbel(size=size)
    return noise


def table_digest(blocks: Iterable[np.ndarray]) -> str:
    """A digest of a matrix in row blocks; equal numbers in any precision have equal digests."""
    digest = hashlib.blake2b(digest_size=16)
    for block in blocks:
        digest.update(np.ascontiguousarray(block, np.float64).tobytes())
    return digest.hexdigest()
