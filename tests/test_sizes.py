"""Packages installed as a user has them: how large they are, and what works there.

``make sizes`` prints the table. Limits are of everything under site-packages, compiled files
included, in MB of 10⁶ bytes.
"""

import itertools
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from pages import program_of
from repository import PACKAGES, ROOT

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("sizes")]
LIMITS = {"parbals": 320, "parbals-label": 380, "parbals-bench": 460}
DOCUMENTED = re.compile(r"^\| `(parbals[\w-]*)` \|.*\| (\d+) MB", re.MULTILINE)
"""A row of the table in docs/index.md: package and megabytes."""
TOLERANCE = 25
"""Megabytes by which wheels of other machines may differ from the documented size."""
OPTIONAL = {
    "parbals": "blackjax jax jaxtyping matplotlib dask distributed skactiveml",
    "parbals-label": "PIL pyarrow datasets torch transformers safetensors huggingface_hub timm "
    "open_clip jax jaxtyping tokenizers onnxruntime",
    "parbals-bench": "dask distributed dask_jobqueue cryptography torch transformers",
}
"""What modules of a package may miss: packages of its extras."""


def printed_installs(page):
    """What a page tells its readers to install besides parbals."""
    return re.findall(r"`pip install ([^`]+)`", page.read_text("utf-8"))


UV = Path(sys.prefix) / "tools" / "bin" / "uv"
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"), key=printed_installs)
"""Those that install nothing more come first: what others install does not help them."""


class Place(NamedTuple):
    """A fresh environment without pip."""

    folder: Path
    site: Path

    def run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        program, *rest = command
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        return subprocess.run(
            [str(self.folder / "bin" / program), *rest],
            cwd=folder or self.folder,
            env=kept | {"PARBALS_CACHE_DIR": str(self.folder / "cache"), "MPLBACKEND": "Agg"},
            capture_output=True,
            text=True,
            check=False,
        )


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


def checked(*command: object) -> None:
    process = run(*command)
    assert process.returncode == 0, process.stdout + process.stderr


def install(folder: Path, *arguments: object) -> None:
    """By uv, which is quick, or by pip where uv is missing or cannot reach the index."""
    python = folder / "bin" / "python"
    quick = [UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    if not UV.exists() or run(*quick, *arguments).returncode != 0:
        pip = [sys.executable, "-m", "pip", "--python", python]
        checked(*pip, "install", "--quiet", *arguments)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """{package: an environment that holds it, what it stands on and what these need}."""
    top = tmp_path_factory.mktemp("sizes")
    dist = top / "dist"  # all wheels in one folder: hints name the one beside that of parbals
    for package in PACKAGES.values():
        build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", dist]
        checked(*build, package)
    installs = {}
    wheels = []
    for name in LIMITS:
        folder = top / name
        wheels += dist.glob(f"{name.replace('-', '_')}-0*.whl")
        checked(sys.executable, "-m", "venv", "--without-pip", folder)
        lock = ROOT / "requirements" / f"{name.removeprefix('parbals-')}.lock"
        install(folder, "--require-hashes", "--no-deps", "--requirement", lock)
        install(folder, "--no-deps", "--no-index", *wheels)
        (site,) = folder.glob("lib/python*/site-packages")
        installs[name] = Place(folder, site)
    return installs


@pytest.mark.parametrize("name", LIMITS)
def test_an_install_is_light(name, places):
    site = places[name].site
    sizes = {}
    for path in site.rglob("*"):
        if path.is_file() and not path.is_symlink():
            top = path.relative_to(site).parts[0]
            sizes[top] = sizes.get(top, 0) + path.stat().st_size / 1e6
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    shown = ", ".join(f"{part} {size:.0f}" for part, size in largest)
    total = sum(sizes.values())
    sys.stdout.write(f"\n{name}: {total:.0f} MB of {LIMITS[name]} allowed ({shown})\n")
    assert total <= LIMITS[name], shown
    documented = dict(DOCUMENTED.findall((ROOT / "docs" / "index.md").read_text("utf-8")))
    assert abs(total - int(documented[name])) <= TOLERANCE, documented


@pytest.mark.parametrize("name", LIMITS)
def test_every_module_loads_or_misses_an_extra(name, places):
    """What import-linter says of the source is true of what is installed."""
    module = name.replace("-", "_")
    program = f"""
import importlib, pkgutil, sys
top = importlib.import_module("{module}")
for found in pkgutil.walk_packages(top.__path__, "{module}.", onerror=lambda name: None):
    if found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(found.name)
    except Exception as error:
        print(found.name, getattr(error, "name", None) or str(error), sep=": ")
"""
    process = places[name].run("python", "-c", program)
    assert process.returncode == 0, process.stderr
    for line in process.stdout.splitlines():
        missing = line.split(": ", 1)[1]
        has_hint = re.search(r"pip install '\S*/parbals\S*\.whl\[[a-z-]+\]'", missing)
        assert has_hint or missing.split(".")[0] in OPTIONAL[name].split(), line


def test_commands_of_the_library_work_alone(places):
    alone = places["parbals"]
    for command in (["--version"], ["--help"], ["strategies"], ["doctor"]):
        process = alone.run("parbals", *command)
        # Work of more than two seconds says what it does.
        errors = process.stderr.removeprefix("measuring …\n")
        assert (process.returncode, errors) == (0, ""), process.stderr
    program = "import parbals, numpy as np; X = np.random.default_rng(0).normal(size=(50, 3))\n"
    program += "learner = parbals.ActiveLearner(X, classes=[0, 1], random_state=0)\n"
    program += "rows = learner.ask(5); learner.tell(rows, [0, 1, 0, 1, 0]); print(learner.report())"
    process = alone.run("python", "-W", "error", "-c", program)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("command", "package"),
    [("init", "label"), ("untell", "label"), ("demo", "bench"), ("bench", "bench")],
)
def test_a_command_of_a_package_that_is_not_there_names_it(command, package, places):
    """The line that it names installs the wheel beside the one of parbals."""
    process = places["parbals"].run("parbals", command, "x")
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1
    dist = places["parbals"].folder.parent / "dist"
    (wheel,) = dist.glob(f"parbals_{package}-0*.whl")
    assert re.search(rf"pip install .*{re.escape(str(wheel))}$", process.stderr.strip())


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """A file of the locked versions, as constraints for pip."""
    lock = (ROOT / "requirements" / "dev.lock").read_text("utf-8")
    file = tmp_path_factory.mktemp("constraints") / "versions.txt"
    file.write_text("\n".join(re.findall(r"^[\w.-]+==[^\s;]+", lock, re.MULTILINE)))
    return file


@pytest.fixture(scope="module")
def as_printed(places, versions):
    """An environment with all three packages and the extra ``text``, as every page installs it."""
    place = places["parbals-bench"]
    (wheel,) = place.folder.parent.glob("dist/parbals_label-0*.whl")
    install(place.folder, "--constraint", versions, f"{wheel}[text]")
    return place


@pytest.fixture(scope="module")
def tutorials(as_printed, versions, tmp_path_factory):
    """{tutorial: how its program ended}; two of them run at a time."""
    place = as_printed
    top = tmp_path_factory.mktemp("tutorials")

    def run_page(page):
        folder = top / page.stem
        folder.mkdir()
        program = folder / "page.py"
        program.write_text(program_of(str(page.relative_to(ROOT))))
        return place.run("python", str(program), folder=folder)

    processes = {}
    with ThreadPoolExecutor(2) as pool:
        for requirements, group in itertools.groupby(TUTORIALS, printed_installs):
            for requirement in requirements:
                install(place.folder, "--constraint", versions, *shlex.split(requirement))
            pages = list(group)
            processes |= zip(pages, pool.map(run_page, pages), strict=True)
    return processes


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_where_its_packages_are_installed_as_it_says(page, tutorials):
    assert "../index.md#install" in page.read_text("utf-8"), "it leads to what it needs"
    process = tutorials[page]
    assert process.returncode == 0, process.stdout + process.stderr


def test_texts_are_understood_without_naming_an_encoder(as_printed, tmp_path):
    """What README installs reads sentences, also in an exported model."""
    assert '"./packages/parbals-label[text]"' in (ROOT / "README.md").read_text("utf-8")
    rows = [f"{i},win a free prize {i},spam\n{i + 20},see you at {i},ham" for i in range(20)]
    (tmp_path / "m.csv").write_text("\n".join(["id,message,label", *rows]))
    created = as_printed.run(
        "parbals", "init", "spam", "m.csv", "--text", "message", "--label", "label", folder=tmp_path
    )
    assert "The encoder is sentences-int8" in created.stdout, created.stderr
    exported = as_printed.run("parbals", "export", "spam", "--model", "m.npz", folder=tmp_path)
    assert exported.returncode == 0, exported.stderr
    script = "import parbals; print(parbals.load_model('m.npz').predict(['a prize for you'])[0])"
    predicted = as_printed.run("python", "-W", "error", "-c", script, folder=tmp_path)
    assert predicted.stdout == "spam\n", predicted.stderr


def test_every_page_that_installs_from_a_clone_installs_what_tutorials_need():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for line in page.read_text("utf-8").splitlines():
            if line.startswith("pip install ") and "packages" in line:
                packages = re.findall(r"packages[/\\]([\w-]+)", line)
                assert packages == list(PACKAGES), f"{page}: {line}"


def test_projects_work_without_the_experiment(places):
    label = places["parbals-label"]
    (label.folder / "messages.csv").write_text("text\n" + "".join(f"word{i}\n" for i in range(40)))
    made = label.run("parbals", "init", "p", "messages.csv", "--text", "text", "--classes", "a,b")
    assert made.returncode == 0, made.stderr
    assert label.run("parbals", "next", "p", "-n", "4", "--out", "batch.csv").returncode == 0
    status = label.run("parbals", "status", "p")
    assert status.returncode == 0, status.stderr
    assert "parbals_bench-0" in label.run("parbals", "demo").stderr
