"""One run: pure, comparable across strategies, and honest about what the model has seen."""

from dataclasses import replace

import numpy as np
import pytest
from bench_helpers import SMALL_SETTINGS, tiny_data
from parbals.errors import InputError
from parbals_bench.run.metrics import METRICS
from parbals_bench.run.records import read_line, record_of, write_line
from parbals_bench.run.single import (
    Budget,
    data_digest,
    draw_candidates,
    draw_initial,
    draw_targets,
    run_one,
)
from scipy.stats import chi2

STRATEGIES = ("random", "epig", "parbals-epig")


@pytest.fixture(scope="module")
def records(data):
    return {
        name: run_one(data, "10+2x3", name, seed=5, settings=SMALL_SETTINGS) for name in STRATEGIES
    }


def test_the_same_arguments_give_the_same_record(data, records):
    again = run_one(data, "10+2x3", "parbals-epig", seed=5, settings=SMALL_SETTINGS)
    assert replace(again, seconds={}) == replace(records["parbals-epig"], seconds={})


@pytest.mark.parametrize("strategy", ["typiclust", "probcover", "dropquery"])
def test_strategies_that_are_not_in_the_paper_run_as_the_others_do(data, strategy):
    record = run_one(data, "10+2x3", strategy, seed=5, settings=SMALL_SETTINGS)
    again = run_one(data, "10+2x3", strategy, seed=5, settings=SMALL_SETTINGS)
    assert record.chosen == again.chosen
    assert [len(set(batch)) for batch in record.chosen] == [3, 3]


def test_another_seed_gives_another_initial_set(data, records):
    assert (
        run_one(data, "10+2x3", "random", seed=6, settings=SMALL_SETTINGS).initial
        != records["random"].initial
    )


def test_a_record_survives_being_written_and_read(records):
    for record in records.values():
        assert read_line(write_line(record)) == record


def test_strategies_share_the_initial_set_and_the_first_model(records):
    assert len({record.initial for record in records.values()}) == 1
    assert len({record.metrics["log_loss"][0] for record in records.values()}) == 1


def test_strategies_share_candidates_but_for_what_they_have_labelled():
    one = np.array([1, 2, 3])
    other = np.array([2, 7, 9])
    first, second = (draw_candidates(4, 1, 50, labelled, 20) for labelled in (one, other))
    assert set(first).isdisjoint(one)
    assert len(first) == len(second) == 20
    # The order is shared: at most as many differ as there are points only one of them has labelled.
    assert len(set(first) ^ set(second)) <= 2 * 3
    assert not np.array_equal(draw_candidates(4, 2, 50, one, 20), first)


def test_targets_are_fresh_every_round_and_the_same_for_everyone():
    assert not np.array_equal(draw_targets(0, 0, 40, 20), draw_targets(0, 1, 40, 20))
    assert np.array_equal(draw_targets(0, 1, 40, 20), draw_targets(0, 1, 40, 20))
    assert np.array_equal(draw_targets(0, 0, 40, 1000), np.arange(40))


def test_the_initial_set_is_uniform():
    n_pool = 60
    size = 6
    n_seeds = 2000
    counts = np.bincount(
        np.concatenate([draw_initial(seed, n_pool, size) for seed in range(n_seeds)]),
        minlength=n_pool,
    )
    share = size / n_pool
    # Counts of a draw without replacement have variance n p (1 - p) and one linear constraint.
    statistic = (
        np.square(counts - n_seeds * share).sum()
        / (n_seeds * share * (1 - share))
        * (n_pool - 1)
        / n_pool
    )
    assert chi2.ppf(0.001, n_pool - 1) < statistic < chi2.ppf(0.999, n_pool - 1)
    firsts = np.bincount(
        [draw_initial(seed, n_pool, size)[0] for seed in range(n_seeds)], minlength=n_pool
    )
    assert np.square(firsts - n_seeds / n_pool).sum() / (n_seeds / n_pool) < chi2.ppf(
        0.999, n_pool - 1
    )


def test_no_point_is_labelled_twice_and_every_round_is_measured(records):
    for record in records.values():
        labelled = [*record.initial, *(i for batch in record.chosen for i in batch)]
        assert len(labelled) == len(set(labelled)) == 16
        assert all(len(record.metrics[name]) == 3 for name in METRICS)
        assert [len(record.seconds[stage]) for stage in ("fit", "predict", "select")] == [3, 3, 2]
        assert {"parbals", "numpy"} <= record.versions.keys()


def test_the_record_knows_which_data_it_came_from(data, records):
    assert len({record.data for record in records.values()}) == 1
    for part in ("X_pool", "X_target_source", "X_test"):
        changed = replace(data, **{part: getattr(data, part) + 1e-3})
        assert (
            run_one(changed, "10+1x3", "random", seed=5, settings=SMALL_SETTINGS).data
            != records["random"].data
        )


def test_glister_keeps_a_fifth_of_the_initial_labels_from_the_model(data, monkeypatch):
    from parbals.posterior.estimator import LogisticModel

    fitted = []
    fit = LogisticModel.fit
    monkeypatch.setattr(
        LogisticModel,
        "fit",
        lambda self, X, y, *more: (fitted.append(X), fit(self, X, y, *more))[1],
    )
    record = run_one(data, "10+2x3", "glister", seed=5, settings=SMALL_SETTINGS)
    assert [len(X) for X in fitted] == [8, 11, 14]
    held = data.X_pool[list(record.initial[:2])]
    assert not any((row == held[:, None]).all(axis=2).any() for row in fitted)
    assert record.initial == tuple(draw_initial(5, 60, 10))
    assert record.notes == ()  # it was given labels that the model has not seen


@pytest.mark.parametrize("inference", ["smc", "ep"])
def test_the_record_says_where_each_posterior_came_from(data, records, inference):
    settings = replace(SMALL_SETTINGS, inference=inference)
    record = run_one(data, "10+2x3", "parbals-epig", seed=5, settings=settings)
    assert record.inference == (inference,) * 3
    assert (record.run == records["parbals-epig"].run) == (inference == "smc")


def test_a_record_from_before_there_was_a_choice_is_read(records):
    values = records["epig"].as_dict()
    del values["inference"]
    assert record_of(values) == replace(records["epig"], inference=())


def test_options_reach_the_strategy_and_unknown_ones_are_refused(data):
    cold = run_one(
        data, "10+1x3", "power-bald", options={"beta": 1e9}, seed=0, settings=SMALL_SETTINGS
    )
    assert cold.chosen == run_one(data, "10+1x3", "bald", seed=0, settings=SMALL_SETTINGS).chosen
    assert cold.run.options == {"beta": 1e9}
    with pytest.raises(InputError, match="no option 'heat'"):
        run_one(data, "10+1x3", "bald", options={"heat": 1}, settings=SMALL_SETTINGS)


@pytest.mark.full
def test_more_than_two_classes():
    record = run_one(tiny_data(n_classes=3), "10+1x3", "random", settings=SMALL_SETTINGS)
    assert all(value >= 0 for values in record.metrics.values() for value in values)


def test_data_that_cannot_be_right_are_refused(data):
    with pytest.raises(InputError, match=r"70 labels and tiny has a pool of 60"):
        run_one(data, "10+6x10", "random", settings=SMALL_SETTINGS)
    with pytest.raises(InputError, match="class numbers from 0 to 1"):
        run_one(replace(data, y_pool=data.y_pool + 1), "10+1x3", "random", settings=SMALL_SETTINGS)
    with pytest.raises(InputError, match="There is no strategy"):
        run_one(data, "10+1x3", "rnadom", settings=SMALL_SETTINGS)


@pytest.mark.parametrize(
    ("text", "parts"), [("100+10x20", (100, 10, 20)), (" 20 + 10 × 20", (20, 10, 20))]
)
def test_budgets_are_read_from_text(text, parts):
    assert Budget.parse(text) == Budget(*parts)
    assert Budget.parse(str(Budget(*parts))) == Budget(*parts)


@pytest.mark.parametrize("text", ["100", "100+10", "a+bxc", "0+1x1", "5+-1x2"])
def test_other_texts_are_not_budgets(text):
    with pytest.raises(InputError, match=r"100\+10x20"):
        Budget.parse(text)


def test_the_labels_of_a_budget():
    assert Budget(10, 2, 3).n_labels == (10, 13, 16)
    assert Budget(10, 2, 3).total == 16


def test_the_name_of_the_data_forgives_last_digits_and_nothing_else(data):
    name = data_digest(data)
    rng = np.random.default_rng(0)
    other_machine = replace(
        data, X_pool=data.X_pool * (1 + 1e-7 * rng.standard_normal(data.X_pool.shape))
    )
    assert data_digest(other_machine) == name
    flipped = data.y_pool.copy()
    flipped[3] = 1 - flipped[3]
    others = (
        replace(data, y_pool=flipped),
        replace(data, X_pool=data.X_pool[::-1]),
        replace(data, X_test=data.X_test[1:], y_test=data.y_test[1:]),
        replace(data, X_target_source=data.X_target_source * 1.1),
    )
    assert len({name, *(data_digest(other) for other in others)}) == 1 + len(others)


def test_one_large_column_does_not_hide_changes_of_the_others(data):
    scale = np.ones(data.X_pool.shape[1])
    scale[0] = 1e6
    large = replace(data, X_pool=data.X_pool * scale, X_test=data.X_test * scale)
    changed = large.X_pool.copy()
    changed[:, 1:] = np.roll(changed[:, 1:], 1, axis=0)
    assert data_digest(replace(large, X_pool=changed)) != data_digest(large)


def test_the_prior_is_the_papers_unless_another_is_asked_for(data, records):
    learnt = replace(SMALL_SETTINGS, prior_scale="auto")
    record = run_one(data, "10+2x3", "parbals-epig", seed=5, settings=learnt)
    plain = records["parbals-epig"]
    assert record.run.settings.as_dict() == plain.run.settings.as_dict() | {"prior_scale": "auto"}
    assert record.metrics != plain.metrics
    again = run_one(data, "10+2x3", "parbals-epig", seed=5, settings=learnt)
    assert again.metrics == record.metrics
