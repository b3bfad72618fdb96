"""Files of ours that somebody made up cost bounded memory and time (P15)."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dose import small_and_full
from parbals_label.project.model_checks import check_model_arrays

MODELS = "hostile_models.py"
PROJECTS = "hostile_projects.py"


def open_files(program, n_examples):
    """Lines that a process with limits prints."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name(program), str(n_examples)],
        env=os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=1_800,
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-2000:]} {done.stderr[-4000:]}"
    *lines, last_line = done.stdout.splitlines()
    assert last_line == "done"
    return lines


@pytest.mark.parametrize("n_examples", small_and_full(20, 400))
def test_made_up_files_are_refused_or_predict(n_examples):
    assert open_files(MODELS, n_examples) == []


@pytest.mark.parametrize("n_examples", small_and_full(8, 200))
def test_made_up_projects_and_backups_are_refused_or_used(n_examples):
    assert open_files(PROJECTS, n_examples) == []


@pytest.mark.faults
def test_large_files_are_refused_or_predict_within_limits():
    refused = dict(line.split(": ", 1) for line in open_files(MODELS, 0))
    assert "no trees of this table" in refused["three million trees"]
    assert "deeper than" in refused["a chain of two million nodes"]
    assert refused["many draws"] == "predicts"
    assert "operations" in refused["too many draws"]
    assert "operations" in refused["a root of a million columns"]


def gaussian(n_classes, width, n_columns):
    n_latents = 1 if n_classes == 2 else n_classes
    shape = (n_latents, width, n_columns)
    return {"mean": np.zeros((width, n_latents)), "roots": np.broadcast_to(0.0, shape)}


def particles(n_classes, width, n_draws):
    shape = (n_draws, n_classes, width)
    return {"draws": np.broadcast_to(0.0, shape), "weights": np.broadcast_to(0.0, n_draws)}


@pytest.mark.parametrize(
    ("model", "n_classes", "width", "n_others"),
    [
        (particles, 3, 5, 2_000_000),
        (particles, 2, 1, 1_000_000),
        (particles, 1_000, 3, 2_000),
        (gaussian, 3, 5, 2_000_000),
        (gaussian, 2, 2, 1_200_000),
    ],
)
def test_a_file_that_computes_for_minutes_is_refused(model, n_classes, width, n_others):
    """Zeros of any number compress to nothing: 251 KB took a second for each item."""
    classes = tuple(map(str, range(n_classes)))
    with pytest.raises(ValueError, match="an item needs"):
        check_model_arrays(classes, (), model(n_classes, width, n_others))


@pytest.mark.parametrize(
    ("model", "n_classes", "width", "n_others"),
    [
        (particles, 2, 1_537, 10_000),
        (particles, 77, 769, 400),
        (gaussian, 2, 4_097, 4_097),
        (gaussian, 77, 769, 769),
        (gaussian, 77, 1_537, 1_537),
    ],
)
def test_models_of_many_classes_or_features_are_used(model, n_classes, width, n_others):
    check_model_arrays(tuple(map(str, range(n_classes))), (), model(n_classes, width, n_others))
