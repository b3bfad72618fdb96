"""What is shipped: a wheel and an sdist that install and work elsewhere, and a conda recipe."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import parbals
import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
CONDA_NAMES = {"matplotlib": "matplotlib-base"}  # without the window toolkits, as on conda-forge


def bounds(requirements):
    """Name → bound of requirements as either side writes them."""
    parts = (re.fullmatch(r"([\w.-]+)(?:\[[^]]*\])?\s*(.*)", line) for line in requirements)
    return {part[1]: part[2].replace(" ", "") for part in parts}


def test_the_recipe_asks_for_what_the_package_asks_for():
    ours = bounds(PROJECT["project"]["dependencies"])
    expected = {CONDA_NAMES.get(name, name): bound for name, bound in ours.items()}
    expected["python"] = PROJECT["project"]["requires-python"]
    assert bounds(RECIPE["requirements"]["run"]) == expected


def test_the_recipe_builds_what_the_package_builds():
    assert RECIPE["context"]["version"] == parbals.__version__
    assert RECIPE["package"]["name"] == PROJECT["project"]["name"]
    host = bounds(RECIPE["requirements"]["host"])
    assert bounds(PROJECT["build-system"]["requires"]).items() <= host.items()
    scripts = [f"{name} = {place}" for name, place in PROJECT["project"]["scripts"].items()]
    assert RECIPE["build"]["python"]["entry_points"] == scripts
    assert RECIPE["about"]["license"] == PROJECT["project"]["license"]
    assert (ROOT / RECIPE["about"]["license_file"]).exists()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A folder with the sdist and the wheel that is made of the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.full
def test_wheel_and_sdist_hold_what_is_needed(shipped):
    (wheel,) = shipped.glob("*.whl")
    (sdist,) = shipped.glob("*.tar.gz")
    files = set(zipfile.ZipFile(wheel).namelist())
    source = {path.relative_to(ROOT / "src").as_posix() for path in _tracked("src")}
    assert {name for name in files if name.startswith("parbals/")} == source
    assert "parbals/py.typed" in files
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/parbals/py.typed"} <= names
    assert {path.relative_to(ROOT).as_posix() for path in _tracked("tests")} <= names


@pytest.mark.full
def test_the_wheel_works_in_a_fresh_environment(shipped, tmp_path):
    """The package comes from the new environment, its dependencies from the one of the tests."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "new")], check=True)
    scripts = tmp_path / "new" / ("Scripts" if os.name == "nt" else "bin")
    install = [scripts / "python", "-m", "pip", "--quiet", "install", "--no-deps", "--no-index"]
    subprocess.run([*install, *shipped.glob("*.whl")], check=True)
    environment = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}

    def run(*command):
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    place = run(scripts / "python", "-c", "import parbals; print(parbals.__file__)")
    assert Path(place.strip()).is_relative_to(tmp_path / "new")
    assert parbals.__version__ in run(scripts / "parbals", "--version")
    assert "parbals-epig" in run(scripts / "parbals", "strategies")


def _tracked(folder):
    """Files of a folder that are not by-products of running it."""
    return [
        path
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    ]
