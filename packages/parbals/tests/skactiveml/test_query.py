"""scikit-activeml: its own template suite for query strategies, and the models of both sides."""

import unittest

import numpy as np
import parbals
import pytest
from parbals.skactiveml import ParbalsQuery
from parbals.strategies.table import STRATEGIES
from skactiveml.classifier import ParzenWindowClassifier, SklearnClassifier
from skactiveml.pool import SubSamplingWrapper
from skactiveml.pool._bald import batch_bald
from skactiveml.utils import MISSING_LABEL
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression

pytestmark = [
    pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning"),
    pytest.mark.filterwarnings("ignore:.*batch_size.*larger than:UserWarning"),
    # scikit-learn takes no labels of mixed type; their wrapper then counts labels, and says so.
    pytest.mark.filterwarnings("ignore:.*'base_estimator' could not be fitted:UserWarning"),
]

try:
    from skactiveml.tests.template_query_strategy import TemplateSingleAnnotatorPoolQueryStrategy
except ImportError:  # releases since 0.6.2 ship without their tests
    TemplateSingleAnnotatorPoolQueryStrategy = None

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((24, 3))
TRUTH = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
Y = np.where(np.arange(24) < 8, TRUTH, MISSING_LABEL)
FREE = np.arange(8, 24)


def wrapped(estimator):
    return SklearnClassifier(estimator, classes=[0, 1], random_state=0)


def forest():
    return wrapped(RandomForestClassifier(8, random_state=0))


def ours(**options):
    return wrapped(parbals.BayesianLogisticRegression(64, random_state=0, **options))


def query(name, clf=None, y=Y, **options):
    indices, utilities = ParbalsQuery(name, random_state=0).query(
        X, y, clf, return_utilities=True, **options
    )
    return indices, utilities


@pytest.mark.parametrize(
    "clf",
    [forest(), pytest.param(ours(inference="smc"), marks=pytest.mark.full)],
    ids=["theirs", "ours"],
)
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_chooses_for_both_sides_models(name, clf):
    indices, utilities = query(name, clf, batch_size=4)
    assert len(set(indices.tolist())) == 4
    assert set(indices.tolist()) <= set(FREE.tolist())
    assert utilities.shape == (4, 24)
    for step in range(4):
        free = np.setdiff1d(FREE, indices[:step])
        assert np.isfinite(utilities[step, free]).all()
        assert np.isnan(np.delete(utilities[step], free)).all()
        if not STRATEGIES[name].stochastic and name != "galaxy":
            best = np.nanmax(utilities[step])
            assert utilities[step, indices[step]] == pytest.approx(best, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    "clf",
    [
        pytest.param(None, marks=pytest.mark.full),
        [ParzenWindowClassifier(classes=[0, 1], metric_dict={"gamma": g}) for g in (0.2, 1.0, 5.0)],
        ParzenWindowClassifier(classes=[0, 1], random_state=0),
        wrapped(BaggingClassifier(LogisticRegression(), 5, random_state=0)),
        wrapped(GradientBoostingClassifier(n_estimators=5, random_state=0)),
        ours(inference="ep"),
    ],
    ids=["default", "list", "parzen", "bagging", "boosting", "regression"],
)
def test_any_classifier_will_do(clf):
    for name in ("parbals-epig", "entropy"):
        strategy = ParbalsQuery(name, n_members=5, random_state=0)
        assert len(set(strategy.query(X, Y, clf, batch_size=3).tolist())) == 3


@pytest.mark.full
def test_the_default_model_knows_what_a_linear_rule_is():
    """Labels by ParBaLS, batch after batch, make the classifier right on the pool."""
    y = np.full(24, MISSING_LABEL)
    y[:2] = TRUTH[:2]
    for _ in range(3):
        indices = ParbalsQuery(random_state=0).query(X, y, ours(), batch_size=3)
        y[indices] = TRUTH[indices]
    assert ours().fit(X, y).score(X, TRUTH) > 0.8


def test_in_closed_form_the_rows_are_bounds():
    indices, utilities = query("parbals-epig", ours(inference="ep"), batch_size=3)
    np.testing.assert_array_equal(utilities[np.arange(3), indices], np.nanmax(utilities, axis=1))
    assert (np.diff(np.nanmax(utilities, axis=1)) <= 0).all()


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        ([0.0, 1.0], np.nan),
        ([1, 2], 0),
        (["a", "b"], ""),
        (["a", "b"], None),
        ([1, 2], None),
    ],
)
def test_missing_labels_of_every_kind(labels, missing):
    kind = object if missing is None else np.array([missing, *labels]).dtype
    y = np.full(24, missing, kind)
    y[:8] = np.array(labels, kind)[TRUTH[:8]]
    expected = ParbalsQuery("epig", random_state=0).query(X, Y, ours(), batch_size=2)
    model = parbals.BayesianLogisticRegression(64, random_state=0)
    clf = SklearnClassifier(model, classes=labels, missing_label=missing, random_state=0)
    strategy = ParbalsQuery("epig", missing_label=missing, random_state=0)
    np.testing.assert_array_equal(strategy.query(X, y, clf, batch_size=2), expected)
    forests = RandomForestClassifier(8, random_state=0)
    theirs = SklearnClassifier(forests, classes=labels, missing_label=missing, random_state=0)
    assert len(set(strategy.query(X, y, theirs, batch_size=2).tolist())) == 2


def test_candidates_as_rows_are_numbered_as_they_are_given():
    by_index, scores = query("epig", ours(), candidates=FREE, batch_size=2)
    by_row, row_scores = query("epig", ours(), candidates=X[FREE], batch_size=2)
    np.testing.assert_array_equal(FREE[by_row], by_index)
    np.testing.assert_allclose(scores[:, FREE], row_scores)


def test_targets_decide_what_is_asked():
    near, _ = query("epig", ours(), X_target=X[8:10])
    far, _ = query("epig", ours(), X_target=10 * X[20:22])
    assert near[0] != far[0]


def test_what_is_fitted_already_is_not_fitted_again():
    fitted = ours().fit(X, Y)
    before = fitted.predict_proba(X)
    indices, _ = query("epig", fitted, fit_clf=False, batch_size=2)
    np.testing.assert_array_equal(indices, query("epig", ours(), batch_size=2)[0])
    np.testing.assert_array_equal(fitted.predict_proba(X), before)


@pytest.mark.parametrize("clf", [forest(), ours()], ids=["theirs", "ours"])
@pytest.mark.parametrize("n_known", [0, 2])
def test_before_two_classes_are_known_kmeans_chooses(clf, n_known):
    y = np.where(np.arange(24) < n_known, 1.0, MISSING_LABEL)
    np.testing.assert_array_equal(
        query("epig", clf, y, batch_size=3)[0], query("kmeans", clf, y, batch_size=3)[0]
    )


def test_our_batchbald_is_theirs():
    """Utilities of a batch of three on the same samples: theirs are joint, ours what is added."""
    pool = ours(inference="smc").fit(X, Y).estimator_.sample_proba(X).astype(np.float64)
    samples = pool.swapaxes(0, 1)
    rows = []
    batch = parbals.select_batch(pool, None, 3, "batchbald", watch=rows.append)
    theirs = batch_bald(samples.copy(), 3, n_MC_samples=4096)
    joint = np.cumsum([0.0, *batch.scores[:-1]])
    for step in range(3):
        free = np.setdiff1d(np.arange(24), batch.indices[:step])
        assert np.nanargmax(theirs[step]) == batch.indices[step]
        np.testing.assert_allclose(
            joint[step] + rows[step][free], theirs[step][free], rtol=1e-4, atol=1e-6
        )


def test_their_wrappers_take_our_strategies():
    wrapped = SubSamplingWrapper(ParbalsQuery("epig", random_state=0), max_candidates=6)
    assert wrapped.query(X, Y, clf=ours(), batch_size=2).shape == (2,)


def test_weights_are_refused_by_our_model_and_taken_by_theirs():
    weights = np.linspace(1, 2, 24)
    with pytest.raises(ValueError, match="takes no sample_weight"):
        query("entropy", None, sample_weight=weights)
    with pytest.raises(TypeError, match="sample_weight"):
        query("entropy", ours(), sample_weight=weights)
    assert query("entropy", forest(), sample_weight=weights)[0].shape == (1,)


if TemplateSingleAnnotatorPoolQueryStrategy is not None:

    class _Template(TemplateSingleAnnotatorPoolQueryStrategy):
        """The suite of scikit-activeml 0.6.1 with the cases it wants added for every parameter."""

        strategy = ""

        def setUp(self):
            data = X[:7, :2]
            y = np.array([0.0, 1.0, *[MISSING_LABEL] * 5])
            super().setUp(
                ParbalsQuery,
                {"strategy": self.strategy, "n_universes": 2},
                query_default_params_clf={"X": data, "y": y, "clf": forest()},
            )

        def test_init_param_strategy(self):
            self._test_param("init", "strategy", [("no such", ValueError), (self.strategy, None)])

        def test_init_param_n_universes(self):
            self._test_param("init", "n_universes", [(0, ValueError), (1.5, ValueError), (3, None)])

        def test_init_param_loss(self):
            self._test_param("init", "loss", [("hinge", ValueError), ("error", None)])

        def test_init_param_beta(self):
            self._test_param("init", "beta", [(0.0, ValueError), (2.0, None)])

        def test_init_param_n_configurations(self):
            self._test_param("init", "n_configurations", [(0, ValueError), (8, None)])

        def test_init_param_options(self):
            self._test_param("init", "options", [({"no such": 1}, ValueError), (None, None)])

        def test_init_param_n_members(self):
            self._test_param("init", "n_members", [(2, None)])

        def test_query_param_clf(self):
            super().test_query_param_clf([(None, None), ([], TypeError), ([forest()] * 2, None)])

        def test_query_param_X_target(self):
            self._test_param("query", "X_target", [(np.ones((3, 5)), ValueError), (None, None)])

        def test_query(self):
            """What it chooses is tested above."""

    for _name in STRATEGIES:
        _class = f"Test{_name.title().replace('-', '')}"
        globals()[_class] = type(
            _class, (_Template, unittest.TestCase), {"strategy": _name, "__module__": __name__}
        )

    del TemplateSingleAnnotatorPoolQueryStrategy
