"""What a machine is asked next: leaving items out changes which are chosen, and nothing else."""

import numpy as np
import pytest
from machine_projects import make_project

from parbals.machines import choosing
from parbals.machines.choosing import choose
from parbals.project.engine import learner_of
from parbals.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store.open(make_project(tmp_path / "p", 40, labelled=10, strategy="margin")) as store:
        yield store


def positions(choice):
    return [position for position, _, _ in choice.rows]


def test_without_anything_to_leave_out_it_is_the_projects_own_choice(store):
    choice = choose(store, 5, None, ())
    batch = learner_of(store).choose(5)
    assert positions(choice) == batch.indices.tolist()
    assert [score for _, score, _ in choice.rows] == pytest.approx(batch.scores.tolist())


def test_the_best_of_the_others_is_chosen(store):
    """``coreset`` takes the item farthest from all labelled ones, which can be worked out by hand."""
    learner = learner_of(store)
    rows = learner.pool.rows(np.arange(40)).astype(float)
    far = np.linalg.norm(rows[:, None] - rows[None, learner.labelled], axis=2).min(axis=1)
    left_out = np.argsort(-far)[:12].tolist()
    chosen = positions(choose(store, 3, "coreset", left_out))
    assert set(chosen).isdisjoint(left_out)
    assert far[chosen[0]] == pytest.approx(np.delete(far, left_out).max())
    assert far[chosen[0]] < far[left_out].max()


def test_what_is_labelled_or_out_or_left_out_is_never_chosen(store):
    store.record_batch("random", 0, [(12, None, None)], {}, annotator="kim")
    choice = choose(store, 100, "random", range(13, 30))
    assert sorted(positions(choice)) == [10, 11, *range(30, 40)]
    assert choose(store, 5, None, range(10, 40)) is None


def test_the_same_state_gives_the_same_choice_also_among_more_items_than_are_looked_at(
    store, monkeypatch
):
    monkeypatch.setattr(choosing, "learner_of", lambda store: learner_of(store, n_candidates=6))
    first, again = (choose(store, 4, None, [20, 21]) for _ in range(2))
    assert first == again
    assert choose(store, 4, None, [20, 21, 22]) != first
