"""One file, no pickle: a loaded learner continues as if it had never been saved."""

import io
import json
import tracemalloc
import zipfile

import numpy as np
import parbals
import pytest
from parbals.errors import InputError
from sklearn.ensemble import RandomForestClassifier

X = np.random.default_rng(0).standard_normal((40, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")


def learner(**arguments):
    active = parbals.ActiveLearner(X, ["no", "yes"], random_state=3, n_samples=128, **arguments)
    active.tell(range(10) if active.ids is None else active.ids[:10], Y[:10])
    active.ask(2)
    return active


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"strategy": "badge", "ids": [f"item {i}" for i in range(40)]},
        {
            "strategy": "power-epig",
            "X_target": X[:7],
            "metric": "accuracy",
            "standardise": True,
        },
        {"strategy": "margin", "ids": [(i, "x") for i in range(40)]},
    ],
)
def test_the_next_ask_is_the_same_with_and_without_saving(settings, tmp_path):
    active = learner(**settings)
    active.save(tmp_path / "run.parbals")
    loaded = parbals.ActiveLearner.load(tmp_path / "run.parbals")
    assert loaded.labels == active.labels
    assert loaded.pending == active.pending
    assert loaded.events == active.events
    assert list(loaded.ask(4)) == list(active.ask(4))


def test_history_and_corrections_survive(tmp_path):
    active = learner()
    active.correct(0, "yes" if Y[0] == "no" else "no")
    active.forget(active.pending)
    active.save(tmp_path / "a")
    assert parbals.ActiveLearner.load(tmp_path / "a").history(0) == active.history(0)


def test_features_can_be_left_out_and_are_checked_when_they_come_back(tmp_path):
    learner().save(tmp_path / "small", include_features=False)
    with pytest.raises(InputError, match="saved without features; pass X_pool"):
        parbals.ActiveLearner.load(tmp_path / "small")
    with pytest.raises(InputError, match="features of the pool are not those"):
        parbals.ActiveLearner.load(tmp_path / "small", X_pool=X + 1)
    assert len(parbals.ActiveLearner.load(tmp_path / "small", X_pool=X).labels) == 10


def test_a_model_of_ones_own_is_passed_again(tmp_path):
    forest = RandomForestClassifier(20, random_state=0)
    active = learner(model=forest, strategy="bald")
    active.save(tmp_path / "forest")
    with pytest.raises(InputError, match="your own model"):
        parbals.ActiveLearner.load(tmp_path / "forest")
    loaded = parbals.ActiveLearner.load(
        tmp_path / "forest", model=RandomForestClassifier(20, random_state=0)
    )
    assert loaded.ask(3).tolist() == active.ask(3).tolist()


def test_the_file_is_json_and_plain_arrays(tmp_path):
    learner().save(tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "a") as archive:
        assert sorted(archive.namelist()) == ["X_pool.npy", "learner.json"]
        assert json.loads(archive.read("learner.json"))["format"] == "parbals-learner"
        with archive.open("X_pool.npy") as file:
            np.testing.assert_array_equal(np.lib.format.read_array(file, allow_pickle=False), X)


def test_every_cut_and_every_flipped_byte_is_noticed_or_harmless(tmp_path):
    learner().save(tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    generator = np.random.default_rng(0)
    expected = parbals.ActiveLearner.load(tmp_path / "a").labels
    for _ in range(60):
        damaged = bytearray(whole)
        if generator.random() < 0.3:
            damaged = damaged[: generator.integers(len(whole))]
        else:
            damaged[generator.integers(len(whole))] ^= 1 << int(generator.integers(8))
        (tmp_path / "b").write_bytes(damaged)
        try:
            labels = parbals.ActiveLearner.load(tmp_path / "b").labels
        except InputError:
            continue  # noticed, in one sentence
        assert labels == expected


def test_a_failed_save_leaves_the_old_file(tmp_path):
    active = learner()
    active.save(tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(InputError, match="cannot be written"):
        active.save(tmp_path / "missing" / "a")
    active.setup.options["callback"] = print
    with pytest.raises(InputError, match="not plain data"):
        active.save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_a_newer_format_and_a_foreign_file_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "new", "w") as archive:
        archive.writestr("learner.json", json.dumps({"format": "parbals-learner", "version": 99}))
    with pytest.raises(InputError, match="another version"):
        parbals.ActiveLearner.load(tmp_path / "new")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InputError, match="not a saved learner"):
        parbals.ActiveLearner.load(tmp_path / "text")
    with pytest.raises(InputError, match="no file"):
        parbals.ActiveLearner.load(tmp_path / "none")


@pytest.mark.parametrize("prior_scale", ["auto", 2.0])
def test_the_prior_is_kept(prior_scale, tmp_path):
    learner(prior_scale=prior_scale).save(tmp_path / "a")
    assert parbals.ActiveLearner.load(tmp_path / "a").setup.prior_scale == prior_scale


def test_a_file_that_would_grow_in_memory_is_refused_before_it_does(tmp_path):
    path = tmp_path / "run.parbals"
    parbals.ActiveLearner(X, ["no", "yes"]).save(path)
    with zipfile.ZipFile(path) as archive:
        document = archive.read("learner.json")
    bomb = tmp_path / "bomb.parbals"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("learner.json", document)
        with archive.open("X_pool.npy", "w") as file:
            np.save(file, np.zeros((200_000, 40)))
    tracemalloc.start()
    with pytest.raises(InputError, match="is compressed"):
        parbals.ActiveLearner.load(bomb)
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


def test_a_header_that_claims_more_than_the_file_has_is_refused(tmp_path):
    path = tmp_path / "run.parbals"
    parbals.ActiveLearner(X, ["no", "yes"]).save(path)
    with zipfile.ZipFile(path) as archive:
        document = archive.read("learner.json")
    header = io.BytesIO()
    claim = {"descr": "<f8", "fortran_order": False, "shape": (10**8, 40)}
    np.lib.format.write_array_header_2_0(header, claim)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("learner.json", document)
        archive.writestr("X_pool.npy", header.getvalue() + bytes(64))
    with pytest.raises(InputError, match="damaged"):
        parbals.ActiveLearner.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("settings", {"a": 1}),
        ("settings", {"options": 3}),
        ("settings", {"options": "x"}),
        ("columns", 3),
        ("events", [["a", "b", "c"]]),
    ],
)
def test_values_that_no_learner_writes_are_refused_in_a_sentence(tmp_path, name, value):
    learner().save(tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "a") as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    document = json.loads(members["learner.json"])
    is_part = isinstance(value, dict)
    document[name] = {**document[name], **value} if is_part else value
    members["learner.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(tmp_path / "b", "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    with pytest.raises(InputError, match="is not a saved learner"):
        parbals.ActiveLearner.load(tmp_path / "b")
