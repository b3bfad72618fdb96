"""kill -9 while batches are chosen: what was confirmed is recorded, nothing is half there."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from dose import small_and_full
from parbals_label.project.create import Roles, create_project
from parbals_label.store.store import Store

CHILD = Path(__file__).with_name("select_forever.py")


@pytest.fixture
def project(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((60, 3)))
    create_project(
        tmp_path / "p", tmp_path / "X.npy", Roles(), ["a", "b"], {"strategy": "random", "seed": 0}
    )
    return tmp_path / "p"


@pytest.mark.parametrize("n_kills", small_and_full(1, 200))
def test_kills_at_random_moments_of_selecting(project, n_kills):
    generator = random.Random(0)
    n_confirmed = 0
    for _ in range(n_kills):
        with subprocess.Popen(
            [sys.executable, str(CHILD), str(project)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout.readline() == "ready\n"
            # After some batches, however fast they come, and then at any moment.
            first_lines = [child.stdout.readline() for _ in range(generator.randint(1, 6))]
            time.sleep(generator.uniform(0.0, 0.5))
            child.kill()
            lines = [
                line.split()
                for line in [*first_lines, *child.stdout.read().splitlines(keepends=True)]
                if line.endswith("\n")
            ]
        confirmed = {
            int(number): [int(i) for i in items] for number, *items in lines if number != "all"
        }
        with Store.open(project) as store:
            assert store.check() == []
            recorded = {b.batch: [item.position for item in b.items] for b in store.batches()}
            assert all(recorded[number] == items for number, items in confirmed.items())
            assert all(len(items) == 3 for items in recorded.values())
            assert len(store.pending()) % 3 == 0
            if confirmed and lines[-1][0] != "all":
                assert set(confirmed[max(confirmed)]) <= set(store.pending())
        n_confirmed += len(confirmed)
    assert n_confirmed > 0
