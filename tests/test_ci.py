"""CI runs every suite that we own: none is left to somebody's memory."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib

import dose
import pytest
from repository import ROOT

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
RULES = dict(re.findall(r"^([a-z][a-z-]*):([^\n#]*)", MAKEFILE, re.MULTILINE))
"""Target → its prerequisites."""
MARKERS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"][
    "ini_options"
]["markers"]


@pytest.fixture(scope="module")
def suites():
    spec = importlib.util.spec_from_file_location("suites", ROOT / ".ci" / "suites.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["suites"] = module
    spec.loader.exec_module(module)
    return module


def reached(target, suites):
    """Whether a target is a suite, or stands for several that are."""
    names = {suite.target for suite in suites.SUITES}
    parts = [part for part in RULES[target].split() if part in RULES]
    return target in names or (bool(parts) and all(reached(part, suites) for part in parts))


def test_every_test_target_is_a_suite(suites):
    targets = [name for name in RULES if name.startswith("test")]
    assert len(targets) > 8
    for target in {*targets, "docs", "sizes", "soak"} - {"test-everything"}:
        assert reached(target, suites), f"make {target} is in no run of .ci/suites.py"


def test_every_marker_is_run_by_a_suite(suites):
    for marker in MARKERS:
        (target,) = re.findall(r"`make ([a-z-]+)`", marker)
        assert reached(target, suites), marker
        name = marker.split(":")[0]
        assert re.search(rf'-m "?{name}\b', MAKEFILE), f"no target selects the marker {name}"


def test_slow_tests_lie_where_their_suite_looks():
    (folders,) = re.findall(r"-m slow ((?:packages/\S+ )+)", MAKEFILE)
    searched = [ROOT / folder for folder in folders.split()]
    for file in [*ROOT.glob("packages/*/tests/**/test_*.py"), *ROOT.glob("tests/**/test_*.py")]:
        if re.search(r"mark\.slow\b", file.read_text("utf-8")):
            is_searched = any(file.is_relative_to(folder) for folder in searched)
            assert is_searched, f"make test-statistics misses {file}"


def test_ci_runs_the_command_of_the_readme_first_and_leaves_out_two_suites(suites):
    assert suites.SUITES[0].target == "test"
    assert "make test" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    left_out = {suite.target for suite in suites.SUITES if not suite.in_ci}
    assert left_out == {"test-encoders", "soak"}
    assert "python3 .ci/suites.py" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_every_suite_is_a_target(suites):
    for suite in suites.SUITES:
        assert suite.target in RULES


def test_the_page_shows_the_record(suites):
    rows = json.loads(suites.RECORD.read_text("utf-8"))
    assert suites.as_markdown(rows) in suites.PAGE.read_text("utf-8"), ".ci/suites.py --table"


TESTS = """
import os
import pytest

def test_passes():
    pass

def test_fails():
    assert False

def test_fails_the_first_time():
    file = os.environ["PARBALS_SEEN"]
    if not os.path.exists(file):
        open(file, "w").close()
        assert False

@pytest.mark.parametrize("number", range(40))
def test_has_many_parameter_sets(number):
    pass
"""


def test_a_failed_test_is_run_once_more_alone(suites, tmp_path, monkeypatch):
    """A real run of pytest with this repository's own hooks."""
    for file in ("conftest.py", "pyproject.toml"):
        (tmp_path / file).write_text((ROOT / file).read_text("utf-8"), "utf-8")
    (tmp_path / "tests").mkdir()
    for file in ("dose.py", "shape_checks.py"):
        (tmp_path / "tests" / file).write_text((ROOT / "tests" / file).read_text("utf-8"))
    (tmp_path / "test_few.py").write_text(TESTS)
    command = f"{sys.executable} -m pytest -q test_few.py"
    (tmp_path / "Makefile").write_text(f"quick:\n\t{command}\n\techo the next step\n")
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setenv("PARBALS_SEEN", str(tmp_path / "seen"))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    outcome = suites.run_suite(suites.Suite("quick", "it works", dose=True), full_counts=False)
    assert outcome.failed == ["test_few.py::test_fails"]
    assert outcome.flaky == ["test_few.py::test_fails_the_first_time"]
    assert outcome.passed == 1 + 1 + dose.MAX_PARAMETER_SETS
    assert outcome.exit_code == 0, "what follows the tests in a target is done all the same"
    assert not outcome.ok


def test_a_target_that_fails_without_a_failed_test_fails(suites, tmp_path, monkeypatch):
    (tmp_path / "Makefile").write_text("quick:\n\tfalse\n")
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    assert not suites.run_suite(suites.Suite("quick", "it works"), full_counts=False).ok


def test_a_dose_keeps_evenly_spaced_parameter_sets():
    items = [*range(100), *range(3)]
    functions = ["many"] * 100 + ["few"] * 3
    assert dose.thin_out(items, functions) == [0, 25, 50, 75, 0, 1, 2]


def test_a_dose_is_never_less_than_the_small_count(monkeypatch):
    monkeypatch.setattr(dose, "SHARE", 0.05)
    assert dose.full_count(1000) == 50
    assert dose.full_count(20, least=10) == 10
    assert dose.full_count(3, least=10) == 3


def test_the_runner_needs_nothing_but_python():
    command = [sys.executable, "-I", "-S", str(ROOT / ".ci" / "suites.py"), "--help"]
    assert "--everything" in subprocess.run(command, capture_output=True, text=True).stdout
