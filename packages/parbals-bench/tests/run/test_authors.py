"""What the authors' code does otherwise than the paper's text, each against its definition."""

from dataclasses import replace

import numpy as np
import pytest
from bench_helpers import SMALL_SETTINGS, tiny_data
from parbals.errors import InputError
from parbals.posterior.estimator import LogisticModel
from parbals.scores.epig import epig
from parbals_bench.datasets.base import Data, halves
from parbals_bench.run import authors
from parbals_bench.run.authors import (
    DEPARTURES,
    BatchRequest,
    candidate_limit,
    choose_batch,
    prepare_data,
)
from parbals_bench.run.grid import load_suite
from parbals_bench.run.single import run_one
from parbals_bench.run.spec import PAPER, Settings
from sklearn.model_selection import train_test_split


def fit(X, y):
    model = LogisticModel(60, prior_scale=1.0, inference="ep", classes=[0, 1], random_state=0)
    return model.fit(X, y)


@pytest.fixture
def batch_request():
    generator = np.random.default_rng(3)
    X = generator.standard_normal((60, 3)).astype(np.float32)
    y = (X[:, 0] + 0.3 * generator.standard_normal(60) > 0).astype(int)
    return BatchRequest(
        strategy="random",
        batch_size=4,
        model=fit(X[:10], y[:10]),
        fit=fit,
        X=X[10:],
        y=y[10:],
        X_targets=X[:30],
        X_labelled=X[:10],
        y_labelled=y[:10],
        n_universes=5,
        seed=7,
    )


def test_every_departure_is_an_option_by_itself_and_none_is_the_default():
    assert PAPER.departures == ""
    assert Settings(departures="all").departures == ",".join(DEPARTURES)
    assert Settings(departures="galaxy,badge").departures == "badge,galaxy"
    with pytest.raises(InputError, match="no departure 'spelling'"):
        Settings(departures="spelling")
    assert {run.settings.departures for run in load_suite("authors").runs} == {",".join(DEPARTURES)}


def test_whitened_components_have_unit_deviation_over_the_pool_and_tables_stay():
    data = tiny_data()
    scales = np.arange(1, data.X_pool.shape[1] + 1)
    parts = {name: getattr(data, name) * scales for name in ("X_pool", "X_target_source", "X_test")}
    data = replace(data, **parts)
    np.testing.assert_allclose(prepare_data(data, "whitened").X_pool.std(axis=0), 1.0, rtol=1e-5)
    assert prepare_data(data, "badge") is data
    table = replace(data, **{name: (parts[name] > 0).astype(float) for name in parts})
    assert prepare_data(table, "whitened") is table


def test_only_strategies_with_targets_choose_from_a_part_of_the_pool():
    assert candidate_limit("bald", "whole-pool", 10) is None
    assert candidate_limit("epig", "whole-pool", 10) == 10
    assert candidate_limit("bald", "", 10) == 10


def test_after_a_second_softmax_badge_takes_no_class_for_sure(batch_request, monkeypatch):
    calls = []
    usual = authors.select_batch

    def watched(probs, *rest, **more):
        calls.append(probs)
        return usual(probs, *rest, **more)

    monkeypatch.setattr(authors, "select_batch", watched)
    batch = choose_batch(replace(batch_request, strategy="badge"), "badge")
    assert len(set(batch.indices.tolist())) == 4
    assert calls[0].max() <= np.e / (1 + np.e)
    once = batch_request.model.predict_proba(batch_request.X)
    assert np.array_equal(calls[0][:, 0].argmax(axis=1), once.argmax(axis=1))
    assert choose_batch(replace(batch_request, strategy="badge"), "galaxy") == {}


def test_galaxy_that_sees_labels_bisects_with_them(batch_request):
    request = replace(batch_request, strategy="galaxy", batch_size=3)
    batch = choose_batch(request, "galaxy")
    single = choose_batch(replace(request, batch_size=1), "galaxy").indices[0]
    assert batch.indices[0] == single
    flipped = request.y.copy()
    flipped[single] = 1 - flipped[single]
    other = choose_batch(replace(request, y=flipped), "galaxy")
    assert other.indices[0] == single
    assert other.indices.tolist() != batch.indices.tolist()


def test_the_split_of_airline_is_scikit_learns():
    """Rows of the test file: the features of row i are i."""
    n = 41
    target, test = halves(n, "airline")
    rows = np.arange(n, dtype=np.float32)[:, None]
    y = (np.arange(n) % 3 == 0).astype(int)
    data = Data(
        name="airline",
        X_pool=rows,
        y_pool=y,
        X_target_source=rows[target],
        X_test=rows[test],
        y_test=y[test],
        classes=("no", "yes"),
        y_target_source=y[target],
    )
    theirs = prepare_data(data, "split")
    expected_target, expected_test = train_test_split(np.arange(n), test_size=0.5, random_state=42)
    assert theirs.X_target_source[:, 0].tolist() == expected_target.tolist()
    assert theirs.X_test[:, 0].tolist() == expected_test.tolist()
    assert theirs.y_test.tolist() == y[expected_test].tolist()
    assert prepare_data(replace(data, name="other"), "split").X_test is data.X_test
    with pytest.raises(InputError, match="needs the labels"):
        prepare_data(replace(data, y_target_source=None), "split")


def test_noise_is_added_to_scores_in_bits(batch_request):
    sums = choose_batch(replace(batch_request, strategy="softmax-epig"), "bits")["beta"]
    assert sums == pytest.approx(30 / np.log(2))
    assert choose_batch(replace(batch_request, strategy="softmax-bald"), "bits")[
        "beta"
    ] == pytest.approx(1 / np.log(2))


def test_parbals_with_the_likeliest_labels_of_draws_is_the_loop_by_definition(batch_request):
    request = replace(batch_request, strategy="parbals-epig", batch_size=2, n_universes=60)
    batch = choose_batch(request, "pseudo-labels,refit")
    samples = request.model.sample_proba(request.X)
    first = epig(samples, request.model.sample_proba(request.X_targets)).argmax()
    assert batch.indices[0] == first
    scores = []  # every draw is a universe, so that which are taken does not matter
    for draw in range(60):
        label = samples[first, draw].argmax()
        X = np.concatenate([request.X_labelled, request.X[[first]]])
        model = fit(X, np.append(request.y_labelled, label))
        scores.append(epig(model.sample_proba(request.X), model.sample_proba(request.X_targets)))
    mean = np.mean(scores, axis=0)
    mean[first] = -np.inf
    assert batch.indices[1] == mean.argmax()
    assert batch.scores[1] == pytest.approx(mean.max(), rel=1e-5)


def test_drawn_labels_follow_the_probabilities_of_their_draw(batch_request):
    """With `refit` alone the labels are drawn: the batch is another for another seed."""
    request = replace(batch_request, strategy="parbals-epig", batch_size=3, n_universes=2)
    batches = {tuple(choose_batch(replace(request, seed=s), "refit").indices) for s in range(6)}
    assert len(batches) > 1
    assert len({indices[0] for indices in batches}) == 1  # before any label all are alike


def test_map_labels_are_those_of_the_renewed_model(batch_request):
    request = replace(batch_request, strategy="parbals-map-epig", batch_size=4)
    for departures in ("map", "map,refit", "refit"):
        batch = choose_batch(request, departures)
        assert len(set(batch.indices.tolist())) == 4
    assert choose_batch(request, "badge") == {}


@pytest.mark.parametrize("strategy", ["badge", "galaxy", "power-epig", "parbals-epig", "bald"])
def test_a_run_with_all_departures_is_reproducible_and_says_so(strategy):
    settings = replace(SMALL_SETTINGS, departures="all", inference="ep")
    data = tiny_data()
    one, other = (run_one(data, "10+2x3", strategy, seed=1, settings=settings) for _ in range(2))
    assert one.chosen == other.chosen
    assert one.run.settings.departures == ",".join(DEPARTURES)
    assert one.run.key != replace(one.run, settings=replace(settings, departures="")).key
    assert len({index for batch in one.chosen for index in batch} | set(one.initial)) == 16
