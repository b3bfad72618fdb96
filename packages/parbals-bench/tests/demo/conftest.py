"""One tiny run of the demo, shared by the tests that look at it."""

import pytest
from matplotlib.figure import Figure
from parbals_bench.demo import report
from parbals_bench.demo.plots import pool_map
from parbals_bench.demo.run import run_demo


@pytest.fixture(scope="session")
def demo(stages):
    return run_demo(2, "12+1x3", n_targets=40, progress=lambda *stage: stages.append(stage))


@pytest.fixture(scope="session")
def stages():
    """What the run said of its progress."""
    return []


@pytest.fixture(scope="session")
def places(demo):
    return pool_map(demo, n_shown=60)


@pytest.fixture
def quick_pictures(monkeypatch):
    """Drawing takes a second a page; tests that read the text alone do without."""
    for name in ("curves", "map_figure"):
        monkeypatch.setattr(report, name, lambda *args: Figure((1, 1)))
