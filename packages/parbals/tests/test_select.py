"""Choosing by name: what is accepted, what is refused, and that nothing else is touched."""

import numpy as np
import parbals
import pytest
from brute_force import linear_probs
from parbals import validate
from parbals.errors import InputError, LabelError, ShapeError
from parbals.randomness import derive_generator
from parbals.strategies.table import STRATEGIES
from sklearn.exceptions import NotFittedError

PROBS = linear_probs(1, 60, 64, 3, scale=0.3)
POOL = PROBS[:40]
TARGET = PROBS[40:]


@pytest.mark.parametrize("strategy", ["random", "parbals-epig"])
def test_another_seed_gives_another_draw(strategy):
    batches = {
        tuple(parbals.select_batch(POOL, TARGET, 8, strategy, random_state=s).indices)
        for s in range(6)
    }
    assert len(batches) > 1


@pytest.mark.parametrize("strategy", ["confidence", "margin", "entropy", "bald", "epig"])
def test_top_b_is_a_sort_of_the_score(strategy):
    score = {
        "confidence": parbals.least_confidence,
        "margin": parbals.margin,
        "entropy": parbals.predictive_entropy,
        "bald": parbals.bald,
        "epig": lambda pool: parbals.epig(pool, TARGET),
    }[strategy](POOL)
    batch = parbals.select_batch(POOL, TARGET, 7, strategy)
    assert batch.indices.tolist() == np.argsort(-score, kind="stable")[:7].tolist()
    np.testing.assert_allclose(batch.scores, score[batch.indices])


def test_random_is_uniform():
    counts = np.zeros(10)
    for seed in range(2000):
        counts[parbals.select_batch(POOL[:10], None, 3, "random", random_state=seed).indices] += 1
    expected = 600.0
    assert (
        (counts - expected) ** 2 / (expected * 0.7)
    ).sum() < 30  # chi-square with 9 degrees of freedom


def test_the_whole_pool_can_be_the_batch():
    batch = parbals.select_batch(POOL[:4], TARGET, 4, random_state=0)
    assert sorted(batch.indices.tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("strategy", ["epig", "parbals-epig"])
def test_without_a_target_the_pool_is_the_target(strategy):
    batch = parbals.select_batch(POOL, batch_size=5, strategy=strategy, random_state=0)
    expected = parbals.select_batch(POOL, POOL, 5, strategy, random_state=0)
    assert batch.indices.tolist() == expected.indices.tolist()
    np.testing.assert_array_equal(batch.scores, expected.scores)


def test_of_a_large_pool_a_random_thousand_are_the_target():
    pool = linear_probs(2, 1_200, 8, 2, scale=0.3)
    batch = parbals.select_batch(pool, batch_size=1, strategy="epig", random_state=0)
    order = derive_generator(0, "target").permutation(len(pool))
    expected = parbals.epig(pool, pool[np.sort(order[:1_000])])
    assert batch.indices.tolist() == [expected.argmax()]
    np.testing.assert_allclose(batch.scores, expected.max())


def test_a_batch_size_in_the_place_of_a_target_is_explained():
    with pytest.raises(InputError, match=r"write select_batch\(pool_probs, batch_size=10\)"):
        parbals.select_batch(POOL, 10)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"batch_size": 41}, InputError, "only 40 pool points"),
        ({"batch_size": 0}, InputError, "batch_size is 0"),
        ({"batch_size": -1}, InputError, "batch_size is -1"),
        ({"batch_size": 2.5}, InputError, "batch_size is 2.5"),
        ({"strategy": "epigg"}, InputError, "no strategy 'epigg'; choose one of: random"),
        (
            {"target_probs": 10},
            InputError,
            r"target_probs is the number 10; .* write select_batch\(pool_probs, batch_size=10\)",
        ),
        (
            {"target_probs": TARGET[:, :50]},
            ShapeError,
            "64 posterior samples and target_probs has 50",
        ),
        ({"target_probs": TARGET[:, :, :2]}, InputError, "sums to"),
        ({"pool_probs": POOL[0]}, ShapeError, "has shape"),
        ({"pool_probs": POOL[:, :, :1]}, ShapeError, "1 classes"),
        ({"pool_probs": POOL[:0]}, ShapeError, "0 points"),
        ({"pool_probs": POOL * 2}, InputError, r"pool_probs\[0, 0, :\] sums to 2"),
        ({"pool_probs": 1.5 * POOL - 0.5 / 3}, InputError, "between 0 and 1"),
        ({"pool_probs": np.where(POOL.max() > POOL, POOL, np.inf)}, InputError, "is inf"),
        ({"pool_probs": "probabilities"}, InputError, "not a rectangular array"),
        ({"pool_probs": [[1.0], [1.0, 2.0]]}, InputError, "not a rectangular array"),
        ({"n_universes": 0}, InputError, "n_universes is 0"),
        ({"sample_weights": np.ones(3)}, ShapeError, "each of the 64 samples"),
        ({"sample_weights": np.zeros(64)}, InputError, "all zero"),
        ({"sample_weights": np.full(64, np.nan)}, InputError, r"sample_weights\[0\] is nan"),
        ({"pending": [40]}, InputError, "positions in the pool are 0 to 39"),
        ({"pending": [1, 1]}, InputError, "twice"),
        ({"pending": [0.5]}, InputError, "integer positions"),
        ({"random_state": "seed"}, InputError, "random_state is 'seed'"),
        ({"loss": "brier"}, InputError, "loss is 'brier'; choose one of: log, error"),
        ({"beta": -1.0}, InputError, "beta is -1.0"),
        ({"n_configurations": 0}, InputError, "n_configurations is 0"),
        (
            {"options": {"power": 2}},
            InputError,
            "parbals-epig has no option 'power'; it takes none",
        ),
        ({"strategy": "coreset"}, InputError, "coreset needs pool_features"),
        ({"strategy": "galaxy"}, InputError, "galaxy needs labels and labelled_probs"),
        (
            {"pool_features": np.ones((39, 2))},
            ShapeError,
            "pool_features has 39 rows and pool_probs has 40",
        ),
        (
            {"labelled_probs": POOL[:, :7]},
            ShapeError,
            "64 posterior samples and labelled_probs has 7",
        ),
        (
            {"labelled_probs": POOL[:4], "labels": [0, 1, 2]},
            ShapeError,
            "one label for each of the 4 rows",
        ),
        ({"labelled_probs": POOL[:4], "labels": [0, 1, 2, 3]}, LabelError, r"labels\[3\] is 3"),
        ({"labels": [0, 1], "validation": [2]}, InputError, "validation contains 2"),
        ({"labels": [0, 1], "validation": []}, InputError, "validation is empty"),
        ({"validation": [0]}, InputError, "pass labels as well"),
        (
            {"labelled_features": np.ones((3, 1)), "labelled_probs": POOL[:4]},
            ShapeError,
            "both describe the labelled",
        ),
        (
            {"pool_features": np.ones((40, 2)), "labelled_features": np.ones((3, 1))},
            ShapeError,
            "labelled_features has 1 columns, but the pool has 2",
        ),
    ],
)
def test_bad_input_gets_one_clear_sentence(change, error, message):
    arguments = {
        "pool_probs": POOL,
        "target_probs": TARGET,
        "batch_size": 3,
        "random_state": 0,
    } | change
    with pytest.raises(error, match=message) as caught:
        parbals.select_batch(**arguments)
    assert "\n" not in str(caught.value)


X = np.random.default_rng(0).standard_normal((60, 3))
Y = (X[:, 0] > 0).astype(int)


def fitted(X, **options):
    model = parbals.BayesianLogisticRegression(n_samples=128, random_state=0, **options)
    return model.fit(X[:20], Y[:20])


@pytest.fixture(scope="module")
def model():
    return fitted(X)


class TestFromModel:
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_every_strategy_works_from_features(self, model, strategy):
        batch = parbals.select_batch_from_model(model, X[20:], None, 5, strategy, random_state=0)
        assert len(set(batch.indices.tolist())) == 5

    def test_a_model_without_labels_brings_none(self):
        """CoreSet begins at the middle of the pool, and those that need labels ask for them."""
        model = parbals.BayesianLogisticRegression(
            n_samples=128, classes=[0, 1], random_state=0
        ).fit_prior(3)
        shifted = X + 5.0  # at the origin nothing is known either
        batch = parbals.select_batch_from_model(model, shifted[:40], None, 4, "coreset")
        alone = parbals.select_batch(POOL, None, 4, "coreset", pool_features=shifted[:40])
        assert batch.indices.tolist() == alone.indices.tolist()
        assert batch.scores[0] == np.inf
        for strategy in ("galaxy", "glister"):
            with pytest.raises(InputError, match=f"{strategy} needs labels"):
                parbals.select_batch_from_model(model, shifted, None, 4, strategy)
        batch = parbals.select_batch_from_model(model, X, None, 6, random_state=0)
        assert len(set(batch.indices.tolist())) == 6

    @pytest.mark.parametrize("inference", ["laplace", pytest.param("nuts", marks=pytest.mark.full)])
    def test_other_inferences_go_through_their_samples(self, inference):
        model = fitted(X, inference=inference, prior_scale=1.0)
        batch = parbals.select_batch_from_model(model, X[20:], X[:20], 3, random_state=0)
        same = parbals.select_batch(
            model.sample_proba(X[20:]), model.sample_proba(X[:20]), 3, random_state=0
        )
        assert batch.indices.tolist() == same.indices.tolist()

    @pytest.mark.parametrize("module", ["pandas", "polars"])
    @pytest.mark.parametrize("strategy", ["parbals-epig", "galaxy"])
    def test_columns_are_compared_by_name(self, model, module, strategy):
        """Warnings are errors here: a right frame brings none about names."""
        frame = pytest.importorskip(module).DataFrame(
            {name: X[:, c] for c, name in enumerate("abc")}
        )
        named = fitted(frame)
        plain = np.asfortranarray(X)  # as frames keep it: another order of sums rounds otherwise
        expected = parbals.select_batch_from_model(
            fitted(plain), plain, None, 3, strategy, random_state=0
        )
        batch = parbals.select_batch_from_model(named, frame, None, 3, strategy, random_state=0)
        assert batch.indices.tolist() == expected.indices.tolist()
        other = frame[["a", "c", "b"]]
        with pytest.raises(
            InputError, match="X_pool has the column 'c' at position 1, where the model has 'b'"
        ):
            parbals.select_batch_from_model(named, other, None, 3, strategy)
        with pytest.raises(
            InputError, match="X_target has the column 'c' at position 1, where the pool has 'b'"
        ):
            parbals.select_batch_from_model(named, frame, other, 3, strategy)
        with pytest.raises(
            InputError, match="X_target has the column 'c' at position 1, where the pool has 'b'"
        ):
            parbals.select_batch_from_model(model, frame, other, 3, strategy)
        with pytest.raises(InputError, match="X_labelled has the column 'c'"):
            parbals.select_batch_from_model(
                named, frame, None, 3, strategy, X_labelled=other, y_labelled=Y
            )

    def test_the_layout_in_memory_changes_no_bit(self):
        """Columns of data frames lie one after the other; sums would round in another order."""

        def seen(X):
            model = fitted(X, inference="ep")
            batch = parbals.select_batch_from_model(model, X, None, 3, random_state=0)
            with_pool = parbals.BayesianLogisticRegression(inference="ep").fit(X[:20], Y[:20], X)
            scales = model.prior_scale_, with_pool.prior_scale_
            return *scales, *batch.indices, *batch.scores, *model.predict_proba(X)[:, 1]

        assert seen(np.asfortranarray(X)) == seen(X)

    def test_bad_features_are_refused(self, model):
        with pytest.raises(ShapeError, match="X_pool has 2 features"):
            parbals.select_batch_from_model(model, X[:, :2], None, 3)
        broken = X.copy()
        broken[7, 1] = np.inf
        with pytest.raises(InputError, match=r"X_pool\[7, 1\] is inf"):
            parbals.select_batch_from_model(model, broken, None, 3)
        with pytest.raises(InputError, match="no sample_proba"):
            parbals.select_batch_from_model(object(), X, None, 3)
        with pytest.raises(NotFittedError):
            parbals.select_batch_from_model(parbals.BayesianLogisticRegression(), X, None, 3)

    def test_predictions_are_computed_and_checked_once_and_only_where_they_matter(self):
        """A model of one's own: N rows once, and not at all for a strategy that does not look."""
        calls = []

        class Own:
            def sample_proba(self, X):
                calls.append(len(X))
                return np.full((len(X), 4 + len(calls) // 3, 2), 0.5)

        for strategy, expected in (("coreset", []), ("bald", [60]), ("epig", [60, 20])):
            calls.clear()
            parbals.select_batch_from_model(Own(), X, X[:20], 3, strategy)
            assert calls == expected
        calls[:] = [0]
        with pytest.raises(ShapeError, match="5 samples instead of 4 as before"):
            parbals.select_batch_from_model(Own(), X, X[:20], 3, "epig")


def test_the_pool_is_scanned_once(monkeypatch):
    """Input is checked at the door, however many scores a strategy computes."""
    scans = []
    sums = validate._class_sums
    monkeypatch.setattr(
        validate, "_class_sums", lambda array: (scans.append(len(array)), sums(array))[1]
    )
    for strategy in ("entropy", "batchbald", "epig", "parbals-map-epig"):
        scans.clear()
        parbals.select_batch(POOL, TARGET, 3, strategy, loss="error", random_state=0)
        assert scans == [40, 20]


def test_redundancy_is_not_told_where_the_effective_samples_are_few():
    batch = parbals.Batch(
        indices=np.array([4, 7]),
        scores=np.array([0.5, 0.8]),
        initial_scores=np.array([1.0, 0.01]),
        effective_sample_size=np.array([60.0, 3.0]),
        strategy="parbals-epig",
        n_exact=np.array([10, 10]),
        n_samples=200,
    )
    title, _, first, second = batch.explain().splitlines()
    assert "too few effective samples" in title
    assert "50 %" in first
    assert "%" not in second
    assert "–" in second
    assert len(first) == len(second)
    assert batch.redundancy[1] == pytest.approx(-79.0)


@pytest.mark.parametrize("strategy", ["batchbald", "parbals-epig", "epig"])
def test_who_watches_sees_the_scores_of_every_step(strategy):
    rows = []
    batch = parbals.select_batch(POOL, TARGET, 3, strategy, random_state=0, watch=rows.append)
    assert len(rows) == (1 if strategy == "epig" else 3)
    for step, index in enumerate(batch.indices):
        scores = rows[min(step, len(rows) - 1)].copy()
        assert scores.shape == (40,)
        assert scores[index] == pytest.approx(batch.scores[step], rel=1e-5)
        scores[batch.indices[:step]] = -np.inf
        assert scores.max() == pytest.approx(batch.scores[step], rel=1e-5)
