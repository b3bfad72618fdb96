"""Precision, safe logarithms, and programs that are compiled once."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parbals import numerics
from parbals.numerics import keep_compiled, safe_reciprocal, working_precision


def test_impossible_events_contribute_nothing():
    assert safe_reciprocal(jnp.array([0.0, 2.0])).tolist() == [0.0, 0.5]


def test_reciprocals_of_tiny_probabilities_stay_finite_when_multiplied():
    by_p = safe_reciprocal(jnp.array([1e-38, 1e-30, 1e-10], jnp.float32))
    assert jnp.isfinite(by_p * by_p).all()
    assert float(by_p[2]) == pytest.approx(1e10, rel=1e-6)


def test_double_precision_is_scoped_to_the_call():
    with working_precision(np.dtype(np.float64)):
        assert jnp.zeros(1).dtype == jnp.float64
    assert jnp.zeros(1).dtype == jnp.float32


class Config(SimpleNamespace):
    """Stands in for JAX's configuration, as it is before anybody has touched it."""

    def __init__(self, **changed):
        start = {"jax_compilation_cache_dir": None, "jax_enable_compilation_cache": True}
        super().__init__(**start | changed)

    def update(self, name, value):
        assert hasattr(jax.config, name), name
        setattr(self, name, value)


class TestKeepCompiled:
    @pytest.fixture
    def keep(self, monkeypatch, tmp_path):
        """Keep compiled programs under ``tmp_path``, from a configuration; what became of it."""
        monkeypatch.setenv("PARBALS_CACHE_DIR", str(tmp_path))

        def call(**changed):
            with monkeypatch.context() as patch:
                config = Config(**changed)
                patch.setattr(numerics, "jax", SimpleNamespace(config=config))
                keep_compiled()
            return config

        return call

    def test_the_folder_is_the_users_alone_and_bounded(self, keep, tmp_path):
        config = keep()
        folder = Path(config.jax_compilation_cache_dir)
        assert folder.is_relative_to(tmp_path / "compiled")
        assert folder.stat().st_mode & 0o077 == 0
        assert 0 < config.jax_compilation_cache_max_size < 1e9
        assert 0 < config.jax_persistent_cache_min_compile_time_secs < 0.1

    @pytest.mark.parametrize(
        "own",
        [
            {"jax_compilation_cache_dir": "/own"},
            {"jax_compilation_cache_dir": ""},
            {"jax_enable_compilation_cache": False},
        ],
    )
    def test_what_the_caller_has_set_stays(self, keep, tmp_path, own):
        assert keep(**own) == Config(**own)
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_cannot_be_made_is_as_good_as_none(self, keep, tmp_path):
        (tmp_path / "compiled").write_text("a file")
        assert keep() == Config()

    def test_nobodys_home_is_as_good_as_none(self, keep, monkeypatch):
        monkeypatch.setenv("PARBALS_CACHE_DIR", "~nobody-of-that-name/cache")
        assert keep() == Config()

    def test_a_program_that_was_cut_off_is_removed(self, keep):
        folder = Path(keep().jax_compilation_cache_dir)
        for name in ("whole-cache", "whole-atime", "half-cache"):
            (folder / name).write_bytes(b"")
        keep()
        assert {"whole-cache", "whole-atime"} == {path.name for path in folder.glob("*-*")}

    def test_a_second_process_finds_every_program(self, tmp_path):
        code = """
import collections, jax, numpy as np, parbals
parbals.epig
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # whatever the machine's speed
count = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: count.update([name.split("/")[-1]]))
probs = np.full((20, 8, 2), 0.5, np.float32)
parbals.epig(probs, probs)
print(count["cache_hits"], count["cache_misses"])
"""
        environment = os.environ | {"PARBALS_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-W", "error", "-c", code]
        (_, compiled), (found, again) = (
            map(int, subprocess.check_output(command, env=environment, text=True).split())
            for _ in range(2)
        )
        assert compiled > 0
        assert (found, again) == (compiled, 0)
