"""Makes the helper modules under tests/ importable from every test, and keeps a record for CI.

What the tests and their processes keep is in a folder of each run, named before any of them loads
JAX: neither the user's cache nor that of a run at the same time is touched. Compiled programs
outlive the run; JAX knows them by what they compute and its version, and the next run need not
compile them again.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "tests"))

import dose

if "PARBALS_CACHE_DIR" not in os.environ:  # the processes of a run have it from the first
    CACHE = tempfile.TemporaryDirectory(prefix="parbals-tests-")  # removed when the run ends
    os.environ["PARBALS_CACHE_DIR"] = CACHE.name
    compiled = Path(__file__).parent / ".pytest_cache" / "parbals" / "compiled"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(compiled))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

# Taken out of the environment, so that a pytest that a test starts adds nothing to the record.
RECORD = os.environ.pop("PARBALS_TEST_RECORD", None)


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


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check array shapes in the first calls of every test."""
    if item.config.getoption("jaxtyping_packages", None):
        import shape_checks

        shape_checks.start_test()


def pytest_configure(config: pytest.Config) -> None:
    """Print the slowest tests in CI, where suites must stay within their time."""
    if RECORD is not None:
        config.option.durations = 12


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a dose, each test function keeps a few of its parameter sets."""
    if dose.SHARE == 1:
        return
    functions = [item.nodeid.split("[")[0] for item in items]
    selected = dose.thin_out(items, functions)
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = selected


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Leave it to ``.ci/suites.py`` to judge failed tests, which it reads in the record: what a
    target does after them is done, and any other reason to fail is not mistaken for them.
    """
    if RECORD is not None and exitstatus == pytest.ExitCode.TESTS_FAILED:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Add a line of JSON to the record of ``.ci/suites.py``: counts, and how to repeat failures."""
    if RECORD is None:
        return
    reports = terminalreporter.stats
    failures = {report.nodeid for kind in ("failed", "error") for report in reports.get(kind, [])}
    warning_filters = [f"-W{rule}" for rule in config.option.pythonwarnings or []]
    line = {
        "passed": len(reports.get("passed", [])),
        "skipped": len(reports.get("skipped", [])),
        "failures": sorted(failures),
        "python": sys.executable,
        "options": [
            "-m",
            config.option.markexpr,
            f"--jaxtyping-packages={config.getoption('jaxtyping_packages') or ''}",
            *warning_filters,
        ],
        "environment": {
            name: value
            for name, value in os.environ.items()
            if name.startswith("PARBALS_") and name != "PARBALS_CACHE_DIR"
        },
    }
    with open(RECORD, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
