"""The lock files are those of pyproject.toml: a package once, with hashes, from nowhere named."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
WANTED = {
    "requirements.lock": PROJECT["dependencies"],
    "requirements-dev.lock": [*PROJECT["dependencies"], *EXTRAS["dev"]],
    "requirements-bench.lock": [*PROJECT["dependencies"], *EXTRAS["bench"]],
    "requirements-build.lock": ["hatchling>=1.24", "editables"],
    "requirements-tools.lock": ["cyclonedx-bom", "uv"],
    # PyTorch comes without hashes: every kind of machine has its own build.
    "requirements-integrations.lock": [
        *PROJECT["dependencies"],
        *EXTRAS["datasets"],
        *(name for name in EXTRAS["integrations"] if not name.startswith("parbals[")),
    ],
    "requirements-label-studio.lock": ["label-studio"],
}
PIN = re.compile(
    r"([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)( ; .+?)?((?: --hash=sha256:[0-9a-f]{64})+)"
)
OF_PYTHON = " ; python_full_version >= '3.14'"  # which we do not promise: Label Studio's own twins


def pins(name):
    """{package: version}, where every line is one package with its hashes."""
    text = (ROOT / name).read_text("utf-8").replace(" \\\n   ", "")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    matches = [PIN.fullmatch(line) for line in lines]
    assert all(matches), [line for line, m in zip(lines, matches, strict=True) if not m]
    matches = [match for match in matches if match[3] != OF_PYTHON]
    assert len({match[1] for match in matches}) == len(matches), "one version for everybody"
    return {canonicalize_name(match[1]): match[2] for match in matches}


@pytest.mark.parametrize("name", WANTED)
def test_a_lock_file_holds_what_is_wanted(name):
    locked = pins(name)
    for wanted in map(Requirement, WANTED[name]):
        version = locked.get(canonicalize_name(wanted.name))
        assert version is not None, f"{wanted} is missing in {name}; run `make lock UPGRADE=`"
        assert wanted.specifier.contains(version), f"{wanted}, but {name} has {version}; make lock"


def test_all_lock_files_agree():
    """They are installed into one environment; the tools have their own."""
    dev = pins("requirements-dev.lock")
    for name in ("requirements.lock", "requirements-bench.lock", "requirements-build.lock"):
        other = pins(name)
        assert {p: v for p, v in other.items() if p in dev and dev[p] != v} == {}
    assert pins("requirements.lock").items() <= dev.items()


@pytest.mark.parametrize("name", WANTED)
def test_a_lock_file_says_nothing_of_where_it_was_made(name):
    assert not re.search(r"://|--index|--find-links|/tmp|/home", (ROOT / name).read_text("utf-8"))


def test_make_installs_from_the_lock_files_alone():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for stamp, lock in (("", ""), ("-dev", "-dev"), ("-bench", "-bench")):
        rule = makefile.split(f"$(VENV)/.installed{stamp}: ")[1].split("\n\n")[0]
        assert f"$(INSTALL) requirements{lock}.lock" in rule
        assert "$(PIP)" not in rule
    assert "--require-hashes" in makefile.split("INSTALL := ")[1].splitlines()[0]
    for place in ("$(VENV)-label-studio", "$(INTEGRATIONS)"):
        rule = makefile.split(f"\n{place}/.installed: ")[1].split("\n\n")[0]
        (install,) = re.findall(r"install (.*requirements-.*\.lock)", rule)
        assert "--require-hashes" in install
