"""A learner that knows which items lie together."""

import numpy as np
import parbals
import pytest
from parbals.learner import structure

N_CLUSTERS = 12


def clusters(n_rows=600, seed=0):
    """Rows of twelve clusters, stretched so that a linear model needs labels of each."""
    generator = np.random.default_rng(seed)
    centres = 3.0 * generator.standard_normal((N_CLUSTERS, 8))
    y = np.arange(n_rows) % N_CLUSTERS
    rows = centres[y] + 1.5 * generator.standard_normal((n_rows, 8))
    return rows, y


def labelled(X, y, items, **arguments):
    """A learner with these labels; it knows which rows lie together unless told otherwise."""
    arguments = {"pool_structure": True} | arguments
    learner = parbals.ActiveLearner(X, range(y.max() + 1), random_state=0, **arguments)
    learner.tell(items, y[items])
    return learner


def test_few_labels_are_worth_more_where_classes_are_clusters():
    X, y = clusters()
    items = np.arange(2 * N_CLUSTERS)
    accuracies = {
        pool_structure: np.mean(
            labelled(X, y, items, pool_structure=pool_structure).predict(X) == y
        )
        for pool_structure in (True, False)
    }
    assert accuracies[True] > accuracies[False] + 0.02


def test_labels_that_do_not_follow_the_clusters_leave_them_out():
    X, _ = clusters()
    direction = np.random.default_rng(5).standard_normal(8)
    within = (
        X
        - np.stack([X[i::N_CLUSTERS].mean(axis=0) for i in range(N_CLUSTERS)])[
            np.arange(len(X)) % N_CLUSTERS
        ]
    )
    y = (within @ direction > 0).astype(int)
    learner = labelled(X, y, np.arange(120))
    assert learner.fitted().neighbourhood_share_ < 0.2
    without = labelled(X, y, np.arange(120), pool_structure=False)
    error, error_without = (np.mean(a.predict(X) != y) for a in (learner, without))
    assert error < error_without + 0.02


def test_nothing_depends_on_the_order_of_the_pool():
    X, y = clusters()
    order = np.random.default_rng(1).permutation(len(X))
    items = np.arange(40)
    place = np.argsort(order)[items]
    probs = labelled(X, y, items).predict_proba(X[:50])
    reordered = labelled(X[order], y[order], place).predict_proba(X[:50])
    np.testing.assert_allclose(reordered, probs, atol=0.02)


def test_pool_rows_and_equal_new_rows_are_predicted_alike():
    X, y = clusters()
    learner = labelled(X, y, np.arange(40), standardise=True)
    setup = learner.setup
    positions = np.array([5, 3, 200])
    np.testing.assert_allclose(setup.prepared(X[positions]), setup.pool_rows(positions), atol=1e-3)
    assert setup.pool_rows(positions).shape == (3, 16)
    in_place = setup.pool_rows_in_place(positions)
    assert in_place.shape == (3, 16)
    np.testing.assert_array_equal(in_place[:2], setup.pool_rows(positions[:2]))


def test_target_rows_are_neighbours_too():
    """Where the pool has nothing, a target row is smoothed over other target rows."""
    X, y = clusters()
    target = np.random.default_rng(3).standard_normal((90, 8)) + 30.0
    setup = labelled(X, y, np.arange(40), X_target=target).setup
    columns = setup.target_rows(np.arange(90))[:, 8:]
    assert columns.std(axis=0).max() < 0.2 * setup.pool_rows(slice(None))[:, 8:].std(axis=0).max()
    np.testing.assert_allclose(setup.prepared(target)[:, 8:], columns, atol=1e-3)


def test_it_is_saved(tmp_path):
    X, y = clusters()
    for pool_structure in (True, False):
        learner = labelled(X, y, np.arange(40), pool_structure=pool_structure)
        learner.save(tmp_path / "learner")
        loaded = parbals.ActiveLearner.load(tmp_path / "learner")
        assert (loaded.setup.structure is not None) == pool_structure
        np.testing.assert_array_equal(loaded.predict_proba(X[:9]), learner.predict_proba(X[:9]))
        np.testing.assert_array_equal(loaded.choose(3).indices, learner.choose(3).indices)


def test_it_is_computed_once(monkeypatch):
    X, y = clusters()
    calls = []
    original = structure.Neighbourhoods.of
    monkeypatch.setattr(
        structure.Neighbourhoods, "of", lambda rows: calls.append(1) or original(rows)
    )
    learner = labelled(X, y, np.arange(20))
    learner.choose(2)
    learner.measure(20, keep=True)
    learner.choose(2)
    assert len(calls) == 1


def test_pools_that_are_small_large_or_of_a_given_prior_are_left_as_they_are(monkeypatch):
    X, y = clusters()
    assert labelled(X[:90], y[:90], np.arange(20)).setup.pool_rows(slice(3)).shape == (3, 8)
    given = labelled(X, y, np.arange(20), prior_scale=1.0)
    assert given.setup.structure is None
    monkeypatch.setattr(structure, "MAX_ROWS", 500)
    learner = labelled(X, y, np.arange(20))
    assert learner.setup.n_neighbourhood_columns == 0
    assert any("over 500" in note for note in learner.choose(2).notes)
    monkeypatch.setattr(structure, "MAX_ROWS", 10_000)
    monkeypatch.setattr(structure, "_MAX_ENTRIES", 500)
    assert any("too wide" in note for note in labelled(X, y, np.arange(20)).choose(2).notes)


@pytest.mark.parametrize("n_columns", [3, 600])
def test_narrow_and_wide_rows_predict(n_columns):
    X = np.random.default_rng(0).standard_normal((300, n_columns))
    y = (X[:, 0] > 0).astype(int)
    learner = labelled(X, y, np.arange(60))
    assert np.isfinite(learner.predict_proba(X)).all()


def regions(X, y, items, **arguments):
    """A learner in which the labels trust the neighbourhoods, and the clusters of its items."""
    learner = labelled(X, y, items, **arguments)
    assert learner.fitted().neighbourhood_share_ > 0.5
    return learner


def test_a_batch_is_chosen_where_no_label_is():
    """Twenty clusters of which eight have labels: the next batch asks in the others."""
    generator = np.random.default_rng(0)
    y = np.arange(2_000) % 20
    X = 4.0 * generator.standard_normal((20, 8))[y] + generator.standard_normal((2_000, 8))
    items = np.flatnonzero(y < 8)[:24]
    batch = regions(X, y, items).choose(12)
    assert any("regions of the pool" in note for note in batch.notes)
    assert (y[batch.indices] >= 8).mean() > 0.9


def test_a_single_label_of_each_class_says_nothing_of_neighbourhoods():
    """Labels of different classes alone may favour the rows, and a batch asks elsewhere still."""
    X, y = clusters()
    batch = labelled(X, y, np.arange(N_CLUSTERS)).choose(3)
    assert any("regions of the pool" in note for note in batch.notes)


def test_representatives_are_typical_and_apart_from_what_is_used():
    X, y = clusters(n_rows=900)
    setup = labelled(X, y, np.arange(24)).setup
    free = np.arange(100, 900)
    used = np.arange(24)
    few = setup.structure.representatives(free, used, 40)
    assert np.isin(few, free).all()
    assert len(np.unique(few)) == len(few) >= 40 - len(used)
    # Every region counts once: with more regions there are as many more representatives.
    assert len(setup.structure.representatives(free, used, 90)) > len(few)
    distances = np.sort(np.linalg.norm(X[:, None] - X, axis=2), axis=1)[:, :20].mean(axis=1)
    assert np.median(distances[few]) < np.median(distances)
    # Left-out items are not proposed, and another of the region takes their place.
    rest = np.setdiff1d(free, few)
    assert len(setup.structure.representatives(rest, used, 40)) > 0.8 * len(few)


def test_pending_items_count_as_labelled():
    X, y = clusters(n_rows=900)
    learner = regions(X, y, np.arange(24))
    first = learner.ask(5)
    second = learner.ask(5)
    pool = learner.setup.structure
    regions_by_content = pool._clusters.labels(24 + 5 + 100)
    region = regions_by_content[np.argsort(pool._neighbourhoods.order)]
    assert not set(region[first]) & set(region[second])


def test_all_items_compete_with_a_target_and_for_random():
    X, y = clusters(n_rows=900)
    with_target = labelled(X, y, np.arange(24), X_target=X[:100])
    for batch in (
        with_target.choose(3),
        regions(X, y, np.arange(24)).choose(3, strategy="random"),
    ):
        assert not any("regions of the pool" in note for note in batch.notes)
    few = regions(X, y, np.arange(24)).choose(12, leave_out=range(26, 890))
    assert len(few.indices) == 12  # more than there are regions with a free item, perhaps
