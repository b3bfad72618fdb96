"""Memory-mapped files, without their pages piling up."""

import mmap
from typing import Any

__all__ = ["release_pages"]


def release_pages(array: Any) -> None:
    """Forget the pages of a memory-mapped array that were read so far; anything else is left alone.

    The system would do so itself when memory runs short, but until then a walk over a large file looks, to every
    tool that watches the process, as if the whole file were held in memory.
    """
    mapped = getattr(array, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)
