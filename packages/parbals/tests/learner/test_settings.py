"""Settings of a learner: three records, or their fields as keyword arguments."""

import numpy as np
import parbals
import pytest
from parbals.errors import InputError

X = np.random.default_rng(0).standard_normal((40, 2))


def learner(**arguments):
    return parbals.ActiveLearner(X, ["no", "yes"], random_state=0, **arguments)


FLAT = {
    "n_samples": 64,
    "prior_scale": 2.0,
    "inference": "laplace",
    "n_universes": 3,
    "n_candidates": 20,
    "n_targets": 30,
}


def test_records_and_keyword_arguments_mean_the_same():
    flat = learner(**FLAT).setup
    grouped = learner(
        posterior=parbals.PosteriorSettings(n_samples=64, prior_scale=2.0, inference="laplace"),
        search=parbals.SearchSettings(n_universes=3, n_candidates=20, n_targets=30),
    ).setup
    for name, value in FLAT.items():
        assert getattr(flat, name) == getattr(grouped, name) == value


def test_a_keyword_argument_overrides_the_field_of_a_record():
    setup = learner(posterior=parbals.PosteriorSettings(n_samples=64), n_samples=80).setup
    assert setup.n_samples == 80


def test_inputs_are_a_record_or_keyword_arguments():
    scores = np.stack([-X[:, 0], X[:, 0]], axis=1)
    flat = learner(class_scores=scores, features="numbers", checked=True)
    grouped = learner(
        inputs=parbals.InputSettings(class_scores=scores, features="numbers", checked=True)
    )
    np.testing.assert_array_equal(flat.predict_proba(X), grouped.predict_proba(X))
    held_out = (np.arange(3), np.full((3, 2), 0.5))
    setup = learner(inputs=parbals.InputSettings(held_out=held_out)).setup
    assert setup.held_out.positions.tolist() == [0, 1, 2]


def test_an_unknown_argument_is_refused_and_the_nearest_is_named():
    with pytest.raises(TypeError, match=r"no argument 'n_universe'; did you mean 'n_universes'\?"):
        learner(n_universe=3)
    with pytest.raises(TypeError, match=r"no argument 'standardize'; did you mean 'standardise'\?"):
        learner(standardize=True)
    with pytest.raises(TypeError, match=r"no argument 'xyz'; see help\(parbals.ActiveLearner\)"):
        learner(xyz=1)


def test_a_value_that_is_no_record_is_refused():
    with pytest.raises(InputError, match=r"search is 3; pass parbals.SearchSettings\(...\)"):
        learner(search=3)


def test_values_are_checked_wherever_they_come_from():
    with pytest.raises(InputError, match="n_universes"):
        learner(search=parbals.SearchSettings(n_universes=0))
    with pytest.raises(InputError, match="inference"):
        learner(posterior=parbals.PosteriorSettings(inference="none"))


def test_settings_survive_saving(tmp_path):
    active = learner(search=parbals.SearchSettings(n_universes=3, n_targets=30))
    active.save(tmp_path / "a.parbals")
    setup = parbals.ActiveLearner.load(tmp_path / "a.parbals").setup
    assert (setup.n_universes, setup.n_targets) == (3, 30)
