"""The walk over the pool on several devices, simulated by JAX in a process of their own."""

import json
import os
import subprocess
import sys

import device_program
import jax
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding
from parbals.strategies.backends import jax as backend


@pytest.fixture(scope="module")
def on_one_device():
    return device_program.findings()


@pytest.mark.full
@pytest.mark.parametrize("n_devices", [2, 3, 4, 8])
def test_several_devices_choose_what_one_chooses(on_one_device, n_devices):
    """The devices cannot share 6,001, 77 or 1,001 rows evenly."""
    flags = f"--xla_force_host_platform_device_count={n_devices}"
    found = subprocess.run(
        [sys.executable, device_program.__file__],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=True,
    )
    on_several = json.loads(found.stdout)
    assert on_several["batch"] == on_one_device["batch"]
    for name in ("two", "four"):
        here, there = on_one_device[name], on_several[name]
        assert there["chosen"] == here["chosen"]
        # Every device has its share of the rows, and asks the others for nothing.
        assert len(there["rows"]) == n_devices
        assert len(set(there["rows"])) == 1
        assert there["collectives"] == []
    # A user who tells JAX which device to use gets that one alone.
    assert on_several["told"] == on_one_device["told"]


def test_after_the_walk_the_size_of_the_pool_does_not_matter(monkeypatch):
    """All steps of a batch run on one device, which is given rows of the pool by the block."""
    asked, scores = set(), backend._scores_of_kept

    def recorded(*arguments, **options):
        leaves = jax.tree.leaves(arguments[:3])
        assert all(isinstance(leaf.sharding, SingleDeviceSharding) for leaf in leaves)
        asked.add((options["score"], *map(np.shape, jax.tree.leaves(arguments))))
        return scores(*arguments, **options)

    monkeypatch.setattr(backend, "_scores_of_kept", recorded)
    for n_pool in (1_001, 6_001):
        device_program.batch_of(2, n_pool)
    assert len(asked) == 2  # one program that screens, one that compares
