"""Makes the helper modules under tests/ importable from every test.

What the tests and their processes keep is in a folder of their own, named before any of them loads
JAX: the user's cache is left alone. Compiled programs outlive the run; JAX knows them by what they
compute, its version and the folder's name, and the next run need not compile them again.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "tests"))

if "PARBALS_CACHE_DIR" not in os.environ:  # the processes of a run have it from the first
    cache = Path(__file__).parent / ".pytest_cache" / "parbals"
    os.environ["PARBALS_CACHE_DIR"] = str(cache)
    for name in {path.name for path in cache.glob("*")} - {"compiled"}:
        shutil.rmtree(cache / name, ignore_errors=True)
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


@pytest.fixture(scope="session", autouse=True)
def threads_of_our_own() -> Iterator[None]:
    """As inside a learner: the linear algebra libraries take one thread, and what is shared out to
    several is by the library's own. Theirs would spin more than they compute, the more so as the
    tests are two processes on two cores.
    """
    import scipy.linalg  # noqa: F401  # it brings a library of its own
    from parbals.machine import several_threads

    with several_threads():
        yield
