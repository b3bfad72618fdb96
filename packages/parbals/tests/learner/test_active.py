"""Ask, tell, forget, correct: what an engineer relies on."""

import numpy as np
import parbals
import pytest
from parbals.errors import InputError, LabelError, ShapeError
from parbals.strategies.table import STRATEGIES

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((60, 3))
Y = np.where(X @ [2.0, -1.0, 0.5] > 0, "spam", "ham")


def learner(strategy="entropy", **arguments):
    return parbals.ActiveLearner(
        X, ["ham", "spam"], strategy=strategy, random_state=0, n_samples=128, **arguments
    )


def trained_learner(n=12, strategy="entropy", **arguments):
    active = learner(strategy, **arguments)
    active.tell(np.arange(n), Y[:n])
    return active


class TestLoop:
    def test_asked_items_are_pending_and_not_asked_for_again(self):
        active = trained_learner()
        first = active.ask(5)
        second = active.ask(5)
        assert not set(first) & set(second)
        assert active.pending == [*first, *second]
        active.tell(first[:2], Y[first[:2]])
        assert active.pending == [*first[2:], *second]

    def test_answers_come_in_any_order_and_for_items_never_asked_for(self):
        active = learner("random")
        items = active.ask(4)
        told_items = [59, items[3], items[0]]
        assert active.tell(told_items, Y[told_items]) == 3
        assert sorted(active.labels) == sorted(told_items)
        assert active.labels[59] == Y[59]

    def test_the_order_of_arrival_does_not_change_what_is_asked_next(self):
        in_order = learner("parbals-epig")
        in_order.tell(np.arange(8), Y[:8])
        shuffled = learner("parbals-epig")
        for i in (5, 0, 7, 3, 1, 2, 6, 4):
            shuffled.tell(i, Y[i])
        assert in_order.ask(3).tolist() == shuffled.ask(3).tolist()

    def test_later_batches_avoid_pending_items(self):
        active = trained_learner(strategy="parbals-epig")
        pending = [int(active.ask(1)[0]) for _ in range(4)]
        assert len(set(pending)) == 4
        assert active.choose(1).indices[0] not in pending

    def test_forgotten_items_can_be_asked_for_again(self):
        active = trained_learner()
        before = active.ask(3).tolist()
        active.forget(before)
        assert active.pending == []
        assert active.ask(3).tolist() == before
        active.forget(0)
        assert 0 not in active.labels

    def test_repeating_a_label_changes_nothing_and_another_label_is_refused(self):
        active = trained_learner(2)
        assert active.tell([0, 1], Y[:2]) == 0
        other_label = "ham" if Y[0] == "spam" else "spam"
        with pytest.raises(LabelError, match=r"Item 0 already has the label .* call correct"):
            active.tell([5, 0], [Y[5], other_label])
        assert 5 not in active.labels

    def test_a_correction_is_explicit_and_keeps_history(self):
        active = trained_learner(1)
        other_label = "ham" if Y[0] == "spam" else "spam"
        assert active.correct(0, other_label) == 1
        assert active.labels[0] == other_label
        assert active.history(0) == [("tell", Y[0]), ("correct", other_label)]
        with pytest.raises(LabelError, match="no label to correct"):
            active.correct(7, "ham")

    def test_everything_can_be_labelled_and_then_nothing_is_left(self):
        active = parbals.ActiveLearner(X[:12], ["ham", "spam"], strategy="random", n_samples=128)
        active.tell(active.ask(12), Y[active.pending])
        with pytest.raises(InputError, match="1 items were asked for and 0 are free"):
            active.ask(1)
        assert active.report().stop


class TestFirstBatch:
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_every_strategy_starts_without_any_label(self, strategy):
        assert len(set(learner(strategy).ask(4).tolist())) == 4

    def test_under_the_prior_parbals_prefers_points_that_tell_about_many(self):
        """A far cluster of 55 and five loners at the origin: the first item is one of the many."""
        pool = np.concatenate([np.tile([3.0, 0.0, 0.0], (55, 1)), np.zeros((5, 3))])
        pool[:55] += 0.01 * GENERATOR.standard_normal((55, 3))
        active = parbals.ActiveLearner(pool, [0, 1], random_state=0, n_samples=128)
        assert active.ask(1)[0] < 55

    def test_one_class_so_far_is_no_obstacle(self):
        active = learner("parbals-epig")
        active.tell([0, 1], ["ham", "ham"])
        assert len(active.ask(2)) == 2


class TestNames:
    def test_ids_stand_for_positions(self):
        ids = [f"doc-{i}" for i in range(60)]
        active = learner(ids=ids)
        names = active.ask(3)
        assert all(name in ids for name in names)
        active.tell(names, ["ham", "spam", "ham"])
        active.tell("doc-59", "ham")
        assert active.labels["doc-59"] == "ham"
        with pytest.raises(InputError, match="no item with the id 'doc-60'"):
            active.tell("doc-60", "ham")

    @pytest.mark.parametrize("classes", [["a", "b"], [0, 1], [False, True], [10, 20, 30]])
    def test_labels_are_strings_ints_or_bools(self, classes):
        active = parbals.ActiveLearner(X, classes, strategy="random", random_state=0, n_samples=128)
        active.tell(np.arange(len(classes)), classes)
        assert list(active.labels.values()) == classes
        assert active.predict_proba(X[:2]).shape == (2, len(classes))
        assert set(active.predict(X)) <= set(classes)

    def test_numpy_labels_are_understood(self):
        active = parbals.ActiveLearner(X, [0, 1], strategy="random")
        active.tell(np.array([3, 4]), np.array([0, 1]))
        assert active.labels == {3: 0, 4: 1}

    @pytest.mark.parametrize("classes", [[0, 1], [False, True], ["a", "b"]])
    def test_numpy_scalars_are_the_plain_values(self, classes):
        scalars = list(np.unique(np.array(classes)))
        active = parbals.ActiveLearner(X, scalars, strategy="random")
        assert [type(c) for c in active.classes] == [type(c) for c in classes]
        active.tell([0, 1], scalars)
        active.tell([2, 3], classes)
        assert list(active.labels.values()) == classes * 2
        assert active.tell(4, scalars[1]) == 1

    def test_a_numpy_boolean_is_no_number(self):
        active = parbals.ActiveLearner(X, [0, 1], strategy="random")
        with pytest.raises(LabelError, match="is True, which is not one of the classes"):
            active.tell([0], [np.True_])
        active = parbals.ActiveLearner(X, [False, True], strategy="random")
        with pytest.raises(LabelError, match="is 1, which is not one of the classes"):
            active.tell([0], [np.int64(1)])

    def test_a_table_of_labels_is_not_read_as_its_column_names(self):
        frame = pytest.importorskip("pandas").DataFrame({"ham": ["spam"]})
        active = learner()
        with pytest.raises(InputError, match="labels is a table"):
            active.tell([0], frame)
        active.tell([0], frame["ham"])
        assert active.labels == {0: "spam"}


class TestColumnNames:
    """Columns that have names are compared by them; those without never are."""

    @pytest.fixture(params=["pandas", "polars"])
    def frame(self, request):
        module = pytest.importorskip(request.param)
        return module.DataFrame({name: X[:, c] for c, name in enumerate("abc")})

    @pytest.mark.parametrize("call", ["predict", "predict_proba"])
    def test_other_columns_are_refused_by_the_first_that_differs(self, frame, call):
        active = parbals.ActiveLearner(
            frame, ["ham", "spam"], strategy="random", random_state=0, n_samples=128
        )
        active.tell(np.arange(12), Y[:12])
        with pytest.raises(
            InputError, match="X has the column 'c' at position 1, where the pool has 'b'"
        ) as caught:
            getattr(active, call)(frame[["a", "c", "b"]])
        assert "\n" not in str(caught.value)
        assert list(getattr(active, call)(frame)[0]) == list(getattr(active, call)(X)[0])

    def test_the_target_set_is_compared_too(self, frame):
        with pytest.raises(InputError, match="X_target has the column 'b' at position 0"):
            parbals.ActiveLearner(frame, ["ham", "spam"], frame[["b", "a", "c"]])
        parbals.ActiveLearner(frame, ["ham", "spam"], X)
        parbals.ActiveLearner(X, ["ham", "spam"], frame[["b", "a", "c"]])

    @pytest.mark.parametrize("include_features", [True, False])
    def test_names_are_saved(self, frame, include_features, tmp_path):
        active = parbals.ActiveLearner(
            frame, ["ham", "spam"], strategy="random", random_state=0, n_samples=128
        )
        active.save(tmp_path / "named", include_features=include_features)
        loaded = parbals.ActiveLearner.load(
            tmp_path / "named", X_pool=None if include_features else X
        )
        with pytest.raises(InputError, match="position 1"):
            loaded.predict(frame[["a", "c", "b"]])


class TestRefused:
    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda a: a.tell([1, 2], ["ham"]), ShapeError, "2 items and 1 labels"),
            (lambda a: a.tell([20, 21], ["ham", "eggs"]), LabelError, r"labels\[1\] is 'eggs'"),
            (lambda a: a.tell([20, 21], ["ham", None]), LabelError, r"labels\[1\] is None"),
            (lambda a: a.tell([20], [float("nan")]), LabelError, r"labels\[0\] is nan"),
            (lambda a: a.tell([20], [["ham"]]), LabelError, "not one of the classes"),
            (lambda a: a.tell([20, 60], ["ham", "ham"]), InputError, "no item 60"),
            (lambda a: a.tell([20, -1], ["ham", "ham"]), InputError, "no item -1"),
            (
                lambda a: a.tell([20, 20], ["ham", "spam"]),
                LabelError,
                "two different labels at once",
            ),
            (lambda a: a.forget([20]), InputError, "neither pending nor labelled"),
            (lambda a: a.ask(0), InputError, "n is 0"),
            (lambda a: a.report(0), InputError, "batch_size is 0"),
            (lambda a: a.report(-1), InputError, "batch_size is -1"),
            (lambda a: a.report(2.5), InputError, "batch_size is 2.5"),
            (lambda a: a.tell([20, 21], {"ham": 20, "spam": 21}), InputError, "labels is a dict"),
            (
                lambda a: a.tell({20: "ham", 21: "spam"}, ["ham", "spam"]),
                InputError,
                "items is a dict",
            ),
            (
                lambda a: a.tell({20, 21}, ["ham", "spam"]),
                InputError,
                "items is a set",
            ),
            (lambda a: a.tell([20, 21], {"ham", "spam"}), InputError, "labels is a set"),
            (lambda a: a.correct([0], frozenset(["ham"])), InputError, "labels is a frozenset"),
            (lambda a: a.forget({0}), InputError, "items is a set"),
            (lambda a: a.tell(np.True_, "ham"), InputError, "no item True"),
            (lambda a: a.ask(10**6), InputError, "1000000 items were asked for"),
            (lambda a: a.predict_proba(X[:, :2]), ShapeError, "2 columns"),
        ],
    )
    def test_bad_calls_change_nothing(self, call, error, message):
        active = trained_learner(3)
        before = active.events
        with pytest.raises(error, match=message) as caught:
            call(active)
        assert "\n" not in str(caught.value)
        assert active.events == before

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"classes": ["ham"]}, LabelError, "at least two"),
            ({"classes": "ham"}, LabelError, "pass a list"),
            ({"classes": ["ham", "ham"]}, LabelError, "twice"),
            ({"classes": {"ham", "spam"}}, InputError, "classes is a set"),
            ({"classes": {"ham": 1, "spam": 2}}, InputError, "classes is a dict"),
            ({"ids": set(range(60))}, InputError, "ids is a set"),
            ({"classes": ["ham", None]}, LabelError, r"classes\[1\] is None"),
            ({"ids": ["a"] * 60}, InputError, r"ids\[0\] and ids\[1\] are both 'a'"),
            ({"ids": ["a"]}, ShapeError, "ids has 1 entries"),
            ({"strategy": "magic"}, InputError, "no strategy 'magic'"),
            ({"X_target": X[:, :1]}, ShapeError, "X_target has 1 columns"),
            ({"metric": "squared"}, InputError, "metric is 'squared'"),
            ({"inference": "magic"}, InputError, "inference is 'magic'; choose one of"),
            ({"model": object()}, InputError, "object has no sample_proba"),
        ],
    )
    def test_bad_settings_are_refused_at_once(self, change, error, message):
        arguments = {"X_pool": X, "classes": ["ham", "spam"], **change}
        with pytest.raises(error, match=message):
            parbals.ActiveLearner(**arguments)


def test_large_pools_are_considered_in_part_and_the_part_changes_with_the_labels():
    active = learner("random", n_candidates=10)
    items = set()
    for _ in range(6):
        items |= set(active.ask(5).tolist())
    assert len(items) == 30


def test_targets_are_drawn_again_when_labels_change_and_only_then(tmp_path):
    """A report and a choice of one state see the same ones, so does a learner that was saved."""
    active = trained_learner(6, n_targets=10)
    first = active.state.target_rows()
    assert first.shape == (10, 3)
    active.ask(2)
    active.save(tmp_path / "saved.parbals")
    assert (
        parbals.ActiveLearner.load(tmp_path / "saved.parbals").state.target_rows() == first
    ).all()
    assert (active.state.target_rows() == first).all()
    active.tell(40, Y[40])
    assert (active.state.target_rows() != first).any()
    active.forget(40)
    assert (active.state.target_rows() == first).all()


@pytest.mark.parametrize(
    ("classes", "inference", "expected"),
    [
        (2, "auto", "ep"),
        (3, "auto", "ep"),
        (2, "smc", "smc"),
        pytest.param(3, "smc", "smc", marks=pytest.mark.full),
    ],
)
def test_the_model_says_where_its_posterior_came_from(classes, inference, expected):
    active = parbals.ActiveLearner(X, range(classes), n_samples=128, inference=inference)
    active.tell(range(9), np.arange(9) % classes)
    assert active.fitted().diagnostics_.inference == expected
    without_samples = np.isinf(active.choose(2).effective_sample_size).all()
    assert without_samples == (expected == "ep")


def test_scores_are_in_closed_form_whatever_the_loss():
    assert learner().setup.inference == "auto"
    assert trained_learner().fitted().diagnostics_.inference == "ep"
    by_log_loss = parbals.ActiveLearner(X, sorted(set(Y)), metric="log-loss", n_samples=128)
    by_log_loss.tell(range(4), Y[:4])
    assert by_log_loss.fitted().diagnostics_.inference == "ep"
    assert by_log_loss.choose(3).n_samples == 0


def test_the_model_learns():
    active = learner("margin")
    for _ in range(4):
        items = active.ask(5)
        active.tell(items, Y[items])
    assert np.mean(np.array(active.predict(X)) == Y) > 0.85


def test_the_whole_pool_is_considered_where_scores_are_in_closed_form(monkeypatch):
    rows = np.random.default_rng(2).standard_normal((12_000, 3))
    active = parbals.ActiveLearner(rows, [0, 1], random_state=0, n_targets=50)
    active.tell(range(10), (rows[:10, 0] > 0).astype(int).tolist())
    assert not any("considered" in note for note in active.choose(2).notes)
    samples = active.choose(2, strategy="margin")
    assert samples.notes == ("10,000 of 11,990 free items were considered.",)
    whole = active.choose(2, strategy="epig")
    monkeypatch.setattr("parbals.learner.choosing.affordable_rows", lambda *_: 1)
    monkeypatch.setattr("parbals.learner.choosing._N_CANDIDATES", 500)
    sampled = active.choose(2, strategy="epig")
    assert sampled.notes == ("500 of 11,990 free items were considered.",)
    assert sampled.scores[0] <= whole.scores[0]


class TestPrior:
    def test_the_default_learns_it_from_labels_and_pool(self):
        model = trained_learner().fitted()
        assert model.prior_shape_ in ("directions", "columns")
        assert "learnt from 12 labels" in model.diagnostics_.prior

    def test_a_model_of_your_own_that_is_ours_sees_the_pool_as_well(self):
        model = parbals.BayesianLogisticRegression(128, inference="ep")
        fitted = trained_learner(model=model).fitted().model
        assert fitted.prior_shape_ == trained_learner().fitted().prior_shape_
        assert model.prior_scale == "auto"

    def test_features_of_any_units_and_offset_give_the_same_predictions(self):
        moved = parbals.ActiveLearner(
            1e4 * X + 1e6, ["ham", "spam"], strategy="entropy", random_state=0, n_samples=128
        )
        moved.tell(np.arange(12), Y[:12])
        expected = trained_learner().predict_proba(X)
        np.testing.assert_allclose(moved.predict_proba(1e4 * X + 1e6), expected, atol=1e-3)
        assert moved.choose(3).indices.tolist() == trained_learner().choose(3).indices.tolist()

    def test_anything_but_auto_or_a_number_is_refused(self):
        with pytest.raises(InputError, match="prior_scale is 'wide'"):
            learner(prior_scale="wide")


def test_the_papers_learner_has_its_prior_its_samples_and_its_loss():
    X = np.random.default_rng(0).standard_normal((60, 3))
    learner = parbals.paper_learner(X, [0, 1], random_state=0, n_universes=3)
    first = learner.ask(6)
    learner.tell(first, (X[first, 0] > 0).astype(int))
    assert len(set(learner.ask(4))) == 4
    model = learner.fitted()
    assert (model.prior_scale_, len(model.sample_weights)) == (1.0, 400)
    assert model.diagnostics_.inference == "smc"
    assert (learner.setup.metric, learner.setup.n_universes) == ("log-loss", 3)
