"""Explicit randomness: a seed in, generators out, and no global state read or written."""

import hashlib
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np

from parbals.errors import InputError

__all__ = ["Seed", "content_gumbels", "derive_generator", "seed_from", "table_digest"]

Seed = int | np.random.Generator | np.random.RandomState | None


def seed_from(random_state: Seed) -> int:
    """A 63-bit seed from whatever users pass as ``random_state``.

    An integer is itself; a generator is advanced by one draw (so consecutive calls differ, as in
    scikit-learn); ``None`` asks the operating system.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if whole and random_state >= 0:
        return int(random_state)
    raise InputError(
        f"random_state is {random_state!r}; pass a non-negative integer, a NumPy random generator, "
        "or None."
    )


def derive_generator(seed: int, *path: Any) -> np.random.Generator:
    """An independent generator for each ``path`` (names and numbers) under one seed."""
    digest = hashlib.blake2b(repr((seed, *path)).encode(), digest_size=32).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))


def content_gumbels(seed: int, contents: list[bytes], occurrence: int, size: int) -> np.ndarray:
    """Standard Gumbel noise (len(contents), size), keyed by what an item *is*, not where it stands.

    A pool whose rows or classes are reordered therefore receives the same pseudo-labels, and the
    same batch is chosen. ``occurrence`` tells exact duplicates apart: given the parameters their
    labels are independent, so each needs noise of its own.
    """
    seen: dict[bytes, int] = {}
    noise = np.empty((len(contents), size))
    for row, content in enumerate(contents):
        twin = seen.get(content, 0)
        seen[content] = twin + 1
        key = hashlib.blake2b(content, digest_size=16).hexdigest()
        noise[row] = derive_generator(seed, "gumbel", key, occurrence, twin).gumbel(size=size)
    return noise


def table_digest(blocks: Iterable[np.ndarray]) -> str:
    """A digest of a matrix given in row blocks; the same numbers give the same in any precision."""
    digest = hashlib.blake2b(digest_size=16)
    for block in blocks:
        digest.update(np.ascontiguousarray(block, np.float64).tobytes())
    return digest.hexdigest()
