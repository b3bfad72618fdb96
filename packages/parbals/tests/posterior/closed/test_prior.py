"""The learnt prior: its scale and shape, and sensible defaults where labels are uninformative."""

import numpy as np
import parbals
import pytest
from parbals.posterior.closed.ep import fit_gaussian
from parbals.posterior.closed.prior import learn_prior
from parbals.posterior.closed.whitening import PoolMoments


def make_labelled_rows(n_rows, scale, n_features=8, n_classes=2, seed=0):
    """Rows of unit variance; labels from weights under which a logit has deviation ``scale``."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_rows, n_features))
    weights = scale / np.sqrt(n_features) * generator.standard_normal((n_features, n_classes))
    logits = X @ weights
    return X, np.argmax(logits + generator.gumbel(size=logits.shape), axis=1)


def deviation(prior, rows):
    """Standard deviation of a class's logit over the rows, without the intercept."""
    whitened = prior.whitening.rows(np.column_stack([rows, np.ones(len(rows))]))[:, :-1]
    return float(np.sqrt(np.square(whitened).sum(axis=1).mean()))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_scale_of_the_labels_is_recovered(n_classes):
    """Within a factor of two on average over twelve draws, from 120 labels."""
    for scale in (1.0, 8.0):
        log_ratios = []
        for seed in range(12):
            X, y = make_labelled_rows(120, scale, n_classes=n_classes, seed=seed)
            log_ratios.append(np.log(learn_prior(X, y, n_classes, PoolMoments.of(X)).scale / scale))
        assert abs(np.mean(log_ratios)) < np.log(2.0)


def test_the_scale_is_that_of_logits_over_the_pool():
    X, y = make_labelled_rows(60, 3.0)
    prior = learn_prior(X, y, 2, PoolMoments.of(X))
    assert deviation(prior, X) == pytest.approx(prior.scale)


@pytest.mark.parametrize(("factor", "offset"), [(1e-4, 0.0), (1e3, 0.0), (1.0, 1e4)])
def test_neither_units_nor_offsets_of_the_features_matter(factor, offset):
    X, y = make_labelled_rows(80, 3.0)
    plain = learn_prior(X[:40], y[:40], 2, PoolMoments.of(X))
    moved = factor * X + offset
    other = learn_prior(moved[:40], y[:40], 2, PoolMoments.of(moved))
    assert other.scale == pytest.approx(plain.scale, rel=0.02)
    assert deviation(other, moved) == pytest.approx(deviation(plain, X), rel=0.02)


def test_columns_of_very_different_units_are_standardised():
    """Without standardising, one column of large numbers would dominate."""
    X, y = make_labelled_rows(150, 8.0, seed=1)
    units = np.geomspace(1.0, 1e5, X.shape[1])
    assert learn_prior(X * units, y, 2, PoolMoments.of(X * units)).shape == "columns"


def test_columns_of_one_kind_are_never_standardised():
    """Standardising would whiten an encoder's directions, most of which are noise."""
    X, _ = make_labelled_rows(400, 8.0, seed=1)
    X = X * np.geomspace(1.0, 30.0, X.shape[1])
    y = (X[:, 0] > 0).astype(int)  # labels that only the weakest column explains
    assert learn_prior(X, y, 2, PoolMoments.of(X)).shape == "directions"


def test_directions_that_vary_most_are_believed_first():
    """Labels that follow the leading direction give it a larger share than those that do not."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 20)) * np.geomspace(4.0, 0.5, 20)
    share = {}
    for column in (0, 19):
        y = (X[:, column] > 0).astype(int)
        weights = learn_prior(X[:80], y[:80], 2, PoolMoments.of(X)).whitening.weights(np.eye(21))
        variances = np.square(weights[:-1]).sum(axis=1)
        share[column] = variances[0] / variances[19]
    assert share[0] > 3.0 * share[19]


def taught(n_rows, share=0.1, n_features=20, seed=0):
    """Rows of an encoder that was fine-tuned on two classes: two distant clusters."""
    generator = np.random.default_rng(seed)
    y = (generator.random(n_rows) < share).astype(int)
    X = 0.05 * generator.standard_normal((n_rows, n_features))
    X[:, 0] += 2.0 * y
    return X, y


def test_even_means_that_all_directions_are_alike_however_the_pool_varies():
    X, y = taught(400)
    prior = learn_prior(X[:60], y[:60], 2, PoolMoments.of(X), even=True)
    assert prior.shape == "even"
    deviations = np.linalg.norm(prior.whitening.coloured(np.eye(21))[:-1], axis=1)
    np.testing.assert_allclose(deviations, deviations[0])


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_an_even_prior_puts_the_boundary_between_heaps_of_any_size(share):
    """With an intercept that is small against the logits, it would lie at the larger cluster."""
    X, y = taught(400, share)
    between = np.zeros((2, 20))
    between[:, 0] = 0.7, 1.3
    learner = parbals.ActiveLearner(X, [0, 1], prior_scale="even", random_state=0)
    learner.tell(range(60), y[:60])
    assert learner.predict(between).tolist() == [0, 1]


def test_neither_the_order_of_labels_nor_that_of_classes_matters():
    X, y = make_labelled_rows(300, 4.0, n_classes=3)
    pool = PoolMoments.of(X)
    order = np.random.default_rng(0).permutation(300)
    plain = learn_prior(X, y, 3, pool)
    shuffled = learn_prior(X[order], y[order], 3, pool)
    assert shuffled.scale == pytest.approx(plain.scale, rel=1e-9)
    np.testing.assert_allclose(shuffled.whitening.left, plain.whitening.left, atol=1e-9)
    assert learn_prior(X, 2 - y, 3, pool).scale == pytest.approx(plain.scale, rel=1e-3)


@pytest.mark.parametrize("labels", [[], [1], [0, 0, 0, 0, 0]])
def test_without_two_classes_it_is_the_prior_before_any_label(labels):
    X, _ = make_labelled_rows(50, 3.0)
    prior = learn_prior(X[: len(labels)], np.array(labels, int), 2, PoolMoments.of(X))
    assert prior.scale == pytest.approx(3.0)
    assert "the initial one" in prior.description


@pytest.mark.parametrize("n_classes", [2, 3, 12, 40])
@pytest.mark.parametrize("n_labels", [2, 5, 60])
def test_few_labels_separable_data_and_classes_without_labels_are_sane(n_classes, n_labels):
    X, _ = make_labelled_rows(100, 3.0)
    y = (X[:, 0] > 0).astype(int) if n_classes == 2 else np.digitize(X[:, 0], [-0.5, 0.5])
    y[:2] = 0, 1
    prior = learn_prior(X[:n_labels], y[:n_labels], n_classes, PoolMoments.of(X))
    assert 0.3 < prior.scale < 100.0
    assert f"learnt from {n_labels} labels" in prior.description


def test_a_hundred_classes_are_compared_with_their_neighbours():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 10))
    y = np.arange(300) % 100
    assert np.isfinite(learn_prior(X, y, 100, PoolMoments.of(X)).scale)


def test_labelled_rows_alone_say_how_features_vary_once_there_are_enough():
    X, y = make_labelled_rows(60, 3.0)
    assert learn_prior(X[:15], y[:15], 2, None).shape == "even"
    assert learn_prior(X, y, 2, None).shape in ("directions", "columns")


def test_labels_near_a_boundary_count_together_with_the_earlier_ones():
    """All labels are used: the uncertain ones alone would make the scale much too small."""
    X, y = make_labelled_rows(3_000, 8.0, n_features=20, seed=1)
    pool = PoolMoments.of(X)
    first = np.arange(100)
    model = parbals.BayesianLogisticRegression(2, inference="ep").fit(X[first], y[first], pool)
    sure = model.predict_proba(X).max(axis=1)
    sure[first] = 2.0
    near = np.argsort(sure)[:300]
    both = np.append(first, near)
    together = learn_prior(X[both], y[both], 2, pool)
    assert "learnt from 400 labels" in together.description
    assert together.scale == pytest.approx(8.0, rel=0.4)
    assert learn_prior(X[near], y[near], 2, pool).scale < 0.6 * together.scale


def test_a_fit_that_begins_with_its_sites_ends_the_same():
    X, y = make_labelled_rows(150, 4.0, n_features=60)
    prior = learn_prior(X, y, 2, PoolMoments.of(X))
    twice = prior.whitening.times(np.sqrt(2.0))
    design = np.column_stack([X, np.ones(150)])
    cold = fit_gaussian(design, y, twice, None)
    warm = fit_gaussian(design, y, twice, prior.sites)
    assert warm.n_sweeps < cold.n_sweeps
    np.testing.assert_allclose(warm.predict_proba(design), cold.predict_proba(design), atol=1e-6)


@pytest.mark.parametrize("inference", ["ep", "smc", "laplace"])
def test_the_prior_is_described_and_predictions_do_not_depend_on_units(inference):
    X, y = make_labelled_rows(90, 4.0, seed=2)
    models = [
        parbals.BayesianLogisticRegression(200, inference=inference, random_state=0).fit(
            rows[:40], y[:40], rows
        )
        for rows in (X, 1e3 * X - 5e3)
    ]
    assert models[0].diagnostics_.prior.startswith("The prior is learnt from 40 labels")
    assert models[0].prior_scale_ == pytest.approx(models[1].prior_scale_, rel=1e-3)
    first, second = (
        model.predict_proba(rows[40:])
        for model, rows in zip(models, (X, 1e3 * X - 5e3), strict=True)
    )
    np.testing.assert_allclose(first, second, atol=0.02)


def test_a_number_is_the_deviation_of_every_weight():
    model = parbals.BayesianLogisticRegression(4_000, 0.5, "laplace", classes=[0, 1])
    draws = model.fit_prior(3).coef_samples_[:, 1] - model.coef_samples_[:, 0]
    error = 4.0 * np.sqrt(0.5) / np.sqrt(2.0 * 4_000)
    np.testing.assert_allclose(draws.std(axis=0), 0.5 * np.sqrt(2.0), atol=error)
    assert (model.prior_scale_, model.prior_shape_) == (0.5, "given")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_certain_likelihoods_are_labels_and_flat_ones_are_none(n_classes):
    X, y = make_labelled_rows(90, 3.0, n_classes=n_classes)
    pool = PoolMoments.of(X)
    plain = learn_prior(X, y, n_classes, pool)
    certain = learn_prior(X, y, n_classes, pool, likelihoods=np.eye(n_classes)[y])
    assert certain.scale == plain.scale
    guesses = np.random.default_rng(1).integers(n_classes, size=90)
    flat = np.ones((90, n_classes))
    both = learn_prior(
        np.concatenate([X, X]),
        np.concatenate([y, guesses]),
        n_classes,
        pool,
        likelihoods=np.concatenate([np.eye(n_classes)[y], flat]),
    )
    assert both.scale == pytest.approx(plain.scale, rel=0.02)
