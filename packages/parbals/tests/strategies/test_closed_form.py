"""ParBaLS, EPIG and BALD on the Gaussian posterior of ``inference="ep"``."""

import os
import subprocess
import sys

import numpy as np
import parbals
import pytest
from brute_force import covariance_with
from parbals.mixture import label_evidence
from parbals.race import class_evidence, class_slopes, curvatures_from_diagonal
from parbals.scores.gaussian import closed_epig
from parbals.strategies import backends, conditioning
from parbals.strategies import parbals as strategy_module
from parbals.strategies.backends.base import SlotTable
from parbals.strategies.universes import gaussian, linear, posterior
from parbals.strategies.universes.labels import DrawnLabels
from scipy.special import expit


@pytest.fixture(params=["NumPy", pytest.param("JAX", marks=pytest.mark.full)])
def backend(request, monkeypatch):
    """NumPy on a CPU, and the programs for accelerators, which take long to compile."""
    monkeypatch.setattr(backends, "uses_numpy", lambda operations: request.param == "NumPy")


@pytest.fixture(
    params=["small batches", "large batches", pytest.param("JAX", marks=pytest.mark.full)]
)
def algorithm(request, monkeypatch):
    """NumPy's two algorithms, the second with the latest weights in every step, and JAX's."""
    monkeypatch.setattr(backends, "uses_numpy", lambda operations: request.param != "JAX")
    if request.param == "large batches":
        monkeypatch.setattr(posterior, "MAX_TABLE_LABELS", 0)
        monkeypatch.setattr(linear, "MAX_WEIGHT_CHANGE", 0.0)


@pytest.fixture(scope="module")
def parts():
    """A fitted model, a pool of 150 rows and a target set of 40."""
    generator = np.random.default_rng(3)
    X = generator.standard_normal((230, 5)) * [3.0, 2.0, 1.0, 0.5, 0.2]
    labels = (generator.random(230) < expit(X @ [1.0, -1.0, 0.5, 0.0, 2.0])).astype(int)
    model = parbals.BayesianLogisticRegression(prior_scale=1.0, inference="ep", random_state=0)
    return model.fit(X[:40], labels[:40]), X[40:190], X[190:]


@pytest.fixture(scope="module")
def wide_parts():
    """The same with 12 labels and 40 columns: most directions have no label."""
    generator = np.random.default_rng(4)
    X = generator.standard_normal((112, 40)) / np.sqrt(1.0 + np.arange(40))
    labels = (generator.random(112) < expit(3.0 * X[:, 0])).astype(int)
    model = parbals.BayesianLogisticRegression(prior_scale=1.0, inference="ep", random_state=0)
    return model.fit(X[:12], labels[:12]), X[12:82], X[82:]


def greedily(free, scores, condition, size, pending):
    """Condition on pending points, then take the best free point and condition on it, again."""
    for index in pending:
        condition(index)
    indices = []
    values = []
    for _ in range(size):
        now = np.where(free, scores(), -np.inf)
        indices.append(int(now.argmax()))
        values.append(now.max())
        condition(indices[-1])
    return indices, values


def by_definition(model, pool, target, size, pending, seed, n_universes):
    """Every universe is a Gaussian of its own; every free point is scored in every universe."""
    posterior = model.gaussian
    rows, targets = (np.concatenate([X, np.ones((len(X), 1))], axis=1) for X in (pool, target))
    labels = DrawnLabels(posterior.latents, n_universes, seed)
    (covariance,) = covariance_with(posterior.latents, np.eye(rows.shape[1]))
    states = [(posterior.latents.mean[:, 0], covariance)] * n_universes
    free = np.ones(len(rows), bool)

    def condition(index):
        free[index] = False
        x = rows[index]
        for u, label in enumerate(labels.label(x.astype(np.float32)).tolist()):
            mean, cov = states[u]
            column = cov @ x
            at_row = np.array([x @ mean]), np.array([x @ column])
            _, slope, curvature = label_evidence(*at_row, 2.0 * label - 1.0)
            cov = cov - curvature[0] * np.outer(column, column)
            states[u] = mean + slope[0] * column, cov

    def scores():
        total = np.zeros(len(rows))
        for mean, cov in states:
            of = [(R @ mean, np.einsum("nd,de,ne->n", R, cov, R)) for R in (rows, targets)]
            arrays = (*of[0], *of[1], rows @ cov @ targets.T)
            total += closed_epig(*arrays) / n_universes
        return total

    return greedily(free, scores, condition, size, pending)


@pytest.mark.parametrize("pending", [pytest.param([], marks=pytest.mark.full), [4, 9]])
@pytest.mark.parametrize("design", ["parts", "wide_parts"])
def test_parbals_is_what_its_definition_gives(algorithm, design, pending, request):
    parts = request.getfixturevalue(design)
    options = {"pending": pending or None, "n_universes": 4, "random_state": 7}
    batch = parbals.select_batch_from_model(*parts, 6, **options)
    chosen, values = by_definition(*parts, 6, pending, 7, 4)
    assert batch.indices.tolist() == chosen
    assert batch.n_samples == 0
    assert "eff. samples" not in batch.explain()
    np.testing.assert_allclose(batch.scores, values, rtol=1e-3)


def test_the_order_of_the_pool_does_not_matter(parts):
    model, pool, target = parts
    order = np.random.default_rng(0).permutation(len(pool))
    original = parbals.select_batch_from_model(model, pool, target, 8, random_state=1)
    reordered = parbals.select_batch_from_model(model, pool[order], target, 8, random_state=1)
    assert order[reordered.indices].tolist() == original.indices.tolist()


@pytest.mark.parametrize(
    "strategy", ["epig", "bald", "power-epig", "softrank-bald", "parbals-map-epig", "confidence"]
)
def test_other_strategies_choose_distinct_free_points(parts, strategy):
    batch = parbals.select_batch_from_model(*parts, 10, strategy, pending=[0, 1], random_state=0)
    assert len(set(batch.indices.tolist()) - {0, 1}) == 10
    assert np.isfinite(batch.scores).all()


@pytest.mark.parametrize("strategy", ["epig", "bald"])
def test_scores_are_those_of_many_particles(parts, strategy):
    """The particles' noise floor, about 1/(2K) nats, is what separates them."""
    model, pool, target = parts
    X = model.gaussian.X[:, :-1]
    labels = model.gaussian.labels
    particles = parbals.BayesianLogisticRegression(4_000, 1.0, "smc", random_state=0)
    particles.fit(X, labels)
    scores = np.empty((2, len(pool)))
    for row, fitted in zip(scores, (model, particles), strict=True):
        batch = parbals.select_batch_from_model(fitted, pool, target, len(pool), strategy)
        row[batch.indices] = batch.scores
    assert np.corrcoef(scores)[0, 1] > 0.98
    assert scores[1, scores[0].argmax()] > 0.95 * scores[1].max()


@pytest.fixture(scope="module")
def four_classes():
    """A fitted model of four classes, a pool of 120 rows and a target set of 40."""
    generator = np.random.default_rng(5)
    X = generator.standard_normal((240, 6)) * [3.0, 2.0, 1.0, 1.0, 0.5, 0.2]
    noise = generator.gumbel(size=(240, 4))
    labels = np.argmax(X @ generator.standard_normal((6, 4)) + noise, axis=1)
    model = parbals.BayesianLogisticRegression(
        prior_scale=1.0, inference="ep", classes=[0, 1, 2, 3], random_state=0
    )
    return model.fit(X[:80], labels[:80]), X[80:200], X[200:]


@pytest.mark.parametrize(
    "strategy",
    [
        *("parbals-epig", "margin"),
        *(pytest.param(s, marks=pytest.mark.full) for s in ("epig", "bald", "parbals-map-epig")),
    ],
)
def test_many_classes_choose_distinct_free_points(four_classes, strategy):
    batch = parbals.select_batch_from_model(
        *four_classes, 10, strategy, pending=[0, 1], random_state=0
    )
    assert len(set(batch.indices.tolist()) - {0, 1}) == 10
    assert np.isfinite(batch.scores).all()


@pytest.mark.full
def test_epig_of_many_classes_is_that_of_many_particles(four_classes):
    """Particles' floor of C classes is about (C-1)²/(2K) nats: the best points stand above it."""
    model, pool, target = four_classes
    X = model.gaussian.X[:, :-1]
    labels = model.gaussian.labels
    particles = parbals.BayesianLogisticRegression(4_000, 1.0, "smc", random_state=0)
    particles.fit(X, labels)
    scores = np.empty((2, len(pool)))
    for row, fitted in zip(scores, (model, particles), strict=True):
        batch = parbals.select_batch_from_model(fitted, pool, target, len(pool), "epig")
        row[batch.indices] = batch.scores
    assert np.corrcoef(scores)[0, 1] > 0.97
    assert scores[1, scores[0].argmax()] > 0.95 * scores[1].max()


@pytest.mark.parametrize(
    "strategy", [pytest.param("epig", marks=pytest.mark.full), "power-epig", "parbals-epig"]
)
@pytest.mark.parametrize("design", [pytest.param("parts", marks=pytest.mark.full), "four_classes"])
def test_the_error_loss_needs_no_samples(design, strategy, request):
    parts = request.getfixturevalue(design)
    by_error, by_log = (
        parbals.select_batch_from_model(
            *parts, 6, strategy, loss=loss, pending=[0, 1], random_state=0
        )
        for loss in ("error", "log")
    )
    assert by_error.n_samples == 0
    assert len(set(by_error.indices.tolist()) - {0, 1}) == 6
    assert (by_error.scores > 0.0).all()
    assert by_error.indices.tolist() != by_log.indices.tolist()


def many_classes_by_definition(model, pool, target, size, pending, seed, n_universes):
    """Every universe has dense covariances (C, d, d); every free point is scored in each of them.

    The score is ½ mean Σ_kl c_k c_l M_kl M'_kl, M = diag(g) - g gᵀ / Σ g.
    """
    posterior = model.gaussian
    rows, targets = (np.concatenate([X, np.ones((len(X), 1))], axis=1) for X in (pool, target))
    labels = DrawnLabels(posterior.latents, n_universes, seed)
    covariance = covariance_with(posterior.latents, np.eye(rows.shape[1]))
    states = [(posterior.latents.mean, covariance)] * n_universes
    free = np.ones(len(rows), bool)

    def condition(index):
        free[index] = False
        x = rows[index]
        for u, label in enumerate(labels.label(x.astype(np.float32))):
            mean, cov = states[u]
            columns = cov @ x  # (C, d)
            _, slope, curvature = class_evidence((x @ mean)[None], (columns @ x)[None], label[None])
            shrunk = curvature[0][:, None, None] * columns[:, :, None] * columns[:, None]
            states[u] = mean + (slope[0][:, None] * columns).T, cov - shrunk

    def matrices(R, mean, cov):
        p, slope = class_slopes((R @ mean).T, np.einsum("nd,ade,ne->an", R, cov, R))
        gains = curvatures_from_diagonal((np.square(slope) / (p * (1.0 - p))).T, np)
        outer = gains[:, :, None] * gains[:, None] / gains.sum(axis=1)[:, None, None]
        return gains[:, :, None] * np.eye(gains.shape[1]) - outer

    def scores():
        total = np.zeros(len(rows))
        for mean, cov in states:
            at_row, at_targets = (matrices(R, mean, cov) for R in (rows, targets))
            c = rows @ cov @ targets.T
            form = np.einsum("knm,lnm,nkl,mkl->n", c, c, at_row, at_targets, optimize=True)
            total += 0.5 * form / len(targets) / n_universes
        return total

    return greedily(free, scores, condition, size, pending)


@pytest.mark.parametrize("pending", [pytest.param([], marks=pytest.mark.full), [4, 9]])
def test_parbals_of_many_classes_is_what_its_definition_gives(
    algorithm, four_classes, pending, monkeypatch
):
    monkeypatch.setattr(conditioning, "_STALE_AFTER", 0.0)  # else targets may move a little unseen
    options = {"pending": pending or None, "n_universes": 3, "random_state": 7}
    batch = parbals.select_batch_from_model(*four_classes, 6, **options)
    chosen, values = many_classes_by_definition(*four_classes, 6, pending, 7, 3)
    assert batch.indices.tolist() == chosen
    np.testing.assert_allclose(batch.scores, values, rtol=1e-3)


def test_the_order_of_the_pool_does_not_matter_with_many_classes(four_classes):
    model, pool, target = four_classes
    order = np.random.default_rng(0).permutation(len(pool))
    original = parbals.select_batch_from_model(model, pool, target, 6, random_state=1)
    reordered = parbals.select_batch_from_model(model, pool[order], target, 6, random_state=1)
    assert order[reordered.indices].tolist() == original.indices.tolist()


def test_copies_of_a_point_are_scored_as_points_of_their_own(four_classes):
    """A pool of the best points three times over: the definition is followed among them too."""
    model, pool, target = four_classes
    first = parbals.select_batch_from_model(model, pool, target, 4, random_state=1).indices
    copies = np.tile(pool[first], (3, 1))
    batch = parbals.select_batch_from_model(model, copies, target, 6, n_universes=3, random_state=1)
    _, values = many_classes_by_definition(model, copies, target, 6, [], 1, 3)
    assert len(set(batch.indices.tolist())) == 6
    # Copies tie to rounding, so the definition may take another of them: the scores are the same.
    np.testing.assert_allclose(batch.scores, values, rtol=0.02)


def wide_problem(seed):
    """Six classes, 900 candidates: several chunks, most of which a step need not look at."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((990, 5)) * np.exp(generator.standard_normal(5))
    noise = generator.gumbel(size=(990, 6))
    labels = np.argmax(X @ generator.standard_normal((5, 6)) + noise, axis=1)
    model = parbals.BayesianLogisticRegression(
        prior_scale=1.0, inference="ep", classes=range(6), random_state=0
    )
    return model.fit(X[:60], labels[:60]), X[60:960], X[960:]


@pytest.mark.full
def test_the_lazy_search_gains_what_scoring_everything_gains(backend, monkeypatch):
    """A value that has risen unseen may lead to another batch, which is as good."""
    problems = [wide_problem(seed) for seed in range(6)]

    def batches():
        return [
            parbals.select_batch_from_model(*parts, 5, n_universes=3, random_state=2)
            for parts in problems
        ]

    monkeypatch.setattr(gaussian, "MAX_SCREENED", 1024)
    lazy = batches()
    monkeypatch.setattr(gaussian, "MARGIN", 1e-9)  # every score is above this share of the best
    n_equal = 0
    for lazy_batch, full_batch in zip(lazy, batches(), strict=True):
        n_equal += lazy_batch.indices.tolist() == full_batch.indices.tolist()
        assert lazy_batch.scores.sum() > 0.995 * full_batch.scores.sum()
        assert (full_batch.n_exact == 900 - np.arange(5)).all()
        assert (lazy_batch.n_exact < full_batch.n_exact).any()
    assert n_equal >= 5


@pytest.mark.full
@pytest.mark.parametrize("loss", ["log", "error"])
def test_rows_that_are_forgotten_are_computed_again(algorithm, monkeypatch, loss):
    monkeypatch.setattr(gaussian, "MAX_SCREENED", 200)
    monkeypatch.setattr(gaussian, "SHORTLIST", 8)
    monkeypatch.setattr(gaussian, "DECISION_SHORTLIST", 8)
    parts = wide_problem(1)
    options = {"n_universes": 3, "random_state": 2, "loss": loss}
    whole = parbals.select_batch_from_model(*parts, 30, **options)
    make = SlotTable.__init__
    sizes = []

    def few_places(places, size):
        sizes.append(size)
        make(places, min(size, 150))

    monkeypatch.setattr(SlotTable, "__init__", few_places)
    few = parbals.select_batch_from_model(*parts, 30, **options)
    assert max(sizes) > 150
    assert few.indices.tolist() == whole.indices.tolist()
    assert few.n_exact.tolist() == whole.n_exact.tolist()
    np.testing.assert_allclose(few.scores, whole.scores, rtol=1e-5)


@pytest.mark.parametrize(
    ("scale", "n_classes"),
    [*(pytest.param(1e5, n, marks=pytest.mark.full) for n in (2, 3)), (2e9, 3)],
)
@pytest.mark.parametrize("strategy", ["epig", "parbals-epig"])
def test_features_of_any_scale_give_free_points(scale, n_classes, strategy):
    X = scale * np.random.default_rng(0).standard_normal((40, 3))
    model = parbals.BayesianLogisticRegression(
        32, 1.0, inference="ep", classes=range(n_classes), random_state=0
    ).fit(X[:6], np.arange(6) % n_classes)
    pending = [0, 1, 2]
    batch = parbals.select_batch_from_model(
        model, X, X, 4, strategy, pending=pending, n_universes=2, random_state=0
    )
    assert len(set(batch.indices.tolist()) - set(pending)) == 4


@pytest.mark.parametrize(
    ("scale", "n_classes", "strategy"),
    [(1e5, 10, "parbals-map-epig"), (2e9, 3, "parbals-epig")],
)
def test_large_batches_of_any_scale_give_free_points(scale, n_classes, strategy):
    """Soon only rounding errors are left of the variances; they must not grow."""
    X = scale * np.random.default_rng(0).standard_normal((120, 3))
    labels = np.arange(2 * n_classes) % n_classes
    model = parbals.BayesianLogisticRegression(
        32, 1.0, inference="ep", classes=range(n_classes), random_state=0
    ).fit(X[: len(labels)], labels)
    batch = parbals.select_batch_from_model(
        model, X, X[:30], 50, strategy, n_universes=4, random_state=0
    )
    assert len(set(batch.indices.tolist())) == 50
    assert np.isfinite(batch.scores).all()


@pytest.mark.full
def test_a_step_scores_no_more_rows_than_it_may(backend, four_classes, monkeypatch):
    """After the first of 200 copies all of them have fallen, and only some are looked at."""
    model, pool, target = four_classes
    for module in (gaussian, strategy_module):
        monkeypatch.setattr(module, "MAX_SCREENED", 128)
    best = parbals.select_batch_from_model(model, pool, target, 1, random_state=0).indices
    copies = np.concatenate([np.repeat(pool[best], 200, axis=0), pool])
    batch = parbals.select_batch_from_model(model, copies, target, 2, random_state=0)
    first, second = batch.n_exact.tolist()
    assert first <= gaussian.CHUNK + gaussian.SHORTLIST  # points of the shortlist are compared, too
    assert 128 <= second <= 128 + gaussian.SHORTLIST
    assert "In 1 of 2 steps more than 128 candidates" in batch.notes[0]


@pytest.mark.full
def test_jax_in_double_precision_chooses_the_same():
    program = (
        "import numpy as np, parbals\n"
        "X = np.random.default_rng(0).standard_normal((60, 3))\n"
        "for classes in ([0, 1], [0, 1, 2]):\n"
        "    learner = parbals.ActiveLearner(X, classes, random_state=0)\n"
        "    print(learner.choose(4).indices.tolist())\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "JAX_ENABLE_X64": flag},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for flag in ("0", "1")
    ]
    assert said[0] == said[1]
