"""Small data, and a place for compiled programs that all tests and their processes share."""

import os
import sys
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

sys.path.insert(0, str(Path(__file__).parent))

from bench_helpers import TINY_SUITE, load_tiny, tiny_data, without_seconds

from parbals.bench.executors import InProcess
from parbals.bench.folder import ResultsFolder
from parbals.bench.grid import read_suite, run_grid
from parbals.numerics import use_disk_cache

_SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory):
    """What one process compiled the others find on disk; the user's own cache is left alone."""
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or tmp_path_factory.mktemp("compiled")
    before = {name: getattr(jax.config, name) for name in _SETTINGS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARBALS_CACHE_DIR", str(folder))
        use_disk_cache(folder)
        reset_cache()
        yield
    for name, value in before.items():
        jax.config.update(name, value)
    reset_cache()


@pytest.fixture(scope="session")
def data():
    return tiny_data()


@pytest.fixture(scope="session")
def tiny_runs():
    """Two strategies, two seeds."""
    return read_suite(TINY_SUITE).only(strategies=["random", "confidence"], seeds=2)


@pytest.fixture(scope="session")
def computed_here(tmp_path_factory, tiny_runs):
    """What they give in this process, by key."""
    folder = ResultsFolder(tmp_path_factory.mktemp("whole"))
    assert run_grid(tiny_runs, folder, load_tiny, InProcess()) == []
    return without_seconds(folder)
