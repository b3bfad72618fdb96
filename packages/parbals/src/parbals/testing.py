"""The contract of all strategies, as a test class to inherit from.

    from parbals.testing import StrategyContract

    class TestMine(StrategyContract):
        strategy = "mine"                    # the name of its entry point
        options = {"power": 2.0}             # optional: options to test it with

pytest then runs every ``test_`` method below on small synthetic problems.
"""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from parbals.errors import InputError, SampleCollapseWarning
from parbals.select import select_batch
from parbals.strategies.table import Strategy, strategy_named
from parbals.types import Batch

__all__ = ["StrategyContract", "make_inputs"]

_N_DRAWS = 120
_N_SAMPLES = 64
_N_FEATURES = 4


def make_inputs(n_pool: int = 40, n_classes: int = 3, n_labelled: int = 12) -> dict[str, Any]:
    """Arguments of :func:`parbals.select_batch`, from a softmax model with K random weight vectors.

    Predictions follow from the features, every class has labels, and all points are distinct.

    >>> make_inputs(n_pool=10, n_classes=2)["pool_probs"].shape
    (10, 64, 2)
    """
    generator = np.random.default_rng(0)
    weights = 0.7 * generator.standard_normal((_N_SAMPLES, _N_FEATURES, n_classes))
    weights += generator.standard_normal((_N_FEATURES, n_classes))

    def draw_points(n_points: int) -> tuple[np.ndarray, np.ndarray]:
        """Features (n, D) and predictive samples (n, K, C)."""
        features = generator.standard_normal((n_points, _N_FEATURES))
        logits = np.einsum("nd,kdc->nkc", features, weights)
        probs = np.exp(logits - logits.max(axis=2, keepdims=True))
        return features, probs / probs.sum(axis=2, keepdims=True)

    pool_features, pool_probs = draw_points(n_pool)
    labelled_features, labelled_probs = draw_points(n_labelled)
    labels = generator.permutation(np.arange(n_labelled) % n_classes)
    _, target_probs = draw_points(20)
    return {
        "pool_probs": pool_probs,
        "target_probs": target_probs,
        "pool_features": pool_features,
        "labelled_features": labelled_features,
        "labelled_probs": labelled_probs,
        "labels": labels,
        "validation": np.arange(n_classes + 2),
    }


def _predict(n_classes: int, features: np.ndarray) -> np.ndarray:
    """Probabilities (n, C) of a softmax model with fixed weights."""
    weights = np.random.default_rng(1).standard_normal((features.shape[1], n_classes))
    logits = features @ weights
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


class StrategyContract:
    """Tests of the contract: inherit, set ``strategy``, and let pytest collect the subclass.

    >>> class TestMargin(StrategyContract):
    ...     strategy = "margin"
    >>> TestMargin().test_indices_are_distinct_and_in_range()

    Attributes:
        strategy: the name of the strategy, as in :func:`parbals.select_batch`.
        options: its options, if it has any.
    """

    strategy: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}

    @property
    def entry(self) -> Strategy:
        """The table entry of the strategy."""
        return strategy_named(self.strategy)

    def choose(self, inputs: Mapping[str, Any], batch_size: int, **overrides: Any) -> Batch:
        """The strategy's batch; a collapsed sample size is expected on these tiny problems."""
        arguments = {
            "random_state": 0,
            "options": self.options or None,
            "predict": partial(_predict, np.shape(inputs["pool_probs"])[2]),
            **inputs,
            **overrides,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SampleCollapseWarning)
            return select_batch(batch_size=batch_size, strategy=self.strategy, **arguments)

    def test_indices_are_distinct_and_in_range(self) -> None:
        for n_classes in (2, 3):
            batch = self.choose(make_inputs(n_classes=n_classes), 10)
            chosen = batch.indices
            assert chosen.shape == (10,), f"10 points were asked for, {len(chosen)} came"
            assert len(set(chosen.tolist())) == 10, f"a point was chosen twice: {chosen}"
            assert chosen.min() >= 0, f"negative index: {chosen}"
            assert chosen.max() < 40, f"index outside the pool of 40: {chosen}"
            assert batch.strategy == self.strategy
            assert batch.scores.shape == batch.initial_scores.shape == (10,)

    def test_one_point_and_the_whole_pool_can_be_asked_for(self) -> None:
        inputs = make_inputs(n_pool=7)
        assert len(self.choose(inputs, 1)) == 1
        assert sorted(self.choose(inputs, 7).indices.tolist()) == list(range(7))

    def test_pending_points_are_never_chosen(self) -> None:
        pending = np.arange(0, 40, 2)
        batch = self.choose(make_inputs(), 20, pending=pending)
        assert not set(batch.indices.tolist()) & set(pending.tolist()), "a pending point was chosen"

    def test_duplicates_and_constant_features_give_distinct_indices(self) -> None:
        inputs = make_inputs()
        for rows in (np.zeros(40, int), np.arange(40) % 2):  # one point; two points
            copies = {name: inputs[name][rows] for name in ("pool_probs", "pool_features")}
            chosen = self.choose({**inputs, **copies}, 12).indices
            assert len(set(chosen.tolist())) == 12, "a duplicate was chosen twice"
        flat = {name: np.ones_like(inputs[name]) for name in ("pool_features", "labelled_features")}
        assert len(set(self.choose({**inputs, **flat}, 12).indices.tolist())) == 12

    def test_certain_predictions_are_no_obstacle(self) -> None:
        inputs = make_inputs()
        certain = np.zeros_like(inputs["pool_probs"])
        certain[..., 1] = 1.0
        assert len(set(self.choose({**inputs, "pool_probs": certain}, 5).indices.tolist())) == 5

    def test_weighted_samples_are_accepted(self) -> None:
        weights = np.linspace(0.0, 2.0, 64)
        assert len(self.choose(make_inputs(), 5, sample_weights=weights)) == 5

    def test_the_seed_decides(self) -> None:
        inputs = make_inputs()
        first = self.choose(inputs, 6, random_state=11).indices.tolist()
        second = self.choose(inputs, 6, random_state=11).indices.tolist()
        assert first == second, "the same seed gave two batches"
        if self.entry.stochastic:
            batches = {
                tuple(self.choose(inputs, 6, random_state=seed).indices.tolist())
                for seed in range(8)
            }
            assert len(batches) > 1, "declared stochastic, but eight seeds gave one batch"

    def test_no_global_random_state_is_read_or_written(self) -> None:
        inputs = make_inputs()
        before: Any = np.random.get_state()  # noqa: NPY002
        first = self.choose(inputs, 5).indices.tolist()
        after: Any = np.random.get_state()  # noqa: NPY002
        assert np.array_equal(after[1], before[1]), "the global random state was written"
        np.random.seed(99)  # noqa: NPY002
        second = self.choose(inputs, 5).indices.tolist()
        np.random.set_state(before)  # noqa: NPY002
        assert second == first, "the global random state was read"

    def test_the_order_of_rows_does_not_matter(self) -> None:
        inputs = make_inputs(n_pool=12)
        order = np.random.default_rng(5).permutation(12)
        shuffled = {
            **inputs,
            **{name: inputs[name][order] for name in ("pool_probs", "pool_features")},
        }
        if not self.entry.stochastic:
            expected = self.choose(inputs, 4).indices.tolist()
            assert order[self.choose(shuffled, 4).indices].tolist() == expected, (
                "the batch depends on the order of the rows"
            )
            return
        counts = np.zeros((2, 12))
        for seed in range(_N_DRAWS):
            counts[0, self.choose(inputs, 2, random_state=seed).indices] += 1
            counts[1, order[self.choose(shuffled, 2, random_state=_N_DRAWS + seed).indices]] += 1
        # Each count is binomial; the difference of two has variance 2 n p (1-p) ≤ n/2.
        share = counts.sum(axis=0) / (2 * _N_DRAWS)
        error = np.sqrt(2 * _N_DRAWS * share * (1 - share)) + 1.0
        worst = np.abs(counts[0] - counts[1]) / error
        assert worst.max() < 4.5, (
            f"frequencies differ by {worst.max():.1f} standard errors after shuffling the pool"
        )

    def test_inputs_are_left_as_they_were(self) -> None:
        inputs = make_inputs()
        before = {name: array.copy() for name, array in inputs.items()}
        for array in inputs.values():
            array.setflags(write=False)
        self.choose(inputs, 5, pending=np.array([1, 2]))
        for name, array in inputs.items():
            assert (array == before[name]).all(), f"{name} was changed"

    def test_float32_and_lists_are_accepted(self) -> None:
        inputs = make_inputs(n_pool=12)
        float_names = [name for name, array in inputs.items() if array.dtype.kind == "f"]
        single = {**inputs, **{name: inputs[name].astype(np.float32) for name in float_names}}
        assert len(self.choose(single, 3)) == 3
        assert len(self.choose({name: array.tolist() for name, array in inputs.items()}, 3)) == 3

    def test_missing_inputs_are_named_in_one_sentence(self) -> None:
        inputs = make_inputs()
        needs = {
            "target_probs": False,  # the pool is the target
            "pool_features": self.entry.needs_features,
            "labels": self.entry.needs_labels,
            "predict": self.entry.needs_model,
        }
        for name, is_needed in needs.items():
            incomplete = {key: value for key, value in inputs.items() if key != name}
            if name == "predict":
                incomplete["predict"] = None
            if name == "labels":
                incomplete.pop("validation")
            message = ""
            try:
                self.choose(incomplete, 3)
            except InputError as error:
                message = str(error)
            assert bool(message) == is_needed, f"without {name} the error is {message!r}"
            assert not is_needed or name in message, f"{name} is not named in: {message}"

    def test_every_task_is_chosen_for_or_refused_in_one_sentence(self) -> None:
        from parbals.learner.active import ActiveLearner

        X = np.random.default_rng(0).standard_normal((40, 3))
        tasks = {
            "classes": ([1, 2], (X[:, 0] > 0) + 1),
            "many-labels": ([1, 2], (X[:, :2] > 0).astype(int)),
            "ordinal": ([1, 2, 3], np.digitize(X[:, 0], [-0.5, 0.5]) + 1),
            "regression": (None, X[:, 0]),
        }
        for task, (classes, labels) in tasks.items():
            learner = ActiveLearner(X, classes, task=task, n_samples=64, random_state=0)
            learner.tell(np.arange(12), labels[:12])
            try:
                chosen = learner.choose(4, strategy=self.strategy).indices.tolist()
            except InputError as error:
                message = str(error)
                assert f'task="{task}"' in message, f"{task} is not named in: {message}"
            else:
                assert len(set(chosen)) == 4, f"{task}: 4 items were asked for, not {chosen}"
                assert min(chosen) >= 12, f"{task}: a labelled item was chosen"
