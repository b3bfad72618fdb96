"""The project's addresses: set in one place, copied by a command."""

import importlib.util
import shutil
import tomllib

import pytest
import yaml
from repository import PACKAGES, ROOT

ADDRESSES = {
    "Homepage": "https://parbals.example",
    "Source": "https://code.example/parbals",
    "Issues": "https://code.example/parbals/issues",
}


@pytest.fixture(scope="module")
def urls():
    spec = importlib.util.spec_from_file_location("urls", ROOT / ".ci" / "urls.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copy(urls, tmp_path):
    """The files that hold addresses, in a folder of their own."""
    for file in ("pyproject.toml", *urls.PACKAGES, *urls.FIELDS):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def set_addresses(folder, addresses):
    lines = "".join(f'{label} = "{address}"\n' for label, address in addresses.items())
    before, _, after = (ROOT / "pyproject.toml").read_text("utf-8").partition("[project.urls]\n")
    rest = after[after.index("\n[") :]
    (folder / "pyproject.toml").write_text(f"{before}[project.urls]\n{lines}{rest}", "utf-8")


def test_every_file_has_the_addresses_that_are_set(urls, copy):
    urls.main(copy)
    for file in (*urls.PACKAGES, *urls.FIELDS):
        assert (copy / file).read_text("utf-8") == (ROOT / file).read_text("utf-8"), "make urls"


def test_an_address_set_once_is_everywhere(urls, copy):
    set_addresses(copy, ADDRESSES)
    urls.main(copy)
    for folder in PACKAGES.values():
        file = copy / folder.relative_to(ROOT) / "pyproject.toml"
        assert tomllib.loads(file.read_text("utf-8"))["project"]["urls"] == ADDRESSES
    recipe = yaml.safe_load((copy / "recipe" / "recipe.yaml").read_text("utf-8"))
    assert recipe["about"]["repository"] == ADDRESSES["Source"]
    citation = yaml.safe_load((copy / "CITATION.cff").read_text("utf-8"))
    assert citation["repository-code"] == ADDRESSES["Source"]
    assert citation["url"] == ADDRESSES["Homepage"]
    set_addresses(copy, {})
    urls.main(copy)
    assert "https://code.example" not in (copy / "CITATION.cff").read_text("utf-8")


@pytest.mark.parametrize("wrong", [{"Homepge": "https://a.example"}, {"Source": "a.example"}])
def test_a_wrong_address_changes_nothing(urls, copy, wrong):
    set_addresses(copy, wrong)
    with pytest.raises(SystemExit, match=r"\[project\.urls\].*https://"):
        urls.main(copy)
    citation = (copy / "CITATION.cff").read_text("utf-8")
    assert citation == (ROOT / "CITATION.cff").read_text("utf-8")
