from pathlib import Path

import pytest
from parbals import environment
from parbals.environment import command_environment, has_accelerator_package

CACHE = "JAX_COMPILATION_CACHE_DIR"


@pytest.fixture
def with_accelerator(monkeypatch):
    monkeypatch.setattr(environment, "has_accelerator_package", lambda: True)


def test_programs_for_accelerators_are_kept_in_the_users_cache_folder(
    with_accelerator, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path(command_environment()[CACHE]) == tmp_path / "parbals" / "compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert Path.home() in Path(command_environment()[CACHE]).parents


def test_programs_for_cpus_are_not_kept(monkeypatch):
    monkeypatch.setattr(environment, "has_accelerator_package", lambda: False)
    assert CACHE not in command_environment()


@pytest.mark.parametrize("name", ["jax_plugins", "libtpu"])
def test_a_package_for_an_accelerator_is_enough_to_look_for_one(name, monkeypatch):
    monkeypatch.setattr(environment, "find_spec", lambda wanted: wanted == name)
    assert has_accelerator_package()
    monkeypatch.setattr(environment, "find_spec", lambda wanted: None)
    assert not has_accelerator_package()
