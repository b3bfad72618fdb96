"""Explicit randomness: a seed in, generators out, and no global state read or written."""

import hashlib
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np

from parbals.errors import InputError

__all__ = [
    "Seed",
    "content_gumbels",
    "derive_generator",
    "row_uniforms",
    "seed_from",
    "table_digest",
]

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


def row_uniforms(seed: int, rows: np.ndarray, size: int) -> np.ndarray:
    """Uniform noise (n, size) of rows (n, d), keyed by what a row *is*: all rows at once.

    The k-th of several equal rows has noise of its own.
    """
    generator = derive_generator(seed, "row uniforms")
    bits = np.ascontiguousarray(rows, np.float64).view(np.uint64)
    odd = generator.integers(2**63, size=rows.shape[1], dtype=np.uint64) * 2 + 1
    with np.errstate(over="ignore"):
        keys = _scrambled((_scrambled(bits) * odd).sum(axis=1, dtype=np.uint64))
        _, group, counts = np.unique(keys, return_inverse=True, return_counts=True)
        by_group = np.argsort(group, kind="stable")
        starts = np.cumsum(counts) - counts
        twins = np.empty(len(rows), np.uint64)
        twins[by_group] = np.arange(len(rows)) - starts[group[by_group]]
        columns = generator.integers(2**63, size=size, dtype=np.uint64)
        mixed = _scrambled(_scrambled(keys + twins)[:, None] + columns)
    return (mixed >> np.uint64(11)) * 2.0**-53


def _scrambled(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every bit of the input changes half of the output's."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def table_digest(blocks: Iterable[np.ndarray]) -> str:
    """A digest of a matrix given in row blocks; the same numbers give the same in any precision."""
    digest = hashlib.blake2b(digest_size=16)
    for block in blocks:
        digest.update(np.ascontiguousarray(block, np.float64).tobytes())
    return digest.hexdigest()
