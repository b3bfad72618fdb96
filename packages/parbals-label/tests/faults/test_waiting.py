"""Nobody waits in front of the page: `studies/serving/waiting`, a person at one label a second.

A second is one of an otherwise idle machine, so that the counts do not depend on what else runs.
"""

import json
import os
import subprocess
import sys

import pytest
from dose import full_count
from repository import ROOT, SOURCES

CHOSEN = "parbals-epig"


def wait_in_front(*arguments):
    """What the person saw."""
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "studies"),
            "serving.waiting",
            "--fair",
            *arguments,
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, SOURCES))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.faults
@pytest.mark.parametrize("n_items", [2_000, 100_000])
@pytest.mark.parametrize("n_classes", [2, 4, 10, 50])
def test_five_minutes_of_labelling_wait_for_nothing(n_classes, n_items):
    n_labels = full_count(300, least=30)
    counts = {"--classes": n_classes, "--items": n_items, "--labels": n_labels}
    seen = wait_in_front(*(str(word) for option in counts.items() for word in option))
    assert seen["empty"] == 0, seen
    # Programs that compile on the way weigh much in few labels.
    share = 1 / 2 if n_labels == 300 else 1 / 3
    assert n_classes > 10 or seen["chosen_by"].get(CHOSEN, 0) >= share * n_labels, seen
    assert seen["report_behind_seconds"] <= 60, seen
