"""The target set of a project: the same features, stored like items, used by every learner."""

import csv
import json

import numpy as np
import parbals
import pytest
from parbals.errors import InputError, ProjectDamagedError
from parbals_label.encoders import trees
from parbals_label.project import target as module
from parbals_label.project.adapting import adapt_project
from parbals_label.project.backup import check_project, restore_backup, write_backup
from parbals_label.project.create import Roles, create_project
from parbals_label.project.embedding import embed_project
from parbals_label.project.engine import learner_of, refresh
from parbals_label.project.features import features_of
from parbals_label.project.grow import add_items
from parbals_label.project.target import (
    add_target,
    remove_target,
    stored_features,
    target_features,
    target_items,
)
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

WORDS = ["invoice", "contract", "thanks", "refund", "parcel", "late", "broken", "hello"]


def quiet(stage, done, total):
    pass


def records(n=40, seed=0):
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        note = " ".join(generator.choice(WORDS, 4))
        age = "" if number % 7 == 3 else str(int(generator.integers(20, 80)))
        rows.append(
            {
                "id": f"r{number}",
                "note": note,
                "age": age,
                "height": f"{generator.normal():.3f}",
                "region": ["north", "south", "east", "west"][number % 4],
            }
        )
    return rows


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def make(tmp_path, roles, rows=None, name="p", **options):
    data = write_csv(tmp_path / f"{name}.csv", rows or records())
    create_project(tmp_path / name, data, roles, ["a", "b"], {}, **options)
    return tmp_path / name, data


TEXT = Roles(text=("note",))
TABLE = Roles(features=("age", "region"))
NUMBERS = Roles(features=("height",))
BOTH = Roles(text=("note",), features=("age", "region"))


@pytest.fixture
def project(tmp_path):
    return make(tmp_path, BOTH)[0]


def label_some(store, n=20):
    store.submit([Submission(i, "ab"[i % 2]) for i in range(n)], annotator="ann")


@pytest.mark.parametrize("roles", [TEXT, TABLE, NUMBERS, BOTH], ids=["text", "table", "n", "both"])
def test_features_of_the_pools_own_rows_are_the_pools(tmp_path, roles):
    folder, data = make(tmp_path, roles)
    with Store.open(folder) as store:
        added = add_target(store, data)
        assert (added.n_rows, added.n_kept) == (40, 40)
        np.testing.assert_allclose(stored_features(store), features_of(store), atol=1e-4)
        rows = learner_of(store).setup.target.rows_at(np.arange(40))
        np.testing.assert_array_equal(rows, target_features(store))


def test_features_of_given_rows_and_of_images_are_the_same_as_well(tmp_path):
    from PIL import Image

    rows = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "new.npy", rows[:7] + 1.0)
    create_project(
        tmp_path / "n", tmp_path / "rows.npy", Roles(), ["a", "b"], {}, target=tmp_path / "new.npy"
    )
    with Store.open(tmp_path / "n") as store:
        np.testing.assert_array_equal(target_features(store), rows[:7] + 1.0)
    for name in ("photos", "new"):
        (tmp_path / name).mkdir()
        for number in range(12):
            shade = np.random.default_rng(number).integers(0, 255, (16, 16, 3)).astype(np.uint8)
            Image.fromarray(shade).save(tmp_path / name / f"{number:02d}.png")
    create_project(tmp_path / "i", tmp_path / "photos", Roles(), ["a", "b"], {}, encoder="shapes")
    with Store.open(tmp_path / "i") as store:
        add_target(store, tmp_path / "new")  # another folder, the same images
        np.testing.assert_allclose(target_features(store), features_of(store), atol=1e-4)
        (tmp_path / "new" / "03.png").write_bytes(b"no image")
        before = store.settings
        with pytest.raises(InputError, match=r"03\.png.*cannot be read"):
            add_target(store, tmp_path / "new")
        assert store.settings == before


@pytest.mark.parametrize("suffix", ["jsonl", "tsv", "csv.gz"])
def test_a_target_has_any_format_that_data_may_have(tmp_path, project, suffix):
    import gzip

    rows = records(9, seed=1)
    path = tmp_path / f"new.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == "tsv":
        lines = ["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    else:
        plain = write_csv(tmp_path / "new.csv", rows)
        path.write_bytes(gzip.compress(plain.read_bytes()))
    with Store.open(project) as store:
        assert add_target(store, path).n_rows == 9
        assert [row.id for row in target_items(store)] == [row["id"] for row in rows]


class TestFilter:
    def test_rows_of_the_pool_are_selected(self, tmp_path, project):
        with Store.open(project) as store:
            added = add_target(store, "region = north")
            assert added.n_rows == 10
            assert store.settings.target.where == "region = north"
            np.testing.assert_array_equal(target_features(store), features_of(store)[::4])
            assert {row.content["region"] for row in target_items(store)} == {"north"}

    def test_items_that_are_added_later_are_selected_too(self, tmp_path, project):
        with Store.open(project) as store:
            add_target(store, "region = north")
            more = [{**row, "id": f"x{i}"} for i, row in enumerate(records(8, seed=5))]
            add_items(store, write_csv(tmp_path / "more.csv", more))
            with Store.open(project, read_only=True) as reader:
                assert len(target_features(reader)) == 12
            assert len(target_features(store)) == 12
            assert store.settings.target.n_rows == 12
        assert len(list(project.glob("target-*"))) == 1

    def test_test_items_are_left_out(self, tmp_path):
        folder, _ = make(tmp_path, BOTH, audit=20)
        with Store.open(folder) as store:
            add_target(store, "region = north")
            audit = set(store.settings.audit)
            expected = [i for i in range(0, 40, 4) if i not in audit]
            assert len(expected) < 10
            np.testing.assert_array_equal(target_features(store), features_of(store)[expected])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("region = nowhere", "No item matches.*north, south"),
            ("city = Basel", "names the column 'city'"),
            ("missing.csv", "missing.csv"),
        ],
    )
    def test_a_filter_that_selects_nothing_is_refused(self, project, text, message):
        with Store.open(project) as store:
            with pytest.raises(InputError, match=message):
                add_target(store, text)
            assert store.settings.target is None


class TestWeights:
    def test_rows_without_weight_do_not_count(self, tmp_path, project):
        rows = [{**row, "w": "0" if i < 5 else "2"} for i, row in enumerate(records(12, seed=1))]
        path = write_csv(tmp_path / "new.csv", rows)
        with Store.open(project) as store:
            add_target(store, path, weights="w")
            np.testing.assert_array_equal(target_features(store), stored_features(store)[5:])
            assert "w" not in target_items(store)[0].content  # no column of the project

    def test_a_column_of_the_pool_weights_its_rows(self, tmp_path):
        rows = [{**row, "w": str(int(i == 8))} for i, row in enumerate(records())]
        folder, _ = make(tmp_path, TEXT, rows)
        with Store.open(folder) as store:
            add_target(store, "region = north", weights="w")
            np.testing.assert_array_equal(target_features(store), features_of(store)[[8]])

    @pytest.mark.parametrize("bad", ["nan", "inf", "-1", "", "much"])
    def test_other_weights_are_refused_with_their_row(self, tmp_path, project, bad):
        rows = [{**row, "w": "1"} for row in records(5)]
        rows[3]["w"] = bad
        with Store.open(project) as store:
            with pytest.raises(InputError, match=r"Row 'r3' of new.csv, column 'w', is"):
                add_target(store, write_csv(tmp_path / "new.csv", rows), weights="w")
            with pytest.raises(InputError, match="no column"):
                add_target(store, tmp_path / "new.csv", weights="v")
            for row in rows:
                row["w"] = "0"
            with pytest.raises(InputError, match="All weights"):
                add_target(store, write_csv(tmp_path / "new.csv", rows), weights="w")
            assert store.settings.target is None
        assert not list(project.glob("target-*"))


class TestFaults:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "new.csv"),
            (b"id,note,age,region\n", "no rows"),
            (b"id,age,region\n1,2,north\n", "no column 'note'"),
            (b'id,note,age,region\n1,"open quote', "new.csv"),
            (b"id,note,age,region\n1,a,2,north\n1,b,3,south\n", "ids must differ"),
            (bytes(range(256)) * 9, "new.csv"),
        ],
    )
    def test_a_bad_file_changes_nothing(self, tmp_path, project, content, message):
        path = tmp_path / "new.csv"
        path.write_bytes(content)
        with Store.open(project) as store:
            add_target(store, "region = north")
            before = store.settings
            files = sorted(project.iterdir())
            with pytest.raises(InputError, match=message):
                add_target(store, path)
            assert store.settings == before
        assert sorted(set(project.iterdir()) - set(files)) == []

    def test_init_with_a_bad_target_leaves_nothing(self, tmp_path):
        bad = write_csv(tmp_path / "new.csv", [{"id": "1", "age": "2"}])
        for target in (bad, "city = Basel", tmp_path / "none.csv"):
            with pytest.raises(InputError):
                make(tmp_path, BOTH, target=target)
            assert not (tmp_path / "p").exists()

    def test_matrices_of_another_width_or_with_holes_are_refused(self, tmp_path):
        rows = np.random.default_rng(0).standard_normal((9, 3)).astype(np.float32)
        np.save(tmp_path / "rows.npy", rows)
        create_project(tmp_path / "p", tmp_path / "rows.npy", Roles(), ["a", "b"], {})
        np.save(tmp_path / "wide.npy", np.ones((4, 5)))
        rows[2, 1] = np.nan
        np.save(tmp_path / "holes.npy", rows)
        with Store.open(tmp_path / "p") as store:
            with pytest.raises(InputError, match="5 columns of features, where the project has 3"):
                add_target(store, tmp_path / "wide.npy")
            with pytest.raises(InputError, match="finite"):
                add_target(store, tmp_path / "holes.npy")

    @pytest.mark.parametrize("n_rows", [1, 2])
    def test_a_target_of_one_row_or_of_copies_works(self, tmp_path, project, n_rows):
        rows = [{**records(1, seed=3)[0], "id": str(i)} for i in range(n_rows)]
        with Store.open(project) as store:
            label_some(store)
            add_target(store, write_csv(tmp_path / "new.csv", rows))
            report = refresh(store)
            assert report.n_targets == n_rows
            assert 0.0 <= report.expected_error.mean <= 1.0
            assert len(learner_of(store).ask(3)) == 3

    def test_of_many_rows_a_random_sample_is_stored(self, tmp_path, project, monkeypatch):
        monkeypatch.setattr(module, "MAX_ROWS", 15)
        with Store.open(project) as store:
            added = add_target(store, write_csv(tmp_path / "new.csv", records(40, seed=2)))
            assert (added.n_rows, added.n_kept) == (40, 15)
            assert "random 15 of its 40" in added.notes[-1]
            numbers = [int(row.id[1:]) for row in target_items(store)]
            assert numbers == sorted(numbers) != list(range(15))
            assert stored_features(store).shape[0] == 15

    @pytest.mark.parametrize("suffix", ["npy", "jsonl"])
    @pytest.mark.parametrize("damage", ["removed", "changed"])
    def test_damage_is_detected_and_explained(self, tmp_path, project, suffix, damage):
        with Store.open(project) as store:
            add_target(store, write_csv(tmp_path / "new.csv", records(9, seed=2)))
        (path,) = project.glob(f"target-*.{suffix}")
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        if damage == "removed":
            path.unlink()
        else:
            path.write_bytes(content)
        faults = check_project(project)[1]
        assert any("target" in fault and "target add" in fault for fault in faults)
        with pytest.raises(ProjectDamagedError, match="target"):
            write_backup(project, tmp_path / "backup.zip")

    def test_rows_that_somebody_forged_are_refused(self, tmp_path, project):
        from dataclasses import replace
        from hashlib import blake2b

        with Store.open(project) as store:
            add_target(store, "region = north")
            for line in ('{"position": 99}', '{"id": "a", "other": 1}', "[]", '{"id": "a"}'):
                content = f"{line}\n".encode()
                digest = blake2b(content, digest_size=16).hexdigest()
                forged = replace(store.settings.target, digest=digest)
                (project / forged.file).write_bytes(content)
                store.update_settings(target=forged)
                with pytest.raises(ProjectDamagedError):
                    target_features(store)


class TestStored:
    def test_backup_and_restore_keep_the_target(self, tmp_path, project):
        with Store.open(project) as store:
            add_target(store, write_csv(tmp_path / "new.csv", records(9, seed=2)))
            expected = np.array(target_features(store))
            record = store.settings.target
        write_backup(project, tmp_path / "backup.zip")
        restore_backup(tmp_path / "backup.zip", tmp_path / "q")
        with Store.open(tmp_path / "q") as store:
            np.testing.assert_array_equal(target_features(store), expected)
            assert store.settings.target == record
            assert len(target_items(store)) == 9
        assert check_project(tmp_path / "q")[1] == []

    def test_replacing_and_removing_leave_no_file(self, tmp_path, project):
        with Store.open(project) as store:
            for seed in (1, 2):
                add_target(store, write_csv(tmp_path / "new.csv", records(9, seed=seed)))
                assert len(list(project.glob("target-*"))) == 2
            add_target(store, "region = north")
            assert len(list(project.glob("target-*"))) == 1
            remove_target(store)
            assert not list(project.glob("target-*"))
            assert target_features(store) is None
            with pytest.raises(InputError, match="no target set"):
                remove_target(store)
            kinds = [event.kind for event in store.events()]
            assert kinds == ["target set added"] * 3 + ["target set removed"]

    def test_a_changed_encoder_makes_the_features_again(self, tmp_path):
        folder, data = make(tmp_path, TEXT)
        with Store.open(folder) as store:
            add_target(store, data)
            embed_project(store, "words", ["note", "region"], quiet)
            with Store.open(folder, read_only=True) as reader:
                expected = features_of(reader)
                np.testing.assert_allclose(target_features(reader), expected, atol=1e-4)
            np.testing.assert_allclose(target_features(store), features_of(store), atol=1e-4)
            assert store.settings.target.pool == store.settings.features.digest
        assert len(list(folder.glob("target-*"))) == 2

    def test_an_encoder_of_columns_that_the_target_lacks_is_refused(self, tmp_path):
        folder, _ = make(tmp_path, TEXT)
        rows = [{"id": row["id"], "note": row["note"]} for row in records(5)]
        with Store.open(folder) as store:
            add_target(store, write_csv(tmp_path / "new.csv", rows))
            with pytest.raises(InputError, match=r"no column 'region'; remove it first"):
                embed_project(store, "words", ["note", "region"], quiet)

    def test_tree_features_are_those_of_the_pool(self, tmp_path, monkeypatch):
        monkeypatch.setattr(trees, "_N_TREES", 10)
        folder, data = make(tmp_path, TABLE)
        with Store.open(folder) as store:
            add_target(store, data)
            label_some(store, 36)
            adapt_project(store, quiet, force=True)
            np.testing.assert_allclose(target_features(store), features_of(store), atol=1e-4)

    def test_an_opened_project_has_the_target(self, tmp_path, project):
        with Store.open(project) as store:
            add_target(store, "region = north")
        assert parbals.open(project).setup.target.n_rows == 10


class TestSeveralFiles:
    """Rows of several files, each with its share: with one a week, the newest counts most."""

    def test_new_rows_get_their_share_and_earlier_ones_keep_the_rest(self, tmp_path, project):
        with Store.open(project) as store:
            features = {}
            for week, n_rows in enumerate((4, 10, 6)):
                file = write_csv(tmp_path / f"week-{week}.csv", records(n_rows, seed=week))
                share = 0.5 if week else None
                before = [] if share is None else target_items(store)
                added = add_target(store, file, share=share)
                rows = target_items(store)
                assert added.n_rows == len(rows) == len(before) + n_rows
                weights = np.array([row.weight for row in rows])
                if share:
                    assert weights[len(before) :].sum() / weights.sum() == pytest.approx(0.5)
                features[week] = stored_features(store)
            target = store.settings.target
            assert [name for name, _ in target.parts] == ["week-2.csv", "week-1.csv", "week-0.csv"]
            assert [share for _, share in target.parts] == [0.5, 0.25, 0.25]
            assert np.array_equal(features[2][:14], features[1])
            # The learner's rows are drawn by weight: half of them are the newest.
            newest_rows = {tuple(row) for row in features[2][14:]}
            is_newest = [tuple(row) in newest_rows for row in target_features(store)]
            assert np.mean(is_newest) == pytest.approx(0.5, abs=0.15)
            assert check_project(project)[1] == []

    @pytest.mark.parametrize(
        ("first", "rows", "share", "message"),
        [
            (None, "new.csv", 0.5, "no target set of rows"),
            ("region = north", "new.csv", 0.5, "no target set of rows"),
            ("new.csv", "region = north", 0.5, "is a filter"),
            ("new.csv", "new.csv", 1.0, "between 0 and 1"),
        ],
    )
    def test_shares_without_sense_are_refused(
        self, tmp_path, project, monkeypatch, first, rows, share, message
    ):
        monkeypatch.chdir(tmp_path)
        write_csv(tmp_path / "new.csv", records(5))
        with Store.open(project) as store:
            if first is not None:
                add_target(store, first)
            before = store.settings.target
            with pytest.raises(InputError, match=message):
                add_target(store, rows, share=share)
            assert store.settings.target == before


def test_labels_are_chosen_for_the_target(tmp_path):
    """Two groups with weights of their own; only labels of the first say something about it."""
    generator = np.random.default_rng(0)
    group = np.repeat([0, 1], 100)
    rows = np.zeros((200, 8), np.float32)
    for member in (0, 1):
        values = generator.standard_normal((100, 4))
        rows[group == member, 4 * member : 4 * member + 4] = values
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "new.npy", rows[:40])
    create_project(tmp_path / "p", tmp_path / "rows.npy", Roles(), ["a", "b"], {})
    with Store.open(tmp_path / "p") as store:
        labelled = [0, 1, 2, 3, 100, 101, 102, 103]
        labels = ["ab"[int(rows[i].sum() > 0)] for i in labelled]
        answers = [Submission(i, label) for i, label in zip(labelled, labels, strict=True)]
        store.submit(answers, annotator="ann")
        assert group[learner_of(store).ask(10)].sum() > 1
        add_target(store, tmp_path / "new.npy")
        assert group[learner_of(store).ask(10)].sum() == 0
