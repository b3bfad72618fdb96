"""Rows in the cache belong to their owner, and only what was written becomes features."""

import os
import shutil
import stat
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from letters import NAME, TEXTS, Letters, named
from parbals.cli.main import parbals
from parbals.errors import InputError
from parbals_label.encoders import Options, embed, embedding
from parbals_label.encoders.cache import damaged_files, private_folder, read_rows, write_rows
from parbals_label.store.store import Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(embedding, "BLOCK", 10)


@pytest.fixture
def cached(tmp_path):
    """The files of the blocks of an interrupted run, in the order of the items."""
    embed(Letters(), NAME, named(TEXTS), len(TEXTS), Options(batch_size=4))
    files = (tmp_path / "cache" / "embeddings").glob("*.npy")
    return sorted(files, key=lambda file: file.stat().st_mtime_ns)


POISONS = {
    "other rows": lambda file, others: np.save(file, np.ones((10, 8), np.float32)),
    "fewer rows": lambda file, others: np.save(file, np.ones((3, 8), np.float32)),
    "wider rows": lambda file, others: np.save(file, np.ones((10, 9), np.float32)),
    "one axis": lambda file, others: np.save(file, np.ones(80, np.float32)),
    "text": lambda file, others: np.save(file, np.full((10, 8), "x")),
    "not finite": lambda file, others: np.save(file, np.full((10, 8), np.nan, np.float32)),
    "an archive": lambda file, others: file.write_bytes(b"PK\x03\x04"),
    "the rows of another block": lambda file, others: shutil.copyfile(others[0], file),
    "a changed number": lambda file, others: change_a_byte(file),
    "a pipe": lambda file, others: [file.unlink(), os.mkfifo(file)],
    "a link to nothing": lambda file, others: [file.unlink(), file.symlink_to("nothing")],
}


def change_a_byte(file):
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("kind", POISONS)
def test_a_block_that_is_not_what_was_written_is_named_and_made_again(cached, kind):
    POISONS[kind](cached[4], cached[:4])
    assert list(damaged_files()) == [cached[4]]
    embedded = embed(Letters(), NAME, named(TEXTS), len(TEXTS), Options(batch_size=4))
    np.testing.assert_allclose(embedded.rows, Letters().encode(TEXTS), rtol=1e-6)
    assert embedded.n_computed == 10
    assert list(damaged_files()) == []


def test_doctor_names_a_poisoned_block(cached, tmp_path):
    np.save(cached[2], np.ones((10, 8), np.float32))
    with Store.create(tmp_path / "project", classes=["a", "b"], settings={}) as store:
        store.add_items([("1", {"text": "x"})])
    result = CliRunner().invoke(parbals, ["doctor", str(tmp_path / "project")])
    assert result.exit_code == 0, result.output
    assert str(cached[2]) in result.output
    assert str(cached[1]) not in result.output


def test_rows_of_texts_are_private(cached):
    assert {stat.S_IMODE(file.stat().st_mode) for file in cached} == {0o600}
    assert stat.S_IMODE(cached[0].parent.stat().st_mode) == 0o700


def test_a_folder_that_others_could_read_is_closed(tmp_path):
    (tmp_path / "cache" / "embeddings").mkdir(mode=0o777, parents=True)
    folder = private_folder("embeddings")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_folders_and_files_of_another_user_are_not_used(tmp_path, monkeypatch):
    folder = private_folder("embeddings")
    write_rows(folder / "a.npy", np.ones((2, 3), np.float32))
    assert read_rows(folder / "a.npy", 2) is not None
    another_user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another_user)
    assert read_rows(folder / "a.npy", 2) is None
    with pytest.raises(InputError, match=r"belongs to another user.*PARBALS_CACHE_DIR"):
        private_folder("embeddings")


def test_an_encoder_that_changed_and_not_its_model_is_refused_in_a_sentence(cached):
    """Its author has changed the number of features between two runs."""
    encoder = Letters()
    encoder.encode = lambda prepared: np.ones((len(prepared), 9), np.float32)
    cached[0].unlink()
    with pytest.raises(InputError, match="rows of 8 numbers after rows of 9; remove the file"):
        embed(encoder, NAME, named(TEXTS), len(TEXTS), Options(batch_size=4))
