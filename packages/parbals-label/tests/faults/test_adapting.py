"""Killed at random moments while features learn and while a model is packed: nothing is halved."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from dose import full_count
from parbals import load_model
from parbals_label.project.backup import check_project
from parbals_label.project.choose import choose_batch
from parbals_label.project.create import Roles, create_project
from parbals_label.project.features import features_of
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from repository import SOURCES

N_ITEMS, N_LABELS = 200, 80
BEGIN = """
import sys
from pathlib import Path
from parbals_label.cli.predict import export_model
from parbals_label.encoders import trees
from parbals_label.project.adapting import adapt_project
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
trees._N_TREES = 10
project = Path(sys.argv[1])
print("ready", flush=True)
"""
ADAPT = """
for turn in range(int(sys.argv[2]), 100):  # one more label, so that other features come of them
    with Store.open(project) as store:
        store.submit([Submission(100 + turn, "yes")], annotator="a", revise=True)
        adapt_project(store, lambda *step: print(*step, flush=True), force=True)
"""
PACK = """
while True:
    export_model(project, Path(sys.argv[2]), force=True, as_json=True)
"""
KILLS = pytest.mark.parametrize(
    "kills",
    [
        pytest.param(2, marks=pytest.mark.full),
        pytest.param(full_count(50), marks=pytest.mark.faults, id="full"),
    ],
)


@pytest.fixture
def project(tmp_path):
    """Two classes by the signs of two columns."""
    rows = np.random.default_rng(0).normal(size=(N_ITEMS, 2)).round(4)
    lines = ["a,b", *(f"{a},{b}" for a, b in rows)]
    (tmp_path / "table.csv").write_text("\n".join(lines), encoding="utf-8")
    roles = Roles(features=("a", "b"))
    create_project(tmp_path / "p", tmp_path / "table.csv", roles, ["no", "yes"], {})
    with Store.open(tmp_path / "p") as store:
        labels = np.where(rows[:N_LABELS].prod(axis=1) > 0, "yes", "no")
        store.submit([Submission(i, str(label)) for i, label in enumerate(labels)], annotator="a")
    return tmp_path / "p"


def killed_in(program, n_lines, seconds, *arguments):
    """Run it, and end it so long after it has said so many lines, however busy the machine is."""
    command = [sys.executable, "-c", BEGIN + program, *map(str, arguments)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert all(process.stdout.readline() for _ in range(n_lines))
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()


@KILLS
def test_features_are_the_old_or_the_new_ones(project, kills):
    chance, encoders = random.Random(kills), set()
    for turn in range(kills):
        killed_in(ADAPT, chance.randint(1, 16), chance.uniform(0.0, 0.3), project, turn)
        assert check_project(project)[1] == []
        with Store.open(project) as store:
            features, encoder = features_of(store), store.settings.encoder
            encoders.add(encoder)
            assert len(features) == N_ITEMS
            assert np.isfinite(features).all()
            assert encoder == "columns" or (project / encoder).is_dir()
            choose_batch(store, 1)
    assert kills < 50 or len(encoders) > 5  # so it was killed on many ways


@KILLS
def test_a_model_file_is_the_old_or_the_new_one(project, tmp_path, kills):
    chance, path = random.Random(kills), tmp_path / "model.npz"
    for _ in range(kills):
        killed_in(PACK, chance.randint(1, 3), chance.uniform(0.0, 0.5), project, path)
        if path.exists():
            probs = load_model(path).predict_proba(np.zeros((1, 2)))
            np.testing.assert_allclose(probs.sum(), 1.0)
    assert path.exists()
    assert check_project(project)[1] == []
