"""What is shipped: wheels and sdists that install and work elsewhere, and a conda recipe."""

import ast
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
from repository import PACKAGES, ROOT

PROJECTS = {
    name: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    for name, folder in PACKAGES.items()
}
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
OUTPUTS = {output["package"]["name"]: output for output in RECIPE["outputs"]}
IMPORTED = {"PIL": "pillow", "skactiveml": "scikit-activeml", "sklearn": "scikit-learn"}
IMPORTED |= {"distributed": "dask", "starlette": "fastapi"}
"""Modules whose distribution has another name, or brings them along."""
CONDA_NAMES = {  # as on conda-forge, where the first is without the window toolkits
    "matplotlib": "matplotlib-base",
    "prometheus-client": "prometheus_client",
}


def bounds(requirements):
    """Name → bound of requirements as either side writes them."""
    parts = (re.fullmatch(r"([\w.-]+)(?:\[[^]]*\])?\s*(.*)", line) for line in requirements)
    return {part[1]: part[2].replace(" ", "") for part in parts}


def test_the_recipe_makes_every_package():
    assert list(OUTPUTS) == list(PROJECTS)
    assert RECIPE["context"]["version"] == parbals.__version__
    for name, output in OUTPUTS.items():
        about = RECIPE["about"] | output.get("about", {})
        assert about["license"] == PROJECTS[name]["project"]["license"]
        assert (ROOT / about["license_file"]).exists()


@pytest.mark.parametrize("name", PROJECTS)
def test_the_recipe_asks_for_what_the_package_asks_for(name):
    project = PROJECTS[name]["project"]
    ours = bounds(project["dependencies"])
    expected = {CONDA_NAMES.get(name, name): bound for name, bound in ours.items()}
    expected["python"] = project["requires-python"]
    assert bounds(OUTPUTS[name]["requirements"]["run"]) == expected


@pytest.mark.parametrize("name", PROJECTS)
def test_the_recipe_builds_what_the_package_builds(name):
    build = OUTPUTS[name]["build"]
    project = PROJECTS[name]
    assert f"pip install packages/{name} " in build["script"]
    host = bounds(OUTPUTS[name]["requirements"]["host"])
    assert bounds(project["build-system"]["requires"]).items() <= host.items()
    scripts = project["project"].get("scripts", {})
    expected = [f"{command} = {place}" for command, place in scripts.items()]
    assert build.get("python", {}).get("entry_points", []) == expected


@pytest.mark.parametrize("name", PROJECTS)
def test_one_version(name):
    """Each package asks for the very version of the one that it stands on."""
    module = PACKAGES[name] / "src" / name.replace("-", "_") / "__init__.py"
    assert f'__version__ = "{parbals.__version__}"' in module.read_text("utf-8")
    project = PROJECTS[name]["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    for line in (*project["dependencies"], *extras):
        if (asked := re.match(r"(parbals[a-z-]*)(\[.*\])?", line)) and asked[1] != name:
            assert line.endswith(f"=={parbals.__version__}"), line


@pytest.mark.parametrize("name", PROJECTS)
def test_the_pythons_that_a_package_names_are_tested(name):
    prefix = "Programming Language :: Python :: 3."
    classifiers = PROJECTS[name]["project"]["classifiers"]
    named = [line.split(" :: ")[-1] for line in classifiers if line.startswith(prefix)]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert named == re.search(r"^PYTHONS \?= (.*)$", makefile, re.MULTILINE)[1].split()
    assert PROJECTS[name]["project"]["requires-python"] == f">={named[0]}"


@pytest.mark.parametrize("name", PROJECTS)
def test_an_index_lists_a_package_under_the_words_of_the_citation(name):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert set(citation["keywords"]) <= set(PROJECTS[name]["project"]["keywords"])


def test_extras_that_lead_to_another_package_are_there():
    extras = PROJECTS["parbals"]["project"]["optional-dependencies"]
    for line in (line for lines in extras.values() for line in lines):
        if asked := re.fullmatch(r"(parbals-\w+)(?:\[([\w-]+)\])?==.*", line):
            theirs = PROJECTS[asked[1]]["project"]["optional-dependencies"]
            assert asked[2] is None or asked[2] in theirs, line


def test_what_is_named_to_install_can_be_installed():
    """``pip install 'parbals[x]'`` in code and pages names an extra that there is."""
    files = [
        *(path for folder in PACKAGES.values() for path in (folder / "src").rglob("*.py")),
        *(path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*.md")),
        *(ROOT / "examples").rglob("*.py"),
        ROOT / "README.md",
    ]
    known = PROJECTS["parbals"]["project"]["optional-dependencies"]
    for file in files:
        for extra in re.findall(r"parbals\[([a-z-]+)\]", file.read_text("utf-8")):
            assert extra in known, f"{file}: {extra}"


@pytest.mark.parametrize("name", PROJECTS)
def test_what_a_package_imports_it_asks_for(name):
    """By name, itself or through what it stands on; what is optional by an extra."""
    below = list(PROJECTS)[: list(PROJECTS).index(name) + 1]
    asked = set(below)
    for project in (PROJECTS[other]["project"] for other in below):
        extras = project["optional-dependencies"].values()
        for line in (*project["dependencies"], *(line for lines in extras for line in lines)):
            asked.add(re.match(r"[\w.-]+", line)[0])
    known = {dist.replace("-", "_") for dist in asked} | IMPORTED.keys() | sys.stdlib_module_names
    for path in _source(name):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names = [node.module] if isinstance(node, ast.ImportFrom) else []
                names += (
                    [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                )
                missing = {imported.split(".")[0] for imported in names if imported} - known
                assert not missing, f"{path}: {missing}"


@pytest.mark.parametrize("name", PROJECTS)
def test_the_work_of_others_is_in_the_notice(name):
    """Files that are no text, and texts with a copyright line: what we wrote has neither."""
    notice = PACKAGES[name] / "NOTICE"
    named = notice.read_text("utf-8") if notice.exists() else ""
    assert notice.exists() == ("NOTICE" in PROJECTS[name]["project"]["license-files"])
    for path in _source(name):
        try:
            of_others = re.search(r"\bcopyright\b|@license", path.read_text("utf-8"), re.IGNORECASE)
        except UnicodeDecodeError:
            of_others = True
        if of_others:
            assert path.relative_to(PACKAGES[name] / "src").as_posix() in named, path


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A folder with the sdists and the wheels that are made of them."""
    folder = tmp_path_factory.mktemp("dist")
    for package in PACKAGES.values():
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, package]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stdout + process.stderr
    return folder


@pytest.mark.full
@pytest.mark.parametrize("name", PROJECTS)
def test_wheel_and_sdist_hold_what_is_needed(name, shipped):
    module = name.replace("-", "_")
    (wheel,) = shipped.glob(f"{module}-0*.whl")
    (sdist,) = shipped.glob(f"{module}-0*.tar.gz")
    files = set(zipfile.ZipFile(wheel).namelist())
    source = {path.relative_to(PACKAGES[name] / "src").as_posix() for path in _source(name)}
    assert {file for file in files if file.startswith(f"{module}/")} == source
    assert f"{module}/py.typed" in files
    licences = PROJECTS[name]["project"]["license-files"]
    (folder,) = {file.split("/")[0] for file in files if ".dist-info/" in file}
    assert {f"{folder}/licenses/{file}" for file in licences} <= files
    with tarfile.open(sdist) as archive:
        names = {file.split("/", 1)[-1] for file in archive.getnames()}
    assert {"pyproject.toml", "README.md", *licences, f"src/{module}/py.typed"} <= names


@pytest.mark.full
def test_the_wheels_work_in_a_fresh_environment(shipped, tmp_path):
    """The packages come from the new environment, what they need from the one of the tests."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "new")], check=True)
    scripts = tmp_path / "new" / ("Scripts" if os.name == "nt" else "bin")
    install = [scripts / "python", "-m", "pip", "--quiet", "install", "--no-deps", "--no-index"]
    subprocess.run([*install, *shipped.glob("*.whl")], check=True)
    environment = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}

    def run(*command):
        process = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    for module in (name.replace("-", "_") for name in PROJECTS):
        place = run(scripts / "python", "-c", f"import {module}; print({module}.__file__)")
        assert Path(place.strip()).is_relative_to(tmp_path / "new")
    assert parbals.__version__ in run(scripts / "parbals", "--version")
    assert "parbals-epig" in run(scripts / "parbals", "strategies")
    assert "--classes" in run(scripts / "parbals", "init", "--help")
    assert "report" in run(scripts / "parbals", "bench", "--help")


def _source(name):
    """Files of a package's source that are not by-products of running it."""
    return [
        path
        for path in (PACKAGES[name] / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    ]
