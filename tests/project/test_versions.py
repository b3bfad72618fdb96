"""A project written by every released version still opens, and goes on."""

import shutil
from pathlib import Path

import pytest

from parbals.project.engine import choose_batch
from parbals.project.summary import overview
from parbals.store.store import Store

WRITTEN = sorted((Path(__file__).parent / "data").iterdir())


@pytest.mark.parametrize("written", WRITTEN, ids=[path.name for path in WRITTEN])
def test_an_old_project_opens_with_all_it_held_and_goes_on(written, tmp_path):
    shutil.copytree(written, tmp_path / "project")
    with Store.open(tmp_path / "project") as store:
        assert store.check() == []
        found = overview(store)
        assert (found["items"], found["labelled"], found["pending"], found["batches"]) == (
            24,
            9,
            1,
            1,
        )
        assert found["class_balance"] == {"ham": 7, "spam": 2}
        assert found["report"]["n_labels"] == 9
        out = set(store.pending())
        assert store.take("ann", 10, 60.0) == [], "what was handed out as a file is not on the page"
        free = next(
            position for position in range(24) if position not in out | store.votes().keys()
        )
        assert store.pass_over(free, "unsure", annotator="ann") == "new"
        number, batch = choose_batch(store, 3)
        assert number == 2
        assert not (out | {free}) & set(batch.indices.tolist())
        assert store.check() == []
