"""The lock files are those of the packages: a package once, with hashes, from nowhere named."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from repository import PACKAGES, ROOT

LOCKS = ROOT / "requirements"
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
PROJECTS = {
    name: tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    for name, folder in PACKAGES.items()
}


def asked(*names, extras=()):
    """What packages and their extras ask for, our own packages left out."""
    lines = []
    for project in (PROJECTS[name] for name in names):
        lines += project["dependencies"]
        for extra in extras:
            lines += project["optional-dependencies"].get(extra, [])
    return [line for line in lines if Requirement(line).name not in PROJECTS]


EXTRAS = re.search(r"^EXTRAS := \$\(addprefix --extra ,(.*)\)$", MAKEFILE, re.MULTILINE)[1].split()
WANTED = {
    "parbals": asked("parbals"),
    "label": asked("parbals", "parbals-label"),
    "bench": asked(*PROJECTS),
    "dev": [*asked(*PROJECTS, extras=EXTRAS), *GROUPS["dev"]],
    "studies": [*asked(*PROJECTS, extras=["jax"]), *GROUPS["studies"]],
    "build": GROUPS["build"],
    "tools": GROUPS["tools"],
    # PyTorch comes without hashes: every kind of machine has its own build.
    "integrations": [*asked(*PROJECTS, extras=["jax"]), *GROUPS["integrations"]],
    "label-studio": ["label-studio"],
}
PIN = re.compile(
    r"([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)( ; .+?)?((?: --hash=sha256:[0-9a-f]{64})+)"
)
OF_PYTHON = " ; python_full_version >= '3.14'"  # which we do not promise: Label Studio's own twins


def pins(name):
    """{package: version}, where every line is one package with its hashes."""
    text = (LOCKS / f"{name}.lock").read_text("utf-8").replace(" \\\n   ", "")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    matches = [PIN.fullmatch(line) for line in lines]
    assert all(matches), [line for line, m in zip(lines, matches, strict=True) if not m]
    matches = [match for match in matches if match[3] != OF_PYTHON]
    assert len({match[1] for match in matches}) == len(matches), "one version for everybody"
    return {canonicalize_name(match[1]): match[2] for match in matches}


def test_every_lock_file_is_looked_at():
    assert {path.name for path in LOCKS.iterdir()} == {f"{name}.lock" for name in WANTED}


@pytest.mark.parametrize("name", WANTED)
def test_a_lock_file_holds_what_is_wanted_and_none_of_our_own(name):
    locked = pins(name)
    assert not locked.keys() & PROJECTS.keys()
    for wanted in map(Requirement, WANTED[name]):
        version = locked.get(canonicalize_name(wanted.name))
        assert version is not None, f"{wanted} is missing in {name}; run `make lock UPGRADE=`"
        assert wanted.specifier.contains(version), f"{wanted}, but {name} has {version}; make lock"


def test_all_lock_files_agree():
    """They are installed into one environment; the tools have their own."""
    dev = pins("dev")
    for name in ("parbals", "label", "bench", "studies", "build"):
        assert {p: v for p, v in pins(name).items() if p in dev and dev[p] != v} == {}
    assert pins("parbals").items() < pins("label").items() < pins("bench").items() <= dev.items()


def test_the_library_alone_is_light():
    heavy = {"jax", "blackjax", "jaxtyping", "matplotlib", "fastapi", "rich", "torch", "pandas"}
    assert not pins("parbals").keys() & heavy
    assert not pins("label").keys() & (heavy - {"fastapi"})


@pytest.mark.parametrize("name", WANTED)
def test_a_lock_file_says_nothing_of_where_it_was_made(name):
    text = (LOCKS / f"{name}.lock").read_text("utf-8")
    assert not re.search(r"://|--index|--find-links|/tmp|/home", text)


def test_make_installs_from_the_lock_files_alone():
    """A rule that installs calls ``install`` on a lock, which takes nothing without a hash."""
    rules = {
        "$(VENV)/.installed": "$(call install,$(VENV),requirements/bench.lock",
        "$(VENV)/.installed-dev": "$(call install,$(VENV),requirements/dev.lock",
        "$(VENV)/.installed-studies": "$(call install,$(VENV),requirements/studies.lock",
        "$(LABEL_STUDIO_VENV)/.installed": "$(call install,$(LABEL_STUDIO_VENV),requirements/",
        "$(INTEGRATIONS)/.installed": "$(call install,$(INTEGRATIONS),requirements/integrations",
    }
    for target, command in rules.items():
        rule = MAKEFILE.split(f"\n{target}: ")[1].split("\n\n")[0]
        assert command in rule
        assert "$(PIP)" not in rule
    assert "--require-hashes" in MAKEFILE.split("\nLOCKED := ")[1].splitlines()[0]
    by_uv, by_pip = MAKEFILE.split("\ninstall = ")[1].splitlines()[0].split(" || ")
    assert "pip install" in by_uv
    assert "pip install" in by_pip
    assert "$(LOCKED) $(2)" in by_uv
    assert "$(LOCKED) $(2)" in by_pip
