"""Scoring the pool on several devices, which JAX simulates in a separate process."""

import json
import os
import subprocess
import sys

import device_program
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding
from parbals.strategies.backends import jax as backend


@pytest.fixture(scope="module")
def on_one_device():
    return device_program.findings()


@pytest.mark.full
@pytest.mark.parametrize("n_devices", [3, 8])
def test_several_devices_choose_what_one_chooses(on_one_device, n_devices):
    """The devices cannot share 6,001, 77 or 1,001 rows evenly."""
    flags = f"--xla_force_host_platform_device_count={n_devices}"
    process = subprocess.run(
        [sys.executable, device_program.__file__],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=True,
    )
    on_several = json.loads(process.stdout)
    assert on_several["batch"] == on_one_device["batch"]
    for name in ("two", "four"):
        expected = on_one_device[name]
        actual = on_several[name]
        assert actual["chosen"] == expected["chosen"]
        # Every device has its share of the rows, and asks the others for nothing.
        assert len(actual["rows"]) == n_devices
        assert len(set(actual["rows"])) == 1
        assert actual["collectives"] == []
    # A user who tells JAX which device to use gets that one alone.
    assert on_several["told"] == on_one_device["told"]


@pytest.mark.full
def test_steps_do_not_depend_on_the_size_of_the_pool(monkeypatch):
    """All steps of a batch run on one device, which receives the universes as one array."""
    sizes = []
    step = backend._screen_and_score

    def recorded(softmax, context, design, inputs, *static):
        for on_device in (context, design):
            assert isinstance(on_device.sharding, SingleDeviceSharding)
        assert isinstance(inputs, np.ndarray)
        sizes.append((context.shape, design.shape, inputs.shape, static))
        return step(softmax, context, design, inputs, *static)

    monkeypatch.setattr(backend, "_screen_and_score", recorded)
    monkeypatch.setattr(backend, "platform", lambda: "gpu")  # sizes of an accelerator
    for n_pool in (2_001, 6_001):
        device_program.batch_of(2, n_pool)
    assert len(set(sizes)) == 1  # one program that screens and compares
    assert len(sizes) <= 20  # a step of the 16 seldom needs it twice


@pytest.mark.full
def test_pending_points_need_no_further_program(monkeypatch):
    """Compiling takes as long as several batches, so points that are out share the program."""
    programs = []
    step = backend._screen_and_score

    def recorded(softmax, context, design, inputs, *static):
        programs.append((inputs.shape, static))
        return step(softmax, context, design, inputs, *static)

    monkeypatch.setattr(backend, "_screen_and_score", recorded)
    for pending in ([], range(40)):
        device_program.batch_of(2, 1_001, pending=pending)
    assert len(set(programs)) == 1
