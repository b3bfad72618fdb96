"""A project written by every released version still opens, and goes on."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from parbals_label.project.engine import choose_batch
from parbals_label.project.summary import overview
from parbals_label.store.store import Store

DATA = Path(__file__).parent / "data"
WRITTEN = sorted(DATA.iterdir())


UNKNOWN = ("a_setting_of_a_newer_parbals", '{"x":1}')


@pytest.fixture(params=WRITTEN, ids=[path.name for path in WRITTEN])
def written(request, tmp_path):
    return Path(shutil.copytree(request.param, tmp_path / request.param.name))


def test_an_old_project_opens_with_all_it_held_and_goes_on(written):
    is_first = written.name == "version-1"
    with Store.open(written) as store:
        assert store.check() == []
        assert store.settings.strategy == "parbals-epig"
        assert (store.settings.prior_scale, store.settings.loss) == (1.0, "log")
        assert store.settings.features.shape == (24, 23)
        seen = overview(store)
        assert (seen.items, seen.labelled) == (24, 9)
        assert (seen.pending, seen.batches) == ((1, 1) if is_first else (2, 2))
        assert seen.class_balance == {"ham": 7, "spam": 2}
        assert seen.stored_report["n_labels"] == 9
        out = set(store.pending())
        assert store.pending(annotator="machine:rule") == ([] if is_first else [7])
        assert store.take("ann", 10, 60.0) == [], "what was handed out as a file is not on the page"
        free = next(
            position for position in range(24) if position not in out | store.votes().keys()
        )
        assert store.pass_over(free, "unsure", annotator="ann") == "new"
        number, batch = choose_batch(store, 3, strategy="margin")
        assert number == seen.batches + 1
        assert not (out | {free}) & set(batch.indices.tolist())
        assert store.check() == []


def test_settings_of_a_newer_parbals_are_kept(tmp_path):
    folder = shutil.copytree(DATA / "version-2", tmp_path / "project")
    with Store.open(folder) as store:
        store.update_settings(seed=4)
        assert store.settings.seed == 4
    with closing(sqlite3.connect(folder / "project.sqlite3")) as connection:
        assert UNKNOWN in connection.execute("SELECT key, value FROM meta").fetchall()
