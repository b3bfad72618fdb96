"""modAL's own learners and committees, with our strategies as their query function."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.utils.fixes import parse_version

if parse_version(sklearn.__version__) >= parse_version("1.8"):
    pytest.skip(
        "modAL 0.4.2 calls what scikit-learn 1.8 removed: make test-integrations",
        allow_module_level=True,
    )
pytest.importorskip("modAL", reason="needs modAL: make test-integrations")
import parbals
from modAL.models import ActiveLearner, Committee
from parbals.strategies.table import STRATEGIES
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "modal"))
from modal_query import labelled_rows, parbals_sampling

pytestmark = [
    pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning"),
    pytest.mark.filterwarnings("ignore:'force_all_finite' was renamed:FutureWarning"),  # theirs
]

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((60, 3))
Y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, "yes", "no")
LEARNT = slice(0, 12)
POOL = slice(12, 60)


def a_learner(estimator=None, **settings):
    if estimator is None:
        estimator = RandomForestClassifier(8, random_state=0)
    strategy = partial(parbals_sampling, random_state=0, **settings)
    return ActiveLearner(estimator, strategy, X[LEARNT], Y[LEARNT])


def test_the_loop_of_their_guide():
    learner = a_learner()
    pool = X[POOL]
    labels = Y[POOL]
    for _ in range(3):
        positions, rows = learner.query(pool, n_instances=4)
        assert len(set(positions.tolist())) == 4
        np.testing.assert_array_equal(rows, pool[positions])
        learner.teach(rows, labels[positions])
        pool = np.delete(pool, positions, 0)
        labels = np.delete(labels, positions)
    assert len(learner.X_training) == 24
    assert learner.score(X, Y) > 0.85


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy(name):
    positions, rows, scores = a_learner(strategy=name).query(
        X[POOL], n_instances=4, return_metrics=True
    )
    assert len(set(positions.tolist())) == len(rows) == len(scores) == 4


@pytest.mark.parametrize(
    "estimator",
    [
        BaggingClassifier(LogisticRegression(), 5, random_state=0),
        parbals.BayesianLogisticRegression(64, inference="ep", random_state=0),
    ],
    ids=["bagging", "ours"],
)
def test_estimators_that_give_samples(estimator):
    positions, _ = a_learner(estimator).query(X[POOL], n_instances=3, strategy="epig")
    assert len(set(positions.tolist())) == 3


def test_a_committee():
    members = [a_learner(RandomForestClassifier(3, random_state=seed)) for seed in range(4)]
    committee = Committee(members, partial(parbals_sampling, random_state=0))
    positions, _ = committee.query(X[POOL], n_instances=3)
    assert len(set(positions.tolist())) == 3


def test_targets_decide_what_is_asked():
    ours = parbals.BayesianLogisticRegression(64, inference="ep", random_state=0)
    learner = a_learner(ours, strategy="epig")
    near, _ = learner.query(X[POOL], X_target=X[12:14])
    far, _ = learner.query(X[POOL], X_target=10 * X[40:42])
    assert near[0] != far[0]


def test_a_committee_has_the_rows_of_its_members():
    members = [
        ActiveLearner(LogisticRegression(), X_training=X[rows], y_training=Y[rows])
        for rows in (slice(0, 12), slice(6, 18))
    ]
    rows, labels = labelled_rows(Committee(members))
    order = np.lexsort(X[:18].T[::-1])
    np.testing.assert_array_equal(rows, X[:18][order])
    np.testing.assert_array_equal(labels, Y[:18][order])
