"""Small data, hand-written records, and a place for compiled programs that all tests share."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bench_helpers import tiny_data


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory):
    """Worker processes share what one of them compiled, and leave the user's own cache alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARBALS_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        yield


@pytest.fixture(scope="session")
def data():
    return tiny_data()
