"""Small data, and what becomes of it in this process."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bench_helpers import TINY_SUITE, InProcess, load_tiny, tiny_data, without_seconds
from parbals_bench.run.folder import ResultsFolder
from parbals_bench.run.grid import read_suite, run_grid


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
