"""A hint names a line that installs from where parbals itself came."""

import json
import sys

import pytest
from parbals import installing
from parbals.installing import install_command

REQUIRES = [
    "click>=8.1",
    'parbals-label==0.1.0; extra == "label"',
    'parbals-label[excel]==0.1.0; extra == "excel"',
    'parbals-bench==0.1.0; extra == "bench"',
    'jax>=0.9; extra == "jax"',
]


class FakeDistribution:
    requires = REQUIRES

    def __init__(self, origin):
        self._origin = origin

    def read_text(self, name):
        assert name == "direct_url.json"
        return None if self._origin is None else json.dumps(self._origin)


@pytest.fixture
def installed_from(monkeypatch):
    """Pretend that parbals was installed from there, and these packages beside it."""

    def pretend(origin, *others):
        results = {
            "parbals": FakeDistribution(origin),
            **dict.fromkeys(others, FakeDistribution({})),
        }
        monkeypatch.setattr(installing, "_installed", results.get)

    return pretend


@pytest.fixture
def checkout(tmp_path):
    """A folder with a space in its name that holds the three packages."""
    packages = tmp_path / "my code" / "packages"
    for name in ("parbals", "parbals-label", "parbals-bench"):
        (packages / name).mkdir(parents=True)
    return packages


@pytest.mark.parametrize(
    ("requirement", "sources"),
    [
        ("parbals[label]", ["parbals-label"]),
        ("parbals[bench]", ["parbals-label", "parbals-bench"]),
        ("parbals[jax]", ["parbals[jax]"]),
        ("parbals[excel]", ["parbals-label[excel]"]),
        ("parbals", ["parbals"]),
    ],
)
def test_a_checkout_names_the_folders_of_its_packages(
    requirement, sources, checkout, installed_from
):
    installed_from({"url": (checkout / "parbals").as_uri(), "dir_info": {"editable": True}})
    folders = " ".join(f"'{checkout}/{source}'" for source in sources)
    assert install_command(requirement) == f"pip install {folders}"


def test_a_package_that_is_there_already_is_not_named_again(checkout, installed_from):
    origin = {"url": (checkout / "parbals").as_uri(), "dir_info": {}}
    installed_from(origin, "parbals-label")
    assert install_command("parbals[bench]") == f"pip install '{checkout}/parbals-bench'"


def test_a_wheel_names_the_wheels_beside_it(tmp_path, installed_from):
    for name in ("parbals", "parbals_label", "parbals_bench"):
        (tmp_path / f"{name}-0.1.0-py3-none-any.whl").touch()
    url = (tmp_path / "parbals-0.1.0-py3-none-any.whl").as_uri()
    installed_from({"url": url, "archive_info": {}})
    wheel = f"{tmp_path}/parbals_label-0.1.0-py3-none-any.whl"
    assert install_command("parbals[label]") == f"pip install {wheel}"
    assert install_command("parbals[excel]") == f"pip install '{wheel}[excel]'"
    assert install_command("parbals[jax]", upgrade=True) == (
        f"pip install --upgrade '{tmp_path}/parbals-0.1.0-py3-none-any.whl[jax]'"
    )


def test_a_wheel_that_lies_alone_leaves_the_index(tmp_path, installed_from):
    wheel = tmp_path / "parbals-0.1.0-py3-none-any.whl"
    wheel.touch()
    installed_from({"url": wheel.as_uri(), "archive_info": {}})
    assert install_command("parbals[label]") == "pip install 'parbals[label]'"


def test_a_repository_names_the_same_commit(installed_from):
    installed_from(
        {
            "url": "https://code.example/parbals.git",
            "subdirectory": "packages/parbals",
            "vcs_info": {"vcs": "git", "commit_id": "abc123"},
        }
    )
    assert install_command("parbals[label]") == (
        "pip install 'parbals-label @ git+https://code.example/parbals.git@abc123"
        "#subdirectory=packages/parbals-label'"
    )


def test_an_index_has_the_extra(installed_from, monkeypatch):
    installed_from(None)
    assert install_command("parbals[label]") == "pip install 'parbals[label]'"
    monkeypatch.setattr(installing, "_installed", lambda name: None)
    assert install_command("parbals[jax]") == "pip install 'parbals[jax]'"


def test_packages_of_others_come_from_the_index(checkout, installed_from):
    installed_from({"url": (checkout / "parbals").as_uri(), "dir_info": {}})
    assert install_command("pymc") == "pip install pymc"


class TestPyTorch:
    """On Linux pip would bring gigabytes of CUDA to a machine that has no GPU."""

    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch, tmp_path, installed_from):
        self.driver = tmp_path / "driver"
        monkeypatch.setattr(installing, "_NVIDIA_DRIVERS", (str(self.driver),))
        monkeypatch.setattr(sys, "platform", "linux")
        self.installed_from = installed_from
        installed_from(None)

    def test_without_a_gpu_the_build_for_the_cpu_comes_first(self):
        first, _, second = install_command("parbals[encoders]").partition(" && ")
        assert first == "pip install torch --index-url https://download.pytorch.org/whl/cpu"
        assert second == "pip install 'parbals[encoders]'"

    def test_with_a_gpu_it_is_one_line(self):
        self.driver.touch()
        assert install_command("parbals[encoders]") == "pip install 'parbals[encoders]'"

    def test_an_installed_pytorch_stays(self):
        self.installed_from(None, "torch")
        assert install_command("parbals[encoders]") == "pip install 'parbals[encoders]'"

    def test_elsewhere_pip_brings_the_right_one(self, monkeypatch):
        monkeypatch.setattr(sys, "platform", "darwin")
        assert install_command("parbals[encoders]") == "pip install 'parbals[encoders]'"

    def test_other_extras_need_none(self):
        assert install_command("parbals[label]") == "pip install 'parbals[label]'"
