"""The expected error, after temperature scaling by leave-one-out predictions."""

import numpy as np
import parbals
import pytest
from dose import full_count
from parbals.learner.evaluation.expectation import (
    RANDOM_LABELS,
    SELECTED_LABELS,
    Misfit,
    Temperature,
    _solve_temperature,
    expected_error_and_log_loss,
    fit_temperature,
    sample_labellings,
    temperature_scaled,
)
from parbals.posterior.estimator import LogisticModel


def make_data(n_rows, n_classes, scale, seed=0, n_features=4):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_rows, n_features))
    weights = generator.standard_normal((n_features, n_classes))
    logits = scale * X @ weights
    return X, np.argmax(logits + generator.gumbel(size=logits.shape), axis=1)


def fit_model(X, y, n_classes, scale, inference="ep"):
    return LogisticModel(50, scale, inference, classes=np.arange(n_classes), random_state=0).fit(
        X, y
    )


NO_LABELS = (np.zeros((0, 2)), np.zeros(0, int))


def model_temperature(model, random_sample=NO_LABELS, *, misfit=RANDOM_LABELS, shift_auc=None):
    places, probs = model.gaussian.leave_one_out()
    leave_one_out = probs, model.gaussian.labels[places]
    return fit_temperature(leave_one_out, random_sample, misfit=misfit, shift_auc=shift_auc)


def test_the_mean_error_is_one_minus_the_mean_confidence():
    mean = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    error, log_loss = expected_error_and_log_loss(mean, np.random.default_rng(0))
    assert error.mean == pytest.approx(1 - mean.max(axis=1).mean(), rel=1e-6)
    assert log_loss.mean == pytest.approx(-(mean * np.log(mean)).sum(axis=1).mean(), rel=1e-6)
    assert error.low < error.mean < error.high


@pytest.mark.parametrize("value", [0.5, 2.0])
def test_a_temperature_makes_it_that_of_scaled_predictions(value):
    plain = np.random.default_rng(0).dirichlet(np.full(3, 4.0), 200)
    mean = temperature_scaled(plain, value)
    np.testing.assert_allclose(mean.sum(axis=1), 1.0)
    widths = []
    for log_sd in (0.0, 0.5):
        temperature = Temperature(value, log_sd)
        error, log_loss = expected_error_and_log_loss(plain, np.random.default_rng(0), temperature)
        assert error.mean == pytest.approx(1 - mean.max(axis=1).mean(), rel=1e-9)
        assert log_loss.mean == pytest.approx(-(mean * np.log(plain)).sum(axis=1).mean(), rel=1e-6)
        assert error.low < error.mean < error.high
        widths.append(error.high - error.low)
    assert widths[0] < widths[1]


def test_labellings_are_as_often_wrong_as_is_expected():
    probs = np.random.default_rng(0).dirichlet(np.full(10, 0.3), 500)
    temperature = Temperature(0.5, 0.0)
    error, _ = expected_error_and_log_loss(probs, np.random.default_rng(0), temperature)
    labels = sample_labellings(probs, np.random.default_rng(0), temperature)
    wrong = (labels != probs.argmax(axis=1)).mean(axis=1)
    standard_error = wrong.std() / np.sqrt(len(wrong))
    assert error.mean < 0.8 * (1.0 - probs.max(axis=1).mean())
    assert abs(wrong.mean() - error.mean) < 4.0 * standard_error


def test_a_larger_target_set_shows_less_of_the_labels_noise():
    """Without doubt about T, the interval is that of a mean of so many labels."""
    probs = np.tile([0.8, 0.2], (400, 1))
    widths = []
    for n_targets in (400, 40_000):
        error, _ = expected_error_and_log_loss(probs, np.random.default_rng(0), n_targets=n_targets)
        widths.append(error.high - error.low)
    binomial = 2 * 1.645 * np.sqrt(0.16 / 400)
    assert widths[0] == pytest.approx(binomial, rel=0.05)
    assert widths[1] == pytest.approx(binomial / 10, rel=0.05)


def test_the_temperature_solves_its_equation():
    """Found again by brute force on a grid, with the terms of the sum by differences."""
    generator = np.random.default_rng(0)
    probs = generator.dirichlet(np.ones(3), 80)
    labels = generator.integers(0, 3, 80)
    rows = np.arange(80)
    decisions = probs.argmax(axis=1)
    is_wrong = decisions != labels

    def left_side(log_t):
        step = 1e-5
        above, below = (
            np.log(temperature_scaled(probs, np.exp(log_t + sign * step))[rows, labels]).sum()
            for sign in (1, -1)
        )
        confidence = temperature_scaled(probs, np.exp(log_t))[rows, decisions]
        excess = (is_wrong - (1.0 - confidence)).sum()
        return (above - below) / (2 * step) + 2.0 * excess - log_t / 0.7**2

    grid = np.linspace(-2.0, 3.0, 5_001)
    values = np.array([left_side(log_t) for log_t in grid[::50]])
    first = grid[::50][np.flatnonzero(values > 0.0)[-1]]
    fine = np.linspace(first, first + 0.05, 501)
    solution = fine[np.argmin([abs(left_side(log_t)) for log_t in fine])]
    fitted = fit_temperature((probs, labels), NO_LABELS)
    assert np.log(fitted.value) == pytest.approx(solution, abs=5e-4)


@pytest.mark.parametrize(
    ("n_classes", "n_features", "scale"),
    [
        (2, 4, 1.0),
        (3, 20, 1.0),
        pytest.param(4, 60, 1.0, marks=pytest.mark.full),
        pytest.param(3, 10, "auto", marks=pytest.mark.full),
        pytest.param(5, 16, "auto", marks=pytest.mark.full),
        pytest.param(7, 20, 1.0, marks=pytest.mark.full),
    ],
)
def test_leave_one_out_predictions_are_those_of_a_refit_without_the_label(
    n_classes, n_features, scale
):
    """Also what all labels say together: a label that is half left out flatters the model."""
    X, y = make_data(40, n_classes, 1.0, n_features=n_features)
    posterior = fit_model(X, y, n_classes, scale).gaussian
    places, leave_one_out = posterior.leave_one_out()
    refitted = np.empty_like(leave_one_out)
    for row, i in zip(refitted, places, strict=True):
        others = np.arange(40) != i
        start = posterior.warm_start_for(posterior.X[others], y[others])
        fit = posterior._refit(posterior.X[others], y[others], *start)
        row[:] = fit.predict_proba(posterior.X[i : i + 1])[0]
    np.testing.assert_allclose(leave_one_out, refitted, atol=0.02)
    all_places, approximate = posterior.leave_one_out(all_labels=True)
    np.testing.assert_allclose(
        approximate[np.argsort(all_places)], refitted[np.argsort(places)], atol=0.06
    )
    scores = [np.log(probs[np.arange(40), y[places]]).mean() for probs in (leave_one_out, refitted)]
    assert scores[0] == pytest.approx(scores[1], abs=0.01)
    temperatures = [
        fit_temperature((probs, y[places]), NO_LABELS) for probs in (leave_one_out, refitted)
    ]
    assert np.log(temperatures[0].value / temperatures[1].value) == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize("n_classes", [3])
def test_of_thousands_of_labels_some_are_left_out_by_a_fit_without_them(n_classes, monkeypatch):
    monkeypatch.setattr("parbals.posterior.closed.classes.MANY_LABELS", 50)
    monkeypatch.setattr("parbals.posterior.closed.classes._MAX_LEAVE_ONE_OUT", 10)
    X, y = make_data(60, n_classes, 1.5)
    places, held_out = fit_model(X, y, n_classes, 1.5).gaussian.leave_one_out()
    others = np.setdiff1d(np.arange(60), places)
    refitted = fit_model(X[others], y[others], n_classes, 1.5).predict_proba(X[places])
    assert len(places) == 10
    np.testing.assert_allclose(held_out, refitted, atol=2e-3)


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.full)])
def test_a_model_that_is_right_is_left_alone_and_others_are_corrected(n_classes):
    mean_values = {}
    for scale in (0.1, 1.5, 15.0):  # of the prior; labels come from 1.5
        values = [
            model_temperature(
                fit_model(*make_data(60, n_classes, 1.5, seed), n_classes, scale)
            ).value
            for seed in range(3)
        ]
        mean_values[scale] = np.exp(np.mean(np.log(values)))
    assert mean_values[0.1] < 0.75
    assert mean_values[1.5] == pytest.approx(1.0, abs=0.2)
    assert mean_values[15.0] > mean_values[1.5]


def test_without_labels_it_is_one():
    assert fit_temperature(NO_LABELS, NO_LABELS, misfit=SELECTED_LABELS) == Temperature()


def test_actively_selected_labels_widen_the_temperature():
    """Deviations by hand: ς² and the selection's variance count 1 + 50/60 times, 0.09² once."""
    model = fit_model(*make_data(60, 2, 1.5), 2, 1.5)
    at_random = model_temperature(model)
    selected = model_temperature(model, misfit=Misfit(below=0.1, above=0.3))
    assert selected.value == at_random.value
    inflation = np.sqrt(1.0 + 50.0 / 60.0)
    assert selected.log_sd == pytest.approx(np.hypot(at_random.log_sd, 0.3 * inflation))
    assert selected.below == pytest.approx(np.hypot(at_random.below, 0.1 * inflation))


def test_a_known_misfit_moves_the_temperature():
    model = fit_model(*make_data(60, 2, 1.5), 2, 1.5)
    plain = model_temperature(model)
    moved = model_temperature(model, misfit=Misfit(mean=0.2))
    assert np.log(moved.value / plain.value) == pytest.approx(0.2)
    assert moved.log_sd == pytest.approx(plain.log_sd)


def test_draws_of_an_uneven_temperature_have_both_deviations():
    temperature = Temperature(2.0, log_sd=0.4, log_sd_below=0.1)
    logs = np.log(temperature.draws(np.random.default_rng(0).standard_normal(100_000)) / 2.0)
    assert np.median(logs) == pytest.approx(0.0, abs=0.01)
    assert np.sqrt(np.mean(np.square(logs[logs > 0]))) == pytest.approx(0.4, rel=0.02)
    assert np.sqrt(np.mean(np.square(logs[logs < 0]))) == pytest.approx(0.1, rel=0.02)


def test_an_uneven_temperature_makes_an_uneven_interval():
    """Its limits are those of even temperatures with the deviation of either side."""
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 4_000)
    errors = {}
    for name, sides in {"low": (0.1, 0.1), "uneven": (0.4, 0.1), "high": (0.4, 0.4)}.items():
        temperature = Temperature(1.0, *sides)
        errors[name], _ = expected_error_and_log_loss(probs, np.random.default_rng(0), temperature)
    assert errors["uneven"].low == pytest.approx(errors["low"].low, abs=0.002)
    assert errors["uneven"].high == pytest.approx(errors["high"].high, abs=0.002)


@pytest.mark.parametrize("side", [-1, 1])
def test_an_uneven_prior_pulls_with_the_deviation_of_its_side(side):
    """A random sample gives the same temperature as with an even prior of that deviation."""
    generator = np.random.default_rng(3)
    probs = generator.dirichlet(np.ones(2), 40)
    truth = np.exp(0.8 * side)
    labels = (generator.random(40) < temperature_scaled(probs, truth)[:, 1]).astype(int)
    deviations = {-1: 0.2, 1: 0.5}
    uneven = _solve_temperature(probs, labels, Temperature(1.0, 0.5, 0.2), 0.0)
    even = _solve_temperature(probs, labels, Temperature(1.0, deviations[side]), 0.0)
    assert np.sign(np.log(uneven.value)) == side
    assert uneven.value == pytest.approx(even.value, rel=1e-3)
    assert uneven.log_sd == pytest.approx(even.log_sd, rel=1e-3)


def test_a_shifted_target_widens_the_temperature():
    model = fit_model(*make_data(60, 2, 1.5), 2, 1.5)
    at_home = model_temperature(model)
    assert model_temperature(model, shift_auc=0.5) == at_home
    shifted = model_temperature(model, shift_auc=0.9)
    assert shifted.log_sd == pytest.approx(np.hypot(at_home.log_sd, 0.28))


@pytest.mark.parametrize("inference", ["auto", "laplace"])
def test_models_that_leave_nothing_out_themselves_are_fitted_to_folds(inference):
    """Trees know their labels by heart and expect no error; what they say of others is wrong."""
    from sklearn.ensemble import BaggingClassifier

    X, y = make_data(200, 2, 1.0)
    model = BaggingClassifier(n_estimators=10, random_state=0) if inference == "auto" else None
    learner = parbals.ActiveLearner(
        X, [0, 1], random_state=0, model=model, inference=inference, strategy="random"
    )
    learner.tell(np.arange(80), y[:80])
    expected = learner.report().expected_error
    real = np.mean(learner.predict(X) != y)
    assert expected.low <= real <= expected.high


def test_a_few_labels_that_happen_to_be_right_prove_little():
    """Six labels, clearly apart: the expected error falls, but not to nothing."""
    X = np.array([-3.0, -2.5, -2.0, 2.0, 2.5, 3.0])[:, None]
    y = np.array([0, 0, 0, 1, 1, 1])
    model = fit_model(X, y, 2, "auto")
    assert model_temperature(model).value > 0.2
    learner = parbals.ActiveLearner(X, [0, 1], random_state=0)
    learner.tell(np.arange(6), y)
    assert learner.report(1).expected_error.mean > 0.005


def test_random_items_that_did_not_train_the_model_outweigh_its_labels():
    X, y = make_data(40, 2, 1.5)
    model = fit_model(X, y, 2, 1.5)
    without_sample = model_temperature(model)
    generator = np.random.default_rng(1)
    probs = generator.dirichlet(np.ones(2), 4_000)
    labels = (generator.random(4_000) < temperature_scaled(probs, 2.0)[:, 1]).astype(int)
    few, many = (model_temperature(model, (probs[:n], labels[:n])) for n in (10, 4_000))
    assert many.value == pytest.approx(2.0, rel=0.1)
    assert many.log_sd < few.log_sd
    assert min(without_sample.value, 2.0) <= few.value <= max(without_sample.value, 2.0) * 1.3
    of_sample_alone = fit_temperature(NO_LABELS, (probs, labels), misfit=SELECTED_LABELS)
    assert of_sample_alone.value == pytest.approx(2.0, rel=0.1)


def test_an_audit_corrects_what_chosen_labels_make_the_model_expect():
    """Near the boundary, where all labels of the model are, every fifth is wrong; no other is."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((600, 3))
    side = X @ [3.0, 1.0, 0.0]
    wrong = (np.abs(side) < 1.0) & (generator.random(600) < 0.2)
    y = ((side > 0) ^ wrong).astype(int)
    audit = np.random.default_rng(1).permutation(600)[:150]
    hard = np.setdiff1d(np.argsort(np.abs(side))[:80], audit)
    expected = []
    for items in ([], audit.tolist()):
        learner = parbals.ActiveLearner(X, [0, 1], random_state=0, audit=items)
        learner.tell([*hard, *items], y[[*hard, *items]])
        expected.append(learner.report().expected_error.mean)
    real = np.mean(learner.predict(X) != y)
    assert abs(expected[1] - real) < 0.3 * abs(expected[0] - real)


@pytest.mark.slow
def test_intervals_of_random_labels_hold_and_are_narrow():
    """Sixty runs on a truth with a product term: 90 % intervals hold, up to Monte-Carlo error.

    They were 11 points wide while the posterior's spread was added to that of T.
    """
    n_runs = full_count(60, least=10)
    n_held = 0
    widths = []
    for seed in range(n_runs):
        generator = np.random.default_rng(seed)
        X = generator.standard_normal((3_000, 12))
        logits = 2.0 * X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3]
        y = (generator.logistic(size=len(X)) < logits).astype(int)
        learner = parbals.ActiveLearner(X[:1_000], [0, 1], strategy="random", random_state=seed)
        while len(learner.labelled) < 250:
            items = learner.ask(50)
            learner.tell(items, y[items])
        expected = learner.report(1).expected_error
        real = np.mean(learner.predict(X[1_000:]) != y[1_000:])
        n_held += expected.low <= real <= expected.high
        widths.append(expected.high - expected.low)
    standard_error = np.sqrt(0.9 * 0.1 / n_runs)
    assert n_held / n_runs > 0.9 - 2.5 * standard_error
    assert np.mean(widths) < 0.10
