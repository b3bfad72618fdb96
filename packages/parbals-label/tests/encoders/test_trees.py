"""Tree features: arrays agree with scikit-learn, and damaged files are refused."""

import json

import numpy as np
import pytest
from parbals.errors import InputError
from parbals.features.table import TableEncoding
from parbals_label.encoders import trees as module
from parbals_label.encoders.trees import FILE, Forest, TableTrees
from parbals_label.project.embedding import load_trees
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.tree import DecisionTreeRegressor

N_TREES = 30


def cells(n=200, seed=0):
    rng = np.random.default_rng(seed)
    columns = {"x": rng.normal(size=n), "y": rng.normal(size=n), "k": rng.choice(list("abc"), n)}
    return columns, ((columns["x"] > 0) ^ (columns["y"] > 0)).astype(int)


@pytest.fixture(scope="module", autouse=True)
def few_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_N_TREES", N_TREES)
        yield


@pytest.fixture(scope="module")
def taught():
    columns, numbers = cells()
    table = TableEncoding.fit(columns)
    rows = table.transform(columns)
    return TableTrees.grow(table, rows, numbers, seed=0), rows, numbers


def test_arrays_say_what_scikit_learn_says():
    rng = np.random.default_rng(1)
    rows, numbers = rng.normal(size=(300, 5)).astype(np.float32), rng.integers(0, 4, 300)
    forest = Forest.fit(rows, np.eye(4)[numbers], seed=0)
    forest.check(5)
    new = rng.normal(size=(600, 5)).astype(np.float32)
    said = forest.log_scores(new)
    for kind, columns in enumerate((1.0, "sqrt")):
        how = {"max_features": columns, "max_leaf_nodes": 2_000, "random_state": 0}
        model = ExtraTreesRegressor(N_TREES, **how).fit(rows, np.eye(4)[numbers])
        np.testing.assert_allclose(np.exp(said[:, kind]) - 0.01, model.predict(new), atol=1e-6)
    assert forest.log_scores(new[:0]).shape == (0, 3, 4)


def test_boosted_trees_take_newton_steps_for_all_classes_at_once():
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1.0, 1.0, size=(700, 3)).astype(np.float32)
    numbers = 2 * (rows[:, 0] > 0) + (rows[:, 1] > 0)
    left = np.eye(4)[numbers[:200]] - 0.25
    forest = Forest.fit(rows[:200], left + 0.25, seed=0)
    model = DecisionTreeRegressor(**module._BOOSTED_TREE, random_state=0).fit(rows[:200], left)
    leaves = model.apply(rows[:200])
    inside = leaves == leaves[0]
    step = left[inside].sum(axis=0) / (1.0 + inside.sum() * 0.25 * 0.75)
    value = forest.values[
        forest.root_nodes[2 * N_TREES] + leaves[0]
    ]  # after those of two other kinds
    np.testing.assert_allclose(value / N_TREES, 0.1 * step, atol=1e-6)
    said = forest.log_scores(rows[200:])[:, 2]
    assert (said.argmax(axis=1) == numbers[200:]).mean() > 0.95


class TestTableTrees:
    def test_new_rows_are_told_apart_where_no_line_could(self, taught):
        trees, rows, _ = taught
        columns, wanted = cells(seed=2)
        new = trees.table.transform(columns)
        said = trees.rows(new)
        np.testing.assert_array_equal(said[:, : rows.shape[1]], new)
        assert ((said[:, -1] > said[:, -2]) == wanted).mean() > 0.85

    def test_rows_that_taught_it_are_judged_by_trees_that_did_not_see_them(self):
        """Labels that say nothing: trees would know them by heart, copies included."""
        rng = np.random.default_rng(3)
        columns, _ = cells(60)
        twice = {name: np.concatenate([values, values]) for name, values in columns.items()}
        numbers = np.tile(rng.integers(0, 2, 60), 2)
        table = TableEncoding.fit(twice)
        rows = table.transform(twice)
        trees = TableTrees.grow(table, rows, numbers, seed=0)
        by_heart = (
            trees.forest.log_scores(rows[:, trees.tree_columns])[:, 0].argmax(axis=1) == numbers
        )
        said = trees.rows(rows)[:, -2:].argmax(axis=1) == numbers
        assert by_heart.all()
        assert said.mean() < 0.7

    def test_trees_do_not_read_bins(self, taught):
        trees, rows, _ = taught
        assert rows.shape[1] > len(trees.tree_columns) == 2 + 3

    def test_a_folder_holds_it(self, taught, tmp_path):
        trees, rows, _ = taught
        trees.save(tmp_path / FILE)
        back = load_trees(tmp_path / FILE)
        np.testing.assert_array_equal(back.rows(rows), trees.rows(rows))

    def test_a_class_with_one_label_and_rows_that_are_all_alike(self):
        columns, numbers = cells(30)
        numbers[0] = 2
        table = TableEncoding.fit(columns)
        rows = table.transform(columns)
        assert TableTrees.grow(table, rows, numbers, seed=0).rows(rows).shape[1] == table.width + 3
        same = np.tile(rows[:1], (30, 1))
        assert np.isfinite(TableTrees.grow(table, same, numbers, seed=0).rows(same)).all()


HOSTILE = {
    "a walk that goes back": {"down": lambda a: np.zeros_like(a)},
    "a walk that never ends": {"down": lambda a: np.c_[a[:, 0], np.arange(len(a))]},
    "a node beyond the last": {"down": lambda a: a + len(a)},
    "a child before the first": {"down": lambda a: np.full_like(a, -7)},
    "one child": {"down": lambda a: a[:, :1]},
    "a column that the table has not": {"column": lambda a: a + 999},
    "columns from the end": {"column": lambda a: a - 999},
    "a root that is nowhere": {"first": lambda a: a - 1},
    "no tree": {"first": lambda a: a[:0]},
    "numbers that are none": {"threshold": lambda a: a * np.nan},
    "shares that are none": {"values": lambda a: a * np.nan},
    "shares of no class": {"values": lambda a: a[:, 0]},
    "trees of no kind": {"first": lambda a: a[:-1]},
    "powers of other kinds": {"powers": lambda a: a[:-1]},
    "powers that are none": {"powers": lambda a: a * np.nan},
    "fractions for nodes": {"down": lambda a: a.astype(float)},
    "arrays of other lengths": {"threshold": lambda a: a[:-1]},
    "a scale that is none": {"scale": lambda a: np.array(np.inf)},
    "words for a scale": {"scale": lambda a: np.array("x")},
    "a table that is none": {"table": lambda a: np.array("[]")},
    "a table of nothing": {"table": lambda a: np.array(json.dumps({"columns": [], "notes": []}))},
    "what is said of more classes": {"left_out": lambda a: np.hstack([a, a])},
    "a node with two parents": {"down": lambda a: np.where(a == 2, 1, a)},
    "as many trees as nodes": {"first": lambda a: np.arange(3 * (10_000 // 3))},
    "less said than taught": {"left_out": lambda a: a[:-1]},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_refused_in_one_sentence(what, taught, tmp_path):
    taught[0].save(tmp_path / FILE)
    with np.load(tmp_path / FILE) as file:
        arrays = dict(file)
    for name, change in HOSTILE[what].items():
        arrays[name] = change(arrays[name])
    np.savez_compressed(tmp_path / FILE, **arrays)
    with pytest.raises(InputError, match="damaged"):
        load_trees(tmp_path / FILE)


def test_a_file_that_is_no_archive_or_lacks_arrays(taught, tmp_path):
    (tmp_path / FILE).write_bytes(b"PK nothing")
    with pytest.raises(InputError, match="not a file of trees"):
        load_trees(tmp_path / FILE)
    np.savez_compressed(tmp_path / FILE, first=np.arange(3))
    with pytest.raises(InputError, match="damaged"):
        load_trees(tmp_path / FILE)
