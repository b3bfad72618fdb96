"""Tree features of tables: when they are used, how they predict, and what a kill leaves."""

import csv

import numpy as np
import pytest
from adapting_killed import WHERE, kill_adapting
from parbals import load_model
from parbals.errors import InputError, ProjectDamagedError
from parbals_label.encoders import trees
from parbals_label.encoders.trees import FILE, TableTrees
from parbals_label.project.adapting import adapt_project
from parbals_label.project.backup import check_project, restore_backup, write_backup
from parbals_label.project.choose import choose_batch
from parbals_label.project.create import Roles, create_project
from parbals_label.project.embedding import embed_project
from parbals_label.project.engine import learner_of, refresh
from parbals_label.project.features import features_of, held_out_of, is_adapted, load_features
from parbals_label.project.summary import overview
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from parbals_label.web.items import project as page_of
from parbals_label.web.worker import Adapter

COLUMNS, N_ITEMS, AUDIT = ("width", "height", "colour"), 300, 20


def silent(stage, done, total):
    pass


def write_table(path, *, rules, n_items=N_ITEMS, seed=0):
    """Two classes: by the signs of two columns, or by a line."""
    rng = np.random.default_rng(seed)
    width, height = rng.normal(size=(2, n_items)).round(4)
    kind = (width > 0) ^ (height > 0) if rules else width + height > 0
    colour = rng.choice(["red", "blue", ""], n_items)
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *zip(width, height, colour, strict=True)])
    return kind.astype(int)


def made(tmp_path, *, rules=True, n_labels=100, name="p", **roles):
    kind = write_table(tmp_path / "table.csv", rules=rules)
    create_project(
        tmp_path / name, tmp_path / "table.csv", Roles(**roles), ["no", "yes"], {}, audit=AUDIT
    )
    with Store.open(tmp_path / name) as store:
        answers = [Submission(p, ("no", "yes")[kind[p]]) for p in range(n_labels)]
        store.submit(answers, annotator="me")
    return tmp_path / name


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(trees, "_N_TREES", 10)


@pytest.fixture
def project(tmp_path):
    return made(tmp_path)


def features(folder):
    with Store.open(folder) as store:
        return np.array(load_features(folder, store.settings.features, verify=True))


class TestTables:
    @pytest.mark.parametrize(
        "roles",
        [
            pytest.param({}, id="table"),
            pytest.param({"features": COLUMNS[:2]}, id="columns", marks=pytest.mark.full),
        ],
    )
    def test_where_classes_are_rules_trees_are_taken(self, roles, tmp_path, run):
        project = made(tmp_path, **roles)
        frozen = features(project)
        with Store.open(project) as store:
            refresh(store)
            found = adapt_project(store, silent)
            assert found.used
            assert found.error < 0.2 < found.frozen_error
            assert is_adapted(store.settings.encoder)
            assert store.settings.predictions is None  # they were of the old features
            assert "Tree features trained on" in overview(store).features
            assert page_of(store).kind == "table"
            refresh(store)
            choose_batch(store, 3)
            width = frozen.shape[1]
            assert features_of(store).shape == (N_ITEMS, width + 2)
            kept = np.clip(frozen, -3.0, 3.0)  # as a table's numbers are
            np.testing.assert_allclose(features_of(store)[:, :width], kept, atol=0.01)
            report = learner_of(store).report()
            assert abs(report.expected_error.mean - found.error) < 0.1, (
                "not that of labels by heart"
            )
        wanted = write_table(tmp_path / "new.csv", rules=True, seed=1)
        run("predict", project, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
        exported = run("export", project, "--model", tmp_path / "m.npz")
        columns = ", ".join(roles.get("features", COLUMNS))
        assert f"it takes data frames with the columns {columns}" in exported
        said = read(tmp_path / "out.csv")
        assert (
            np.mean(
                [row["predicted"] == ("no", "yes")[k] for row, k in zip(said, wanted, strict=True)]
            )
            > 0.8
        )
        new = read(tmp_path / "new.csv")
        model = load_model(tmp_path / "m.npz")
        cells = {name: [row[name] for row in new] for name in COLUMNS}
        probs = [float(row["p_yes"]) for row in said]
        found = model.predict_proba(cells)[:, model.classes.index("yes")]
        np.testing.assert_allclose(found, probs, atol=1e-3)

    def test_where_classes_are_a_line_they_are_not(self, tmp_path):
        project = made(tmp_path, rules=False)
        before = features(project)
        with Store.open(project) as store:
            found = adapt_project(store, silent)
            assert not found.used
            assert store.settings.encoder == "table"
            assert "did not improve held-out predictions" in overview(store).features
        np.testing.assert_array_equal(features(project), before)
        assert not list(project.glob("encoder-*"))

    def test_the_audit_and_its_copies_teach_nothing(self, project, monkeypatch):
        taught, grow = [], TableTrees.grow.__func__

        def watched(cls, table, rows, numbers, seed):
            taught.append(rows)
            return grow(cls, table, rows, numbers, seed)

        monkeypatch.setattr(TableTrees, "grow", classmethod(watched))
        frozen = features(project)
        with Store.open(project) as store:
            adapt_project(store, silent, force=True)
            learner = learner_of(store)
            assert len(learner.state.audited)
            assert held_out_of(store)[0] == learner.state.training_labels[0].tolist()
        unseen = {row.tobytes() for row in frozen[learner.audit]}
        assert len(taught) == 4  # three parts, then all
        assert not unseen & {row.tobytes() for part in taught for row in part}

    def test_again_and_back_and_more_items(self, project, tmp_path, run):
        with Store.open(project) as store:
            first = adapt_project(store, silent, force=True)
            store.submit([Submission(p, "yes") for p in range(200, 220)], annotator="me")
            second = adapt_project(store, silent, force=True)
            assert second.n_labels > first.n_labels
        assert [path.name for path in project.glob("encoder-*")] == [second.encoder]
        before = features(project)
        write_table(tmp_path / "more.csv", rules=True, n_items=50, seed=3)
        run("add", project, tmp_path / "more.csv")
        after = features(project)
        assert after.shape == (N_ITEMS + 50, before.shape[1])
        np.testing.assert_array_equal(after[:N_ITEMS], before)
        with Store.open(project) as store:
            embed_project(store, "auto", None, silent)
            assert store.settings.encoder == "table"
        with Store.open(made(tmp_path, name="plain", features=COLUMNS[:2])) as store:
            before = features_of(store)
            adapt_project(store, silent, force=True)
            embed_project(store, "auto", None, silent)
            assert store.settings.encoder == "columns"
            np.testing.assert_array_equal(features_of(store), before)
        assert not list(project.glob("encoder-*"))

    def test_a_backup_holds_it(self, project, tmp_path):
        with Store.open(project) as store:
            found = adapt_project(store, silent, force=True)
        write_backup(project, tmp_path / "b.zip")
        restore_backup(tmp_path / "b.zip", tmp_path / "back")
        assert check_project(tmp_path / "back")[1] == []
        (tmp_path / "back" / found.encoder / "trees.npz").write_bytes(b"")
        assert "not what was written" in check_project(tmp_path / "back")[1][0]
        (tmp_path / "back" / found.encoder / "parbals.json").unlink()
        with Store.open(tmp_path / "back") as store:
            with pytest.raises(ProjectDamagedError, match="--encoder table"):
                learner_of(store)
            embed_project(store, "table", None, silent)
            learner_of(store)

    @pytest.mark.parametrize(
        "where", [pytest.param(w, marks=[] if w == "written" else pytest.mark.full) for w in WHERE]
    )
    def test_a_kill_leaves_the_old_features_or_the_new(self, where, project):
        frozen = features(project)
        kill_adapting(project, where)
        assert check_project(project)[1] == []
        with Store.open(project) as store:
            is_new = is_adapted(store.settings.encoder)
            assert is_new == (where == "stored")
            choose_batch(store, 2)
        if not is_new:
            np.testing.assert_array_equal(features(project), frozen)
        with Store.open(project) as store:
            found = adapt_project(store, silent, force=True)
        assert [path.name for path in project.glob("encoder-*")] == [found.encoder]
        assert check_project(project)[1] == []

    def test_the_pages_worker_does_it(self, project):
        said = []
        with Store.open(project) as store:
            more = [Submission(p, "yes") for p in range(100, 125)]
            store.submit(more, annotator="me")
            store.update_settings(adapt=True)
            assert Adapter(store, lambda **words: said.append(words)).step()
            assert said[-1] == {"adapting": None}
            assert store.events("encoder adapted")

    def test_what_cannot_be_is_said_in_one_sentence(self, project, tmp_path, run):
        few = made(tmp_path, n_labels=10, name="few")
        with Store.open(few) as store, pytest.raises(InputError, match="too few to adapt"):
            adapt_project(store, silent)
        with Store.open(project) as store:
            with pytest.raises(InputError, match="No encoder reads the items"):
                adapt_project(store, silent, encoder="hf:./somewhere")
            adapt_project(store, silent, force=True)
        refused = run("export", project, "--model", tmp_path / "folder", fails=True)
        assert "give it the ending .npz" in str(refused.output) + str(refused.exception)


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class TestChangedEncoders:
    """An adapted encoder is verified before anything is computed with it."""

    @pytest.fixture
    def adapted(self, project, tmp_path):
        with Store.open(project) as store:
            encoder = adapt_project(store, silent, force=True).encoder
        write_table(tmp_path / "more.csv", rules=True, n_items=20, seed=3)
        return project / encoder

    def commands(self, project, tmp_path):
        more = tmp_path / "more.csv"
        return [
            ("add", project, more),
            ("predict", project, more, "--out", tmp_path / "out.csv"),
            ("export", project, "--model", tmp_path / "m.npz"),
            ("embed", project, "--encoder", next(project.glob("encoder-*")).name),
        ]

    def assert_refused(self, project, tmp_path, run):
        before = features(project)
        for command in self.commands(project, tmp_path):
            error = str(run(*command, fails=True).exception)
            assert "is not what was written; put back a copy" in error or "is a link" in error
        np.testing.assert_array_equal(features(project), before)

    def test_swapped_values_are_noticed(self, adapted, project, tmp_path, run):
        with np.load(adapted / FILE) as file:
            arrays = dict(file)
        arrays["values"] = arrays["values"][:, ::-1]
        np.savez_compressed(adapted / FILE, **arrays)
        self.assert_refused(project, tmp_path, run)

    def test_a_link_is_not_followed(self, adapted, project, tmp_path, run):
        elsewhere = tmp_path / "elsewhere"
        adapted.rename(elsewhere)
        adapted.symlink_to(elsewhere)
        self.assert_refused(project, tmp_path, run)
        assert "is a link" in str(run("adapt", project, fails=True).exception)

    def test_a_linked_file_is_not_followed(self, adapted, project, tmp_path, run):
        trees = adapted / FILE
        elsewhere = tmp_path / FILE
        trees.rename(elsewhere)
        trees.symlink_to(elsewhere)
        self.assert_refused(project, tmp_path, run)
