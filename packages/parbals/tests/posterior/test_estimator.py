"""The scikit-learn estimator: its contract, the input it rejects, and how often it compiles."""

import pickle
import re
import subprocess
import sys
import textwrap

import numpy as np
import parbals
import pytest
from parbals.errors import (
    InputError,
    LabelError,
    MissingDependencyError,
    PosteriorWarning,
    ShapeError,
)
from parbals.installing import install_command
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

Model = parbals.BayesianLogisticRegression
RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 3))
Y = (X[:, 0] > 0).astype(int)


def small(**options):
    return Model(**{"n_samples": 128, "inference": "smc", "random_state": 0} | options)


@pytest.fixture(scope="module")
def fitted():
    return small().fit(X, Y)


@parametrize_with_checks([small(inference="ep", prior_scale=1.0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.full
@parametrize_with_checks([small(inference="laplace"), small(inference="ep")])
def test_scikit_learn_contract_of_other_settings(estimator, check):
    check(estimator)


@pytest.mark.full  # each check has data of another shape, and compiles the moves for it
@parametrize_with_checks([small()])
@pytest.mark.filterwarnings("ignore::parbals.errors.PosteriorWarning")
def test_scikit_learn_contract_of_particles(estimator, check):
    check(estimator)


@pytest.mark.parametrize("inference", ["smc", "laplace", "ep", "auto"])
@pytest.mark.parametrize("labels", [Y, Y.astype(bool), np.where(Y, "spam", "ham"), Y * 7 - 3])
def test_labels_of_any_kind(inference, labels):
    model = small(inference=inference).fit(X, labels)
    assert model.predict(X).dtype == model.classes_.dtype
    assert (model.predict(X) == labels).mean() > 0.7
    proba = model.predict_proba(X)
    assert proba.shape == (20, 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("n", "d", "n_classes"),
    [
        (1, 3, 2),
        (5, 40, 2),
        pytest.param(3, 2, 100, marks=pytest.mark.full),
        pytest.param(1, 1, 5, marks=pytest.mark.full),
        pytest.param(30, 4, 10, marks=pytest.mark.full),
        pytest.param(50, 1, 2, marks=pytest.mark.full),
    ],
)
def test_any_shape_is_a_model(n, d, n_classes):
    """More features than labels, one label, classes without labels."""
    rng = np.random.default_rng(1)
    data = rng.standard_normal((n, d))
    labels = rng.integers(0, max(1, n_classes - 1), n)
    model = small(classes=np.arange(n_classes)).fit(data, labels)
    samples = model.sample_proba(rng.standard_normal((4, d)))
    assert samples.shape == (4, 128, n_classes)
    assert np.isfinite(samples).all()
    np.testing.assert_allclose(samples.sum(axis=2), 1.0, atol=1e-5)
    assert model.coef_samples_.shape == (128, n_classes, d)
    assert model.intercept_samples_.shape == (128, n_classes)


@pytest.mark.parametrize("prior_scale", [0.1, 1.0, pytest.param(100.0, marks=pytest.mark.full)])
@pytest.mark.parametrize("column", ["constant", "duplicate", "tiny", "float16", "int64"])
@pytest.mark.filterwarnings("ignore::parbals.errors.PosteriorWarning")
def test_awkward_columns_are_finite(prior_scale, column):
    data = X.copy()
    if column == "constant":
        data[:, 1] = 3.0
    elif column == "duplicate":
        data[:, 1] = data[:, 0]
    elif column == "tiny":
        data[:, 1] *= 1e-12
    else:
        data = (10 * data).astype(column)
    model = small(prior_scale=prior_scale).fit(data, Y)
    assert np.isfinite(model.predict_proba(data)).all()


def test_the_seed_decides_and_nothing_global_is_touched():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    draws = [small(random_state=s).fit(X, Y).sample_proba(X) for s in (3, 3, 4)]
    assert (draws[0] == draws[1]).all()
    assert (draws[0] != draws[2]).any()
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


def test_conditioning_returns_a_new_model(fitted):
    before = fitted.predict_proba(X)
    other = fitted.condition(X[:3], Y[:3])
    assert (fitted.predict_proba(X) == before).all()
    assert (other.predict_proba(X) != before).any()
    assert other.sample_weights.sum() == pytest.approx(1.0)
    assert clone(other).get_params() == fitted.get_params()


def test_conditioning_without_particles_draws_again():
    model = small(inference="laplace").fit(X, Y)
    assert model.population is None
    other = model.condition(X[:1], Y[:1])
    assert (other.sample_proba(X) != model.sample_proba(X)).any()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_auto_is_the_closed_form(n_classes):
    X = np.random.default_rng(0).standard_normal((12, 2))
    y = np.arange(12) % n_classes
    model = small(inference="auto").fit(X, y)
    assert model.diagnostics_.inference == "ep"
    same = small(inference="ep").fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))


@pytest.mark.parametrize(
    ("n_classes", "module"), [(2, "ep"), pytest.param(3, "classes", marks=pytest.mark.full)]
)
def test_auto_takes_particles_where_ep_does_not_converge(monkeypatch, n_classes, module):
    X = np.random.default_rng(0).standard_normal((12, 2))
    y = np.arange(12) % n_classes
    converged = small(inference="auto").fit(X, y)
    monkeypatch.setattr(f"parbals.posterior.closed.{module}._MAX_SWEEPS", 1)
    fallen = small(inference="auto").fit(X, y)
    conditioned = converged.condition(X[:3] + 5.0, (y[:3] + 1) % n_classes)
    for model in (fallen, conditioned):
        assert model.diagnostics_.inference == "smc"
        assert model.gaussian is None
    assert len(conditioned.population.labels) == 15
    assert converged.diagnostics_.inference == "ep"
    with pytest.warns(PosteriorWarning, match="did not converge"):
        small(inference="ep").fit(X, y)


def test_nuts_without_jax_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("parbals[jax]"))):
        small(inference="nuts").fit(X, Y)


def test_the_default_is_the_closed_form_and_loads_no_jax():
    script = textwrap.dedent(
        """
        import sys, numpy as np, parbals
        X = np.random.default_rng(0).standard_normal((20, 3))
        for n_classes in (2, 3):
            model = parbals.BayesianLogisticRegression(random_state=0)
            model = model.fit(X, np.arange(20) % n_classes).condition(X[:1], [0])
            assert model.predict_proba(X).shape == (20, n_classes)
            assert model.sample_proba(X).shape == (20, 400, n_classes)
            assert model.diagnostics_.inference == "ep"
        assert not {"jax", "blackjax"} & set(sys.modules)
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_posterior_that_did_not_converge_is_reported(monkeypatch):
    """Never silently: the warning names a remedy and stays with the model."""
    monkeypatch.setattr("parbals.posterior.smc._GRADIENT_BUDGET", 0)
    monkeypatch.setattr("parbals.posterior.smc._drift_allowed", lambda n: -1.0)
    with pytest.warns(PosteriorWarning, match="Standardise the features"):
        model = small().fit(X, Y)
    assert model.diagnostics_.problems


@pytest.mark.parametrize(
    ("options", "data", "labels", "error", "message"),
    [
        ({}, np.where(X[4, 1] == X, np.nan, X), Y, InputError, r"X\[4, 1\] is nan"),
        ({}, np.where(X[4, 1] == X, np.inf, X), Y, InputError, r"X\[4, 1\] is inf"),
        ({}, X[:, 0], Y, ShapeError, "reshape"),
        ({}, X[:0], Y[:0], ShapeError, "minimum of 1"),
        ({}, X, np.zeros(20, int), LabelError, "class"),
        ({"classes": [0, 2]}, X, Y, LabelError, r"is 1, which is not one of the classes \[0, 2\]"),
        ({"classes": [0]}, X, Y, LabelError, "at least two class"),
        ({"classes": [0, 0, 1]}, X, Y, LabelError, "twice"),
        ({"classes": ["a", float("nan")]}, X, Y, LabelError, r"classes\[1\] is nan"),
        (
            {"classes": [1, "a"]},
            X,
            Y,
            LabelError,
            "classes mixes labels of different types, such as 1 and 'a'",
        ),
        ({}, X[:4], ["a", np.nan, "b", "a"], LabelError, r"y\[1\] is nan"),
        ({}, X[:4], ("a", None, "b", "a"), LabelError, r"y\[1\] is None"),
        ({}, X[:3], [["a"], [np.nan], ["b"]], LabelError, r"y\[1\] is nan"),
        (
            {},
            X[:4],
            [1, "a", 2, "a"],
            LabelError,
            "y mixes labels of different types, such as 1 and 'a'",
        ),
        ({}, X[:4], ["a", b"b", "a", "a"], LabelError, "y mixes labels"),
        ({}, X[:4], [[1], [0, 1], [1], [0]], LabelError, "y is not a list of single labels"),
        (
            {},
            X[:3],
            np.array(["2026-01-01", "NaT", "2026-01-02"], "M8[D]"),
            LabelError,
            r"y\[1\] is NaT",
        ),
        (
            {},
            X[:3],
            [*np.array(["2026-01-01", "NaT", "2026-01-02"], "M8[D]")],
            LabelError,
            r"y\[1\] is NaT",
        ),
        ({"n_samples": 0}, X, Y, InputError, "n_samples is 0"),
        ({"n_samples": 1.5}, X, Y, InputError, "n_samples is 1.5"),
        ({"n_samples": True}, X, Y, InputError, "n_samples is True"),
        ({"prior_scale": 0}, X, Y, InputError, "prior_scale is 0"),
        ({"prior_scale": float("nan")}, X, Y, InputError, "prior_scale is nan"),
        (
            {"inference": "magic"},
            X,
            Y,
            InputError,
            "inference is 'magic'; choose one of: auto, ep, smc, nuts, laplace",
        ),
        ({"random_state": -1}, X, Y, InputError, "random_state is -1"),
    ],
)
def test_bad_input_gets_one_clear_sentence(options, data, labels, error, message):
    model = Model(**options)
    with pytest.raises(error, match=message) as caught:
        model.fit(data, labels)
    assert "\n" not in str(caught.value)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_bad_input_to_a_fitted_model_changes_nothing(fitted):
    before = fitted.predict_proba(X)
    with pytest.raises(LabelError, match=r"y_new\[0\] is 5"):
        fitted.condition(X[:1], [5])
    with pytest.raises(ShapeError, match="2 features"):
        fitted.condition(X[:1, :2], [0])
    with pytest.raises(InputError, match="features"):
        fitted.predict_proba(X[:, :2])
    with pytest.raises(ShapeError, match="one label for each"):
        fitted.condition(X[:2], [0])
    assert (fitted.predict_proba(X) == before).all()


class TestPrior:
    """The model before any label."""

    def test_predictions_are_those_of_prior_weights(self):
        model = small(n_samples=2_000, prior_scale=0.5, classes=[0, 1]).fit_prior(1)
        weights = model.coef_samples_  # (K, C, D), centred over the classes: variance σ² (1 - 1/C)
        np.testing.assert_allclose(weights.mean(axis=0), 0.0, atol=4 * 0.36 / np.sqrt(2_000))
        np.testing.assert_allclose(weights.var(axis=0), 0.25 / 2, rtol=0.15)
        np.testing.assert_allclose(model.predict_proba([[0.0]]), 1 / 2, atol=0.02)

    def test_conditioning_the_prior_is_fitting(self):
        options = {"n_samples": 2_000, "prior_scale": 1.0, "classes": [0, 1]}
        x = X[:12, :1]
        y = Y[:12]
        conditioned = small(**options).fit_prior(1).condition(x, y)
        fresh = small(**options).fit(x, y)
        np.testing.assert_allclose(conditioned.predict_proba(x), fresh.predict_proba(x), atol=0.03)

    @pytest.mark.parametrize("inference", ["laplace", pytest.param("nuts", marks=pytest.mark.full)])
    def test_it_holds_no_row_so_conditioning_it_gives_the_very_draws_of_a_fit(self, inference):
        options = {"prior_scale": 1.0, "inference": inference, "classes": [0, 1]}
        x = X[:6]
        y = Y[:6]
        prior = small(**options).fit_prior(X.shape[1])
        assert prior.diagnostics_.problems == ()
        fresh = small(**options).fit(x, y)
        assert (prior.condition(x, y).sample_proba(X) == fresh.sample_proba(X)).all()

    @pytest.mark.parametrize("n_features", [2, pytest.param(40, marks=pytest.mark.full)])
    def test_its_particles_hold_no_row_and_survive_pickling(self, n_features):
        model = pickle.loads(pickle.dumps(small(classes=[0, 1, 2]).fit_prior(n_features)))
        assert model.population.X.shape == (0, n_features + 1)
        x = np.ones((1, n_features))
        conditioned = model.condition(x, [2])
        assert conditioned.population.labels.tolist() == [2]
        assert conditioned.predict_proba(x)[0, 2] > model.predict_proba(x)[0, 2]

    def test_without_classes_there_is_no_prior(self):
        with pytest.raises(InputError, match="declare them with classes"):
            parbals.BayesianLogisticRegression().fit_prior(2)


def test_the_weights_cannot_be_changed_from_outside(fitted):
    with pytest.raises(ValueError, match="read-only"):
        fitted.sample_weights[0] = 1.0
    assert fitted.sample_weights.sum() == pytest.approx(1.0)
    assert fitted.condition(X[:2], Y[:2]).sample_weights.shape == (128,)


def test_conditioning_takes_a_column_of_labels_as_fitting_does(fitted):
    with pytest.warns(DataConversionWarning):
        column = fitted.condition(X[:3], Y[:3, None])
    assert (column.sample_proba(X) == fitted.condition(X[:3], Y[:3]).sample_proba(X)).all()
    with pytest.raises(LabelError, match="y_new is None"):
        fitted.condition(X[:3], None)


def test_labels_in_a_list_are_those_of_an_array():
    for labels in (Y, Y.astype(bool), np.where(Y, "spam", "ham"), np.where(Y, 1.0, 2.0)):
        listed = small().fit(X, labels.tolist())
        scalars = small().fit(X, [*labels])
        assert listed.classes_.dtype == scalars.classes_.dtype == np.unique(labels).dtype
        assert (listed.classes_ == np.unique(labels)).all()
