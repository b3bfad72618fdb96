"""Strange numbers, labels and shapes: refused by row and column, or finite and distinct."""

import warnings
from itertools import cycle

import numpy as np
import parbals
import pytest
from parbals.errors import InputError, ParbalsWarning
from parbals.strategies.table import STRATEGIES

GENERATOR = np.random.default_rng(0)
BASE = GENERATOR.standard_normal((60, 3))
Y = (BASE[:, 0] > 0).astype(int)

FEATURES = {
    "constant column": BASE * [1, 0, 1] + [0, 7, 0],
    "all constant": np.ones((60, 3)),
    "collinear": BASE[:, [0, 0, 1]] * [1, 3, 1] - [0, 1, 0],
    "half duplicates": BASE[np.arange(60) // 2 * 2],
    "all duplicates": np.repeat(BASE[:1], 60, axis=0),
    "tiny": BASE * 1e-300,
    "float16": BASE.astype(np.float16),
    "int64": (100 * BASE).astype(np.int64),
    "mixed scales": BASE * np.array([1e-6, 1.0, 1e3]),
    "one column": BASE[:, :1],
    "more columns than rows": GENERATOR.standard_normal((60, 150)),
}
REFUSED = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e300": 1e300}
SAMPLERS = ("smc", "nuts", "laplace")
DIAGONAL = list(zip(STRATEGIES, cycle(FEATURES), cycle(("smc", "laplace"))))
"""Every strategy and every kind of features once; all of them with all in the full counts."""


def chosen(X, strategy, inference="smc", n_labels=10, batch_size=5):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParbalsWarning)  # it came, which is what matters here
        model = parbals.BayesianLogisticRegression(128, inference=inference, random_state=0)
        model.fit(X[:n_labels], Y[:n_labels])
        return parbals.select_batch_from_model(
            model,
            X[n_labels:],
            X[:20],
            batch_size,
            strategy,
            random_state=0,
            X_labelled=X[:n_labels],
            y_labelled=Y[:n_labels],
        )


def check(batch, batch_size=5):
    assert len(set(batch.indices.tolist())) == batch_size
    assert not np.isnan(batch.scores).any()


@pytest.mark.parametrize(("strategy", "name", "inference"), DIAGONAL)
def test_strange_features_give_distinct_items(strategy, name, inference):
    check(chosen(FEATURES[name], strategy, inference))


@pytest.mark.faults
@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("inference", SAMPLERS)
def test_every_strategy_with_every_sampler(name, strategy, inference):
    check(chosen(FEATURES[name], strategy, inference))


@pytest.mark.parametrize("value", REFUSED)
def test_numbers_that_cannot_be_used_are_named(value):
    broken = BASE.copy()
    broken[37, 2] = REFUSED[value]
    with pytest.raises(InputError, match=r"X_pool\[37, 2\] is"):
        parbals.ActiveLearner(broken, [0, 1])


@pytest.mark.parametrize(
    "n_classes",
    [2, 10, pytest.param(3, marks=pytest.mark.full), pytest.param(100, marks=pytest.mark.full)],
)
def test_many_classes_most_of_them_unseen(n_classes):
    active = parbals.ActiveLearner(
        BASE, list(range(n_classes)), n_samples=128, strategy="bald", random_state=0
    )
    active.tell([0, 1], [0, n_classes - 1])
    assert len(set(active.ask(5).tolist())) == 5
    assert np.isfinite(active.predict_proba(BASE)).all()


@pytest.mark.parametrize("n_free", [4, 5, 6])
def test_pools_smaller_equal_and_one_larger_than_the_batch(n_free):
    active = parbals.ActiveLearner(BASE[:n_free], [0, 1], random_state=0, n_samples=128)
    if n_free < 5:
        with pytest.raises(InputError, match="4 are free"):
            active.ask(5)
    else:
        assert len(set(active.ask(5).tolist())) == 5


@pytest.mark.parametrize("prior_scale", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("labels", ["none", "one", "single class", "separable"])
def test_few_labels_and_separable_data_give_finite_predictions(labels, prior_scale):
    active = parbals.ActiveLearner(
        BASE, [0, 1], prior_scale=prior_scale, n_samples=128, strategy="margin", random_state=0
    )
    rows = {
        "none": [],
        "one": [0],
        "single class": np.flatnonzero(Y == 0)[:5],
        "separable": np.arange(20),
    }[labels]
    active.tell(rows, Y[rows] if len(rows) else [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParbalsWarning)
        assert np.isfinite(active.predict_proba(BASE)).all()
        assert len(active.ask(3)) == 3
