"""One tiny run of the demo, shared by the tests that look at it."""

import pytest

from parbals.demo import report
from parbals.demo.plots import pool_map
from parbals.demo.run import Settings, run_demo

TINY = Settings(
    n_seeds=2,
    n_initial=12,
    batch_size=3,
    n_rounds=2,
    n_samples=64,
    n_judge_samples=64,
    n_target=40,
    n_features=8,
    n_shown=60,
)


@pytest.fixture(scope="session")
def settings():
    return TINY


@pytest.fixture(scope="session")
def result():
    return run_demo(TINY)


@pytest.fixture(scope="session")
def places(result):
    return pool_map(result)


@pytest.fixture
def quick_pictures(monkeypatch):
    """Drawing takes a second a page; tests that read the text alone do without."""
    for name in ("curve_png", "map_png"):
        monkeypatch.setattr(report, name, lambda *args: b"")
